package redlock

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/test/fakenode"
)

var deadlockRounds = flag.Int("deadlock.rounds", 1000, "how many random rounds of locks are looked at for deadlocks that are none")

// processes returns Lockers on the same nodes, which look for deadlocks.
func processes(t *testing.T, n int, options ...Option) ([]*Locker, []*fakeNode) {
	t.Helper()
	fakes, _ := fakeNodes(3)
	var all []*Locker
	for range n {
		all = append(all, another(t, fakes, append(options, WithDeadlockDetection(time.Second))...))
	}
	return all, fakes
}

// ends releases all, and looks whether something is left at the nodes once edges are forgotten.
func nothingWaits(t *testing.T, fakes []*fakeNode) {
	t.Helper()
	time.Sleep(5 * time.Second)
	changeAll(fakes, func(f *fakeNode) {
		for name, hash := range f.Waits {
			for field, held := range hash {
				if f.Now().Before(held.Until) {
					t.Errorf("%s has %q left at %q", f.Name(), field, name)
				}
			}
		}
	})
}

func TestARingOfProcessesIsFoundAndItsYoungestWaitGivesUp(t *testing.T) {
	for size := 2; size <= 5; size++ {
		synctest.Test(t, func(t *testing.T) {
			lockers, fakes := processes(t, size, WithTTL(time.Hour))
			key := func(i int) string { return fmt.Sprint("fork ", i%size) }
			var held []*Lock
			for i, locker := range lockers {
				held = append(held, mustAcquire(t, locker, key(i), WithOwner("who has "+key(i))))
			}
			var results []chan error
			for i, lock := range held {
				time.Sleep(100 * time.Millisecond)
				results = append(results, work(t, lock, key(i+1)))
			}
			began := time.Now()
			for i, result := range results {
				err := <-result
				if i < size-1 {
					noError(t, err, "in a ring of", size, "wait", i)
					continue
				}
				wantRing(t, err, size)
			}
			wantWithin(t, 2*time.Second, began, "a ring of", size, "was found after")
			nothingWaits(t, fakes)
		})
	}
}

// passingEither acquires a key as a reader or a writer, and releases it.
func passingEither(ctx context.Context, l *Locker, key string, reads bool, options ...AcquireOption) error {
	if reads {
		return passing(l.AcquireShared(ctx, key, options...))
	}
	return passing(l.Acquire(ctx, key, options...))
}

// Two readers are in each other's way only where one wants to write.
func TestReadersInARingOfProcesses(t *testing.T) {
	for _, writes := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			lockers, _ := processes(t, 3, WithTTL(time.Hour))
			read := func(l *Locker, ctx context.Context, key string) *Lock {
				lock, err := l.AcquireShared(ctx, key)
				must(t, err, "AcquireShared of", key)
				return lock
			}
			a, other, b := read(lockers[0], t.Context(), "a"), read(lockers[2], t.Context(), "a"), mustAcquire(t, lockers[1], "b")
			results := make(chan error, 2)
			go func() {
				err := passing(lockers[0].AcquireShared(a.Context(), "b", WithMaxWait(time.Minute)))
				results <- errors.Join(err, a.Release())
			}()
			go func() {
				err := passingEither(b.Context(), lockers[1], "a", !writes, WithMaxWait(10*time.Second))
				results <- errors.Join(err, b.Release())
			}()
			time.Sleep(5 * time.Second)
			if err := other.Release(); err != nil { // it was in the way all the time, and is no part of the ring
				t.Error(err)
			}
			failed := 0
			for range 2 {
				if err := <-results; errors.Is(err, ErrDeadlock) {
					failed++
				} else if err != nil {
					t.Error(err)
				}
			}
			if want := map[bool]int{true: 1}[writes]; failed != want {
				t.Errorf("with a writer: %v: %d acquires gave up for a deadlock, want %d", writes, failed, want)
			}
		})
	}
}

