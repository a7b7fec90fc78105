/* Sets of keys: C clients, N nodes, K keys, one clock for all. A client takes all keys of its set as one
 * lock, with one token, one lease and one deadline.
 *
 * A node gives all keys of a set or none, and so it answers an extension: its vote is for all of
 * them. PER_KEY: a node answers for each key alone, and each key needs a quorum of its own.
 *
 * Time, dead tokens, restarts (FORGET), nodes and late commands are as in shared.pml. What an attempt that has failed left is
 * deleted key by key, at any time, or not: its keys count as missing.
 */
#ifndef C
#define C 3		/* clients */
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
#define LONGEST 2	/* the longest lease that an extension asks for */
#endif

/* Which keys a client's set has, a bit for each: a set of two beside locks of one key; three sets in a ring; or sets of
 * the same two keys. */
#if defined(RING)
#define K 3
#define SET(c) ((c) == 0 -> 3 : ((c) == 1 -> 6 : 5))
#elif defined(SAME)
#define K 2
#define SET(c) 3
#else
#define K 2
#define SET(c) ((c) == 0 -> 3 : (c))
#endif
#define IN(c, k) ((SET(c) >> (k)) & 1)

#define AT(k, n) ((k) * N + (n))
byte key[K * N];	/* 0: missing; else 1 + whose token */
byte rem[K * N];	/* what is left of its TTL */
#define KEY(k, n) key[AT(k, n)]
#define REM(k, n) rem[AT(k, n)]

byte left[C];		/* of the attempt or lease, from the attempt's start; 0: neither */
bit  held[C];
byte asked[C];		/* the TTL of an extension that is under way; 0: none */
byte gain[C];		/* what is left of it, from its start */
#ifdef FORGET
byte since[N];		/* ticks since the last restart, up to LONGEST: then the node is admitted */
#define ANSWER 1	/* the look is still to come */
#else
#define ANSWER 2
#endif
#if !defined(FORGET) || defined(MUTANT_UNGUARDED)
#define OWN_ANSWER 2	/* to an extension that finds its token */
#else
#define OWN_ANSWER 1
#endif
byte answer[C * K * N];	/* to the attempt, or to the extension; 2: a vote */
#define ANS(c, k, n) answer[((c) * K + (k)) * N + (n)]
#define VOTE(c, k, n) (ANS(c, k, n) == 2)

byte i, j, b;		/* scratch, 0 between the steps */

#define MAX(x, y) ((x) > (y) -> (x) : (y))
#if K == 3
#define THIRD(x, y) x
#else
#define THIRD(x, y) y
#endif

/* A quorum. */
#define ALL_AT(c, n) (VOTE(c, 0, n) >= IN(c, 0) && VOTE(c, 1, n) >= IN(c, 1) && THIRD(VOTE(c, 2, n) >= IN(c, 2), true))
#define ANY_AT(c, n) (VOTE(c, 0, n) || VOTE(c, 1, n) || THIRD(VOTE(c, 2, n), false))
#define OF_KEY(c, k) (!IN(c, k) || VOTE(c, k, 0) + VOTE(c, k, 1) + VOTE(c, k, 2) >= Q)
#if defined(MUTANT_COUNT_NODES)
#define QUORUM(c) (ANY_AT(c, 0) + ANY_AT(c, 1) + ANY_AT(c, 2) >= Q)
#elif defined(PER_KEY)
#define QUORUM(c) (OF_KEY(c, 0) && OF_KEY(c, 1) && THIRD(OF_KEY(c, 2), true))
#elif N == 4
#define QUORUM(c) (ALL_AT(c, 0) + ALL_AT(c, 1) + ALL_AT(c, 2) + ALL_AT(c, 3) >= Q)
#else
#define QUORUM(c) (ALL_AT(c, 0) + ALL_AT(c, 1) + ALL_AT(c, 2) >= Q)
#endif
#ifdef MUTANT_SHORTEN
#define PROLONG(k, n, t) REM(k, n) = t
#else
#define PROLONG(k, n, t) REM(k, n) = MAX(REM(k, n), t)
#endif

#define SWAP(x, y) b = x; x = y; y = b
#ifdef FORGET
#define FIRST_ALIKE 1	/* node 0 is the one that forgets */
#else
#define FIRST_ALIKE 0
#endif
#define RANK_KEY(k, n) ((((KEY(k, n) * 4 + REM(k, n)) * 3 + ANS(0, k, n)) * 3 + ANS(1, k, n)) * 3 + ANS(C - 1, k, n))
#define RANK(n) ((RANK_KEY(0, n) * 512 + RANK_KEY(1, n)) * 512 + THIRD(RANK_KEY(2, n), 0))
#define SWAP_KEY(k) SWAP(KEY(k, j), KEY(k, j + 1)); SWAP(REM(k, j), REM(k, j + 1)); \
	SWAP(ANS(0, k, j), ANS(0, k, j + 1)); SWAP(ANS(1, k, j), ANS(1, k, j + 1));
