/* Deadlocks between processes: whether an acquire is told of one that never was, and whether each
 * real one ends.
 *
 * Process j has locked key j, and under that lock waits for the key of another. While it waits it writes at
 * the nodes, beside the key that it holds, an edge: the name of its wait, and the key that it waits for. An edge stays
 * behind when the wait has ended, and a write may run at any later time, past others: it may put back an old edge.
 *
 * Process 0 looks for a ring. It walks from its own wait along the edges, back to its own key. Then it
 * writes a nonce, a fresh one for each walk, beside each key of the ring. Who refreshes an edge has read the nonce before, and
 * writes it into the edge. A second walk counts an edge if it has the wait's name of the first walk, and the nonce.
 * The walk ends if its own wait ends. A walk reads any node, one at a time.
 *
 * What must hold: when it gives up for the ring, there was a moment since the first walk began at which each
 * process of the ring waited for the next one's key, and held its own.
 *
 * LATE: writes of processes up to this one may run late, one at a time beside any number of others.
 * RING: each process waits for the next one's key. Otherwise for any other's.
 *
 * PROGRESS: the ring is there, and stays. All refresh their edges. The youngest of a ring, the one with the greatest number, walks
 * and gives up. What must hold, with every process going on (weak fairness): some process gives up, and of one ring only one does.
 * OVERLAP: two rings, of processes 0 and 1 and of 0 and 2, since 0 has two waits under its lock.
 *
 * Three reductions, all exact. An edge does not expire, and a write that runs late may be lost only to a later one: a walk may
 * always pass by what it could read, so what is missing adds nothing. A nonce is one bit, whether it is that of the walk under way: those of earlier walks
 * never count again. The name of a new wait is the least that nothing refers to.
 */
#ifndef P
#define P 2
#endif

#ifndef PROGRESS

#ifndef NODES
#define NODES 1
#endif
#ifndef LATE
#define LATE (P - 1)
#endif
#define NAMES (2 * NODES + 3)
#define AT(j, n) ((j) * NODES + (n))

#define NOTHING 0
#define WAITS 1
#define HOLDS_NOTHING 2	/* the wait goes on, but the lock that it worked for has ended */

/* The processes; of process 0 only what it walks for. */
byte state[P];
byte name[P];		/* of the wait; 0: none */
byte to[P];		/* the key that it waits for */
bit heard[P];		/* has read the nonce */

/* The nodes, beside each key. */
bit ask[P * NODES];	/* the nonce */
byte edge[P * NODES];	/* the name of the wait; 0: none */
byte edgeTo[P * NODES];
bit echo[P * NODES];

/* A write that runs later. */
byte late[P * NODES];
byte lateTo[P * NODES];
bit lateEcho[P * NODES];

/* The walk. */
byte phase;		/* 0: none, 1: first walk, 2: nonces, 3: second walk */
byte at;		/* the key that the first walk has come to */
byte seen[P];		/* the names that it has found; 0: not in the ring */
byte seenTo[P];
bit confirmed[P];
bit was[4];		/* the rings that were there at a moment of the walk: 0-1, 0-2, 0-1-2, 0-2-1 */

#ifdef MUTANT_SAME_NONCE
#define FRESH_NONCE skip
#else
#define FRESH_NONCE \
	k = 0; \
	do \
	:: k < P * NODES -> ask[k] = 0; echo[k] = 0; lateEcho[k] = 0; k++ \
	:: else -> break \
	od; \
	k = 0; \
	do \
	:: k < P -> heard[k] = 0; k++ \
	:: else -> break \
	od
#endif

inline forget() {	/* the walk is over */
	k = 0;
	do
	:: k < P -> seen[k] = 0; seenTo[k] = 0; confirmed[k] = 0; k++
	:: else -> break
	od;
	phase = 0; at = 0; was[0] = 0; was[1] = 0; was[2] = 0; was[3] = 0;
	FRESH_NONCE;
	k = 0
}

/* The least name that nothing refers to. */
inline begin(j, key) {
	k = 1;
	do
	:: k <= NAMES ->
		used = (seen[j] == k);
		m = 0;
		do
		:: m < NODES -> used = used || edge[AT(j, m)] == k || late[AT(j, m)] == k; m++
		:: else -> break
		od;
		m = 0;
		if :: !used -> break :: else -> k++ fi
	od;
	assert(k <= NAMES);
	state[j] = WAITS; name[j] = k; to[j] = key; k = 0; used = 0
}

