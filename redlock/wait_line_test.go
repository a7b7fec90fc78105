package redlock

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/internal/acquire"
	"github.com/quorumlock/quorumlock/internal/protocol"
	"github.com/quorumlock/quorumlock/test/fakenode"
)

func TestAPriorityIsRefusedWhereNobodyStandsInLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fair, fakes := newLocker(t, 3, WithFairness())
		permits, err := fair.Semaphore("s", 2)
		must(t, err)
		ctx, priority := t.Context(), WithPriority(1)
		for name, acquire := range map[string]func() error{
			"AcquireShared":            func() error { _, err := fair.AcquireShared(ctx, "k", priority); return err },
			"AcquireAll":               func() error { _, err := fair.AcquireAll(ctx, []string{"k", "l"}, priority); return err },
			"a permit":                 func() error { _, err := permits.Acquire(ctx, priority); return err },
			"several permits":          func() error { _, err := permits.AcquireN(ctx, 2, priority); return err },
			"Acquire WithToken":        func() error { _, err := fair.Acquire(ctx, "k", priority, ownToken); return err },
			"Acquire without fairness": func() error { _, err := another(t, fakes).Acquire(ctx, "k", priority); return err },
		} {
			var option *OptionError
			if err := acquire(); !errors.As(err, &option) || option.Option != "priority" {
				t.Errorf("%s WithPriority = %v, want an OptionError", name, err)
			}
		}
	})
}

// A street is one who waits beside others that take keys over and over, each in a process of its
// own.
type street struct {
	*testing.T
	fakes   []*fakeNode
	options []Option
	done    chan struct{}
	others  sync.WaitGroup
}

const streetHold = 50 * time.Millisecond

func newStreet(t *testing.T, options ...Option) *street {
	fakes, _ := fakeNodes(3)
	changeAll(fakes, func(f *fakeNode) { f.Delay, f.Jitter = time.Millisecond, 200*time.Microsecond })
	return &street{T: t, fakes: fakes, options: options, done: make(chan struct{})}
}

// Goes is how somebody takes what it wants, holds it for as long as do takes, and releases it.
type goes func(ctx context.Context, locker *Locker, do func(ctx context.Context)) error

// on takes a key, or several.
func on(keys ...string) goes {
	return func(ctx context.Context, locker *Locker, do func(ctx context.Context)) error {
		var lock *Lock
		var err error
		if len(keys) == 1 {
			lock, err = locker.Acquire(ctx, keys[0])
		} else {
			lock, err = locker.AcquireAll(ctx, keys)
		}
		if err != nil {
			return err
		}
		do(lock.Context()) //nolint:contextcheck // it is made of ctx
		return lock.Release()
	}
}

// reads is one for a reader of a.
func reads(ctx context.Context, locker *Locker, do func(context.Context)) error {
	lock, err := locker.AcquireShared(ctx, "a")
	if err != nil {
		return err
	}
	do(lock.Context()) //nolint:contextcheck // it is made of ctx
	return lock.Release()
}

// works holds what it has for a while.
func works(context.Context) { time.Sleep(streetHold) }

// beside lets others go, each in a process of its own, until the street is over.
func (s *street) beside(others ...goes) {
	for _, goes := range others {
		s.under(another(s.T, s.fakes, s.options...), goes)
	}
}

// under lets another one of the process go until the street is over.
func (s *street) under(locker *Locker, goes goes) {
	s.others.Go(func() {
		for {
			select {
			case <-s.done:
				return
			default:
			}
			if err := goes(s.Context(), locker, works); err != nil && !errors.Is(err, ErrLost) {
				s.Errorf("one beside: %v", err)
				return
			}
		}
	})
}

// served fails the test unless who waits is served so often, and each time after so long at the
// most.
func (s *street) served(name string, times int, most time.Duration, waits goes) {
	s.Helper()
	locker := another(s.T, s.fakes, s.options...)
	time.Sleep(time.Second)
	longest := time.Duration(0)
	for range times {
		began, had := time.Now(), time.Duration(0)
		err := waits(s.Context(), locker, func(context.Context) { had = time.Since(began); time.Sleep(streetHold) })
		if err != nil {
			s.Errorf("%s: %v", name, err)
			break
		}
		longest = max(longest, had)
		time.Sleep(30 * time.Millisecond)
	}
	close(s.done)
	s.others.Wait()
	if longest > most {
		s.Errorf("%s was served after %v, want %v at the most", name, longest, most)
	}
	s.Logf("%s: served %d times, after %v at the latest", name, times, longest)
}