func TestARingThroughAWaitForSeveralKeysIsFound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lockers, fakes := processes(t, 2, WithTTL(time.Hour))
		pair, err := lockers[0].AcquireAll(t.Context(), []string{"a", "b"})
		must(t, err)
		c := mustAcquire(t, lockers[1], "c")
		first := async(func() error { return errors.Join(passing(lockers[0].Acquire(pair.Context(), "c")), pair.Release()) })
		time.Sleep(100 * time.Millisecond)
		returns(t, ErrDeadlock)(lockers[1].AcquireAll(c.Context(), []string{"b", "d"}, WithMaxWait(time.Minute)))
		mustRelease(t, c)
		noError(t, <-first, "the other part of the ring")
		nothingWaits(t, fakes)
	})
}

// wants lets a Locker wait for a key until it is stopped: a wait under the lock on a key that nobody wants is in no ring.
func wants(t *testing.T, l *Locker, key string) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	result := async(func() error {
		_, err := l.Acquire(ctx, key, WithMaxWait(time.Hour))
		return err
	})
	return func() {
		cancel()
		returns(t, context.Canceled, "a wait that is given up")(<-result)
	}
}

func TestAnEdgeOutlivesTwoMessagesThatAreLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lockers, fakes := processes(t, 2, WithTTL(time.Hour), WithNodeTimeout(time.Second))
		held := mustAcquire(t, lockers[0], "b")
		result := work(t, mustAcquire(t, lockers[1], "a"), "b")
		stop := wants(t, lockers[0], "a")
		far(fakes, 150*time.Millisecond)
		time.Sleep(3 * time.Second)
		puts := 0
		fakes[0].Change(func(f *fakeNode) {
			f.Answer = func(args []any) *driver.Reply {
				if !strings.Contains(fmt.Sprint(args...), "wait:") {
					return nil
				}
				if puts++; puts > 2 {
					return nil
				}
				return &driver.Reply{Kind: driver.Failure, Str: "LOADING and this message is lost"}
			}
		})
		for end := time.Now().Add(3 * time.Second); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
			fakes[0].Change(func(f *fakeNode) {
				for _, hash := range f.Waits {
					for _, edge := range hash {
						if !f.Now().Before(edge.Until) {
							t.Errorf("with %d messages that are lost the edge is gone", puts)
						}
					}
				}
			})
		}
		fakes[0].Change(func(*fakeNode) {
			if puts < 3 {
				t.Errorf("an edge was put %d times in 3s", puts)
			}
		})
		stop()
		mustRelease(t, held)
		noError(t, <-result)
	})
}

func TestAWaitAsksNothingUntilItIsOldEnough(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lockers, fakes := processes(t, 2, WithTTL(time.Hour))
		held := mustAcquire(t, lockers[0], "b")
		result := work(t, mustAcquire(t, lockers[1], "a"), "b")
		stop := wants(t, lockers[0], "a")
		time.Sleep(990 * time.Millisecond)
		count := func() (edges int) {
			fakes[0].Change(func(f *fakeNode) {
				for _, hash := range f.Waits {
					edges += len(hash)
				}
			})
			return edges
		}
		if n := count(); n > 0 {
			t.Errorf("before its time a wait has %d edges", n)
		}
		time.Sleep(50 * time.Millisecond)
		if n := count(); n != 1 {
			t.Errorf("after its time a wait has %d edges, want 1", n)
		}
		stop()
		mustRelease(t, held)
		noError(t, <-result)
		time.Sleep(10 * time.Millisecond)
		if n := count(); n > 0 {
			t.Errorf("a wait that is over has %d edges", n)
		}
		nothingWaits(t, fakes)
	})
}

