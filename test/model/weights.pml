/* Permits of a semaphore, several at once: whether whoever wants many is kept out for ever.
 *
 * Clients ask for permits, without end, at the nodes that answer: UP of three, with a quorum of 2. There
 * are two slots. Whoever wants both names them; whoever wants one names any, another one at each try. A node gives all
 * that a try names or none. There are no leases: a hold ends because its process goes on. Each process asks the nodes in
 * any order, one at a time, with others between; whoever has no quorum gives back what it has, and tries again at
 * once.
 *
 * A wait has a ticket, the same at all nodes: who began earlier is older. A node has one mark, and gives no slot to
 * whoever is younger than its owner. Who wants both slots marks each node that it asks, unless an older one has.
 * Who wants one does so only where it is refused. The marks go when their owner
 * has what it wants.
 *
 * Client 0 wants both slots, clients 1 and 2 one each. LARGE: client 1 wants both as well.
 *
 * NESTED: client 1 holds one permit while it asks for the other. It does not obey marks for that.
 *
 * What must hold: no slot has two holders; and with every process going on (weak fairness) the client VICTIM
 * is served again and again.
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
#ifndef Q
#define Q 2
#endif
#define K 2		/* slots */
#define ANY 0		/* of them, but one */
#define ALL ((1 << UP) - 1)
#define BIT(n) (1 << (n))
#define HAS(set, n) (((set) >> (n)) & 1)
#define COUNT(set) (HAS(set, 0) + HAS(set, 1) + HAS(set, 2))
#define AT(k, n) ((k) * UP + (n))

#ifdef LARGE
#define WANTS_ALL(c) ((c) <= 1)
#else
#define WANTS_ALL(c) ((c) == 0)
#endif

byte holder[K * UP];	/* 0: nobody; else 1 + who */
byte mark[UP];		/* the same */
byte younger[CLIENTS];	/* than the client: a bit for each of the others */
byte use[K];		/* how many work under the slot */

/* Whether the node's mark is that of an older one. */
#if defined(MUTANT_NO_MARK)
#define BEFORE false
#elif defined(MUTANT_FIRST_AT_NODE)
#define BEFORE (mark[n] != 0 && mark[n] != me + 1)	/* each node has an order of its own */
#else
#define BEFORE (mark[n] != 0 && mark[n] != me + 1 && HAS(younger[mark[n] - 1], me))
#endif
#ifdef MUTANT_NESTED_OBEYS
#define OBEYS true
#elif defined(MUTANT_ONE_NEVER_OBEYS)
#define OBEYS (!inner && slots == 3)
#else
#define OBEYS !inner
#endif
#ifdef MUTANT_ONE_NEVER_MARKS
#define MARKS (slots == 3)
#else
#define MARKS OBEYS
#endif
#define REFUSED if :: MARKS && !BEFORE -> mark[n] = me + 1 :: else fi
#ifdef MUTANT_WITHDRAWN_BY_ANY_GRANT
#define GRANTED if :: mark[n] == me + 1 -> mark[n] = 0 :: else fi
#else
#define GRANTED if :: slots == 3 && !BEFORE -> mark[n] = me + 1 :: else fi
#endif

#define TAKEN(k) (HAS(slots, k) && holder[AT(k, n)] != 0)
#define TAKE(k) if :: HAS(slots, k) -> holder[AT(k, n)] = me + 1 :: else fi
#define DELETE(k) if :: HAS(slots, k) && holder[AT(k, n)] == me + 1 -> holder[AT(k, n)] = 0 :: else fi

#define ASK(node) \
	:: d_step { !HAS(asked, node); asked = asked | BIT(node); n = node; \
		if \
		:: TAKEN(0) || TAKEN(1) || OBEYS && BEFORE -> REFUSED \
		:: else -> got = got | BIT(node); TAKE(0); TAKE(1); GRANTED \
		fi; n = 0 }
#define GIVE_BACK(node) :: d_step { HAS(got, node); got = got & ~BIT(node); n = node; DELETE(0); DELETE(1); n = 0 }
#define UNMARK(node) :: d_step { mark[node] == me + 1; mark[node] = 0 }

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

inline acquire(wanted) {
	do
	:: if
	   :: wanted == ANY -> slots = 1
	   :: wanted == ANY -> slots = 2
	   :: wanted != ANY -> slots = wanted
	   fi;
	   do
		ASK(0) ASK(1)
#if UP == 3
		ASK(2)
#endif
		:: asked == ALL -> break
		od;
		if
		:: COUNT(got) >= Q -> break
		:: else ->
			do
			GIVE_BACK(0) GIVE_BACK(1)
#if UP == 3
			GIVE_BACK(2)
#endif
			:: got == 0 -> break
			od;
			asked = 0
		fi
	od
}

/* It has what it wants: its marks go. What it got at the others stays to the release. */
inline unmark() {
	do
	UNMARK(0) UNMARK(1)
#if UP == 3
	UNMARK(2)
#endif
	:: else -> break
	od
}

inline work() {
	d_step {
		if :: HAS(slots, 0) -> use[0]++ :: else fi;
		if :: HAS(slots, 1) -> use[1]++ :: else fi;
		assert(use[0] <= 1 && use[1] <= 1)
	};
	if
	:: me == VICTIM ->
progress:
		skip
	:: else
	fi;
	d_step {
		if :: HAS(slots, 0) -> use[0]-- :: else fi;
		if :: HAS(slots, 1) -> use[1]-- :: else fi
	}
}

inline release() {
	do
	GIVE_BACK(0) GIVE_BACK(1)
#if UP == 3
	GIVE_BACK(2)
#endif
	:: got == 0 -> break
	od;
	asked = 0
}

proctype Client(byte me) {
	byte slots, asked, got, n;
	bit inner;
	do
	:: begin();
#ifdef MUTANT_PARTIAL
		if
		:: WANTS_ALL(me) ->
			/* Slot by slot, in the order of the client. */
			acquire(me + 1);
			asked = 0; got = 0;
			acquire(2 - me);
			slots = 3; got = ALL
		:: else -> acquire(ANY)
		fi;
#else
		if
		:: WANTS_ALL(me) -> acquire(3)
		:: else -> acquire(ANY)
		fi;
		unmark();
#endif
		work();
		release()
	od
}

#ifdef NESTED
/* It keeps the first slot while it asks for the second. */
proctype Nested(byte me) {
	byte slots, asked, got, n;
	bit inner;
	do
	:: begin();
		acquire(1);
		unmark();
		inner = 1; asked = 0; got = 0;
		begin();
		acquire(2);
		slots = 3; inner = 0; got = ALL;
		work();
		release()
	od
}
#endif

init {
	atomic {
		run Client(0);
#ifdef NESTED
		run Nested(1)
#else
		run Client(1);
#if CLIENTS == 3
		run Client(2)
#endif
#endif
	}
}