// Who works under a lock heeds those in line as anybody does, or a set would starve beside it.
func TestASetIsServedBesideCallersUnderOtherLocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStreet(t)
		for _, key := range []string{"own1", "own2", "own3"} {
			s.beside(func(ctx context.Context, locker *Locker, do func(context.Context)) error {
				return on(key)(ctx, locker, func(ctx context.Context) {
					for range 20 {
						noError(t, on("a", "c")(ctx, locker, do))
					}
				})
			})
		}
		s.served("a set", 10, 3*time.Second, on("a", "b"))
	})
}

// nests is one who takes some keys, works for a while, and takes others without the lock's context.
func (s *street) nests(outer, inner []string) goes {
	return func(ctx context.Context, locker *Locker, do func(context.Context)) error {
		return on(outer...)(ctx, locker, func(held context.Context) {
			do(held)
			noError(s.T, on(inner...)(ctx, locker, do))
		})
	}
}

// Who takes the keys one after the other holds one and waits for the next, without its context: the
// set rests for him, or they would wait for each other; and what he begins in such a rest passes
// nobody, or the set would never find both keys free.
func TestASetIsServedBesideWhoNestsWithoutContexts(t *testing.T) {
	for name, skew := range map[string]time.Duration{"clocks that agree": 0, "clocks that are apart": 200 * time.Millisecond} {
		synctest.Test(t, func(t *testing.T) {
			s := newStreet(t, WithTTL(time.Minute))
			for i, f := range s.fakes {
				f.Change(func(f *fakeNode) { f.Skew = time.Duration(i) * skew })
			}
			s.beside(s.nests([]string{"b", "d"}, []string{"a", "c"}))
			s.served("beside "+name+" a set", 20, 3*time.Second, on("a", "b"))
		})
	}
}

// Those who nest come one behind the other, and each waits for a rest of its own.
func TestASetIsServedBesideManyWhoNestWithoutContexts(t *testing.T) {
	t.Parallel()
	for _, processes := range []int{4, 2, 8}[:some(3)] {
		synctest.Test(t, func(t *testing.T) {
			s := newStreet(t, WithTTL(time.Minute))
			for range processes {
				locker := another(t, s.fakes, s.options...)
				for range 8 / processes {
					s.under(locker, s.nests([]string{"b"}, []string{"a"}))
				}
			}
			s.served(fmt.Sprintf("beside eight callers in %d processes a set", processes), 20, 4*time.Second, on("a", "b"))
		})
	}
}

// Several of different ages, which do not rest by turns.
func TestSetsOfDifferentAgesRestTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStreet(t, WithTTL(time.Minute))
		s.beside(on("a", "b"), on("a", "b"), on("a", "b"))
		s.served("who nests without contexts", 10, 6*time.Second, func(ctx context.Context, locker *Locker, do func(context.Context)) error {
			return on("b", "d")(ctx, locker, func(held context.Context) {
				noError(t, on("a", "c")(ctx, locker, works))
				do(held)
			})
		})
	})
}

// N has b, and asks for a under it; T waits for both, and A, behind T, for a alone.
func TestWhoNestsByContextsWaitsForNobodyWhoWaitsForHim(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fakes, _ := fakeNodes(3)
		lockers := make([]*Locker, 3)
		for i := range lockers {
			lockers[i] = another(t, fakes, WithFairness(), WithTTL(time.Minute))
		}
		held := mustAcquire(t, lockers[0], "a")
		b := mustAcquire(t, lockers[1], "b")
		var all sync.WaitGroup
		all.Go(func() {
			noError(t, passing(lockers[2].AcquireAll(t.Context(), []string{"a", "b"})))
		})
		time.Sleep(300 * time.Millisecond)
		all.Go(func() { noError(t, passing(lockers[0].Acquire(t.Context(), "a"))) })
		time.Sleep(300 * time.Millisecond)
		mustRelease(t, held) // not in a rest: T is 0.6 s old
		began := time.Now()
		nested := mustAcquireUnder(b.Context(), t, lockers[1], "a")
		wantWithin(t, 10*time.Millisecond, began, "who has b had a after")
		mustRelease(t, nested)
		mustRelease(t, b)
		all.Wait()
	})
}

