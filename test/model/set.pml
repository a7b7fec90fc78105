/* Two sets of nodes: clients that are deployed with the nodes 0 to OLD-1, and clients with the
 * nodes 0 to N-1, each with a majority of its own set for a quorum.
 *
 * A node lists a set in its record, and a client that the node does not list gets no vote there.
 * Each set has one client: that two of the same set exclude each other is searched in guard.pml.
 *
 * Nodes forget, as in guard.pml: a record is lost with the keys, and written anew in the quarantine.
 *
 * There is no time here. A lease ends when its client says so, and never before at a node; a
 * quarantine ends when all attempts and leases have ended that were there at the loss. Whatever is
 * left of a token that is dead counts as missing (guard.pml says why).
 */
#ifndef OLD
#define OLD 3
#endif
#ifndef N
#define N 5
#endif
#ifndef FORGET
#define FORGET 2	/* so many of the old nodes may lose keys, again and again */
#endif
#define C 2		/* clients: 0 with the old set, 1 with the new one */

#define SET(c)    ((c) + 1)
#define SIZE(c)   ((c) == 0 -> OLD : N)
#define QUORUM(c) (SIZE(c) / 2 + 1)
#define BIT(c)    (1 << (c))
#define AT(c, n)  at[(c) * N + (n)]

byte key[N];		/* 0: missing; else 1 + whose token */
byte record[N];		/* 0: missing; else the set that the node lists */
bit  admitted[N];
byte before[N];		/* the clients whose attempt or lease was there at the last loss */
byte sent[N];		/* SET NX of a record that were sent: a bit for each set. They run late */

#define NOTHING 0
#define GRANT   1	/* the look is still to come */
#define VOTE    2
byte at[C * N];
bit  live[C];
bit  held[C];

byte i;			/* scratch, 0 between the steps */

#if N == 5
#define VOTES(c) ((AT(c, 0) == VOTE) + (AT(c, 1) == VOTE) + (AT(c, 2) == VOTE) + (AT(c, 3) == VOTE) + (AT(c, 4) == VOTE))
#else
#define VOTES(c) ((AT(c, 0) == VOTE) + (AT(c, 1) == VOTE) + (AT(c, 2) == VOTE) + (AT(c, 3) == VOTE))
#endif

inline end(c) {
	live[c] = 0; held[c] = 0;
	i = 0;
	do
	:: i < N ->
		AT(c, i) = NOTHING;
		before[i] = before[i] & ~BIT(c);
		if :: key[i] == c + 1 -> key[i] = 0 :: else fi;
		i++
	:: else -> break
	od;
	i = 0
}

#ifdef MUTANT_UNLISTED
#define LISTED(c, n) true
#else
#define LISTED(c, n) (record[n] == SET(c))
#endif

/* Who may write a record: whoever has read the same one at another node that is admitted, or has
 * found all nodes of its set without admission, but for at most one that did not answer. */
#define READ(c, n, m) ((n) != m && admitted[m] && record[m] == SET(c))
#define ENDED3 (!admitted[0] + !admitted[1] + !admitted[2])
#if N == 5
#define ENDED(c) (ENDED3 + ((c) == 1) * (!admitted[3] + !admitted[4]))
#else
#define ENDED(c) (ENDED3 + ((c) == 1) * !admitted[3])
#endif
#if defined(MUTANT_ANYBODY)
#define WITNESSED(c, n) true
#elif N == 5
#define WITNESSED(c, n) (ENDED(c) >= SIZE(c) - 1 || READ(c, n, 0) || READ(c, n, 1) || READ(c, n, 2) || (c) == 1 && (READ(c, n, 3) || READ(c, n, 4)))
#else
#define WITNESSED(c, n) (ENDED(c) >= SIZE(c) - 1 || READ(c, n, 0) || READ(c, n, 1) || READ(c, n, 2) || (c) == 1 && READ(c, n, 3))
#endif

#ifdef AT_ONCE
#define MAY_LOSE(n) true
#else
/* As long as one old node is not admitted, no second one loses its keys. */
#define MAY_LOSE(n) (ENDED3 == 0 || ENDED3 == 1 && !admitted[n])
#endif

#define CLIENT(c) \
	:: d_step { !live[c]; live[c] = 1 } \
	:: d_step { live[c]; end(c) } \
	:: d_step { live[c] && !held[c] && VOTES(c) >= QUORUM(c); assert(!held[1 - c]); held[c] = 1 }

#define AT_NODE(n, c) \
	:: d_step { n < SIZE(c) && live[c] && !held[c] && key[n] == 0; key[n] = c + 1; if :: AT(c, n) == NOTHING -> AT(c, n) = GRANT :: else fi } \
	:: d_step { AT(c, n) == GRANT && admitted[n] && LISTED(c, n); AT(c, n) = VOTE }

#define RECORD(n, c) \
	:: d_step { n < SIZE(c) && (sent[n] & SET(c)) == 0 && WITNESSED(c, n); sent[n] = sent[n] | SET(c) } \
	:: d_step { record[n] == 0 && (sent[n] & SET(c)) != 0; record[n] = SET(c); sent[n] = sent[n] & ~SET(c) }

#define LIVING (live[0] + 2 * live[1])

/* FLUSHALL, a restart, or a promotion that has lost both or the key alone. */
#define LOSS(n) \
	:: d_step { n < FORGET && MAY_LOSE(n); key[n] = 0; record[n] = 0; admitted[n] = 0; before[n] = LIVING } \
	:: d_step { n < FORGET && MAY_LOSE(n); key[n] = 0; admitted[n] = 0; before[n] = LIVING } \
	:: d_step { !admitted[n] && record[n] != 0 && before[n] == 0; admitted[n] = 1 }

#define NODE(n) AT_NODE(n, 0) AT_NODE(n, 1) RECORD(n, 0) RECORD(n, 1) LOSS(n)

init {
	d_step {
		do
		:: i < OLD -> record[i] = 1; admitted[i] = 1; i++
		:: i >= OLD && i < N ->
#ifdef MUTANT_UNLISTED
			admitted[i] = 1;
#endif
			i++
		:: else -> break
		od;
		i = 0
	}
	do
	CLIENT(0)
	CLIENT(1)
	NODE(0)
	NODE(1)
	NODE(2)
	NODE(3)
#if N == 5
	NODE(4)
#endif
	od
}
