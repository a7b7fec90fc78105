/* Mutual exclusion by leases: C clients, N nodes, one key, one clock for all.
 *
 * Time is whole ticks, and everything that has a time holds what is left of it, so the
 * states are finitely many though neither the time nor the number of attempts has an
 * end. Each attempt has a fresh token. Only the token of a client's present attempt has
 * to be told from others: when an attempt ends, what it left at the nodes becomes "dead",
 * and a dead token's late requests may run for ever: they set a missing key with a fresh
 * TTL, and delete a key that holds a dead token.
 *
 * A message that is lost is one that never runs; a reply that is lost is a vote that the
 * client does not use. Both are runs of this model, since no step is ever forced but time.
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
#define LONGEST 3	/* the longest lease that an extension asks for */
#endif
#ifndef FORGET
#define FORGET 0	/* so many nodes may restart empty, again and again */
#endif
#ifdef MUTANT_SHORT_QUARANTINE
#define QUARANTINE (LONGEST - 1)
#else
#define QUARANTINE LONGEST
#endif

#define LIVE(c) ((c) + 1)
#define DEAD(c) ((c) + 1 + C)
#define BIT(n)  (1 << (n))
#define VOTES(v) (((v) & 1) + ((v) >> 1 & 1) + ((v) >> 2 & 1) + ((v) >> 3 & 1))

byte key[N];		/* 0: missing; else whose token */
byte rem[N];		/* what is left of its TTL */

byte left[C];		/* of the attempt or lease, from the attempt's start; 0: neither */
bit  held[C];		/* the client believes that it holds the lock */
byte votes[C];
byte asked[C];		/* the TTL of an extension that is under way; 0: none */
byte gain[C];		/* what is left of it, from its start */
byte agreed[C];		/* the nodes that voted for it */
bit  crossed[C];	/* somebody else has begun to hold meanwhile */
#ifdef HANDOVER
bit  heir[C];		/* the attempt may overwrite the client's dead token */
#else
#define heir_of(c) 0
#endif

#if FORGET > 0
#define NONE    0
#define STALE   1	/* a marker of a history that has ended */
#define CURRENT 2	/* the marker is the node's master_replid */
byte mark[FORGET];
byte seen[FORGET];	/* for how long a client has seen this master_replid */
#endif

/* Whether the head of a batch says that the node's grants count. A restart cuts the
 * connection, so nothing happens to the node between the head and the grant. */
#if FORGET == 0 || defined(MUTANT_NO_GUARD)
#define ADMITTED(n) true
#elif defined(MUTANT_ANY_MARKER)
#define ADMITTED(n) ((n) >= FORGET || mark[(n) % FORGET] != NONE)
#else
#define ADMITTED(n) ((n) >= FORGET || mark[(n) % FORGET] == CURRENT)
#endif

/* Whether an extension counts that found its own token, and a hand-over that found the
 * releaser's, at a node that is not admitted. */
#ifdef MUTANT_UNGUARDED_EXTENSION
#define PROLONGED(n) true
#else
#define PROLONGED(n) ADMITTED(n)
#endif
#ifdef MUTANT_UNGUARDED_HANDOVER
#define OVERWRITTEN(n) true
#else
#define OVERWRITTEN(n) ADMITTED(n)
#endif

#ifdef HANDOVER
#define heir_of(c) heir[c]
#define CLEAR_HEIR(c) heir[c] = 0
#else
#define CLEAR_HEIR(c) skip
#endif

#define MAX(a, b) ((a) > (b) -> (a) : (b))
#ifdef MUTANT_SHORTEN
#define PROLONG(n, t) rem[n] = t
#else
#define PROLONG(n, t) rem[n] = MAX(rem[n], t)
#endif

byte i, j;		/* scratch, 0 between the steps */

inline forget_extension(c) { asked[c] = 0; gain[c] = 0; agreed[c] = 0; crossed[c] = 0 }

