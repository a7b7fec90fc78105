/* Nodes that forget: C clients, N nodes, one key, one clock for all.
 *
 * A node may lose keys at any moment: by FLUSHALL, by a promotion, by a restart. None of
 * these has to cut a connection off, so a loss may fall between any two commands of a batch.
 * A grant is a vote only if the look behind it finds the node admitted: its marker agrees with
 * its master_replid and with the nonce of its epoch.
 *
 * Time is whole ticks, and everything that has a time holds what is left.
 *
 * Requests that only set a key without a vote are left out, and so are the keys of dead tokens.
 * Such a key keeps others away from a node, and gives nobody anything that a missing key does not:
 * whatever can happen with it can happen without it.
 *
 * A pair is the node's master_replid and nonce. No pair returns once it has ended: every
 * history has a fresh replid, and a nonce is sent once and so runs at most once. Therefore
 * a marker is either of the node's present pair, or of an ended one for ever.
 *
 * REVOKE: somebody puts a tombstone in the place of a token, at any node and any time, with the TTL
 * that the key has.
 *
 * Nodes that are alike are kept sorted, which does not change what can happen to them.
 */
#ifndef N
#define N 3		/* nodes */
#endif
#ifndef Q
#define Q (N / 2 + 1)
#endif
#ifndef FORGET
#define FORGET N	/* so many nodes may lose keys, again and again */
#endif
#ifndef TTL
#define TTL 2		/* the lease of an attempt, in ticks */
#endif
#ifndef LONGEST
#define LONGEST 3	/* the longest lease that an extension asks for, and the longest TTL of the guard */
#endif
#define C 2		/* clients */

#ifdef MUTANT_SHORT_QUARANTINE
#define QUARANTINE (LONGEST - 1)
#else
#define QUARANTINE LONGEST
#endif

/* MS: client 0 takes leases of SHORT ticks and names SHORT as the longest TTL, client 1 LONGEST. */
#ifdef MS
#define SHORT 1
#define LEASE(c) ((c) == 0 -> SHORT : LONGEST)
#define LIMIT(c) LEASE(c)
#else
#define LEASE(c) TTL
#define LIMIT(c) LONGEST
#endif

#define LIVE(c) ((c) + 1)
#define OLD(c)  ((c) + 3)	/* the token that a client has handed over */
#define TOMBSTONE 5

byte key[N];		/* 0: missing; else whose token */
byte rem[N];		/* what is left of its TTL */
byte seen[N];		/* 0: the node has no epoch; else 1 + the age of its present pair, up to QUARANTINE */
byte mark[N];		/* what the marker says */

/* Values of mark. A marker that is missing, or of an ended pair, admits nobody: the first three
 * are one value, unless a mutant takes them for different ones. */
#if defined(MUTANT_ANY_MARKER) || defined(MUTANT_ANY_NONCE) || defined(MUTANT_NO_NONCE) || defined(MUTANT_NONCE_AGAIN)
#define TOLD_APART
#define NONE    0
#define STALE   1	/* of another history */
#define OTHER   2	/* of this history, with another nonce */
#else
#define NONE    0
#define STALE   0
#define OTHER   0
#endif
#define CURRENT 3
#define CURRENT_SHORT 4	/* of the present pair, with SHORT for ms */

/* What a client has from a node, for its attempt or for its extension. */
#define NOTHING 0
#define GRANT   1	/* the command said yes, or the token is the client's; the look is still to come */
#define LOW     2	/* a vote under a marker with SHORT for ms */
#define VOTE    3
#define LOOKED  4	/* only in mutants: the look found the node admitted, and the command is still to come */
byte at[C * N];
#define AT(c, n) at[(c) * N + (n)]

byte left[C];		/* of the attempt or lease, from the attempt's start; 0: neither */
bit  held[C];		/* the client believes that it holds the lock */
byte asked[C];		/* the TTL of an extension that is under way; 0: none */
byte gain[C];		/* what is left of it, from its start */
bit  crossed[C];	/* somebody else has begun to hold meanwhile */
#ifdef HANDOVER
bit  heir[C];		/* the attempt may overwrite OLD(c) */
#endif
#ifdef MS
bit  great;		/* client 0 has seen LONGEST in a marker */
bit  alone[N];		/* a client has seen the node and another one without admission, since the pair began */
#endif
#ifdef TOLD_APART
bit  sent[N];		/* a marker of the present pair was sent: it may run late */
bit  ended[N];		/* one with the present replid and an ended nonce was sent */
#endif