// Who looks asks for signs of life only along waits that are older than its own, and that are in
// its way.
func TestAWaitThatIsNotToGiveUpAsksNobody(t *testing.T) {
	for name, tt := range map[string]struct {
		edge  string
		reads bool
		asks  bool
	}{
		"an older wait":                         {"since=1&key=a", false, true},
		"a younger one":                         {"since=9000000000000000&key=a", false, false},
		"that of a reader, to write":            {"since=1&key=a&shares=1", false, true},
		"that of a reader, to read":             {"since=1&key=a&shares=1", true, false},
		"that of a writer, to read":             {"since=1&key=a", true, true},
		"a wait for something else":             {"since=1&key=c", false, false},
		"what is no edge":                       {"since=x&key=a", false, false},
		"a wait to read what is held to write":  {"since=1&key=a&reads=1", false, true},
		"a wait for several keys, ours as well": {"since=1&key=c&key=a", false, true},
	} {
		synctest.Test(t, func(t *testing.T) {
			lockers, fakes := processes(t, 2, WithTTL(time.Hour))
			held := mustAcquire(t, lockers[0], "b")
			own := mustAcquire(t, lockers[1], "a")
			stop := wants(t, lockers[0], "a")
			changeAll(fakes, func(f *fakeNode) {
				f.Waits["ql:waits:{b}"] = map[string]fakenode.Key{"wait:another": {Token: "\nwait=another&" + tt.edge, Until: f.Now().Add(time.Hour)}}
			})
			result := async(func() error { return passingEither(own.Context(), lockers[1], "b", tt.reads) })
			time.Sleep(1400 * time.Millisecond)
			asks := false
			fakes[0].Change(func(f *fakeNode) {
				for field := range f.Waits["ql:waits:{b}"] {
					asks = asks || strings.HasPrefix(field, "nonce:")
				}
			})
			if asks != tt.asks {
				t.Errorf("%s: a sign of life is asked for: %t, want %t", name, asks, tt.asks)
			}
			stop()
			mustRelease(t, held)
			noError(t, <-result, name)
		})
	}
}

func TestANodeThatKeepsNoEdgesIsReportedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var seen recorder
		locker, fakes := newLocker(t, 3, WithTTL(time.Hour), WithDeadlockDetection(time.Second), seen.option())
		held := mustAcquire(t, another(t, fakes, WithTTL(time.Hour)), "b")
		fakes[2].Change(func(f *fakeNode) {
			f.Answer = answering(fakenode.Refusal("NOPERM No permissions to access a key"), func(args []any) bool { return strings.Contains(fmt.Sprint(args...), "ql:waits") })
		})
		result := work(t, mustAcquire(t, locker, "a"), "b")
		time.Sleep(10 * time.Second)
		mustRelease(t, held)
		noError(t, <-result)
		limited := seen.of(NodeLimited)
		if len(limited) != 1 || limited[0].Node != "node-3" || !strings.Contains(limited[0].Err.Error(), "~ql:waits:{KEYS} ~ql:waits=KEYS") {
			t.Errorf("the events are %v, want one of node-3 that says what to allow", limited)
		}
	})
}

// A chronicle knows who has what and waits for what, at every moment.
type chronicle struct {
	mu    sync.Mutex
	clock int // counts what happens
	holds map[string][2]int
	waits map[string][2]int
}

func (l *chronicle) open(in map[string][2]int, name string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.clock++
	in[name] = [2]int{l.clock, 1 << 62}
}

func (l *chronicle) shut(in map[string][2]int, name string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.clock++
	in[name] = [2]int{in[name][0], l.clock}
}

// real reports whether all of a ring was there at one moment.
func (l *chronicle) real(ring *DeadlockError) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	from, to := 0, 1<<62
	for _, wait := range ring.Cycle {
		for _, span := range [][2]int{l.holds[wait.Owner+" "+wait.Holds], l.waits[wait.Owner+" "+wait.WaitsFor]} {
			if span[0] == 0 {
				return false
			}
			from, to = max(from, span[0]), min(to, span[1])
		}
	}
	return from < to
}