/* The attempt or hold ends. What it left at the nodes is released late, or never. */
inline end(c) {
	left[c] = 0; held[c] = 0; votes[c] = 0; CLEAR_HEIR(c);
	forget_extension(c);
	j = 0;
	do
	:: j < N -> if :: key[j] == LIVE(c) -> key[j] = DEAD(c) :: else fi; j++
	:: else -> break
	od;
	j = 0
}

/* The client c begins to hold. */
inline begin(c) {
	j = 0;
	do
	:: j < C ->
		assert(j == c || !held[j]);
		if :: j != c && asked[j] > 0 -> crossed[j] = 1 :: else fi;
		j++
	:: else -> break
	od;
	j = 0;
	held[c] = 1
}

inline tick() {
	i = 0;
	do
	:: i < N ->
		if :: rem[i] > 0 -> rem[i]-- :: else fi;
		if :: rem[i] == 0 -> key[i] = 0 :: else fi;
		i++
	:: else -> break
	od;
	i = 0;
	do
	:: i < C ->
		if :: gain[i] > 0 -> gain[i]-- :: else fi;
		if :: gain[i] == 0 -> forget_extension(i) :: else fi;
		if
		:: left[i] > 0 ->
			left[i]--;
#ifdef MUTANT_LATE_EXTENSION
			if
			:: left[i] == 0 && gain[i] > 0 -> held[i] = 0; votes[i] = 0; CLEAR_HEIR(i)
			:: left[i] == 0 && gain[i] == 0 -> end(i)
			:: else
			fi
		:: left[i] == 0 && gain[i] == 0 -> end(i)
#else
			if :: left[i] == 0 -> end(i) :: else fi
#endif
		:: else
		fi;
		i++
	:: else -> break
	od;
	i = 0;
#if FORGET > 0
	do
	:: i < FORGET -> if :: seen[i] < QUARANTINE -> seen[i]++ :: else fi; i++
	:: else -> break
	od;
	i = 0
#endif
}

/* What a client decides by itself. */
#ifdef MUTANT_LATE_EXTENSION
#define IN_TIME(c) true
#else
#define IN_TIME(c) (left[c] > 0)
#endif
#ifdef MUTANT_FROM_DECISION
#define BEGIN_LEASE(c) left[c] = TTL
#else
#define BEGIN_LEASE(c) skip
#endif

#define CLIENT(c) \
	:: d_step { left[c] == 0 && gain[c] == 0; left[c] = TTL } \
	:: d_step { !held[c] && left[c] > 0 && VOTES(votes[c]) >= Q; begin(c); votes[c] = 0; BEGIN_LEASE(c) } \
	:: d_step { left[c] > 0; end(c) } \
	HAND_OVER(c) \
	EXTENSION(c)

#ifdef HANDOVER
#define HAND_OVER(c) :: d_step { held[c]; end(c); left[c] = TTL; heir[c] = 1 }
#else
#define HAND_OVER(c)
#endif

#ifdef EXTEND
#define ASK(c, t) :: d_step { t <= LONGEST && held[c] && asked[c] == 0; asked[c] = t; gain[c] = t }
#define EXTENSION(c) \
	ASK(c, 1) ASK(c, 2) ASK(c, 3) \
	:: d_step { asked[c] > 0 && left[c] > 0; forget_extension(c) } \
	:: d_step { asked[c] > 0 && IN_TIME(c) && VOTES(agreed[c]) >= Q; assert(!crossed[c]); begin(c); \
		left[c] = MAX(left[c], gain[c]); forget_extension(c) }
#else
#define EXTENSION(c)
#endif

/* What a node does for a live token: SET NX (a late copy as well), where the heir's
 * overwrites; a GET behind it that finds its own token; an extension, counted or given up. */