func TestNobodyLeavesATicket(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStreet(t, WithFairness())
		far(s.fakes[:1], 20*time.Millisecond)
		s.beside(slices.Repeat([]goes{on("a"), on("a", "b")}, 3)...)
		s.served("a fair lock", 5, time.Second, on("b"))
		time.Sleep(100 * time.Millisecond)
		wantNobodyInLine(t, s.fakes)
	})
}

// wantNobodyInLine fails the test if a ticket is left at a node.
func wantNobodyInLine(t *testing.T, fakes []*fakeNode) {
	t.Helper()
	changeAll(fakes, func(f *fakeNode) {
		for name := range f.Lines {
			if line := f.Line(name); len(line) > 0 {
				t.Errorf("%s keeps %q in %s", f.Name(), line, name)
			}
		}
	})
}

func TestAllKindsAreServedBesideEachOther(t *testing.T) {
	t.Parallel()
	fair, four := []Option{WithFairness()}, func(of ...goes) []goes { return slices.Repeat(of, 4) }
	for _, tt := range []struct {
		name    string
		options []Option
		beside  []goes
		times   int
		most    time.Duration
		served  goes
	}{
		{"a set beside fair locks", fair, four(on("a"), on("b")), 10, 3 * time.Second, on("a", "b")},
		{"a fair lock beside sets", fair, slices.Repeat([]goes{on("a", "b"), on("a", "c"), on("a", "d"), on("a", "e")}, 2), 20, time.Second, on("a")},
		{"a writer beside readers", nil, four(reads, reads), 20, 300 * time.Millisecond, on("a")},
		{"a fair writer beside readers", fair, four(reads, reads), 20, 300 * time.Millisecond, on("a")},
		{"a set beside readers", nil, four(reads), 20, 3 * time.Second, on("a", "b")},
		{"a set beside readers of fair Lockers", fair, four(reads), 20, 3 * time.Second, on("a", "b")},
		{"a reader beside fair writers", fair, four(on("a"), on("a")), 10, 3 * time.Second, reads},
		{"a reader beside sets and plain writers", nil, four(on("a", "b"), on("a")), 10, 3 * time.Second, reads},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := newStreet(t, tt.options...)
			s.beside(tt.beside...)
			s.served(tt.name, some(tt.times), tt.most, tt.served)
		})
	}
}

// P reads a and waits for c, Q has c and waits to read a, and W waits to write a: Q waits behind W,
// which waits for P, which waits for Q. The ticket of W rests for Q, who works under a lock.
func TestARingThroughAWriterThatWaitsIsNoDeadlock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStreet(t, WithTTL(time.Hour))
		began := time.Now()
		p, q, w := another(t, s.fakes, s.options...), another(t, s.fakes, s.options...), another(t, s.fakes, s.options...)
		var all sync.WaitGroup
		all.Go(func() {
			noError(t, reads(t.Context(), p, func(ctx context.Context) {
				time.Sleep(100 * time.Millisecond)
				noError(t, on("c")(ctx, p, works))
			}))
		})
		all.Go(func() {
			noError(t, on("c")(t.Context(), q, func(ctx context.Context) {
				time.Sleep(60 * time.Millisecond)
				noError(t, reads(ctx, q, works))
			}))
		})
		time.Sleep(30 * time.Millisecond)
		all.Go(func() { noError(t, on("a")(t.Context(), w, works)) })
		all.Wait()
		wantWithin(t, 2*time.Second, began, "the ring went on for")
	})
}

// Plain Lockers see no line at their first try. They come to know of it: by what their releases
// have reached, and by refusals; and who has waited for a while stands there.
func TestWhoStandsInLineIsServedBesidePlainLockers(t *testing.T) {
	t.Parallel()
	for _, callers := range []int{4, 2, 1}[:some(3)] { // of a process
		for name, waits := range map[string]goes{"a set": on("a", "b"), "a fair lock": on("a"), "a plain lock": on("a"), "a reader": reads} {
			synctest.Test(t, func(t *testing.T) {
				s := newStreet(t)
				for range 8 / callers {
					locker := another(t, s.fakes)
					for range callers {
						s.under(locker, on("a"))
					}
				}
				if name == "a fair lock" {
					s.options = []Option{WithFairness()}
				}
				s.served(name+" beside plain Lockers", 10, 3*time.Second, waits)
			})
		}
	}
	synctest.Test(t, func(t *testing.T) {
		s := newStreet(t, WithFairness())
		s.beside(slices.Repeat([]goes{on("a")}, 8)...)
		s.options = nil
		s.served("a plain lock beside fair Lockers", 10, 3*time.Second, on("a"))
	})
}

