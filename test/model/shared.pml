/* Shared and exclusive locks: C clients, N nodes, one key, one clock for all.
 *
 * A node's key is missing, holds a writer's token, or says "shared"; then a set beside it has the
 * readers' tokens, each with an expiry of its own, and the key expires with the last of them.
 *
 * A client that holds the lock extends it; DOWN: a writer becomes a reader; UP: a reader that is
 * alone becomes the writer, or stays a reader. A conversion takes a fresh token. A writer's token of the
 * same hold that is not in force any more, or never was, is an old one: the hold's reader takes
 * its place at a node, never nobody.
 *
 * Time is whole ticks, everything that has a time holds what is left, and
 * nodes are kept sorted. So are clients. Any command of a hold may run late, again, or never, as
 * long as the hold lasts; a reply that is lost is a vote that the client does not use. A
 * reader's hold may meet late commands of conversions also where it has not converted: more can happen
 * here than in the code.
 *
 * DEAD: tokens of holds that have ended stay at the nodes, are released at any time, and are
 * set again by late commands. Otherwise they count as missing, for such a key only keeps others away.
 *
 * REVOKE: somebody puts a tombstone in the place of what a key holds, at any node and any time, with
 * the TTL that the key has. The readers' set stays beside it, and does not count any more.
 *
 * FORGET: node 0 restarts empty, again and again. A grant and the look behind it are
 * two steps, and the node is admitted when the longest TTL has passed: see the explorer of internal/memory.
 */
#ifndef C
#define C 2		/* clients */
#endif
#ifndef N
#define N 3		/* nodes */
#endif
#ifndef Q
#define Q (N / 2 + 1)
#endif
#ifndef TTL
#define TTL 2		/* the lease of an attempt, in ticks */
#endif
#ifndef LONGEST
#define LONGEST 2	/* the longest lease that an extension or a conversion asks for */
#endif

/* What a key holds. */
#define NOBODY   0
#define WRITER(c) (1 + (c))	/* the token of an attempt, an upgrade or a hold that is exclusive */
#define OLD(c)    (4 + (c))	/* a writer's token of the hold that is not in force */
#define SHARED    7
#define GHOST     8		/* a writer's token that is dead */
#define TOMBSTONE 9
byte key[N];
byte rem[N];		/* what is left of its TTL */
byte reader[C * N];	/* what is left of the client's reader's token, while the key says "shared" */
#ifdef DEAD
byte ghost[N];		/* the same of the last dead reader's */
#endif
#ifdef FORGET
byte since[N];		/* ticks since the last restart, up to LONGEST: then the node is admitted */
#endif

/* What a client does, and what it believes. */
#define IDLE      0
#define TRY_WRITE 1
#define TRY_READ  2
#define WRITE     3
#define READ      4
byte mode[C];
byte left[C];		/* of the attempt or lease, from the attempt's start; 0: neither */

/* What is under way while it holds. */
#define EXTEND  1	/* also the reader's extension that a downgrade begins with */
#define UPGRADE 2
byte op[C];
byte asked[C];		/* its TTL */
byte gain[C];		/* what is left of it, from its start */
#define GRANT 1		/* the look is still to come */
#define VOTE  2
byte at[C * N];		/* a node's answer to the attempt, or to what is under way */

#ifdef MUTANT_LATE_BELIEF
bit  late[C];		/* the client still believes that it writes */
#define WRITES(c) (mode[c] == WRITE || late[c])
#define BELIEVE(c) late[c] = 1
#define BELIEVE_NO_MORE(c) late[c] = 0
#else
#define WRITES(c) (mode[c] == WRITE)
#define BELIEVE(c) skip
#define BELIEVE_NO_MORE(c) skip
#endif
#define HOLDS(c) (mode[c] >= WRITE)
#ifdef MUTANT_SAME_TOKEN
bit  back[C];		/* a reply to an upgrade that failed, "back to the reader", is on its way */
#endif

