/* The line of those who wait for one key: whether somebody is kept out for ever.
 *
 * Clients take one key, without end, at the nodes that answer: UP of three, with a quorum of 2. There
 * are no leases of locks: a hold ends because its process goes on. Each process asks the nodes in any
 * order, one at a time, with others between; whoever has no quorum gives back what it has, and
 * tries again at once.
 *
 * A wait has a place, the same at all nodes: who began earlier is before. A node that refuses somebody
 * enters it in its line. It gives a free key to nobody who has another one before him. From its second
 * try on a wait is entered where it is granted as well, for it may have to give back. Who has the key
 * leaves the line at all nodes, after that: the requests may be late.
 *
 * DEAD: client 2 dies while it waits, once. Its entries end after that, at any time.
 *
 * FORGETS: a node loses its line, once, at any time.
 *
 * STRANGER: client 1 knows no lines: it takes the key wherever it is free.
 *
 * What must hold, with every process going on (weak fairness): the client VICTIM is served again and
 * again.
 */
#ifndef UP
#define UP 2
#endif
#ifndef VICTIM
#define VICTIM 0
#endif
#ifndef CLIENTS
#define CLIENTS 3
#endif
#define Q 2
#define ALL ((1 << UP) - 1)
#define BIT(n) (1 << (n))
#define HAS(set, n) (((set) >> (n)) & 1)
#define COUNT(set) (HAS(set, 0) + HAS(set, 1) + HAS(set, 2))

byte holder[UP];	/* 0: nobody; else 1 + who */
byte line[UP];		/* a bit for each client */
byte younger[CLIENTS];	/* than the client: a bit for each of the others */

/* Whether one of those in the line of node n is before me. */
#define OLDER(c) (HAS(line[n], c) && HAS(younger[c], me))
#ifdef MUTANT_NO_LINE
#define REFUSES (holder[n] != 0)
#elif CLIENTS == 3
#define REFUSES (holder[n] != 0 || OBEYS && (OLDER(0) || OLDER(1) || OLDER(2)))
#else
#define REFUSES (holder[n] != 0 || OBEYS && (OLDER(0) || OLDER(1)))
#endif
#if defined(STRANGER)
#define OBEYS (me != 1)
#elif defined(MUTANT_NEWCOMER_FIRST)
#define OBEYS again
#else
#define OBEYS true
#endif
#ifdef STRANGER
#define ENTER if :: me != 1 -> line[n] = line[n] | BIT(me) :: else fi
#else
#define ENTER line[n] = line[n] | BIT(me)
#endif
#ifdef MUTANT_LEFT_BY_GRANT
#define GRANTED line[n] = line[n] & ~BIT(me)
#else
#define GRANTED if :: again -> ENTER :: else fi
#endif
#ifdef MUTANT_NEW_PLACE
#define AGAIN begin()
#else
#define AGAIN skip
#endif

#define ASK(node) \
	:: d_step { !HAS(asked, node); asked = asked | BIT(node); n = node; \
		if \
		:: REFUSES -> ENTER \
		:: else -> got = got | BIT(node); holder[n] = me + 1; GRANTED \
		fi; n = 0 }
#define GIVE_BACK(node) :: d_step { HAS(got, node); got = got & ~BIT(node); holder[node] = 0 }
#define LEAVE(node) :: d_step { HAS(asked, node); asked = asked & ~BIT(node); line[node] = line[node] & ~BIT(me) }
#if UP == 3
#define EACH(DO) DO(0) DO(1) DO(2)
#else
#define EACH(DO) DO(0) DO(1)
#endif

/* A wait begins: the client is the youngest. */
inline begin() {
	d_step {
		do
		:: n < CLIENTS -> if :: n != me -> younger[n] = younger[n] | BIT(me) :: else fi; n++
		:: else -> break
		od;
		n = 0; younger[me] = 0
	}
}

proctype Client(byte me) {
	byte asked, got, n;
	bit again;
	do
	:: begin();
		again = 0;
		do
		:: do
			EACH(ASK)
			:: asked == ALL -> break
			od;
#ifdef DEAD
			if
			:: me == 2 -> goto dies
			:: else
			fi;
#endif
			if
			:: COUNT(got) >= Q -> break
			:: else ->
				do
				EACH(GIVE_BACK)
				:: got == 0 -> break
				od;
				asked = 0; again = 1;
				AGAIN
			fi
		od;
		if
		:: me == VICTIM ->
progress:
			skip
		:: else
		fi;
		do
		EACH(LEAVE)
		:: asked == 0 -> break
		od;
		do
		EACH(GIVE_BACK)
		:: got == 0 -> break
		od
	od;
#ifdef DEAD
dies:
	/* Its votes expire, and the places that it has in lines. */
	do
	EACH(GIVE_BACK)
	:: got == 0 -> break
	od;
#ifndef MUTANT_NO_LEASE
	do
	EACH(LEAVE)
	:: asked == 0 -> break
	od
#endif
#endif
	skip
}

#ifdef FORGETS
proctype Restart() {
	d_step { line[0] = 0 }
}
#endif

init {
	atomic {
		run Client(0);
		run Client(1);
#if CLIENTS == 3
		run Client(2);
#endif
#ifdef FORGETS
		run Restart()
#endif
	}
}