inline end(j) { state[j] = NOTHING; name[j] = 0; to[j] = 0 }

#ifdef MUTANT_WAIT_ALONE
#define REFRESHES(j) (state[j] != NOTHING)
#define LETS_GO(j) :: d_step { state[j] == WAITS; state[j] = HOLDS_NOTHING }
#else	/* what ends with the lock, or with the wait, is the same: the edge is not refreshed any more */
#define REFRESHES(j) (state[j] == WAITS)
#define LETS_GO(j)
#endif
#ifdef MUTANT_ECHO_AT_NODE	/* a script writes the nonce that it finds: how fresh the write is, not its message */
#define ECHO(j, n) ask[AT(j, n)]
#define LATE_ECHO(j, n) ask[AT(j, n)]
#else
#define ECHO(j, n) heard[j]
#define LATE_ECHO(j, n) lateEcho[AT(j, n)]
#endif

#define PROCESS(j, n) \
	:: d_step { REFRESHES(j); edge[AT(j, n)] = name[j]; edgeTo[AT(j, n)] = to[j]; echo[AT(j, n)] = ECHO(j, n) } \
	:: d_step { REFRESHES(j) && j <= LATE; late[AT(j, n)] = name[j]; lateTo[AT(j, n)] = to[j]; lateEcho[AT(j, n)] = heard[j] } \
	:: d_step { late[AT(j, n)] != 0; edge[AT(j, n)] = late[AT(j, n)]; edgeTo[AT(j, n)] = lateTo[AT(j, n)]; echo[AT(j, n)] = LATE_ECHO(j, n); \
		late[AT(j, n)] = 0; lateTo[AT(j, n)] = 0; lateEcho[AT(j, n)] = 0 } \
	:: d_step { !heard[j] && ask[AT(j, n)]; heard[j] = 1 }

#define LIFE(j) \
	:: d_step { state[j] != NOTHING; end(j) } \
	LETS_GO(j)

#define BEGIN(j, key) :: d_step { state[j] == NOTHING; begin(j, key); if :: phase != 0 -> NOTE :: else fi }

#define TOWARDS(j, key) (state[j] == WAITS && to[j] == key)
#if P == 2
#define NOTE was[0] = was[0] || TOWARDS(1, 0)
#define REAL was[0]
#define ALL_CONFIRMED confirmed[1]
#else
#define NOTE \
	was[0] = was[0] || TOWARDS(1, 0); was[1] = was[1] || TOWARDS(2, 0); \
	was[2] = was[2] || TOWARDS(1, 2) && TOWARDS(2, 0); was[3] = was[3] || TOWARDS(2, 1) && TOWARDS(1, 0)
#define REAL (seen[2] == 0 -> was[0] : (seen[1] == 0 -> was[1] : (seenTo[1] == 2 -> was[2] : was[3])))
#define ALL_CONFIRMED ((seen[1] == 0 || confirmed[1]) && (seen[2] == 0 || confirmed[2]))
#endif

#ifdef MUTANT_ANY_NAME
#define SAME(j, n) (edge[AT(j, n)] != 0)
#else
#define SAME(j, n) (edge[AT(j, n)] == seen[j])
#endif
#ifdef MUTANT_NO_NONCE
#define FRESH(j, n) true
#else
#define FRESH(j, n) echo[AT(j, n)]
#endif

#ifdef MUTANT_NONCE_FIRST
#define ASK(j, n) :: d_step { phase == 1 && !ask[AT(j, n)]; ask[AT(j, n)] = 1 }
#else
#define ASK(j, n) :: d_step { phase == 2 && seen[j] != 0 && !ask[AT(j, n)]; ask[AT(j, n)] = 1; }
#endif

