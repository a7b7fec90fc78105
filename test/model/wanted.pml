/* The marks of sets that wait: whether a set of keys is kept out for ever.
 *
 * Clients ask for sets of keys, without end, at the nodes that answer: UP of three, with a quorum of
 * 2. A node gives all keys of a set or none. Client 0 wants both keys, client 1 the first and client 2
 * the second. There are no leases: a hold ends because its process goes on. Each process asks the nodes in any
 * order, one at a time, with others between; whoever has no quorum gives back what it has, and
 * tries again at once.
 *
 * A wait has a ticket, the same at all nodes: who began earlier is older. A node that refuses a set
 * marks its keys for it, unless an older one has marked them; it refuses a set if an older one has marked a
 * key of its. Marks go when their set is released or its wait has ended.
 *
 * NESTED: client 1 holds the second key while it asks for the first, and does not obey marks for that.
 *
 * EXCLUSIVE: client 1 takes the first key as an exclusive lock, which knows no marks.
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
#define K 2		/* keys */
#define ALL ((1 << UP) - 1)
#define BIT(n) (1 << (n))
#define HAS(set, n) (((set) >> (n)) & 1)
#define COUNT(set) (HAS(set, 0) + HAS(set, 1) + HAS(set, 2))
#define AT(k, n) ((k) * UP + (n))

byte holder[K * UP];	/* 0: nobody; else 1 + who */
byte mark[K * UP];	/* the same */
byte younger[CLIENTS];	/* than the client: a bit for each of the others */

/* Whether the mark m is that of an older one. */
#if defined(MUTANT_NO_MARK)
#define BEFORE(m) false
#elif defined(MUTANT_FIRST_AT_NODE)
#define BEFORE(m) (m != 0 && m != me + 1)	/* each node has an order of its own */
#else
#define BEFORE(m) (m != 0 && m != me + 1 && HAS(younger[m - 1], me))
#endif
#if defined(MUTANT_NESTED_OBEYS)
#define OBEYS true
#elif defined(EXCLUSIVE)
#define OBEYS (me != 1)
#else
#define OBEYS !inner
#endif
#ifdef MUTANT_WITHDRAWN_BY_ANY_GRANT
#define GRANTED(k) if :: mark[AT(k, n)] == me + 1 -> mark[AT(k, n)] = 0 :: else fi
#else
#define GRANTED(k) skip
#endif

#define REFUSES(k) (HAS(keys, k) && (holder[AT(k, n)] != 0 || OBEYS && BEFORE(mark[AT(k, n)])))
#define MARK(k) if :: HAS(keys, k) && !BEFORE(mark[AT(k, n)]) -> mark[AT(k, n)] = me + 1 :: else fi
#define TAKE(k) if :: HAS(keys, k) -> holder[AT(k, n)] = me + 1; GRANTED(k) :: else fi
#define DELETE(k) if :: HAS(keys, k) && holder[AT(k, n)] == me + 1 -> holder[AT(k, n)] = 0 :: else fi
#define UNMARK(k) if :: mark[AT(k, n)] == me + 1 -> mark[AT(k, n)] = 0 :: else fi

#define ASK(node) \
	:: d_step { !HAS(asked, node); asked = asked | BIT(node); n = node; \
		if \
		:: REFUSES(0) || REFUSES(1) -> MARK(0); MARK(1) \
		:: else -> got = got | BIT(node); TAKE(0); TAKE(1) \
		fi; n = 0 }
#define GIVE_BACK(node) :: d_step { HAS(got, node); got = got & ~BIT(node); n = node; DELETE(0); DELETE(1); n = 0 }
#define RELEASE(node) \
	:: d_step { HAS(asked, node); asked = asked & ~BIT(node); got = got & ~BIT(node); n = node; \
		DELETE(0); DELETE(1); UNMARK(0); UNMARK(1); n = 0 }

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

inline acquire() {
	begin();
	do
	:: do
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

/* It gives back all that it has, at the nodes where it was refused too. */
inline release() {
	do
	RELEASE(0) RELEASE(1)
#if UP == 3
	RELEASE(2)
#endif
	:: asked == 0 -> break
	od
}

proctype Client(byte me) {
	byte keys, asked, got, n;
	bit inner;
	keys = (me == 0 -> 3 : me);
	do
	:: acquire();
		if
		:: me == VICTIM ->
progress:
			skip
		:: else
		fi;
		release()
	od
}

#ifdef NESTED
proctype Nested(byte me) {
	byte keys, asked, got, n;
	bit inner;
	do
	:: keys = 2;
		acquire();
		keys = 1; inner = 1; asked = 0; got = 0;
		acquire();
		keys = 3; inner = 0;
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