#if C == 3
#define SWAP_LAST(k) SWAP(ANS(2, k, j), ANS(2, k, j + 1));
#else
#define SWAP_LAST(k)
#endif
inline sort() {
	i = 1;
	do
	:: i < N ->
		j = FIRST_ALIKE;
		do
		:: j + i < N ->
			if
			:: RANK(j) > RANK(j + 1) ->
				SWAP_KEY(0) SWAP_LAST(0) SWAP_KEY(1) SWAP_LAST(1)
#if K == 3
				SWAP_KEY(2) SWAP_LAST(2)
#endif
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

inline give_up(c) {
	asked[c] = 0; gain[c] = 0;
	do
	:: j < K * N -> answer[c * K * N + j] = 0; j++
	:: else -> break
	od;
	j = 0
}
inline end(c) {
	left[c] = 0; held[c] = 0; give_up(c);
	do
	:: j < K * N -> if :: key[j] == c + 1 -> key[j] = 0; rem[j] = 0 :: else fi; j++
	:: else -> break
	od;
	j = 0
}

/* The client begins to hold. */
inline begin(c) {
	do
	:: j < C -> assert(j == c || !held[j] || (SET(c) & SET(j)) == 0); j++
	:: else -> break
	od;
	j = 0;
	held[c] = 1; give_up(c)
}

inline tick() {
	i = 0;
	do
	:: i < K * N ->
		if :: rem[i] > 0 -> rem[i]-- :: else fi;
		if :: rem[i] == 0 -> key[i] = 0 :: else fi;
		i++
	:: else -> break
	od;
#ifdef FORGET
	i = 0;
	do
	:: i < N -> if :: since[i] < LONGEST -> since[i]++ :: else fi; i++
	:: else -> break
	od;
#endif
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

#ifdef EXTENSIONS
#define ASK(c, t) :: d_step { held[c] && asked[c] == 0; asked[c] = t; gain[c] = t }
#define EXTENSION(c) \
	ASK(c, 1) ASK(c, LONGEST) \
	:: d_step { asked[c] > 0; give_up(c) } \
	:: d_step { asked[c] > 0 && QUORUM(c); left[c] = MAX(left[c], gain[c]); give_up(c) }
#else
#define EXTENSION(c)
#endif
#define CLIENT(c) \
	:: d_step { left[c] == 0; left[c] = TTL } \
	:: d_step { left[c] > 0 && !held[c] && QUORUM(c); begin(c) } \
	:: d_step { left[c] > 0; end(c) } \
	EXTENSION(c)

/* The token of c holds keys at n for t ticks: of an attempt, or of a hold and counted for an extension of t ticks
 * that is under way. A command may be late. */
#define COUNT(c, k, n, t, a) if :: (!held[c] || asked[c] == t) && ANS(c, k, n) < a -> ANS(c, k, n) = a :: else fi
#define OPEN(c, k, n) (!IN(c, k) || KEY(k, n) == 0 || KEY(k, n) == c + 1)
#define SET_KEY(c, k, n, t) \
	if \
	:: IN(c, k) -> \
		if \
		:: KEY(k, n) == 0 -> REM(k, n) = t; COUNT(c, k, n, t, ANSWER) \
		:: else -> PROLONG(k, n, t); COUNT(c, k, n, t, OWN_ANSWER) \
		fi; \
		KEY(k, n) = c + 1 \
	:: else \
	fi
#if K == 3
#define SET_LAST(c, n, t) SET_KEY(c, 2, n, t)
#else
#define SET_LAST(c, n, t) skip
#endif

#ifdef PER_KEY
#define HOLD_KEY(c, k, n, t) \
	:: d_step { k < K && left[c] > 0 && (held[c] || t == TTL) && IN(c, k) && OPEN(c, k, n); SET_KEY(c, k, n, t) }
#if K == 3
#define HOLD(c, n, t) HOLD_KEY(c, 0, n, t) HOLD_KEY(c, 1, n, t) HOLD_KEY(c, 2, n, t)
#else
#define HOLD(c, n, t) HOLD_KEY(c, 0, n, t) HOLD_KEY(c, 1, n, t) SOME(c, n, t)
#endif
#else
#define HOLD(c, n, t) \
	:: d_step { left[c] > 0 && (held[c] || t == TTL) && OPEN(c, 0, n) && OPEN(c, 1, n) && THIRD(OPEN(c, 2, n), true); \
		SET_KEY(c, 0, n, t); SET_KEY(c, 1, n, t); SET_LAST(c, n, t) }
#endif

/* A node that has one key at least prolongs what it has, and agrees to the extension of all. */
#ifdef MUTANT_SOME_KEY
#define OWN(c, k, n) (KEY(k, n) == c + 1)
#define PROLONG_OWN(c, k, n, t) if :: OWN(c, k, n) -> PROLONG(k, n, t) :: else fi; ANS(c, k, n) = IN(c, k) * 2
#define SOME(c, n, t) \
	:: d_step { held[c] && asked[c] == t && (OWN(c, 0, n) || OWN(c, 1, n)); PROLONG_OWN(c, 0, n, t); PROLONG_OWN(c, 1, n, t) }
#else
#define SOME(c, n, t)
#endif

#ifdef FORGET
#define LOOK(c, n) LOOK_AT(c, 0, n) LOOK_AT(c, 1, n) LOOK_AT(c, K - 1, n)
#define LOOK_AT(c, k, n) :: d_step { ANS(c, k, n) == 1 && since[n] == LONGEST; ANS(c, k, n) = 2 }
#define RESTART :: d_step { KEY(0, 0) = 0; REM(0, 0) = 0; KEY(1, 0) = 0; REM(1, 0) = 0; KEY(K - 1, 0) = 0; REM(K - 1, 0) = 0; since[0] = 0 }
#else
#define LOOK(c, n)
#define RESTART
#endif

#if LONGEST == TTL
#define FOR_LONGEST(c, n)
#else
#define FOR_LONGEST(c, n) HOLD(c, n, LONGEST)
#endif
#ifdef EXTENSIONS
#define AT_NODE(c, n) HOLD(c, n, TTL) HOLD(c, n, 1) FOR_LONGEST(c, n) LOOK(c, n)
#else
#define AT_NODE(c, n) HOLD(c, n, TTL) LOOK(c, n)
#endif
#if C == 3
#define NODE(n) AT_NODE(0, n) AT_NODE(1, n) AT_NODE(2, n)
#else
#define NODE(n) AT_NODE(0, n) AT_NODE(1, n)
#endif

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