// Nothing of all that is sent while nobody waits.
func TestAPlainLockTakesOneCommandWhileNobodyWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 3)
		warm(t, locker)
		lock := mustAcquire(t, locker, "k")
		next := waitFor(t.Context(), another(t, fakes))
		time.Sleep(2 * acquire.Age)
		mustRelease(t, lock)
		mustRelease(t, (<-next).lock)
		synctest.Wait()
		scripts := func() int { return fakes[0].Count("EVAL") + fakes[0].Count("EVALSHA") }
		sets, before := fakes[0].Count("SET"), scripts()
		lock = mustTry(t, locker, "k")
		if sets, tried := fakes[0].Count("SET")-sets, scripts()-before; sets != 1 || tried != 0 {
			t.Errorf("behind a wait that is over a try took %d SETs and %d scripts, want a SET", sets, tried)
		}
		mustRelease(t, lock)
	})
}

// A node that runs no scripts heeds no line, and has its vote all the same.
func TestWhoStandsInLineHasVotesOfNodesWithoutScripts(t *testing.T) {
	for _, options := range [][]Option{nil, {WithFences()}} {
		synctest.Test(t, func(t *testing.T) {
			fakes, _ := fakeNodes(3)
			fakes[2].Change(func(f *fakeNode) { f.Scriptless, f.Kind = true, fakenode.Valkey9 })
			locker, other := another(t, fakes, options...), another(t, fakes, options...)
			warm(t, locker)
			reader := mustShare(t, other, "k")
			next := waitFor(t.Context(), locker)
			time.Sleep(time.Second)
			fakes[0].Change(refuse)
			if err := reader.Release(); err != nil && !errors.Is(err, ErrNoQuorum) {
				t.Error(err)
			}
			got := mustGet(t, next)
			if token, _ := fakes[2].Token("k"); token != got.lock.Token() {
				t.Errorf("the node without scripts has the token %q", token)
			}
			noError(t, got.lock.Release())
		})
	}
}

// The rights of locks alone are enough to wait for one.
func TestWhoMayNotLookAtLinesWaitsWithoutThem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fakes, _ := fakeNodes(3)
		changeAll(fakes, func(f *fakeNode) {
			f.Answer = func(args []any) *driver.Reply {
				if takes(args) {
					return &driver.Reply{Kind: driver.Failure, Str: "NOPERM this user has no permissions to access one of the keys used as arguments"}
				}
				return nil
			}
		})
		locker, other := another(t, fakes), another(t, fakes)
		held := mustAcquire(t, other, "k")
		next := waitFor(t.Context(), locker)
		time.Sleep(time.Second)
		mustRelease(t, held)
		got := mustGet(t, next)
		mustRelease(t, got.lock)
		synctest.Wait()
		noError(t, passing(other.TryAcquire(t.Context(), "k")))
	})
}

func TestNobodyStandsInLineForAKeyThatHasNone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStreet(t)
		s.beside(slices.Repeat([]goes{on("a}b")}, 3)...)
		s.served("who waits for a key without a line", 5, 3*time.Second, on("a}b"))
		if s.fakes[0].Lines != nil {
			t.Errorf("a node has the lines %v", s.fakes[0].Lines)
		}
	})
}

