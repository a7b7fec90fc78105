/* Mutual exclusion by leases: C clients, N nodes, one key, one clock for all.
 *
 * Time is whole ticks, and everything that has a time holds what is left of it, so the
 * states are finitely many though neither the time nor the number of attempts has an
 * end. Each attempt has a fresh token. Only the token of a client's present attempt has
 * to be told from others: when an attempt ends, what it left at the nodes becomes "dead",
 * and a dead token's late requests may run for ever: they set a missing key with a fresh
 * TTL, and delete a key that holds a dead token.
 *
 * A live token may be asked for at any node, again and again, while its lease runs: so a
 * batch that is sent twice, and an attempt that asks once more because the votes were
 * split, need no steps of their own.
 *
 * REVOKE: somebody puts a tombstone in the place of any token, at any node and any time, with the TTL
 * that the key has. So a revocation may stop half way, and there may be any number of them. A
 * second round makes the tombstones outlast the lease of client 0: see BOUND.
 *
 * Nodes are alike, so they are kept sorted: states that differ in nodes' names are one.
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

#define LIVE(c) ((c) + 1)
#define DEAD(c) ((c) + 1 + C)
#define TOMBSTONE (2 * C + 1)
#define AT(c, n) ((c) * N + (n))
#if N == 5
#define COUNT(v, c) (v[AT(c, 0)] + v[AT(c, 1)] + v[AT(c, 2)] + v[AT(c, 3)] + v[AT(c, 4)])
#elif N == 4
#define COUNT(v, c) (v[AT(c, 0)] + v[AT(c, 1)] + v[AT(c, 2)] + v[AT(c, 3)])
#else
#define COUNT(v, c) (v[AT(c, 0)] + v[AT(c, 1)] + v[AT(c, 2)])
#endif

byte key[N];		/* 0: missing; else whose token */
byte rem[N];		/* what is left of its TTL */

byte left[C];		/* of the attempt or lease, from the attempt's start; 0: neither */
bit  held[C];		/* the client believes that it holds the lock */
bit  votes[C * N];	/* for the attempt */
byte asked[C];		/* the TTL of an extension that is under way; 0: none */
byte gain[C];		/* what is left of it, from its start */
bit  agreed[C * N];	/* the votes for it */
bit  crossed[C];	/* somebody else has begun to hold meanwhile */
#ifdef HANDOVER
bit  heir[C];		/* the attempt may overwrite the client's dead token */
#endif

#ifdef HANDOVER
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

#ifdef REVOKE
byte bound;		/* what is left of client 0's lease at most, by the tombstones; 0: not known */
byte level[N];		/* 1: the node's tombstone was there when that was found out, and is; 2: it lasts as long */
byte took;		/* so many were there */
bit  final;		/* all of these do */
bit  vain;		/* an extension was asked for since then */
#ifdef MUTANT_REVOKE_OLD_TTL
byte pttl[N];		/* what was left of the key when the revoker looked */
#endif
#endif

#ifdef MUTANT_STALE_READING
bit  stale[C];		/* a reading of the clock says that the deadline is still to come */
#endif

byte i, j, b;		/* scratch, 0 between the steps */