// Processes take two or three keys one under the other, in any order, while nodes are slow, hang
// and run late what they were sent, locks are renewed, handed over and lost, and waits are given
// up. Whoever is told of a deadlock was part of one.
func TestNoDeadlockIsAPhantom(t *testing.T) {
	t.Parallel()
	const callers = 4
	found, total := 0, 0
	for seed := uint64(1); total < some(*deadlockRounds); seed++ {
		synctest.Test(t, func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 1)) //nolint:gosec // a seed repeats it
			lockers, fakes := processes(t, 3, WithTTL(10*time.Second), WithNodeTimeout(250*time.Millisecond))
			changeAll(fakes, func(f *fakeNode) {
				f.Delay, f.Jitter = time.Millisecond, time.Duration(random.IntN(200))*time.Millisecond
			})
			book := &chronicle{holds: map[string][2]int{}, waits: map[string][2]int{}}
			var mu sync.Mutex
			var all sync.WaitGroup
			stopped := make(chan struct{})
			for i, locker := range lockers {
				for c := range callers {
					own := rand.New(rand.NewPCG(seed, uint64(10*i+c+2))) //nolint:gosec // likewise
					all.Go(func() {
						for round := range 25 {
							err := nest(t.Context(), locker, book, own, fmt.Sprintf("p%d-%d-%d", i, c, round), own.Perm(4)[:2+own.IntN(2)])
							var ring *DeadlockError
							mu.Lock()
							total++
							if errors.As(err, &ring) {
								found++
								if !book.real(ring) {
									t.Errorf("seed %d: a phantom: %v", seed, ring)
								}
							}
							mu.Unlock()
						}
					})
				}
			}
			var faults sync.WaitGroup
			faults.Go(func() {
				for {
					select {
					case <-stopped:
						return
					case <-time.After(time.Duration(random.IntN(5000)) * time.Millisecond):
					}
					f := fakes[random.IntN(len(fakes))]
					f.Stop()
					time.Sleep(time.Duration(random.IntN(3000)) * time.Millisecond)
					f.Resume()
				}
			})
			all.Wait()
			close(stopped)
			faults.Wait()
			nothingWaits(t, fakes)
		})
	}
	t.Logf("%d deadlocks in %d rounds", found, total)
	if found < total/200 {
		t.Errorf("%d deadlocks were found in %d rounds: the test is not one", found, total)
	}
}

// nest takes keys one under the other.
func nest(ctx context.Context, locker *Locker, book *chronicle, random *rand.Rand, owner string, keys []int) error {
	if len(keys) == 0 {
		time.Sleep(time.Duration(random.IntN(200)) * time.Millisecond)
		return nil
	}
	key := fmt.Sprint("k", keys[0])
	options := []AcquireOption{WithOwner(owner), WithMaxWait(time.Duration(1+random.IntN(12)) * time.Second)}
	if random.IntN(2) == 0 {
		options = append(options, WithRenewal())
	}
	name := owner + " " + key
	book.open(book.waits, name)
	lock, err := locker.Acquire(ctx, key, options...)
	book.shut(book.waits, name)
	if err != nil {
		return err
	}
	book.open(book.holds, name)
	err = nest(lock.Context(), locker, book, random, owner, keys[1:]) //nolint:contextcheck // it descends from ctx
	book.shut(book.holds, name)
	_ = lock.Release() // it may have been lost
	return err
}