byte i, j, b;		/* scratch, 0 between the steps */

#define READER(c, n) reader[(c) * N + (n)]
#define AT(c, n) at[(c) * N + (n)]
#define MAX(x, y) ((x) > (y) -> (x) : (y))

#ifdef DEAD
#define GHOST_READER(n) ghost[n]
#define SET_GHOST(n, v) ghost[n] = v
#else
#define GHOST_READER(n) 0
#define SET_GHOST(n, v) skip
#endif
#if C == 3
#define THIRD(n) READER(2, n)
#else
#define THIRD(n) 0
#endif
#define LAST(n) MAX(MAX(READER(0, n), READER(1, n)), MAX(THIRD(n), GHOST_READER(n)))
#define OTHERS(c, n) (((c) != 0 && READER(0, n) > 0) || ((c) != 1 && READER(1, n) > 0) || ((c) != 2 && THIRD(n) > 0) || GHOST_READER(n) > 0)

#if N == 4
#define VOTES(c) ((AT(c, 0) == VOTE) + (AT(c, 1) == VOTE) + (AT(c, 2) == VOTE) + (AT(c, 3) == VOTE))
#else
#define VOTES(c) ((AT(c, 0) == VOTE) + (AT(c, 1) == VOTE) + (AT(c, 2) == VOTE))
#endif

/* Clients in the order of what they do, and nodes in the order of all that concerns them: an order
 * of either is a name for the same state. */
#define SWAP(x, y) b = x; x = y; y = b
#define RANK(n) ((((((key[n] * 4 + rem[n]) * 4 + READER(0, n)) * 4 + READER(1, n)) * 4 + THIRD(n)) * 4 + AT(0, n)) * 4 + AT(1, n)) * 16 + RANK3(n) * 4 + GHOST_READER(n)
#if C == 3
#define RANK3(n) AT(2, n)
#define SWAP3 SWAP(READER(2, j), READER(2, j + 1)); SWAP(AT(2, j), AT(2, j + 1));
#else
#define RANK3(n) 0
#define SWAP3
#endif
#ifdef DEAD
#define SWAP_GHOST SWAP(ghost[j], ghost[j + 1]);
#else
#define SWAP_GHOST
#endif
#ifdef FORGET
#define FIRST_ALIKE 1	/* node 0 is the one that forgets */
#else
#define FIRST_ALIKE 0
#endif
#define RANK_CLIENT(c) ((((mode[c] * 4 + left[c]) * 4 + op[c]) * 4 + asked[c]) * 4 + gain[c])
inline swap_clients() {
	SWAP(mode[j], mode[j + 1]); SWAP(left[j], left[j + 1]);
	SWAP(op[j], op[j + 1]); SWAP(asked[j], asked[j + 1]); SWAP(gain[j], gain[j + 1]);
#ifdef MUTANT_LATE_BELIEF
	SWAP(late[j], late[j + 1]);
#endif
#ifdef MUTANT_SAME_TOKEN
	SWAP(back[j], back[j + 1]);
#endif
	n = 0;
	do
	:: n < N ->
		SWAP(READER(j, n), READER(j + 1, n)); SWAP(AT(j, n), AT(j + 1, n));
		if
		:: key[n] == WRITER(j) -> key[n] = WRITER(j + 1)
		:: key[n] == WRITER(j + 1) -> key[n] = WRITER(j)
		:: key[n] == OLD(j) -> key[n] = OLD(j + 1)
		:: key[n] == OLD(j + 1) -> key[n] = OLD(j)
		:: else
		fi;
		n++
	:: else -> break
	od;
	n = 0; b = 0
}
inline sort() {
	i = 1;
	do
	:: i < C ->
		j = 0;
		do
		:: j + i < C -> if :: RANK_CLIENT(j) > RANK_CLIENT(j + 1) -> swap_clients() :: else fi; j++
		:: else -> break
		od;
		i++
	:: else -> break
	od;
	i = 1;
	do
	:: i < N ->
		j = FIRST_ALIKE;
		do
		:: j + i < N ->
			if
			:: RANK(j) > RANK(j + 1) ->
				SWAP(key[j], key[j + 1]); SWAP(rem[j], rem[j + 1]);
				SWAP(READER(0, j), READER(0, j + 1)); SWAP(AT(0, j), AT(0, j + 1));
				SWAP(READER(1, j), READER(1, j + 1)); SWAP(AT(1, j), AT(1, j + 1));
				SWAP3 SWAP_GHOST
				b = 0
			:: else
			fi;
			j++
		:: else -> break
		od;
		i++
	:: else -> break
	od;
	i = 0; j = 0
}

