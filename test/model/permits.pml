/* A semaphore of K permits: K slots, each an exclusive place, C clients, N nodes, one clock for all.
 *
 * A node gives an attempt a free slot, any one; an attempt that it has given slots to already finds those
 * again. Votes are counted for each slot. What a client has been given at other slots than the one it holds is
 * deleted there, at any time, or not. An extension is for the slot that is held.
 *
 * NUMBERS: client 0 says that there are two permits, client 1 that there is one. Each node keeps the
 * number that was named there, for at least as long as any slot that it has given, and refuses another one.
 *
 * Time, dead tokens, restarts (FORGET), nodes and clients are as in shared.pml. A late command of a hold may run at any time
 * while it lasts.
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
#define K 2		/* slots */

#define AT(s, n) ((s) * N + (n))
byte slot[K * N];	/* 0: missing; else 1 + whose token */
byte rem[K * N];	/* what is left of its TTL */
#define SLOT(s, n) slot[AT(s, n)]
#define REM(s, n) rem[AT(s, n)]
#ifdef NUMBERS
#define PERMITS(c) ((c) == 0 -> 2 : 1)
byte number[N];		/* of permits; 0: missing */
byte kept[N];		/* what is left of it */
#define ALIKE 0		/* clients are not */
#else
#define PERMITS(c) K
#define ALIKE 1
#endif

#define IDLE 0
#define TRY  1
#define HOLD(s) (2 + (s))
byte mode[C];
byte left[C];		/* of the attempt or lease, from the attempt's start; 0: neither */
byte asked[C];		/* the TTL of an extension that is under way; 0: none */
byte gain[C];		/* what is left of it, from its start */
#ifdef FORGET
byte since[N];		/* ticks since the last restart, up to LONGEST: then the node is admitted */
#define ANSWER 1	/* the look is still to come */
#else
#define ANSWER 2
#endif
byte answer[C * K * N];	/* to the attempt, or to the extension (of the slot that is held); 2: a vote */
#define ANS(c, s, n) answer[((c) * K + (s)) * N + (n)]
#define VOTE(c, s, n) (ANS(c, s, n) == 2)
#define HOLDS(c) (mode[c] >= HOLD(0))

byte i, j, b, n;	/* scratch, 0 between the steps */
bit  own;

#define MAX(x, y) ((x) > (y) -> (x) : (y))
#if N == 4
#define SUM(f, c, s) (f(c, s, 0) + f(c, s, 1) + f(c, s, 2) + f(c, s, 3))
#else
#define SUM(f, c, s) (f(c, s, 0) + f(c, s, 1) + f(c, s, 2))
#endif
#define ANY(c, s, n) (VOTE(c, 0, n) || VOTE(c, 1, n))
#ifdef MUTANT_COUNT_NODES
#define VOTES(c, s) SUM(ANY, c, s)
#else
#define VOTES(c, s) SUM(VOTE, c, s)
#endif
#ifdef MUTANT_SHORTEN
#define PROLONG(s, n, t) REM(s, n) = t
#else
#define PROLONG(s, n, t) REM(s, n) = MAX(REM(s, n), t)
#endif

#define SWAP(x, y) b = x; x = y; y = b
#define RANK_SLOT(s, n) ((((SLOT(s, n) * 4 + REM(s, n)) * 3 + ANS(0, s, n)) * 3 + ANS(1, s, n)) * 3 + ANS(C - 1, s, n))
#ifdef FORGET
#define FIRST_ALIKE 1	/* node 0 is the one that forgets */
#else
#define FIRST_ALIKE 0
#endif
#ifdef NUMBERS
#define RANK_NUMBER(n) (number[n] * 4 + kept[n])
#define SWAP_NUMBER SWAP(number[j], number[j + 1]); SWAP(kept[j], kept[j + 1]);
#else
#define RANK_NUMBER(n) 0
#define SWAP_NUMBER
#endif
#define RANK(n) ((RANK_SLOT(0, n) * 512 + RANK_SLOT(1, n)) * 16 + RANK_NUMBER(n))
#define RANK_CLIENT(c) (((mode[c] * 4 + left[c]) * 4 + asked[c]) * 4 + gain[c])
inline swap_clients() {
	SWAP(mode[j], mode[j + 1]); SWAP(left[j], left[j + 1]); SWAP(asked[j], asked[j + 1]); SWAP(gain[j], gain[j + 1]);
	do
	:: n < K * N ->
		SWAP(answer[j * K * N + n], answer[(j + 1) * K * N + n]);
		if
		:: slot[n] == j + 1 -> slot[n] = j + 2
		:: slot[n] == j + 2 -> slot[n] = j + 1
		:: else
		fi;
		n++
	:: else -> break
	od;
	n = 0; b = 0
}
#define SWAP_SLOTS(s) SWAP(SLOT(s, j), SLOT(s, j + 1)); SWAP(REM(s, j), REM(s, j + 1)); \
	SWAP(ANS(0, s, j), ANS(0, s, j + 1)); SWAP(ANS(1, s, j), ANS(1, s, j + 1));