// A thousand waits under one lock cost a node a command a second each at most, and those of the
// readers of one key, for a few keys, next to none. A ring through one of them is found within
// three times the threshold.
func TestAThousandWaitsUnderALockCostLittleAndHideNoRing(t *testing.T) {
	t.Parallel()
	waits := some(1000)
	for _, readers := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			lockers, fakes := processes(t, 3, WithTTL(time.Hour))
			defer nothingWaits(t, fakes) // behind the end of all
			under := func() context.Context { return mustAcquire(t, lockers[1], "a").Context() }
			if readers {
				under = func() context.Context {
					lock, err := lockers[1].AcquireShared(t.Context(), "a")
					must(t, err)
					return lock.Context()
				}
			}
			ring := mustAcquire(t, lockers[2], "b")
			first := under()
			for i := range waits {
				key := fmt.Sprint("other ", i)
				if readers {
					key = fmt.Sprint("other ", i%3)
				}
				if i == waits/2 {
					key = "b"
				}
				ctx := first
				if readers && i > 0 {
					ctx = under()
				}
				defer lockers[1].detect(ctx, exclusive, []string{key}, func(err error) {
					t.Errorf("the wait for %s gave up, and it was not the youngest: %v", key, err)
				})()
				time.Sleep(time.Millisecond)
			}
			others, cancel := context.WithCancel(t.Context())
			defer cancel()
			for _, key := range []string{"a", "b"} { // somebody wants both: otherwise no wait under them may be part of a ring
				go lockers[0].Acquire(others, key, WithMaxWait(time.Hour)) //nolint:errcheck // it ends in vain
			}
			time.Sleep(10 * time.Second)
			asked := fakes[0].Count("EVALSHA")
			time.Sleep(10 * time.Second)
			asked = fakes[0].Count("EVALSHA") - asked
			if most := map[bool]int{false: 10 * waits, true: 500 + waits/2}[readers]; asked > most || asked < 20 {
				t.Errorf("readers: %t: %d waits cost a node %d scripts in 10s, want 20 to %d", readers, waits, asked, most)
			}
			began := time.Now()
			if err := <-work(t, ring, "a"); !errors.Is(err, ErrDeadlock) || time.Since(began) > 3*time.Second {
				t.Errorf("readers: %t: the wait that closed a ring ended after %v with %v, want ErrDeadlock within 3s", readers, time.Since(began), err)
			}
		})
	}
}

// Each key of a ring is waited for: a wait under others is not even dated.
func TestWaitsUnderLocksThatNobodyWantsCostHardlyMoreThanWithoutDetection(t *testing.T) {
	t.Parallel()
	waits := some(800)
	var scripts [2]int
	for i, options := range [][]Option{nil, {WithDeadlockDetection(time.Second)}} {
		synctest.Test(t, func(t *testing.T) {
			fakes, _ := fakeNodes(3)
			options = append(options, WithTTL(time.Hour))
			one, other := another(t, fakes, options...), another(t, fakes, options...)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			var all sync.WaitGroup
			defer all.Wait()
			defer cancel()
			for i := range waits {
				mustAcquire(t, other, fmt.Sprint("far ", i))
				own := mustAcquire(t, one, fmt.Sprint("own ", i))
				all.Go(func() {
					within, stop := context.WithCancel(own.Context())
					defer context.AfterFunc(ctx, stop)()
					returns(t, context.Canceled, "a wait that is given up")(one.Acquire(within, fmt.Sprint("far ", i), WithMaxWait(time.Hour))) //nolint:contextcheck // it is under own, and ends with ctx
				})
			}
			time.Sleep(10 * time.Second)
			before, asked := fakes[0].Count("EVALSHA"), fakes[0].Count("PUBSUB")
			time.Sleep(10 * time.Second)
			scripts[i] = fakes[0].Count("EVALSHA") - before
			if asked = fakes[0].Count("PUBSUB") - asked; asked > (waits/256+1)*10 {
				t.Errorf("%d times in 10s a node was asked who listens, want %d at the most: once in 3 rounds, for 256 keys each", asked, (waits/256+1)*10)
			}
		})
	}
	// Dated each second, they would cost 10 scripts a wait. Back-offs are drawn, so two equal runs differ, too.
	if scripts[1] > scripts[0]+waits {
		t.Errorf("%d waits cost a node %d scripts in 10s with detection, and %d without", waits, scripts[1], scripts[0])
	}
}

// Where no node tells who listens, all keys may be wanted.
func TestARingIsFoundWhereNoNodeTellsWhoListens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lockers, fakes := processes(t, 2, WithTTL(time.Hour))
		changeAll(fakes, func(f *fakeNode) {
			f.Answer = failing("PUBSUB", "NOPERM User fake has no permissions to run the 'pubsub' command")
		})
		a, b := mustAcquire(t, lockers[0], "a"), mustAcquire(t, lockers[1], "b")
		first := work(t, a, "b")
		time.Sleep(10 * time.Millisecond)
		if err := <-work(t, b, "a"); !errors.Is(err, ErrDeadlock) {
			t.Errorf("the youngest wait ends with %v", err)
		}
		noError(t, <-first)
	})
}
