/* The mark of a waiting writer: whether anybody is kept out for ever.
 *
 * Streams of readers, without end, and writers, at N nodes. No leases: a hold ends because its
 * process goes on. Each process asks the nodes in any order, one command at a time, with others between;
 * whoever has no quorum releases what it has, and tries again at once.
 *
 * A writer whose try met readers at a node marks that node. A marked node admits no reader that is not there
 * already. The mark stays where the last reader leaves. It goes when a writer that holds the
 * lock releases it, or when no writer has renewed it.
 *
 * What must hold, with every process going on (weak fairness): SERVE_WRITER: a writer is served again and again.
 * Otherwise: readers are, where each writer asks at most once, and may die while it waits.
 */
#ifndef READERS
#define READERS 2
#endif
#ifndef WRITERS
#define WRITERS 1
#endif
#define N 3
#define Q 2
#define ALL 7
#define BIT(n) (1 << (n))
#define HAS(set, n) (((set) >> (n)) & 1)
#define COUNT(set) (HAS(set, 0) + HAS(set, 1) + HAS(set, 2))

byte readers[N];	/* how many are there */
byte written;		/* the nodes that hold a writer's token */
byte mark;		/* the nodes that are marked */
byte waiting;		/* writers that renew their marks */

#ifdef MUTANT_NO_MARK
#define MARK(set) skip
#else
#define MARK(set) mark = mark | (set)
#endif
/* The last reader leaves. */
#ifdef MUTANT_MARK_DIES
#define EMPTY(n) if :: readers[n] == 0 -> mark = mark & ~BIT(n) :: else fi
#else
#define EMPTY(n) skip
#endif
#ifdef MUTANT_WITHDRAWN_BY_ANY_GRANT
#define GRANTED(n) mark = mark & ~BIT(n)
#else
#define GRANTED(n) skip
#endif

#define ASK(n, may, yes, no) \
	:: d_step { !HAS(asked, n); asked = asked | BIT(n); if :: may -> got = got | BIT(n); yes :: else -> no fi }
#define GIVE(n, yes) :: d_step { HAS(got, n); got = got & ~BIT(n); yes }

#define SHARE(n) ASK(n, !HAS(written, n) && !HAS(mark, n), readers[n]++, skip)
#define UNSHARE(n) GIVE(n, readers[n]--; EMPTY(n))

active [READERS] proctype Reader() {
	byte asked, got;
	do
	:: asked = 0;
		do
		SHARE(0) SHARE(1) SHARE(2)
		:: asked == ALL -> break
		od;
		if
		:: COUNT(got) >= Q ->
#ifndef SERVE_WRITER
progress:
#endif
			skip
		:: else
		fi;
		do
		UNSHARE(0) UNSHARE(1) UNSHARE(2)
		:: got == 0 -> break
		od
	od
}

/* The mark comes with a command of its own, which may find that the readers have gone. */
#ifdef MUTANT_MARK_READERS_ONLY
#define MAY_MARK(n) readers[n] > 0
#else
#define MAY_MARK(n) true
#endif
#define TAKE(n) ASK(n, !HAS(written, n) && readers[n] == 0, written = written | BIT(n); GRANTED(n), if :: readers[n] > 0 -> met = met | BIT(n) :: else fi)
#define DELETE(n) GIVE(n, written = written & ~BIT(n); if :: held -> WITHDRAW(n) :: else fi)
#define SET_MARK(n) :: d_step { HAS(met, n); met = met & ~BIT(n); if :: MAY_MARK(n) -> MARK(BIT(n)) :: else fi }
#ifdef MUTANT_NOT_WITHDRAWN
#define WITHDRAW(n) skip
#else
#define WITHDRAW(n) mark = mark & ~BIT(n)
#endif

active [WRITERS] proctype Writer() {
	byte asked, got, met;
	bit held;
#ifdef SERVE_WRITER
	do
	::
#endif
	waiting++;
	do
	:: asked = 0; met = 0;
		do
		TAKE(0) TAKE(1) TAKE(2)
		:: asked == ALL -> break
		od;
		if :: COUNT(got) >= Q -> held = 1 :: else fi;
		do
		DELETE(0) DELETE(1) DELETE(2)
		SET_MARK(0) SET_MARK(1) SET_MARK(2)
		:: got == 0 && met == 0 -> break
		od;
		if
		:: held -> break
		:: else
#ifndef SERVE_WRITER
		:: break	/* it dies while it waits */
#endif
		fi
	od;
	waiting--;
#ifdef SERVE_WRITER
progress:
	held = 0
	od
#endif
}

/* A mark that nobody renews ends. */
#ifndef MUTANT_MARK_FOR_EVER
active proctype Clock() {
	do
	:: d_step { waiting == 0 && mark != 0; mark = 0 }
	od
}
#endif