// The tries of one wait are for slots of different names, and those of a reader have a lane of
// their own. The end of the wait stays behind them all the same.
func TestTheEndOfAWaitOvertakesNoneOfItsTries(t *testing.T) {
	for name, wait := range map[string]func(ctx context.Context, locker *Locker) error{
		"permits": func(ctx context.Context, locker *Locker) error {
			s, err := locker.Semaphore("s", 3)
			if err == nil {
				_, err = s.AcquireN(ctx, 2)
			}
			return err
		},
		"a reader": func(ctx context.Context, locker *Locker) error { _, err := locker.AcquireShared(ctx, "k"); return err },
	} {
		synctest.Test(t, func(t *testing.T) {
			fakes, _ := fakeNodes(3)
			locker, other := another(t, fakes), another(t, fakes, WithTTL(time.Hour))
			mustTakeN(t, newSemaphore(t, other, 3), 2)
			mustAcquire(t, other, "k")
			writer := waitFor(t.Context(), another(t, fakes), WithMaxWait(5*time.Second)) // so that a reader stands in line
			changeAll(fakes, func(f *fakeNode) { f.AddTicket("ql:line:{k}", "x0:aa", 1e15, 5*time.Second) })
			ctx, cancel := context.WithCancel(t.Context())
			done := async(func() error { return wait(ctx, locker) })
			time.Sleep(600 * time.Millisecond)
			slow := fakes[2]
			slow.Change(func(f *fakeNode) { f.Delay = 100 * time.Millisecond })
			for before := slow.Batches(); slow.Batches() == before; {
				time.Sleep(time.Millisecond)
			}
			slow.Change(func(f *fakeNode) { f.Delay = 0 })
			cancel()
			returns(t, context.Canceled, name)(<-done)
			time.Sleep(150 * time.Millisecond)
			slow.Change(func(f *fakeNode) {
				for _, ticket := range append(f.Line("ql:pool:{s}"), f.Line("ql:line:{k}")...) {
					if ticket[0] != 'x' {
						t.Errorf("%s: %s is left in line", name, ticket)
					}
				}
			})
			<-writer
		})
	}
}

// A node that does not know the script is sent the try again, maybe behind the end of the wait,
// which it has won at the others. That end goes behind it there.
func TestWhoIsServedWhileANodeLearnsTheScriptLeavesNoTicketThere(t *testing.T) {
	for name, waits := range map[string]func(t *testing.T, locker *Locker) (*Lock, error){
		"permits": func(t *testing.T, locker *Locker) (*Lock, error) {
			return newSemaphore(t, locker, 2).AcquireN(t.Context(), 2)
		},
		"readers": func(t *testing.T, locker *Locker) (*Lock, error) {
			return locker.AcquireShared(t.Context(), "k")
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			holder, fakes := newLocker(t, 3, WithTTL(time.Minute))
			permit := waitForPermit(t, newSemaphore(t, holder, 2))
			lock := mustAcquire(t, holder, "k")
			locker := another(t, fakes, WithTTL(time.Minute))
			warm(t, locker)
			for i, f := range fakes {
				f.Change(func(f *fakeNode) {
					clear(f.Loaded)
					f.AddTicket("ql:line:{k}", "x0:abc", f.Now().UnixMicro(), 105*time.Millisecond)
					if f.Delay = time.Millisecond; i == 2 {
						f.Delay = 40 * time.Millisecond
					}
				})
			}
			released := make(chan error, 2)
			time.AfterFunc(110*time.Millisecond, func() { released <- errors.Join(lock.Release(), (<-permit).Release()) })
			had, err := waits(t, locker)
			must(t, err, name)
			noError(t, <-released)
			time.Sleep(time.Second) // less than a ticket counts
			wantNobodyInLine(t, fakes)
			noError(t, had.Release())
		})
	}
}

// Readers of one process that are called together ask as one, by the rank of the first of them: who
// came behind a writer of another process shares the key with them.
func TestReadersThatAreCalledTogetherHaveTheRankOfTheFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		holder, fakes := newLocker(t, 3, WithTTL(time.Minute))
		lock := mustAcquire(t, holder, "a")
		readers, writers := another(t, fakes, WithTTL(time.Minute)), another(t, fakes, WithTTL(time.Minute), WithFairness())
		for _, f := range fakes { // the first reader meets somebody, and stands in line
			f.Change(func(f *fakeNode) { f.AddTicket("ql:line:{a}", "x0:abc", f.Now().UnixMicro(), 40*time.Millisecond) })
		}
		served := make(chan string, 4)
		var all sync.WaitGroup
		for i, who := range []string{"reader 1", "reader 2", "a writer", "reader 3"} {
			all.Go(func() {
				time.Sleep(time.Duration(i) * 50 * time.Millisecond)
				do := func(context.Context) { served <- who; time.Sleep(streetHold) }
				if who == "a writer" {
					noError(t, on("a")(t.Context(), writers, do))
				} else {
					noError(t, reads(t.Context(), readers, do))
				}
			})
		}
		time.Sleep(300 * time.Millisecond)
		mustRelease(t, lock)
		all.Wait()
		close(served)
		var order []string
		for who := range served {
			order = append(order, who)
		}
		if order[3] != "a writer" {
			t.Errorf("served were %q, want the writer last", order)
		}
	})
}

