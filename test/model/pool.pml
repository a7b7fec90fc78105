/* The line of a semaphore: whether whoever wants all permits, or one, is kept out for ever.
 *
 * What is modelled. Clients ask for permits, without end, at the nodes that answer: UP of three, with a quorum of 2. There
 * are two slots. Whoever wants both names them; whoever wants one names any, at each try. A node gives all that a try
 * names or none. A process asks the nodes in any order, one at a time, with others between; whoever has no quorum
 * gives back what it has, and tries again at once. There are no leases: a hold ends because its process goes on.
 *
 * A wait has a rank, the same at all nodes: who began earlier is before. A node puts a ticket for whoever it refuses, and from
 * the second try of a wait on also where it grants. It gives nothing to whoever has a ticket before him. The tickets go
 * when their owner has what he wants.
 *
 * Client 0 wants both permits, clients 1 and 2 one each. LARGE: client 1 wants both as well.
 *
 * NESTED: client 1 holds one permit while it asks for the other. It heeds no ticket from the first one on that wants
 * more than others can give back: here that is any.
 *
 * Assumed: every process goes on (weak fairness), and a ticket does not expire while its owner waits.
 *
 * Claimed: no slot has two holders, and the client VICTIM is served again and again.
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
#define BOTH 3		/* of them, a bit each */
#define ANY 0		/* of them, but one */
#define ALL ((1 << UP) - 1)
#define BIT(n) (1 << (n))
#define HAS(set, n) (((set) >> (n)) & 1)
#define COUNT(set) (HAS(set, 0) + HAS(set, 1) + HAS(set, 2))
#define AT(k, n) ((k) * UP + (n))

#ifdef LARGE
#define WANTS_BOTH(c) ((c) <= 1)
#else
#define WANTS_BOTH(c) ((c) == 0)
#endif

byte holder[K * UP];	/* 0: nobody; else 1 + who */
byte line[UP];		/* whose tickets stand there */
byte younger[CLIENTS];	/* who began to wait after the client */
byte use[K];		/* how many work under the slot */
#ifdef MUTANT_ONE_PASSES
byte passed[UP];	/* whose tickets somebody has passed since their owner's last look */
#endif

/* The tickets at node n that are before mine. */
#define OLDER(c) (HAS(line[n], c) && HAS(younger[c], me))
#define PERMITS(c) (WANTS_BOTH(c) -> 2 : 1)
#if defined(MUTANT_NO_LINE)
#define BEFORE false
#elif defined(MUTANT_FIRST_AT_NODE)
#define BEFORE ((line[n] & ~BIT(me)) != 0)	/* each node has an order of its own */
#elif defined(MUTANT_ROOM_FOR_ALL)
#define WANTED ((OLDER(0) -> PERMITS(0) : 0) + (OLDER(1) -> PERMITS(1) : 0) + (CLIENTS == 3 && OLDER(2) -> PERMITS(2) : 0))
#define FREE ((holder[AT(0, n)] == 0) + (holder[AT(1, n)] == 0))
#define BEFORE (WANTED > 0 && WANTED + (slots == BOTH -> 2 : 1) > FREE)	/* he passes where there is room for those before him, too */
#elif defined(MUTANT_ONE_PASSES)
#define ALL_OLDER (OLDER(0) + 2 * OLDER(1) + 4 * (CLIENTS == 3 && OLDER(2)))
#define BEFORE ((ALL_OLDER & passed[n]) != 0)
#else
#define BEFORE (OLDER(0) || OLDER(1) || CLIENTS == 3 && OLDER(2))
#endif
#ifdef MUTANT_ONE_PASSES
#define LOOK passed[n] = passed[n] & ~BIT(me)
#define PASS passed[n] = passed[n] | ALL_OLDER
#else
#define LOOK skip
#define PASS skip
#endif
#if defined(MUTANT_NESTED_HEEDS) || defined(MUTANT_INHERITED_RANK)
#define HEEDS true
#elif defined(MUTANT_ONE_NEVER_HEEDS)
#define HEEDS (!inner && slots == BOTH)
#else
#define HEEDS !inner
#endif
#ifdef MUTANT_ONE_HAS_NO_TICKET
#define STANDS (slots == BOTH)
#else
#define STANDS true
#endif
#define STAND line[n] = line[n] | BIT(me)
#ifdef MUTANT_LEFT_BY_GRANT
#define GRANTED line[n] = line[n] & ~BIT(me)
#else
#define GRANTED if :: STANDS && again -> STAND :: else fi
#endif

#define TAKEN(k) (HAS(slots, k) && holder[AT(k, n)] != 0)
#define TAKE(k) if :: HAS(slots, k) -> holder[AT(k, n)] = me + 1 :: else fi
#define DELETE(k) if :: HAS(slots, k) && holder[AT(k, n)] == me + 1 -> holder[AT(k, n)] = 0 :: else fi

#define ASK(node) \
	:: d_step { !HAS(asked, node); asked = asked | BIT(node); n = node; LOOK; \
		if \
		:: TAKEN(0) || TAKEN(1) || HEEDS && BEFORE -> if :: STANDS -> STAND :: else fi \
		:: else -> got = got | BIT(node); PASS; TAKE(0); TAKE(1); GRANTED \
		fi; n = 0 }
#define GIVE_BACK(node) :: d_step { HAS(got, node); got = got & ~BIT(node); n = node; DELETE(0); DELETE(1); n = 0 }
#define LEAVE(node) :: d_step { HAS(line[node], me); line[node] = line[node] & ~BIT(me) }
#if UP == 3
#define EACH(DO) DO(0) DO(1) DO(2)
#else
#define EACH(DO) DO(0) DO(1)
#endif

#define GIVE_ALL_BACK do EACH(GIVE_BACK) :: got == 0 -> break od
#define LEAVE_ALL do EACH(LEAVE) :: else -> break od

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
		EACH(ASK)
		:: asked == ALL -> break
		od;
		if
		:: COUNT(got) >= Q -> break
		:: else ->
			GIVE_ALL_BACK;
			asked = 0; again = 1
		fi
	od;
	again = 0
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

proctype Client(byte me) {
	byte slots, asked, got, n;
	bit again, inner;
	do
	:: begin();
#ifdef MUTANT_PARTIAL
		if
		:: WANTS_BOTH(me) ->
			/* Slot by slot, in the order of the client. */
			acquire(me + 1);
			asked = 0; got = 0;
			acquire(2 - me);
			slots = BOTH; got = ALL
		:: else -> acquire(ANY)
		fi;
#else
		if
		:: WANTS_BOTH(me) -> acquire(BOTH)
		:: else -> acquire(ANY)
		fi;
#endif
		LEAVE_ALL;
		work();
		GIVE_ALL_BACK;
		asked = 0
	od
}

#ifdef NESTED
/* It keeps the first slot while it asks for the second. */
proctype Nested(byte me) {
	byte slots, asked, got, n;
	bit again, inner;
	do
	:: begin();
		acquire(1);
		LEAVE_ALL;
		inner = 1; asked = 0; got = 0;
#ifndef MUTANT_INHERITED_RANK
		begin();
#endif
		acquire(2);
		slots = BOTH; inner = 0; got = ALL;
		work();
		GIVE_ALL_BACK;
		asked = 0
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