/* What the nodes' scripts do. */
inline forget_readers(n) {
	READER(0, n) = 0; READER(1, n) = 0;
#if C == 3
	READER(2, n) = 0;
#endif
	SET_GHOST(n, 0)
}
inline delete(n) { key[n] = NOBODY; rem[n] = 0; forget_readers(n) }

#ifdef MUTANT_MEMBER_SHORT
#define PROLONG_READER(c, n, t) READER(c, n) = t; rem[n] = LAST(n)
#elif defined(MUTANT_MARKER_SHORT)
#define PROLONG_READER(c, n, t) READER(c, n) = MAX(READER(c, n), t)
#else
#define PROLONG_READER(c, n, t) READER(c, n) = MAX(READER(c, n), t); rem[n] = LAST(n)
#endif
#ifdef MUTANT_LOWER_SHORT
#define LOWERED(n, t) t
#else
#define LOWERED(n, t) MAX(rem[n], t)
#endif
#ifdef MUTANT_SHORTEN
#define PROLONG_WRITER(n, t) rem[n] = t
#else
#define PROLONG_WRITER(n, t) rem[n] = MAX(rem[n], t)
#endif

#define MAY_SHARE(c, n) (key[n] == NOBODY || key[n] == SHARED || key[n] == OLD(c))
inline share(c, n, t) {
	if
	:: key[n] == SHARED -> PROLONG_READER(c, n, t)
	:: key[n] == NOBODY -> key[n] = SHARED; READER(c, n) = t; rem[n] = t
	:: else -> READER(c, n) = LOWERED(n, t); key[n] = SHARED; rem[n] = READER(c, n)
	fi
}

#ifdef MUTANT_RAISE_AMONG_READERS
#define ALONE(c, n) (READER(c, n) > 0)
#else
#define ALONE(c, n) (READER(c, n) > 0 && !OTHERS(c, n))
#endif
#define MAY_RAISE(c, n) (key[n] == NOBODY || key[n] == SHARED && ALONE(c, n) || key[n] == WRITER(c) || key[n] == OLD(c))
inline raise(c, n, t, token) {
	b = rem[n];
	if
	:: key[n] == SHARED -> b = READER(c, n)
	:: else
	fi;
	delete(n);
	key[n] = token; rem[n] = MAX(b, t); b = 0
}

/* The client's token becomes another. */
inline rename(from, to) {
	j = 0;
	do
	:: j < N -> if :: key[j] == from -> key[j] = to; if :: to == NOBODY -> rem[j] = 0 :: else fi :: else fi; j++
	:: else -> break
	od;
	j = 0
}
#ifdef DEAD
#define AFTER_END GHOST
#define OUTLIVED(c, n) ghost[n] = MAX(ghost[n], READER(c, n))
#else
#define AFTER_END NOBODY
#define OUTLIVED(c, n) skip
#endif
/* The client's reader's token is dead. */
inline drop_reader(c) {
	j = 0;
	do
	:: j < N ->
		if
		:: key[j] == SHARED ->
			OUTLIVED(c, j);
			READER(c, j) = 0;
#ifdef MUTANT_MARKER_SHORT
			if :: LAST(j) == 0 -> delete(j) :: else fi
#else
			if :: LAST(j) == 0 -> delete(j) :: else -> rem[j] = LAST(j) fi
#endif
		:: else
		fi;
		j++
	:: else -> break
	od;
	j = 0
}