// However the waits of a Locker end, and in whichever order, no node keeps a ticket of theirs: it would keep others off
// a free key until its life is over.
func TestNoTicketOutlivesItsWaiters(t *testing.T) {
	t.Parallel()
	const waiters = 20
	rounds := some(4)
	ends := []string{"with one context", "with contexts of their own", "at Close"}
	for kind, take := range kindsOfLocks {
		for i := range len(ends) * 2 * rounds {
			end, fair, after := ends[i%len(ends)], i/len(ends)%2 == 0, 1200*time.Millisecond+time.Duration(i)*7*time.Millisecond
			bubble(t, fmt.Sprint(kind, end, fair, i), func(t *testing.T) {
				var options []Option
				if fair {
					options = append(options, WithFairness())
				}
				locker, fakes := newLocker(t, 3, options...)
				changeAll(fakes, func(f *fakeNode) { f.Delay, f.Jitter = time.Millisecond, 500*time.Microsecond })
				other := another(t, fakes, options...)
				holdAll(t, other, kind, WithRenewal())
				one, cancel := context.WithTimeout(t.Context(), after)
				defer cancel()
				begin := func() (context.Context, context.CancelFunc) {
					switch end {
					case "with one context":
						return one, func() {}
					case "with contexts of their own":
						return context.WithTimeout(t.Context(), after+rand.N(10*time.Millisecond)) //nolint:gosec // no secret
					}
					return t.Context(), func() {}
				}
				var all sync.WaitGroup
				for range waiters {
					all.Go(func() {
						ctx, cancel := begin()
						defer cancel()
						if _, err := take(locker, ctx); err == nil {
							t.Error("a key that is taken was acquired")
						}
					})
				}
				if end == "at Close" {
					time.Sleep(after)
					noError(t, locker.Close())
				}
				all.Wait()
				time.Sleep(50 * time.Millisecond)
				wantNobodyInLine(t, fakes)
			})
		}
	}
}

// Waiters of several processes are served by rank, whichever process has the key: in the order in which they came, and
// the urgent before those who came so much sooner. Without fairness a process serves its own in a row.
func TestWaitersOfSeveralProcessesAreServedByTheirRank(t *testing.T) {
	type waiter struct{ process, priority int }
	for name, tt := range map[string]struct {
		fair    []Option
		waiters []waiter
		want    []int
	}{
		"a process each":           {[]Option{WithFairness()}, []waiter{{0, 0}, {1, 0}, {2, 0}, {3, 0}}, []int{0, 1, 2, 3}},
		"several of a process":     {[]Option{WithFairness()}, []waiter{{0, 0}, {0, 0}, {1, 0}, {0, 0}, {1, 0}}, []int{0, 1, 2, 3, 4}},
		"some are urgent":          {[]Option{WithFairness()}, []waiter{{0, 0}, {1, -100}, {2, 100}, {3, 50}}, []int{2, 3, 0, 1}},
		"a process each, plain":    {nil, []waiter{{1, 0}, {2, 0}, {3, 0}}, []int{0, 1, 2}},
		"several of each in a row": {nil, []waiter{{1, 0}, {2, 0}, {1, 0}, {2, 0}}, []int{0, 2, 1, 3}},
	} {
		bubble(t, name, func(t *testing.T) {
			var lockers [4]*Locker
			first, fakes := newLocker(t, 3, append(tt.fair, WithTTL(time.Hour))...)
			lockers[0] = first
			for i := range lockers[1:] {
				lockers[1+i] = another(t, fakes, tt.fair...)
			}
			far(fakes, time.Millisecond)
			held := mustAcquire(t, first, "k")
			var mu sync.Mutex
			var served []int
			var all sync.WaitGroup
			for i, w := range tt.waiters {
				all.Go(func() {
					lock, err := lockers[w.process].Acquire(t.Context(), "k", urgency(w.priority)...)
					noError(t, err)
					mu.Lock()
					served = append(served, i)
					mu.Unlock()
					noError(t, passing(lock, err))
				})
				time.Sleep(10 * time.Second) // each asks several times meanwhile
			}
			mustRelease(t, held)
			all.Wait()
			if !slices.Equal(served, tt.want) {
				t.Errorf("served were %v, want %v", served, tt.want)
			}
		})
	}
}