#define NODE_CLIENT(n, c) \
	:: d_step { left[c] > 0 && key[n] == 0; key[n] = LIVE(c); rem[n] = TTL; \
		if :: ADMITTED(n) && !held[c] -> votes[c] = votes[c] | BIT(n) :: else fi } \
	:: d_step { left[c] > 0 && !held[c] && key[n] == LIVE(c) && ADMITTED(n) && (votes[c] & BIT(n)) == 0; votes[c] = votes[c] | BIT(n) } \
	OVERWRITE(n, c) \
	EXTEND_AT(n, c)

#ifdef HANDOVER
#define OVERWRITE(n, c) \
	:: d_step { left[c] > 0 && heir[c] && key[n] == DEAD(c); key[n] = LIVE(c); rem[n] = TTL; \
		if :: OVERWRITTEN(n) && !held[c] -> votes[c] = votes[c] | BIT(n) :: else fi }
#else
#define OVERWRITE(n, c)
#endif

#ifdef EXTEND
#define GIVEN_UP(n, c, t) \
	:: d_step { t <= LONGEST && held[c] && key[n] == LIVE(c); PROLONG(n, t) } \
	:: d_step { t <= LONGEST && held[c] && key[n] == 0; key[n] = LIVE(c); rem[n] = t }
#define EXTEND_AT(n, c) \
	:: d_step { asked[c] > 0 && key[n] == LIVE(c); PROLONG(n, asked[c]); \
		if :: PROLONGED(n) -> agreed[c] = agreed[c] | BIT(n) :: else fi } \
	:: d_step { asked[c] > 0 && key[n] == 0; key[n] = LIVE(c); rem[n] = asked[c]; \
		if :: ADMITTED(n) -> agreed[c] = agreed[c] | BIT(n) :: else fi } \
	GIVEN_UP(n, c, 1) GIVEN_UP(n, c, 2) GIVEN_UP(n, c, 3)
#else
#define EXTEND_AT(n, c)
#endif

/* What a node does for dead tokens: releases, and requests that come late. */
#ifdef MUTANT_RELEASE_ANY
#define RELEASE(n, c) :: d_step { key[n] != 0; key[n] = 0; rem[n] = 0 }
#else
#define RELEASE(n, c) :: d_step { key[n] == DEAD(c); key[n] = 0; rem[n] = 0 }
#endif
#define STRAY(n, c, t) :: d_step { t <= LONGEST && key[n] == 0; key[n] = DEAD(c); rem[n] = t }
#ifdef EXTEND
#define NODE_DEAD(n, c) RELEASE(n, c) STRAY(n, c, 1) STRAY(n, c, 2) STRAY(n, c, 3)
#else
#define NODE_DEAD(n, c) RELEASE(n, c) STRAY(n, c, TTL)
#endif

#if FORGET > 0
#define RESTART(n) \
	:: d_step { n < FORGET; key[n] = 0; rem[n] = 0; seen[n % FORGET] = 0; mark[n % FORGET] = NONE } \
	:: d_step { n < FORGET; key[n] = 0; rem[n] = 0; seen[n % FORGET] = 0; mark[n % FORGET] = STALE } \
	:: d_step { n < FORGET && seen[n % FORGET] == QUARANTINE && mark[n % FORGET] != CURRENT; mark[n % FORGET] = CURRENT }
#else
#define RESTART(n)
#endif

#if C == 3
#define NODE(n) NODE_CLIENT(n, 0) NODE_CLIENT(n, 1) NODE_CLIENT(n, 2) NODE_DEAD(n, 0) NODE_DEAD(n, 1) NODE_DEAD(n, 2) RESTART(n)
#else
#define NODE(n) NODE_CLIENT(n, 0) NODE_CLIENT(n, 1) NODE_DEAD(n, 0) NODE_DEAD(n, 1) RESTART(n)
#endif

init {
#if FORGET > 0
	d_step {
		do
		:: i < FORGET -> mark[i] = CURRENT; seen[i] = QUARANTINE; i++
		:: else -> break
		od;
		i = 0
	}
#endif
	do
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
	od
}