#ifdef ADMIT
#ifndef A
#define A 2		/* calls of Admit at a time */
#endif
#define EMPTY 1		/* the look of the call found no key of the guard's */
#define WON   2		/* its SET NX of an epoch was the first, and the pair has not ended since */
#define GONE  3		/* the same, and the pair has ended */
byte call[A * N];
bit  opened;		/* a call has sent markers: locks may be asked for */
bit  aim[N];		/* a call has sent a marker of the present pair: it may run late */
#define CALL(a, n) call[(a) * N + (n)]
#endif

byte i, j, b;		/* scratch, 0 between the steps */

#define MAX(a, b) ((a) > (b) -> (a) : (b))

/* The nodes that are alike in ascending order of all that concerns them. */
#ifdef ADMIT
#define CALLS(n) ((CALL(0, n) * 4 + CALL(A - 1, n)) * 2 + aim[n])
#else
#define CALLS(n) 0
#endif
#define RANK(n) ((((((key[n] * 8 + rem[n]) * 8 + seen[n]) * 8 + mark[n]) * 8 + AT(0, n)) * 8 + AT(1, n)) * 32 + CALLS(n))
#define SWAP(x, y) b = x; x = y; y = b
inline swap() {
	SWAP(key[j], key[j + 1]); SWAP(rem[j], rem[j + 1]); SWAP(seen[j], seen[j + 1]); SWAP(mark[j], mark[j + 1]);
	SWAP(AT(0, j), AT(0, j + 1)); SWAP(AT(1, j), AT(1, j + 1));
#ifdef MS
	SWAP(alone[j], alone[j + 1]);
#endif
#ifdef ADMIT
	SWAP(CALL(0, j), CALL(0, j + 1)); SWAP(aim[j], aim[j + 1]);
#if A == 2
	SWAP(CALL(1, j), CALL(1, j + 1));
#endif
#endif
	b = 0
}
#ifdef TOLD_APART
#define sorted() skip
#else
inline sorted() {
	i = 1;
	do
	:: i < N ->
		j = 0;
		do
		:: j + i < N ->
			if :: j != FORGET - 1 && RANK(j) > RANK(j + 1) -> swap() :: else fi;
			j++
		:: else -> break
		od;
		i++
	:: else -> break
	od;
	i = 0; j = 0
}
#endif

#define COUNTS(v) ((v) == VOTE || (v) == LOW)
#define ONE(c, n) (COUNTS(AT(c, n)) -> 1 : 0)
#if N == 5
#define VOTES(c) (ONE(c, 0) + ONE(c, 1) + ONE(c, 2) + ONE(c, 3) + ONE(c, 4))
#elif N == 4
#define VOTES(c) (ONE(c, 0) + ONE(c, 1) + ONE(c, 2) + ONE(c, 3))
#else
#define VOTES(c) (ONE(c, 0) + ONE(c, 1) + ONE(c, 2))
#endif

inline forget_answers(c) {
	j = 0;
	do
	:: j < N -> AT(c, j) = NOTHING; j++
	:: else -> break
	od;
	j = 0
}

inline forget_extension(c) { asked[c] = 0; gain[c] = 0; crossed[c] = 0; forget_answers(c) }

/* The token of c is dead: its keys count as missing. An heir may find them. */
inline drop(token, heirloom) {
	j = 0;
	do
	:: j < N -> if :: key[j] == token -> key[j] = heirloom; if :: heirloom == 0 -> rem[j] = 0 :: else fi :: else fi; j++
	:: else -> break
	od;
	j = 0
}

#ifdef HANDOVER
#define END(c, heirloom) drop(OLD(c), 0); drop(LIVE(c), heirloom); heir[c] = 0
#else
#define END(c, heirloom) drop(LIVE(c), 0)
#endif
#define end(c, heirloom) left[c] = 0; held[c] = 0; forget_extension(c); END(c, heirloom)