// Each release tells the first in line alone. So a grant costs a node five commands: the first try, the try behind the
// subscription, the try that leaves the ticket, the try that gets the key, and the release.
func TestWhatAGrantCostsDoesNotGrowWithTheProcessesThatWait(t *testing.T) {
	for _, options := range [][]Option{nil, {WithFairness()}} {
		for _, processes := range []int{12, 40}[:some(2)] {
			synctest.Test(t, func(t *testing.T) {
				fakes, _ := fakeNodes(3)
				far(fakes, 200*time.Microsecond)
				var grants atomic.Int32
				var over atomic.Bool
				var all sync.WaitGroup
				for range processes {
					locker := another(t, fakes, options...)
					all.Go(func() {
						for !over.Load() {
							lock, err := locker.Acquire(t.Context(), "k", WithMaxWait(time.Minute))
							noError(t, err)
							grants.Add(1)
							time.Sleep(5 * time.Millisecond)
							mustRelease(t, lock)
						}
					})
				}
				time.Sleep(time.Second)
				commands := func() int32 { return int32(fakes[0].Count("EVALSHA") + fakes[0].Count("SET")) } //nolint:gosec // some thousands
				before, from := commands(), grants.Load()
				time.Sleep(time.Second)
				if cost, n := commands()-before, grants.Load()-from; n < 100 || cost > 6*n {
					t.Errorf("%d processes, options %v: %d grants cost a node %d commands, want 100 grants or more, and 6 commands for each at the most", processes, options, n, cost)
				}
				over.Store(true)
				all.Wait()
			})
		}
	}
}

// Bursts of callers with short contexts, from three processes, over nodes whose answers take up to 120 ms: the key is
// never free for much longer than a poll and a try while somebody waits.
func TestBurstsOfShortWaitsDoNotLeaveTheKeyFree(t *testing.T) {
	t.Parallel()
	const processes, bursts, callers, patience, busy, most = 3, 100, 12, 300 * time.Millisecond, 40 * time.Millisecond, time.Second
	synctest.Test(t, func(t *testing.T) {
		_, fakes := newLocker(t, 3)
		changeAll(fakes, func(f *fakeNode) { f.Delay, f.Jitter = time.Millisecond, 60*time.Millisecond })
		var mu sync.Mutex
		free, served := time.Now(), 0
		var all sync.WaitGroup
		for range processes {
			locker := another(t, fakes, WithFairness())
			burst := func() {
				ctx, cancel := context.WithTimeout(t.Context(), patience)
				defer cancel()
				lock, err := locker.Acquire(ctx, "k")
				if err != nil {
					return
				}
				mu.Lock()
				served++
				if idle := time.Since(free); idle > most {
					t.Errorf("nobody held the key for %v", idle)
				}
				mu.Unlock()
				time.Sleep(busy)
				_ = lock.Release()
				mu.Lock()
				free = time.Now()
				mu.Unlock()
			}
			all.Go(func() {
				for range bursts {
					var one sync.WaitGroup
					for range callers {
						one.Go(burst)
					}
					one.Wait()
				}
			})
		}
		all.Wait()
		if least := bursts * int(patience) / int(busy) / 10; served < least {
			t.Errorf("%d were served in %v, want %d at least", served, bursts*patience, least)
		}
	})
}

func urgency(levels int) []AcquireOption {
	if levels == 0 {
		return nil
	}
	return []AcquireOption{WithPriority(levels)}
}