inline forget_votes(c) {
	j = 0;
	do
	:: j < N -> AT(c, j) = 0; j++
	:: else -> break
	od;
	j = 0
}
#ifdef MUTANT_SAME_TOKEN
#define FAILED(c) back[c] = 1
#define OVER(c) back[c] = 0
#else
#define FAILED(c) rename(WRITER(c), OLD(c))
#define OVER(c) skip
#endif
/* What is under way counts no more. */
inline give_up(c) {
	if :: op[c] == UPGRADE -> FAILED(c) :: else fi;
	op[c] = 0; asked[c] = 0; gain[c] = 0; forget_votes(c)
}
inline end(c) {
	mode[c] = IDLE; left[c] = 0; BELIEVE_NO_MORE(c); OVER(c);
	op[c] = 0; asked[c] = 0; gain[c] = 0; forget_votes(c);
	rename(WRITER(c), AFTER_END); rename(OLD(c), AFTER_END); drop_reader(c)
}

/* The client begins to hold. */
inline begin(c, as) {
	j = 0;
	do
	:: j < C -> assert(j == c || !WRITES(j) && (as == READ || !HOLDS(j))); j++
	:: else -> break
	od;
	j = 0;
	mode[c] = as; forget_votes(c)
}

inline tick() {
	i = 0;
	do
	:: i < N ->
		j = 0;
		do
		:: j < C -> if :: READER(j, i) > 0 -> READER(j, i)-- :: else fi; j++
		:: else -> break
		od;
		j = 0;
#ifdef DEAD
		if :: ghost[i] > 0 -> ghost[i]-- :: else fi;
#endif
#ifdef FORGET
		if :: since[i] < LONGEST -> since[i]++ :: else fi;
#endif
		if :: rem[i] > 0 -> rem[i]-- :: else fi;
		if :: rem[i] == 0 -> delete(i) :: else fi;
		i++
	:: else -> break
	od;
	i = 0;
	do
	:: i < C ->
		if :: gain[i] > 0 -> gain[i]--; if :: gain[i] == 0 -> give_up(i) :: else fi :: else fi;
		if :: left[i] > 0 -> left[i]--; if :: left[i] == 0 -> end(i) :: else fi :: else fi;
		i++
	:: else -> break
	od;
	i = 0
}

#ifdef FORGET
#define ANSWER GRANT
#ifdef MUTANT_UNGUARDED
#define OWN_ANSWER VOTE		/* to what finds a token of the hold's */
#else
#define OWN_ANSWER GRANT
#endif
#define LOOK(c, n) :: d_step { AT(c, n) == GRANT && since[n] == LONGEST; AT(c, n) = VOTE }
#define RESTART :: d_step { delete(0); since[0] = 0 }
#else
#define ANSWER VOTE
#define OWN_ANSWER VOTE
#define LOOK(c, n)
#define RESTART
#endif
#define COUNT(c, n, a) if :: AT(c, n) < a -> AT(c, n) = a :: else fi
#define ANSWERS(c, n, own) if :: own -> COUNT(c, n, OWN_ANSWER) :: else -> COUNT(c, n, ANSWER) fi

/* What a client decides by itself. */
#define CLIENT(c) \
	:: d_step { mode[c] == IDLE; mode[c] = TRY_WRITE; left[c] = TTL } \
	:: d_step { mode[c] == IDLE; mode[c] = TRY_READ; left[c] = TTL } \
	:: d_step { mode[c] == TRY_WRITE && VOTES(c) >= Q; begin(c, WRITE) } \
	:: d_step { mode[c] == TRY_READ && VOTES(c) >= Q; begin(c, READ) } \
	:: d_step { mode[c] != IDLE; end(c) } \
	:: d_step { op[c] != 0; give_up(c) } \
	EXTENSION(c) \
	DOWNGRADE(c, 1) DOWNGRADE(c, LONGEST) \
	UPGRADES(c)