inline begin(c) {
	assert(!held[1 - c]);
	crossed[1 - c] = (asked[1 - c] > 0);
	held[c] = 1;
	forget_answers(c)
}

inline tick_client(c) {
	if :: gain[c] > 0 -> gain[c]--; if :: gain[c] == 0 -> forget_extension(c) :: else fi :: else fi;
	if :: left[c] > 0 -> left[c]--; if :: left[c] == 0 -> end(c, 0) :: else fi :: else fi
}

inline tick() {
	i = 0;
	do
	:: i < N ->
		if :: rem[i] > 0 -> rem[i]--; if :: rem[i] == 0 -> key[i] = 0 :: else fi :: else fi;
		if :: seen[i] > 0 && seen[i] <= QUARANTINE -> seen[i]++ :: else fi;
		i++
	:: else -> break
	od;
	i = 0;
	tick_client(0);
	tick_client(1)
}

/* No lock may be asked for before a call of Admit has returned. */
#if defined(ADMIT) && !defined(EARLY)
#define OPEN opened
#else
#define OPEN true
#endif

/* What a client decides by itself: an attempt begins; it has a quorum; it, or a hold, ends. */
#define CLIENT(c) \
	:: d_step { left[c] == 0 && OPEN; left[c] = LEASE(c); FRESH(c) } \
	:: d_step { !held[c] && left[c] > 0 && VOTES(c) >= Q; begin(c); sorted() } \
	:: d_step { left[c] > 0; end(c, 0); sorted() } \
	HAND_OVER(c) \
	EXTENSION(c)

#ifdef HANDOVER
#define HAND_OVER(c) :: d_step { held[c]; end(c, OLD(c)); left[c] = LEASE(c); heir[c] = 1; sorted() }
#else
#define HAND_OVER(c)
#endif

#ifdef EXTEND
#define ASK(c, t) :: d_step { t <= LIMIT(c) && held[c] && asked[c] == 0; asked[c] = t; gain[c] = t }
#define EXTENSION(c) \
	ASK(c, 1) ASK(c, 2) ASK(c, 3) \
	:: d_step { asked[c] > 0; forget_extension(c); sorted() } \
	:: d_step { asked[c] > 0 && VOTES(c) >= Q; assert(!crossed[c]); begin(c); \
		left[c] = MAX(left[c], gain[c]); forget_extension(c); sorted() }
#else
#define EXTENSION(c)
#endif

/* Whether the look of a client admits the node. */
#if defined(MUTANT_NO_GUARD)
#define ADMITTED(n) true
#elif defined(MUTANT_ANY_MARKER)
#define ADMITTED(n) (mark[n] != NONE)
#elif defined(MUTANT_ANY_NONCE)
#define ADMITTED(n) (mark[n] == CURRENT || mark[n] == OTHER)
#else
#define ADMITTED(n) (mark[n] == CURRENT)
#endif

/* The vote that the look of c at n makes of a grant. With MS it counts only if its marker's ms
 * is at least the client's own longest TTL and the greatest that it has seen in a marker. */
#ifdef MS
#define LOOK_SHORT(c, n) \
	:: d_step { mark[n] == CURRENT_SHORT && AT(c, n) == GRANT && c == 0 && FITS; AT(c, n) = LOW; sorted() }
#ifdef MUTANT_OWN_LONGEST
#define FITS true
#else
#define FITS !great
#endif
#if defined(MUTANT_OWN_LONGEST) || defined(MUTANT_KEEP_LOW_VOTES)
#define DROP_LOW skip
#else
#define DROP_LOW \
	j = 0; \
	do \
	:: j < N -> if :: AT(0, j) == LOW -> AT(0, j) = GRANT :: else fi; j++ \
	:: else -> break \
	od; \
	j = 0
#endif
#define SEE_MS(c) if :: c == 0 -> great = 1; DROP_LOW :: else fi
#define FRESH(c) if :: c == 0 -> great = 0 :: else fi	/* a new process has seen no marker */
#else
#define LOOK_SHORT(c, n)
#define SEE_MS(c) skip
#define FRESH(c) skip
#endif