#define WALK(j, n) \
	:: d_step { phase == 1 && at == j && seen[j] == 0 && edge[AT(j, n)] != 0 && (edgeTo[AT(j, n)] == 0 || seen[edgeTo[AT(j, n)]] == 0); \
		seen[j] = edge[AT(j, n)]; seenTo[j] = edgeTo[AT(j, n)]; at = seenTo[j]; \
		if \
		:: at == 0 -> phase = 2 \
		:: else \
		fi } \
	ASK(j, n) \
	:: d_step { phase == 3 && seen[j] != 0 && !confirmed[j] && SAME(j, n) && edgeTo[AT(j, n)] == seenTo[j] && FRESH(j, n); confirmed[j] = 1 }

active proctype model() {
	byte k, m;
	bit used;
	do
	PROCESS(1, 0) WALK(1, 0)
#if NODES == 2
	PROCESS(1, 1) WALK(1, 1)
#endif
	LIFE(1)
	BEGIN(1, 0)
#if P == 3
	PROCESS(2, 0) WALK(2, 0)
#if NODES == 2
	PROCESS(2, 1) WALK(2, 1)
#endif
	LIFE(2)
	BEGIN(2, 0)
#ifndef RING
	BEGIN(2, 1)
#endif
#endif
#if P == 3
	BEGIN(1, 2)
#endif
	/* Process 0: a wait that begins, and a walk; both may end at any time. */
	:: d_step { phase == 0; phase = 1; at = 1; NOTE }
#if P == 3 && !defined(RING)
	:: d_step { phase == 0; phase = 1; at = 2; NOTE }
#endif
	:: d_step { phase != 0; forget() }
	:: phase == 2 -> phase = 3
#ifdef MUTANT_ONE_WALK
	:: phase == 2 -> assert(REAL); d_step { forget() }
#endif
	:: phase == 3 && ALL_CONFIRMED -> assert(REAL); d_step { forget() }
	od
}

#else /* PROGRESS */

bit gone[P];		/* has given up */
byte victims;
byte ask[P * P];	/* beside the key: what each walker has asked */
byte echo[P * P];	/* in its edge */
byte slot[P];		/* ONE_SLOT: the walker whose nonce is there; 0: none, else 1 + who */
byte echoSlot[P];

#ifdef OVERLAP
#define RINGS 2
#define MEMBER(w, j) ((w) == (j) || (j) == 0)	/* 1 and 2 walk; each its own ring with 0 */
#define YOUNGEST(w) ((w) != 0)
#else
#define RINGS 1
#define MEMBER(w, j) true
#ifdef MUTANT_NEXT_ONE
#define YOUNGEST(w) true
#else
#define YOUNGEST(w) (w == P - 1)
#endif
#endif

#ifdef MUTANT_ONE_SLOT
#define ASKED(w, j) (slot[j] == (w) + 1)
#define WRITE(w, j) slot[j] = (w) + 1
#define REFRESH(j) echoSlot[j] = slot[j]
#define ECHOED(w, j) (echoSlot[j] == (w) + 1)
#else
#define ASKED(w, j) ask[(w) * P + (j)]
#define WRITE(w, j) ask[(w) * P + (j)] = 1
#define REFRESH(j) k = 0; do :: k < P -> echo[k * P + (j)] = ask[k * P + (j)]; k++ :: else -> break od; k = 0
#define ECHOED(w, j) echo[(w) * P + (j)]
#endif

/* A waiter refreshes its edge as long as it waits. */
active [P] proctype Waiter() {
	byte j, k;
	j = _pid;
	do
	:: d_step { !gone[j] -> REFRESH(j) }
	:: gone[j] -> break
	od
}

/* The edges do not change, so a walk finds its ring. Those that a nonce is missing from are asked. */
active [P] proctype Walker() {
	byte w, j;
	bit all;
	w = _pid - P;
	YOUNGEST(w);
	do
	:: j < P ->
		if
		:: j == w || !MEMBER(w, j) || ASKED(w, j)
		:: else -> WRITE(w, j)
		fi;
		j++
	:: else ->
		d_step {
			j = 0; all = true;
			do
			:: j < P -> all = all && (j == w || !MEMBER(w, j) || ECHOED(w, j) && !gone[j]); j++
			:: else -> break
			od;
			j = 0
		}
		if
		:: all -> d_step { gone[w] = 1; victims++ } break
		:: else
		fi
	od;
	assert(victims <= RINGS);
	do
	:: victims == RINGS ->
progress:
		skip
	od
}
#endif
