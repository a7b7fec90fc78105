/* One line for all that wait for a key: whether somebody is kept out for ever.
 *
 * What is modelled. Clients take one key, without end, at the nodes that answer: UP of three, with a quorum of 2. A
 * process asks the nodes in any order, one at a time, with others between; whoever has no quorum gives back what it
 * has, and tries again at once. There are no leases of locks: a hold ends because its process goes on.
 *
 * Client c is of the class Cc:
 *   X takes the key alone, and heeds the line from its first try on: WithFairness, a set of keys, a writer.
 *   R reads. Readers do not exclude each other, so tickets of readers do not hold it off.
 *   P takes the key alone. Its first try is SET NX, which sees no line, unless P knows that somebody waits. It learns that
 *     by a release (PUBLISH says whether anybody listens), and forgets it by a try that finds nobody else in line.
 *   H is P in a process that hands the key to its next waiter, up to CAP times running, unless it knows that somebody
 *     else waits.
 *
 * A wait has a rank, the same at all nodes: who began earlier is before. A node refuses whoever has a ticket before him
 * whose class excludes his. It puts a ticket for whoever it refuses; from the second try of a wait on also where it grants, for
 * he may have to give back. Who has the key takes his tickets away after that, at one node after the other.
 *
 * DEAD: client 2 may die while it waits. Its votes and its tickets end at any time after that.
 *
 * FORGETS: a node loses its line, once, at any time.
 *
 * Assumed: every process goes on (weak fairness), and a ticket does not expire while its owner waits.
 *
 * Claimed: the client VICTIM is served again and again.
 */
#define X 1
#define R 2
#define P 3
#define H 4
#ifndef UP
#define UP 2
#endif
#ifndef VICTIM
#define VICTIM 0
#endif
#ifndef CLIENTS
#define CLIENTS 3
#endif
#ifndef C0
#define C0 X
#endif
#ifndef C1
#define C1 X
#endif
#ifndef C2
#define C2 X
#endif
#define CAP 1		/* 8 in the code: more of the same */
#define Q 2
#define ALL ((1 << UP) - 1)
#define BIT(n) (1 << (n))
#define HAS(set, n) (((set) >> (n)) & 1)
#define COUNT(set) (HAS(set, 0) + HAS(set, 1) + HAS(set, 2))
#define CLASS(c) (((c) == 0) * (C0) + ((c) == 1) * (C1) + ((c) == 2) * (C2))
#define READS (CLASS(me) == R)
#define PLAIN (CLASS(me) >= P)
#define READERS (((C0) == R) + 2 * ((C1) == R) + 4 * (CLIENTS == 3 && (C2) == R))
#define OTHERS (7 & ~BIT(me))

byte holder[UP];	/* 0: nobody; else 1 + who has the key alone */
byte shares[UP];	/* who reads */
byte line[UP];		/* whose tickets stand there */
byte older[CLIENTS];	/* who began to wait before the client */
byte waits;		/* who was refused and goes on waiting: they listen */
byte knows;		/* who of P and H knows that somebody waits */
#ifdef MUTANT_ONE_PASSES
byte passed[UP];	/* whose tickets somebody has passed since their owner's last look */
#endif