/* SET NX is granted, or finds its own token. */
#define ANSWER(c, n) AT(c, n) = (AT(c, n) == LOOKED -> VOTE : MAX(AT(c, n), GRANT))
#define FREE(c, n) (left[c] > 0 && !held[c] && key[n] == 0)

/* Commands of c's attempt at n: SET NX; the heir's overwrites; the look. A copy of the batch
 * may be sent again, so these come at any time, and as often as can be. */
#define NODE_CLIENT(n, c) \
	:: d_step { FREE(c, n); key[n] = LIVE(c); rem[n] = LEASE(c); ANSWER(c, n); sorted() } \
	LOOK(n, c) \
	LOOK_SHORT(c, n) \
	OVERWRITE(n, c) \
	EXTEND_AT(n, c)

#if defined(MUTANT_LOOK_IN_FRONT)
#define LOOK(n, c) \
	:: d_step { left[c] > 0 && AT(c, n) == NOTHING && ADMITTED(n); AT(c, n) = LOOKED; sorted() }
#elif defined(MUTANT_LOOK_BEFORE_GET)
/* The batch is SET, look, GET. SET says that somebody else has the key; the look is well; GET says own. */
#define LOOK(n, c) \
	:: d_step { AT(c, n) == GRANT && ADMITTED(n); AT(c, n) = VOTE; sorted() } \
	:: d_step { left[c] > 0 && !held[c] && AT(c, n) == NOTHING && key[n] != 0 && key[n] != LIVE(c) && ADMITTED(n); AT(c, n) = LOOKED; sorted() }
#else
#define LOOK(n, c) \
	:: d_step { AT(c, n) == GRANT && ADMITTED(n); AT(c, n) = VOTE; SEE_MS(c); sorted() }
#endif

#ifdef HANDOVER
#ifdef MUTANT_UNGUARDED_HANDOVER
#define OVERWRITTEN VOTE
#else
#define OVERWRITTEN GRANT
#endif
#define OVERWRITE(n, c) \
	:: d_step { left[c] > 0 && heir[c] && !held[c] && key[n] == OLD(c); key[n] = LIVE(c); rem[n] = LEASE(c); \
		AT(c, n) = MAX(AT(c, n), OVERWRITTEN); sorted() } \
	:: d_step { left[c] > 0 && key[n] == OLD(c); key[n] = 0; rem[n] = 0; sorted() }
#else
#define OVERWRITE(n, c)
#endif

#ifdef EXTEND
#ifdef MUTANT_UNGUARDED_EXTENSION
#define PROLONGED VOTE
#else
#define PROLONGED GRANT
#endif
#define EXTEND_AT(n, c) \
	:: d_step { asked[c] > 0 && key[n] == LIVE(c); rem[n] = MAX(rem[n], asked[c]); AT(c, n) = MAX(AT(c, n), PROLONGED); sorted() } \
	:: d_step { asked[c] > 0 && key[n] == 0; key[n] = LIVE(c); rem[n] = asked[c]; ANSWER(c, n); sorted() }
#else
#define EXTEND_AT(n, c)
#endif

/* What happens to the guard's keys at n. */
#ifdef ADMIT
#define END_PAIR(n) aim[n] = 0; \
	if :: CALL(0, n) == WON -> CALL(0, n) = GONE :: else fi; \
	if :: CALL(A - 1, n) == WON -> CALL(A - 1, n) = GONE :: else fi
#elif defined(MS)
#define END_PAIR(n) alone[n] = 0
#else
#define END_PAIR(n) skip
#endif
#ifdef TOLD_APART
#define END_NONCE(n) if :: sent[n] -> ended[n] = 1 :: else fi; sent[n] = 0
#define END_HISTORY(n) sent[n] = 0; ended[n] = 0
#else
#define END_NONCE(n) skip
#define END_HISTORY(n) skip
#endif
#define LOSE_KEY(n) key[n] = 0; rem[n] = 0

/* A client sits out the greatest ms that it has seen in a marker, if its own is less, and
 * writes that. It writes only what it has read in a marker that admits another node; or its own
 * value, if it has found so many nodes without admission since the pair began that only one may
 * have been missed, and then this one. */