#ifdef EXTENSIONS
#define ASK(c, t) :: d_step { HOLDS(c) && op[c] == 0; op[c] = EXTEND; asked[c] = t; gain[c] = t }
#else
#define ASK(c, t)
#endif
#define EXTENSION(c) \
	ASK(c, 1) ASK(c, LONGEST) \
	:: d_step { op[c] == EXTEND && VOTES(c) >= Q; left[c] = MAX(left[c], gain[c]); BELIEVE_NO_MORE(c); give_up(c) }

/* The client stops believing that it writes before anything is sent. */
#ifdef DOWN
#define DOWNGRADE(c, t) \
	:: d_step { mode[c] == WRITE; give_up(c); mode[c] = READ; BELIEVE(c); rename(WRITER(c), OLD(c)); \
		op[c] = EXTEND; asked[c] = t; gain[c] = t }
#else
#define DOWNGRADE(c, t)
#endif

/* The writer's lease is its own. Its reader's token is dead, and so are older writer's tokens. */
#ifdef MUTANT_UPGRADE_KEEPS_DEADLINE
#define UPGRADED(c) MAX(left[c], gain[c])
#else
#define UPGRADED(c) gain[c]
#endif
#ifdef UP
#define ASK_UPGRADE(c, t) :: d_step { mode[c] == READ && op[c] == 0; op[c] = UPGRADE; asked[c] = t; gain[c] = t }
#define UPGRADES(c) \
	ASK_UPGRADE(c, 1) ASK_UPGRADE(c, LONGEST) \
	:: d_step { op[c] == UPGRADE && VOTES(c) >= Q; begin(c, WRITE); left[c] = UPGRADED(c); \
		op[c] = 0; asked[c] = 0; gain[c] = 0; rename(OLD(c), AFTER_END); drop_reader(c) }
#else
#define UPGRADES(c)
#endif

/* Commands of c at n for t ticks: they count for an extension of t ticks that is under way. */
#define EXTENDS(c, t) (op[c] == EXTEND && asked[c] == t)
#define AT_NODE_FOR(c, n, t) \
	:: d_step { mode[c] == WRITE && (key[n] == NOBODY || key[n] == WRITER(c)); \
		if :: EXTENDS(c, t) -> ANSWERS(c, n, key[n] == WRITER(c)) :: else fi; \
		if :: key[n] == NOBODY -> rem[n] = t :: else -> PROLONG_WRITER(n, t) fi; key[n] = WRITER(c) } \
	:: d_step { mode[c] == READ && MAY_SHARE(c, n); \
		if :: EXTENDS(c, t) -> ANSWERS(c, n, key[n] == OLD(c) || READER(c, n) > 0) :: else fi; \
		share(c, n, t) } \
	LATE_WRITER(c, n, t) \
	LATE_RAISE(c, n, t)

/* Late commands of old writer's tokens. */
#if defined(DOWN) || defined(UP)
#define LATE_WRITER(c, n, t) \
	:: d_step { mode[c] == READ && (key[n] == NOBODY || key[n] == OLD(c)); key[n] = OLD(c); rem[n] = MAX(rem[n], t) }
#else
#define LATE_WRITER(c, n, t)
#endif
#ifdef UP
#define LATE_RAISE(c, n, t) \
	:: d_step { mode[c] == READ && (key[n] == SHARED && ALONE(c, n)); raise(c, n, t, OLD(c)) }
#define RAISE(c, n) \
	:: d_step { op[c] == UPGRADE && MAY_RAISE(c, n); \
		ANSWERS(c, n, key[n] != NOBODY); raise(c, n, asked[c], WRITER(c)) }