/* The tickets at node n that are before mine and exclude me. */
#if defined(MUTANT_READERS_HEED_NOBODY)
#define BEFORE (READS -> 0 : (line[n] & older[me]))
#elif defined(MUTANT_READERS_HAVE_NO_TICKET)
#define BEFORE (line[n] & older[me] & ~READERS)
#else
#define BEFORE (READS -> (line[n] & older[me] & ~READERS) : (line[n] & older[me]))
#endif
#if defined(MUTANT_ONE_PASSES)
#define HELD_OFF (HEEDS && (BEFORE & passed[n]) != 0)
#define LOOK passed[n] = passed[n] & ~BIT(me)
#define PASS passed[n] = passed[n] | BEFORE
#else
#define HELD_OFF (HEEDS && BEFORE != 0)
#define LOOK skip
#define PASS skip
#endif
#define KNOWS (!PLAIN || again || HAS(knows, me))
#if defined(MUTANT_NO_LINE)
#define HEEDS false
#elif defined(MUTANT_NEWCOMER_FIRST)
#define HEEDS again
#else
#define HEEDS KNOWS
#endif
#define TAKEN (holder[n] != 0 || !READS && shares[n] != 0)
#define STAND line[n] = line[n] | BIT(me)
#define TAKE if :: READS -> shares[n] = shares[n] | BIT(me) :: else -> holder[n] = me + 1 fi
#ifdef MUTANT_LEFT_BY_GRANT
#define GRANTED line[n] = line[n] & ~BIT(me)
#else
#define GRANTED if :: again -> STAND :: else fi
#endif
#define FORGET if :: PLAIN && HEEDS && (line[n] & OTHERS) == 0 -> knows = knows & ~BIT(me) :: else fi
#ifdef MUTANT_NEVER_KNOWS
#define LEARN skip
#else
#define LEARN if :: PLAIN && (waits & OTHERS) != 0 -> knows = knows | BIT(me) :: else fi
#endif
#ifdef MUTANT_HANDS_OVER_FOR_EVER
#define MAY_HAND_OVER true
#else
#define MAY_HAND_OVER (handed < CAP && !HAS(knows, me))
#endif
#ifdef MUTANT_NEW_RANK
#define AGAIN begin()
#else
#define AGAIN skip
#endif

#define ASK(node) \
	:: d_step { !HAS(asked, node); asked = asked | BIT(node); n = node; LOOK; \
		if \
		:: TAKEN || HELD_OFF -> if :: KNOWS -> STAND :: else fi; waits = waits | BIT(me) \
		:: else -> got = got | BIT(node); PASS; FORGET; TAKE; GRANTED \
		fi; n = 0 }
#define GIVE_BACK(node) \
	:: d_step { HAS(got, node); got = got & ~BIT(node); \
		if :: READS -> shares[node] = shares[node] & ~BIT(me) :: else -> holder[node] = 0 fi; \
		if :: held -> LEARN :: else fi }
#define LEAVE(node) :: d_step { HAS(asked, node); asked = asked & ~BIT(node); line[node] = line[node] & ~BIT(me) }
#if UP == 3
#define EACH(DO) DO(0) DO(1) DO(2)
#else
#define EACH(DO) DO(0) DO(1)
#endif

#define GIVE_ALL_BACK do EACH(GIVE_BACK) :: got == 0 -> break od
#define LEAVE_ALL do EACH(LEAVE) :: asked == 0 -> break od

/* A wait begins: the client is the youngest. */
inline begin() {
	d_step {
		older[me] = 0;
		do
		:: n < CLIENTS -> if :: n != me -> older[me] = older[me] | BIT(n); older[n] = older[n] & ~BIT(me) :: else fi; n++
		:: else -> break
		od;
		n = 0
	}
}

proctype Client(byte me) {
	byte asked, got, n, handed;
	bit again, held;
	do
	:: begin();
		again = 0; held = 0; handed = 0;
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
			:: COUNT(got) >= Q -> held = 1; break
			:: else ->
				GIVE_ALL_BACK;
				asked = 0; again = 1;
				AGAIN
			fi
		od;
		waits = waits & ~BIT(me);
		if
		:: me == VICTIM ->
progress:
			skip
		:: else
		fi;
		LEAVE_ALL;
		/* Hand-overs: the next waiter of the process has the key at once. */
		do
		:: CLASS(me) == H && MAY_HAND_OVER -> handed = (handed < CAP -> handed + 1 : handed)
		:: CLASS(me) != H || !MAY_HAND_OVER -> break
#ifndef MUTANT_HANDS_OVER_FOR_EVER
		:: CLASS(me) == H -> break
#endif
		od;
		GIVE_ALL_BACK
	od;
#ifdef DEAD
dies:
	GIVE_ALL_BACK;
	waits = waits & ~BIT(me);
#ifndef MUTANT_NO_LEASE
	LEAVE_ALL
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