#ifdef MS
#define MAY_END(n) ((n) < FORGET)	/* who never lost anything has the marker that it was given by Admit */
#define UNADMITTED(n) (mark[n] != CURRENT && mark[n] != CURRENT_SHORT)
#define ANOTHER_IS_NOT(n) ((n) != 0 && UNADMITTED(0) || (n) != 1 && UNADMITTED(1) || (n) != 2 && UNADMITTED(2))
#ifdef MUTANT_NO_WITNESS
#define WITNESSED(n, m) true
#else
#define WITNESSED(n, m) (alone[n] || (n) != 0 && mark[0] == m || (n) != 1 && mark[1] == m || (n) != 2 && mark[2] == m)
#endif
#define MARK_SHORT(n) \
	:: d_step { seen[n] > SHORT && !great && mark[n] != CURRENT_SHORT && WITNESSED(n, CURRENT_SHORT) && MAY_END(n); mark[n] = CURRENT_SHORT; sorted() } \
	:: d_step { seen[n] > 0 && !alone[n] && UNADMITTED(n) && ANOTHER_IS_NOT(n); alone[n] = 1; sorted() }
#ifdef AT_ONCE
#define MAY_LOSE(n) true
#else
#define MAY_LOSE(n) !ANOTHER_IS_NOT(n)	/* as long as one other node is not admitted, no second one ends */
#endif
#else
#define WITNESSED(n, m) true
#define MAY_END(n) true
#define MAY_LOSE(n) true
#define MARK_SHORT(n)
#endif

/* An epoch is set, and a pair begins. Somebody who has watched the pair sets the marker, then
 * or late. A marker of an ended pair runs late. */
#define GUARD(n) \
	:: d_step { seen[n] == 0; seen[n] = BEGIN_WATCH(n); sorted() } \
	:: d_step { seen[n] > QUARANTINE && mark[n] != CURRENT && WITNESSED(n, CURRENT) && MAY_END(n); mark[n] = CURRENT; SENT(n); sorted() } \
	:: d_step { mark[n] != STALE && MAY_END(n) && MAY_LOSE(n); mark[n] = STALE; sorted() } \
	MARK_SHORT(n) \
	LATE(n) \
	LOSS(n)

#define BEGIN_WATCH(n) 1
#ifdef TOLD_APART
#define SENT(n) sent[n] = 1
#if defined(MUTANT_NO_NONCE)
/* The marker names the master_replid alone. */
#define LATE(n) :: d_step { sent[n] || ended[n]; mark[n] = CURRENT }
#elif defined(MUTANT_NONCE_AGAIN)
/* The epoch is set by a copy of the SET NX that ran before. */
#define LATE(n) \
	:: d_step { ended[n]; mark[n] = OTHER } \
	:: d_step { seen[n] == 0 && ended[n]; seen[n] = 1; ended[n] = 0; sent[n] = 1 } \
	:: d_step { seen[n] > 0 && sent[n]; mark[n] = CURRENT }
#else
#define LATE(n) :: d_step { ended[n]; mark[n] = OTHER }
#endif
#else
#define SENT(n) skip
#define LATE(n)
#endif

/* FLUSHALL; a promotion of a replica that has all keys, or lacks the lock's, or the epoch, or
 * both. A restart is such a promotion. A pair's age begins anew with either half of it. */
#ifdef MUTANT_WATCH_GOES_ON
#define FLUSHED(n) (seen[n] > 0 -> seen[n] : 0)
#else
#define FLUSHED(n) 0
#endif
#if FORGET > 0
#define LOSS(n) \
	:: d_step { n < FORGET && MAY_LOSE(n); LOSE_KEY(n); seen[n] = FLUSHED(n); mark[n] = NONE; END_NONCE(n); END_PAIR(n); sorted() } \
	PROMOTION(n, key[n] = key[n], (seen[n] > 0 -> 1 : 0)) \
	PROMOTION(n, LOSE_KEY(n), (seen[n] > 0 -> 1 : 0)) \
	PROMOTION(n, key[n] = key[n], 0) \
	PROMOTION(n, LOSE_KEY(n), 0)