/* The nodes in the order of all that concerns them. */
#if C == 3
#define RANK3(n) (votes[AT(2, n)] * 2 + agreed[AT(2, n)])
#define SWAP3 SWAP(votes[AT(2, j)], votes[AT(2, j + 1)]); SWAP(agreed[AT(2, j)], agreed[AT(2, j + 1)]);
#else
#define RANK3(n) 0
#define SWAP3
#endif
#ifdef REVOKE
#define LEVEL(n) level[n]
#else
#define LEVEL(n) 0
#endif
#define RANK(n) ((((((key[n] * 8 + rem[n]) * 2 + votes[AT(0, n)]) * 2 + votes[AT(1, n)]) * 2 + agreed[AT(0, n)]) * 8 + agreed[AT(1, n)] * 4 + RANK3(n)) * 4 + LEVEL(n))
#define SWAP(x, y) b = x; x = y; y = b
#if defined(REVOKE) && defined(MUTANT_REVOKE_OLD_TTL)
#define SWAP_LEVEL SWAP(level[j], level[j + 1]); SWAP(pttl[j], pttl[j + 1]);
#elif defined(REVOKE)
#define SWAP_LEVEL SWAP(level[j], level[j + 1]);
#else
#define SWAP_LEVEL
#endif
inline sorted() {
	i = 1;
	do
	:: i < N ->
		j = 0;
		do
		:: j + i < N ->
			if
			:: RANK(j) > RANK(j + 1) ->
				SWAP(key[j], key[j + 1]); SWAP(rem[j], rem[j + 1]);
				SWAP(votes[AT(0, j)], votes[AT(0, j + 1)]); SWAP(votes[AT(1, j)], votes[AT(1, j + 1)]);
				SWAP(agreed[AT(0, j)], agreed[AT(0, j + 1)]); SWAP(agreed[AT(1, j)], agreed[AT(1, j + 1)]);
				SWAP3 SWAP_LEVEL
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
	:: j < N -> votes[AT(c, j)] = 0; j++
	:: else -> break
	od;
	j = 0
}
inline forget_agreed(c) {
	j = 0;
	do
	:: j < N -> agreed[AT(c, j)] = 0; j++
	:: else -> break
	od;
	j = 0
}
#ifdef REVOKE
inline forget_revocation() {
	bound = 0; took = 0; final = 0; vain = 0;
	j = 0;
	do
	:: j < N -> level[j] = 0; j++
	:: else -> break
	od;
	j = 0
}
#ifdef MUTANT_REVOKE_OLD_TTL
#define NOT_LOOKED(n) pttl[n] = 0
#else
#define NOT_LOOKED(n) skip
#endif
#define FORGET_REVOCATION(c) if :: c == 0 -> forget_revocation() :: else fi
#else
#define FORGET_REVOCATION(c) skip
#define NOT_LOOKED(n) skip
#endif
inline forget_extension(c) { asked[c] = 0; gain[c] = 0; crossed[c] = 0; forget_agreed(c) }

/* The attempt or hold ends. Its token is dead from now on: what it left at the nodes is released
 * late, or never. */