#else
#define LATE_RAISE(c, n, t)
#define RAISE(c, n)
#endif

#ifdef MUTANT_DELETE_OLD
#define CLEAN_UP(c, n) :: d_step { mode[c] == READ && key[n] == OLD(c); delete(n) }
#elif defined(MUTANT_SAME_TOKEN)
/* A reader's token that was converted is dead once the upgrade has succeeded. */
#define CLEAN_UP(c, n) \
	:: d_step { back[c] && mode[c] == READ && key[n] == WRITER(c); READER(c, n) = rem[n]; key[n] = SHARED } \
	:: d_step { back[c] && mode[c] == WRITE && key[n] == WRITER(c); delete(n) }
#else
#define CLEAN_UP(c, n)
#endif

#define AT_NODE(c, n) \
	:: d_step { mode[c] == TRY_WRITE && (key[n] == NOBODY || key[n] == WRITER(c)) && AT(c, n) == 0; \
		COUNT(c, n, ANSWER); if :: key[n] == NOBODY -> key[n] = WRITER(c); rem[n] = TTL :: else fi } \
	:: d_step { mode[c] == TRY_READ && MAY_SHARE(c, n) && AT(c, n) == 0; COUNT(c, n, ANSWER); share(c, n, TTL) } \
	AT_NODE_FOR(c, n, 1) AT_NODE_FOR(c, n, LONGEST) \
	RAISE(c, n) \
	CLEAN_UP(c, n) \
	LOOK(c, n)

/* Releases and late commands of dead tokens. */
#ifdef DEAD
#define STRAY(n, t) \
	:: d_step { key[n] == NOBODY; key[n] = GHOST; rem[n] = t } \
	:: d_step { key[n] == NOBODY || key[n] == SHARED && ghost[n] < t; key[n] = SHARED; ghost[n] = t; rem[n] = LAST(n) }
#define NODE_DEAD(n) \
	:: d_step { key[n] == GHOST; delete(n) } \
	:: d_step { key[n] == SHARED && ghost[n] > 0; ghost[n] = 0; if :: LAST(n) == 0 -> delete(n) :: else -> rem[n] = LAST(n) fi } \
	:: d_step { key[n] == GHOST; key[n] = SHARED; ghost[n] = rem[n] } \
	:: d_step { key[n] == SHARED && ghost[n] > 0 && ghost[n] == LAST(n) && READER(0, n) + READER(1, n) + THIRD(n) == 0; key[n] = GHOST; ghost[n] = 0 } \
	STRAY(n, 1) STRAY(n, LONGEST)
#else
#define NODE_DEAD(n)
#endif

#if defined(REVOKE) && defined(MUTANT_REVOKE_BY_DEL)
#define REVOKE_AT(n) :: d_step { key[n] != NOBODY; delete(n) }
#elif defined(REVOKE)
#define REVOKE_AT(n) :: d_step { key[n] != NOBODY && key[n] != TOMBSTONE; key[n] = TOMBSTONE; forget_readers(n) }
#else
#define REVOKE_AT(n)
#endif

#if C == 3
#define NODE(m) AT_NODE(0, m) AT_NODE(1, m) AT_NODE(2, m) NODE_DEAD(m) REVOKE_AT(m)
#else
#define NODE(m) AT_NODE(0, m) AT_NODE(1, m) NODE_DEAD(m) REVOKE_AT(m)
#endif

byte n;			/* scratch */
init {
#ifdef FORGET
	d_step { since[0] = LONGEST; since[1] = LONGEST; since[2] = LONGEST };
#endif
	do
	:: atomic {
		if
		:: d_step { tick() }
		CLIENT(0)
		CLIENT(1)
#if C == 3
		CLIENT(2)
#endif
		NODE(0)
		NODE(1)
		NODE(2)
#if N == 4
		NODE(3)
#endif
		RESTART
		fi;
		d_step { sort() }
	}
	od
}