inline sort() {
	i = 1;
	do
	:: ALIKE && i < C ->
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
				SWAP_SLOTS(0) SWAP_SLOTS(1) SWAP_NUMBER
#if C == 3
				SWAP(ANS(2, 0, j), ANS(2, 0, j + 1)); SWAP(ANS(2, 1, j), ANS(2, 1, j + 1));
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

inline forget_votes(c) {
	j = 0;
	do
	:: j < K * N -> answer[c * K * N + j] = 0; j++
	:: else -> break
	od;
	j = 0
}
inline give_up(c) { asked[c] = 0; gain[c] = 0; forget_votes(c) }

/* The number is not kept longer than any slot, which lets more happen. */
#ifdef NUMBERS
#define FORGET_NUMBER(n) if :: SLOT(0, n) == 0 && SLOT(1, n) == 0 -> number[n] = 0; kept[n] = 0 :: else fi
#else
#define FORGET_NUMBER(n) skip
#endif
inline end(c) {
	mode[c] = IDLE; left[c] = 0; give_up(c);
	do
	:: j < K * N -> if :: slot[j] == c + 1 -> slot[j] = 0; rem[j] = 0 :: else fi; j++
	:: else -> break
	od;
	j = 0;
	do
	:: j < N -> FORGET_NUMBER(j); j++
	:: else -> break
	od;
	j = 0
}

/* The client begins to hold the slot s. */
inline begin(c, s) {
	j = 0; b = 0;
	do
	:: j < C ->
#ifdef NUMBERS
		assert(j == c || !HOLDS(j));
#elif !defined(MUTANT_COUNT_NODES)
		assert(j == c || mode[j] != HOLD(s));
#endif
		if :: j != c && HOLDS(j) -> b++ :: else fi;
		j++
	:: else -> break
	od;
	assert(b < K);
	j = 0; b = 0;
	mode[c] = HOLD(s); forget_votes(c)
}

inline tick() {
	i = 0;
	do
	:: i < K * N ->
		if :: rem[i] > 0 -> rem[i]-- :: else fi;
		if :: rem[i] == 0 -> slot[i] = 0 :: else fi;
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
#ifdef NUMBERS
	i = 0;
	do
	:: i < N ->
		if :: kept[i] > 0 -> kept[i]-- :: else fi;
		if :: kept[i] == 0 -> number[i] = 0 :: else fi;
		i++
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
#define ASK(c, t) :: d_step { HOLDS(c) && asked[c] == 0; asked[c] = t; gain[c] = t }
#define EXTENDED(c, s) :: d_step { asked[c] > 0 && mode[c] == HOLD(s) && VOTES(c, s) >= Q; left[c] = MAX(left[c], gain[c]); give_up(c) }
#define EXTENSION(c) \
	ASK(c, 1) ASK(c, LONGEST) \
	:: d_step { asked[c] > 0; give_up(c) } \
	EXTENDED(c, 0) EXTENDED(c, 1)
#else
#define EXTENSION(c)
#endif

#define CLIENT(c) \
	:: d_step { mode[c] == IDLE; mode[c] = TRY; left[c] = TTL } \
	:: d_step { mode[c] == TRY && VOTES(c, 0) >= Q; begin(c, 0) } \
	:: d_step { mode[c] == TRY && VOTES(c, 1) >= Q; begin(c, 1) } \
	:: d_step { mode[c] != IDLE; end(c) } \
	EXTENSION(c)

#define COUNT(c, s, n, a) if :: ANS(c, s, n) < a -> ANS(c, s, n) = a :: else fi
#ifdef FORGET
#ifdef MUTANT_UNGUARDED
#define OWN_ANSWER 2	/* to an extension that finds its token */
#else
#define OWN_ANSWER 1
#endif
#define LOOK(c, n) \
	:: d_step { ANS(c, 0, n) == 1 && since[n] == LONGEST; ANS(c, 0, n) = 2 } \
	:: d_step { ANS(c, 1, n) == 1 && since[n] == LONGEST; ANS(c, 1, n) = 2 }
#define RESTART :: d_step { SLOT(0, 0) = 0; REM(0, 0) = 0; SLOT(1, 0) = 0; REM(1, 0) = 0; FORGET_NUMBER(0); since[0] = 0 }
#else
#define OWN_ANSWER 2
#define LOOK(c, n)
#define RESTART
#endif

/* The number of permits at a node. */
#ifdef NUMBERS
#define SAME_NUMBER(c, n) (number[n] == 0 || number[n] == PERMITS(c))
#define KEEP_NUMBER(c, n, t) number[n] = PERMITS(c); kept[n] = MAX(kept[n], t)
#else
#define SAME_NUMBER(c, n) true
#define KEEP_NUMBER(c, n, t) skip
#endif
#if defined(MUTANT_NUMBER_EXPIRES)
#define SAME_FOR_EXTENSION(c, n) SAME_NUMBER(c, n)
#define KEEP_FOR_EXTENSION(c, n, t) skip
#elif defined(MUTANT_NUMBER_UNCHECKED)
#define SAME_FOR_EXTENSION(c, n) true
#define KEEP_FOR_EXTENSION(c, n, t) if :: SAME_NUMBER(c, n) -> KEEP_NUMBER(c, n, t) :: else fi
#else
#define SAME_FOR_EXTENSION(c, n) SAME_NUMBER(c, n)
#define KEEP_FOR_EXTENSION(c, n, t) KEEP_NUMBER(c, n, t)
#endif

#define MINE(c, n) (SLOT(0, n) == c + 1 || SLOT(1, n) == c + 1)
#define FIND(c, s, n) \
	if \
	:: SLOT(s, n) == c + 1 -> PROLONG(s, n, TTL); if :: mode[c] == TRY -> COUNT(c, s, n, ANSWER) :: else fi \
	:: else \
	fi

/* A claim finds its token, or takes a free slot, also late. */
#define TAKE(c, s, n) \
	:: d_step { mode[c] != IDLE && SAME_NUMBER(c, n) && s < PERMITS(c) && !MINE(c, n) && SLOT(s, n) == 0; \
		SLOT(s, n) = c + 1; KEEP_NUMBER(c, n, TTL); FIND(c, s, n) }
#define CLAIM(c, n) \
	:: d_step { mode[c] != IDLE && SAME_NUMBER(c, n) && MINE(c, n); KEEP_NUMBER(c, n, TTL); FIND(c, 0, n); FIND(c, 1, n) } \
	TAKE(c, 0, n) TAKE(c, 1, n)

/* An extension of the slot s for t ticks, in time or late. */
#ifdef EXTENSIONS
#define EXTEND(c, s, n, t) \
	:: d_step { mode[c] == HOLD(s) && SAME_FOR_EXTENSION(c, n) && (SLOT(s, n) == 0 || SLOT(s, n) == c + 1); \
		own = (SLOT(s, n) == c + 1); if :: own -> PROLONG(s, n, t) :: else -> REM(s, n) = t fi; \
		SLOT(s, n) = c + 1; KEEP_FOR_EXTENSION(c, n, t); \
		if :: asked[c] == t && own -> COUNT(c, s, n, OWN_ANSWER) :: asked[c] == t && !own -> COUNT(c, s, n, ANSWER) :: else fi; own = 0 } \
	ELSEWHERE(c, s, n, t)
#else
#define EXTEND(c, s, n, t)
#endif
#ifdef MUTANT_ANY_SLOT
#define ELSEWHERE(c, s, n, t) \
	:: d_step { mode[c] == HOLD(s) && asked[c] == t && SLOT(1 - s, n) == c + 1; PROLONG(1 - s, n, t); COUNT(c, s, n, ANSWER) }
#else
#define ELSEWHERE(c, s, n, t)
#endif

/* What the client has at the other slot is deleted there. */
#ifdef MUTANT_DELETE_ALL
#define DELETE(c, s, n) \
	:: d_step { mode[c] == HOLD(s) && SLOT(1 - s, n) == c + 1; SLOT(1 - s, n) = 0; REM(1 - s, n) = 0; \
		if :: SLOT(s, n) == c + 1 -> SLOT(s, n) = 0; REM(s, n) = 0 :: else fi; FORGET_NUMBER(n) }
#else
#define DELETE(c, s, n) \
	:: d_step { mode[c] == HOLD(s) && SLOT(1 - s, n) == c + 1; SLOT(1 - s, n) = 0; REM(1 - s, n) = 0; FORGET_NUMBER(n) }
#endif

#define AT_NODE(c, n) CLAIM(c, n) \
	EXTEND(c, 0, n, 1) EXTEND(c, 0, n, LONGEST) EXTEND(c, 1, n, 1) EXTEND(c, 1, n, LONGEST) \
	DELETE(c, 0, n) DELETE(c, 1, n) \
	LOOK(c, n)
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