inline end(c) {
	left[c] = 0; held[c] = 0; forget_votes(c); CLEAR_HEIR(c);
	forget_extension(c); FORGET_REVOCATION(c);
	j = 0;
	do
	:: j < N -> if :: key[j] == LIVE(c) -> key[j] = DEAD(c); NOT_LOOKED(j) :: else fi; j++
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

#ifdef REVOKE
#define NOT_LEVEL(n) level[n] = 0; NOT_LOOKED(n)
#define TICK_BOUND if :: bound > 0 -> bound--; if :: bound == 0 -> forget_revocation() :: else fi :: else fi
#else
#define NOT_LEVEL(n) skip
#define TICK_BOUND skip
#endif

inline tick() {
	TICK_BOUND;
	i = 0;
	do
	:: i < N ->
		if :: rem[i] > 0 -> rem[i]-- :: else fi;
		if :: rem[i] == 0 -> key[i] = 0; NOT_LEVEL(i) :: else fi;
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
			:: left[i] == 0 && gain[i] > 0 -> held[i] = 0; forget_votes(i); CLEAR_HEIR(i)
			:: left[i] == 0 && gain[i] == 0 -> end(i)
			:: else
			fi
		:: left[i] == 0 && gain[i] == 0 -> end(i)
#elif defined(MUTANT_STALE_READING)
			if :: left[i] == 0 -> held[i] = 0; forget_votes(i); CLEAR_HEIR(i); stale[i] = 1 :: else fi
		:: stale[i] -> stale[i] = 0; end(i)
#else
			if :: left[i] == 0 -> end(i) :: else fi
#endif
		:: else
		fi;
		i++
	:: else -> break
	od;
	i = 0
}

/* What a client decides by itself. */
#ifdef MUTANT_LATE_EXTENSION
#define IN_TIME(c) true
#elif defined(MUTANT_STALE_READING)
#define IN_TIME(c) (left[c] > 0 || stale[c])
#else
#define IN_TIME(c) (left[c] > 0)
#endif
#ifdef MUTANT_FROM_DECISION
#define BEGIN_LEASE(c) left[c] = TTL
#else
#define BEGIN_LEASE(c) skip
#endif

#ifdef MUTANT_STALE_READING
#define SETTLED(c) !stale[c]
#else
#define SETTLED(c) true
#endif

#define CLIENT(c) \
	:: d_step { left[c] == 0 && gain[c] == 0 && SETTLED(c); left[c] = TTL } \
	:: d_step { !held[c] && left[c] > 0 && COUNT(votes, c) >= Q; begin(c); forget_votes(c); BEGIN_LEASE(c); sorted() } \
	:: d_step { left[c] > 0; end(c); sorted() } \
	HAND_OVER(c) \
	EXTENSION(c)

#ifdef HANDOVER
#define HAND_OVER(c) :: d_step { held[c]; end(c); left[c] = TTL; heir[c] = 1; sorted() }
#else
#define HAND_OVER(c)
#endif

#ifdef EXTEND
#ifdef REVOKE
#define NOT_VAIN(c) if :: c == 0 -> vain = 0 :: else fi
#define IN_VAIN(c) if :: c == 0 && final -> vain = 1 :: else fi
#define REVOKED(c) assert(c != 0 || !vain); assert(c != 0 || !final || gain[0] <= bound)
#else
#define IN_VAIN(c) skip
#define NOT_VAIN(c) skip
#define REVOKED(c) skip
#endif
#define ASK(c, t) :: d_step { t <= LONGEST && held[c] && asked[c] == 0; asked[c] = t; gain[c] = t; IN_VAIN(c) }
#ifdef MUTANT_STALE_READING
#define SET_STALE(c) stale[c] = 0; held[c] = 1
#else
#define SET_STALE(c) skip
#endif
#define EXTENSION(c) \
	ASK(c, 1) ASK(c, 2) ASK(c, 3) \
	:: d_step { asked[c] > 0 && left[c] > 0; forget_extension(c); NOT_VAIN(c); sorted() } \
	:: d_step { asked[c] > 0 && IN_TIME(c) && COUNT(agreed, c) >= Q; assert(!crossed[c]); REVOKED(c); begin(c); \
		left[c] = MAX(left[c], gain[c]); SET_STALE(c); forget_extension(c); sorted() }
#else
#define EXTENSION(c)
#endif

/* What a node does for a live token: SET NX (a late copy as well), where the heir's
 * overwrites; a GET behind it that finds its own token; an extension, counted or given up. */
#define NODE_CLIENT(n, c) \
	:: d_step { left[c] > 0 && key[n] == 0; key[n] = LIVE(c); rem[n] = TTL; \
		if :: !held[c] -> votes[AT(c, n)] = 1 :: else fi; sorted() } \
	:: d_step { left[c] > 0 && !held[c] && key[n] == LIVE(c) && !votes[AT(c, n)]; votes[AT(c, n)] = 1; sorted() } \
	OVERWRITE(n, c) \
	EXTEND_AT(n, c)

#ifdef HANDOVER
#define OVERWRITE(n, c) \
	:: d_step { left[c] > 0 && heir[c] && key[n] == DEAD(c); key[n] = LIVE(c); rem[n] = TTL; \
		if :: !held[c] -> votes[AT(c, n)] = 1 :: else fi; sorted() }
#else
#define OVERWRITE(n, c)
#endif

#ifdef EXTEND
#define GIVEN_UP(n, c, t) \
	:: d_step { t <= LONGEST && held[c] && key[n] == LIVE(c); PROLONG(n, t); sorted() } \
	:: d_step { t <= LONGEST && held[c] && key[n] == 0; key[n] = LIVE(c); rem[n] = t; sorted() }
#define EXTEND_AT(n, c) \
	:: d_step { asked[c] > 0 && key[n] == LIVE(c); PROLONG(n, asked[c]); agreed[AT(c, n)] = 1; sorted() } \
	:: d_step { asked[c] > 0 && key[n] == 0; key[n] = LIVE(c); rem[n] = asked[c]; agreed[AT(c, n)] = 1; sorted() } \
	GIVEN_UP(n, c, 1) GIVEN_UP(n, c, 2) GIVEN_UP(n, c, 3)
#else
#define EXTEND_AT(n, c)
#endif

/* What a node does for dead tokens: releases, and requests that come late. */
#ifdef MUTANT_RELEASE_ANY
#define RELEASE(n, c) :: d_step { key[n] != 0; key[n] = 0; rem[n] = 0; sorted() }
#else
#define RELEASE(n, c) :: d_step { key[n] == DEAD(c); key[n] = 0; rem[n] = 0; sorted() }
#endif
#define STRAY(n, c, t) :: d_step { t <= LONGEST && key[n] == 0; key[n] = DEAD(c); rem[n] = t; sorted() }
#ifdef EXTEND
#define NODE_DEAD(n, c) RELEASE(n, c) STRAY(n, c, 1) STRAY(n, c, 2) STRAY(n, c, 3)
#else
#define NODE_DEAD(n, c) RELEASE(n, c) STRAY(n, c, TTL)
#endif

/* A revocation. Each node does its part at one moment, without looking at the others.
 *
 * BOUND: a lease that runs has a quorum of nodes that keep the key for at least as long, by the token or
 * by the tombstone in its place. With T tombstones at least Q - (N - T) of these are among them: so it
 * ends when the (Q - (N - T))th last of the tombstones does. Then all T are made to last so long. When
 * they do, and are N - Q + 1 or more, no extension gets a quorum any more. */
#ifdef REVOKE
#if defined(MUTANT_REVOKE_BY_DEL)
#define BURY(n) key[n] = 0; rem[n] = 0
#define LOOK(n)
#elif defined(MUTANT_REVOKE_OLD_TTL)
#define BURY(n) key[n] = TOMBSTONE; rem[n] = pttl[n]; pttl[n] = 0
#define LOOK(n) :: d_step { key[n] != 0 && key[n] <= C && pttl[n] != rem[n]; pttl[n] = rem[n]; sorted() }
#else
#define BURY(n) key[n] = TOMBSTONE
#define LOOK(n)
#endif
#ifdef MUTANT_REVOKE_OLD_TTL
#define LOOKED(n) (pttl[n] > 0)
#else
#define LOOKED(n) true
#endif
#define IS_TOMBSTONE(n) (key[n] == TOMBSTONE -> 1 : 0)
#if N >= 4
#define LEVEL_3 level[3] = IS_TOMBSTONE(3)
#else
#define LEVEL_3 skip
#endif
#if N == 5
#define LEVEL_4 level[4] = IS_TOMBSTONE(4)
#else
#define LEVEL_4 skip
#endif
#if N == 5
#define SUM(of) (of(0) + of(1) + of(2) + of(3) + of(4))
#elif N == 4
#define SUM(of) (of(0) + of(1) + of(2) + of(3))
#else
#define SUM(of) (of(0) + of(1) + of(2))
#endif
#define LASTS_2(n) (key[n] == TOMBSTONE && rem[n] >= 2 -> 1 : 0)
#define LASTS_3(n) (key[n] == TOMBSTONE && rem[n] >= 3 -> 1 : 0)
#define ENOUGH (N - Q + 1)
#if defined(MUTANT_REVOKE_ONE_ROUND)
#define FINAL (SUM(IS_TOMBSTONE) >= ENOUGH)
#elif defined(MUTANT_REVOKE_SOME_LAST)
#define FINAL (SUM(IS_LEVEL) >= ENOUGH)
#else
#define FINAL (SUM(IS_LEVEL) >= took)
#endif
#define IS_LEVEL(n) (level[n] == 2 -> 1 : 0)
#ifdef MUTANT_REVOKE_ANY_TOMBSTONE
#define KNOWN(n) (key[n] == TOMBSTONE && level[n] < 2)
#else
#define KNOWN(n) (level[n] == 1)
#endif
#define REVOKE_AT(n) \
	:: d_step { key[n] != 0 && key[n] != TOMBSTONE && LOOKED(n); BURY(n); sorted() } \
	:: d_step { bound > 0 && KNOWN(n); level[n] = 2; rem[n] = MAX(rem[n], bound); sorted() } \
	LOOK(n)
#ifdef MUTANT_REVOKE_OLD_TTL
#define REVOKER
#else
#define REVOKER \
	:: d_step { held[0] && bound == 0 && SUM(IS_TOMBSTONE) >= ENOUGH; took = SUM(IS_TOMBSTONE); b = Q - (N - took); \
		bound = (SUM(LASTS_3) >= b -> 3 : (SUM(LASTS_2) >= b -> 2 : 1)); b = 0; \
		level[0] = IS_TOMBSTONE(0); level[1] = IS_TOMBSTONE(1); level[2] = IS_TOMBSTONE(2); \
		LEVEL_3; LEVEL_4; sorted() } \
	:: d_step { bound > 0 && !final && FINAL; assert(left[0] <= bound); final = 1 }
#endif
#else
#define REVOKE_AT(n)
#define REVOKER
#endif

#if C == 3
#define NODE(n) NODE_CLIENT(n, 0) NODE_CLIENT(n, 1) NODE_CLIENT(n, 2) NODE_DEAD(n, 0) NODE_DEAD(n, 1) NODE_DEAD(n, 2) REVOKE_AT(n)
#else
#define NODE(n) NODE_CLIENT(n, 0) NODE_CLIENT(n, 1) NODE_DEAD(n, 0) NODE_DEAD(n, 1) REVOKE_AT(n)
#endif

init {
	do
	:: d_step { tick(); sorted() }
	CLIENT(0)
	CLIENT(1)
#if C == 3
	CLIENT(2)
#endif
	REVOKER
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