#define PROMOTION(n, lose, watch) :: d_step { n < FORGET && MAY_LOSE(n); lose; seen[n] = watch; mark[n] = STALE; END_HISTORY(n); END_PAIR(n); sorted() }
#else
#define LOSS(n)
#endif

/* Admit: it looks at all nodes; sets an epoch at each, which must be the first there; and then
 * sends markers of the pairs that it has read. */
#ifdef ADMIT
inline give_up(a) {
	j = 0;
	do
	:: j < N -> CALL(a, j) = 0; j++
	:: else -> break
	od;
	j = 0
}
#define ALL(a, v) (CALL(a, 0) >= v && CALL(a, 1) >= v && CALL(a, 2) >= v)
#define ONE_OF(a, v) (CALL(a, 0) >= v || CALL(a, 1) >= v || CALL(a, 2) >= v)
#ifdef MUTANT_ADMIT_WHO_ANSWERS
#define ENOUGH(a, v) ONE_OF(a, v)	/* those that do not answer are left out */
#else
#define ENOUGH(a, v) ALL(a, v)
#endif
#ifdef MUTANT_ADMIT_WITH_KEY
#define CLEAN(a, n) (seen[n] == 0 || n > 1)	/* one node may have an epoch */
#define FIRST(n) CLEAN(a, n)
#elif defined(MUTANT_ADMIT_NOT_FIRST)
#define CLEAN(a, n) (seen[n] == 0)
#define FIRST(n) true
#else
#define CLEAN(a, n) (seen[n] == 0)
#define FIRST(n) (seen[n] == 0)
#endif
#define AIM(a, n) if :: CALL(a, n) == WON -> aim[n] = 1 :: else fi
#define ADMISSION(a) \
	:: d_step { CALL(a, 0) + CALL(a, 1) + CALL(a, 2) > 0; give_up(a); sorted() } \
	:: d_step { ENOUGH(a, WON); AIM(a, 0); AIM(a, 1); AIM(a, 2); opened = 1; give_up(a); sorted() }
#ifdef MUTANT_ADMIT_AT_ONCE
/* Epoch and marker are set by one batch, which may run late at a node. */
#define AT_ONCE(n) mark[n] = CURRENT; opened = 1
#else
#define AT_ONCE(n) skip
#endif
#define ADMISSION_AT(n, a) \
	:: d_step { CALL(a, n) == 0 && CLEAN(a, n); CALL(a, n) = EMPTY; sorted() } \
	:: d_step { CALL(a, n) == EMPTY && ENOUGH(a, EMPTY) && FIRST(n); seen[n] = MAX(seen[n], 1); AT_ONCE(n); CALL(a, n) = WON; sorted() }
#define LATE_AIM(n) :: d_step { aim[n] && mark[n] != CURRENT; mark[n] = CURRENT; sorted() }
#else
#define ADMISSION(a)
#define ADMISSION_AT(n, a)
#define LATE_AIM(n)
#endif

#if defined(ADMIT) && A == 2
#define ADMISSION_AT_2(n) ADMISSION_AT(n, 1)
#else
#define ADMISSION_AT_2(n)
#endif

#ifdef REVOKE
#define REVOKE_AT(n) :: d_step { key[n] != 0 && key[n] != TOMBSTONE; key[n] = TOMBSTONE; sorted() }
#else
#define REVOKE_AT(n)
#endif

#define NODE(n) NODE_CLIENT(n, 0) NODE_CLIENT(n, 1) REVOKE_AT(n) GUARD(n) ADMISSION_AT(n, 0) ADMISSION_AT_2(n) LATE_AIM(n)

init {
#ifndef ADMIT
	d_step {
		do
		:: i < N -> seen[i] = QUARANTINE + 1; mark[i] = CURRENT; SENT(i); i++
		:: else -> break
		od;
		i = 0
	}
#endif
	do
	:: d_step { tick(); sorted() }
	CLIENT(0)
	CLIENT(1)
	ADMISSION(0)
#if defined(ADMIT) && A == 2
	ADMISSION(1)
#endif
	NODE(0)
	NODE(1)
	NODE(2)
#if N >= 4
	NODE(3)
#endif
#if N == 5
	NODE(4)
#endif
	od
}