// A waiter that dies as the first in line keeps the next one off for as long as its ticket lives, and until that one looks
// again. Until then nobody else gets the key, whether or not its try heeds the line.
func TestAWaiterThatDiesAsTheFirstCostsTwoSecondsAtMost(t *testing.T) {
	for name, options := range map[string][]Option{"fair": {WithFairness()}, "plain": nil} {
		for i := range some(20) {
			synctest.Test(t, func(t *testing.T) {
				options := append(options, WithTTL(time.Minute))
				holder, fakes := newLocker(t, 3, options...)
				held, stranger := mustAcquire(t, holder, "k"), another(t, fakes)
				began := fakes[0].Now().UnixMicro()
				dies := func(life time.Duration) {
					changeAll(fakes, func(f *fakeNode) { f.AddTicket("ql:line:{k}", "x0:dead", began, life) })
				}
				time.Sleep(time.Second)
				next := waitFor(t.Context(), another(t, fakes, options...))
				time.Sleep(5*time.Second + rand.N(time.Second)) //nolint:gosec // no secret
				if i%2 == 0 {
					dies(acquire.TicketLife)
				} else {
					dies(2 * acquire.QuietLife) // and quiet, which the next one learns of
					time.Sleep(acquire.QuietLife)
				}
				mustRelease(t, held)
				freed := time.Now()
				_, err := stranger.TryAcquire(t.Context(), "k")
				if !errors.Is(err, ErrTaken) || !strings.Contains(err.Error(), "taken by another, who waits for it") || !strings.Contains(err.Error(), ": kept for the first in line") {
					t.Errorf("%s: TryAcquire beside somebody who waits = %v, want ErrTaken that says so", name, err)
				}
				if served := mustGet(t, next); served.at.Sub(freed) > 2*time.Second {
					t.Errorf("%s, %d: behind a dead waiter the next one was served after %v", name, i, served.at.Sub(freed))
				}
			})
		}
	}
}

// A try that has failed puts the ticket back where it has had a vote, or those behind could pass the first again and again.
func TestWhoGivesBackAVoteStandsInLineThere(t *testing.T) {
	for name, options := range map[string][]Option{"plain": nil, "fair": {WithFairness()}} {
		synctest.Test(t, func(t *testing.T) {
			locker, fakes := newLocker(t, 3, options...)
			far(fakes, time.Millisecond)
			warm(t, locker)
			plant(fakes, "k", "foreign", time.Minute)
			next := waitFor(t.Context(), locker)
			time.Sleep(time.Second)
			fakes[0].Change(func(f *fakeNode) { delete(f.Keys, "k") })
			had, missing := 0, 0
			for range 20000 {
				time.Sleep(100 * time.Microsecond)
				fakes[0].Change(func(f *fakeNode) {
					if held, ok := f.Get("k"); ok && !protocol.Kept(held.Token) {
						had++
					} else if len(f.Line("ql:line:{k}")) != 1 {
						missing++
					}
				})
			}
			if had == 0 || missing > 0 {
				t.Errorf("%s: a waiter had the key at a node at %d moments, want some; at %d others its ticket was not there, want none", name, had, missing)
			}
			changeAll(fakes, func(f *fakeNode) { delete(f.Keys, "k") })
			mustRelease(t, mustGet(t, next).lock)
		})
	}
}

func TestTheTicketThatALateVotePutsBackGoesWithItsWaiter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 3, WithFairness())
		far(fakes, time.Millisecond)
		warm(t, locker)
		fakes[2].Change(func(f *fakeNode) { f.Delay = 5 * time.Millisecond }) // it grants the key behind the refusal
		rivals(fakes, "foreign", "foreign")
		ctx, cancel := context.WithCancel(t.Context())
		got := waitFor(ctx, locker)
		time.Sleep(time.Second)
		cancel()
		<-got
		time.Sleep(100 * time.Millisecond) // a ticket stays longer
		wantNobodyInLine(t, fakes)
	})
}

func TestAKeyThatSomebodyWaitsForIsNotFree(t *testing.T) {
	for _, kind := range []fakenode.Kind{fakenode.Redis7, fakenode.Valkey9} {
		for range some(20) {
			synctest.Test(t, func(t *testing.T) {
				holder, fakes := native(t, 3, kind, false)
				far(fakes, time.Millisecond)
				stranger := another(t, fakes)
				held := mustAcquire(t, holder, "k")
				next := waitFor(t.Context(), another(t, fakes))
				time.Sleep(2 * acquire.Age)
				mustRelease(t, mustAcquire(t, holder, "another")) // a node that deletes by itself is asked who listens with each release
				var served atomic.Bool
				var group sync.WaitGroup
				for range 4 {
					group.Go(func() {
						for !served.Load() {
							if lock, err := stranger.TryAcquire(t.Context(), "k"); err == nil {
								t.Error("somebody who had not waited has the lock")
								_ = lock.Release()
							}
							time.Sleep(100 * time.Microsecond)
						}
					})
				}
				time.Sleep(10 * time.Millisecond)
				mustRelease(t, held)
				mustGet(t, next)
				served.Store(true)
				group.Wait()
			})
		}
	}
}
