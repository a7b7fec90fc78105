package redlock

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumlock/quorumlock/internal/scripts"
)

// near is the round trip to most nodes.
const near = 4 * time.Millisecond

// A journey is the traffic of some callers over nodes of which the last ones are farther away.
type journey struct {
	nodes, far    int
	farther       time.Duration
	callers, keys int
	converts      int           // so often a lock is shared, or made exclusive again, before it is released
	pause         time.Duration // before each step
	lasts         time.Duration
}

func (j journey) String() string {
	return fmt.Sprintf("%d of %d nodes %v farther, %d callers, %d keys, %d conversions", j.far, j.nodes, j.farther, j.callers, j.keys, j.converts)
}

// cycle acquires a key, converts the lock, and releases it.
func (j journey) cycle(t *testing.T, locker *Locker, key string) error {
	held, err := locker.Acquire(t.Context(), key)
	if err != nil {
		return err
	}
	for range j.converts {
		time.Sleep(j.pause)
		if held.Shared() {
			held, err = held.TryUpgrade(t.Context())
		} else {
			held, err = held.Downgrade(t.Context())
		}
		if err != nil {
			return fmt.Errorf("a conversion: %w", err)
		}
	}
	time.Sleep(j.pause)
	return held.Release()
}

// churn makes cycles with a key until the end, and counts.
func (j journey) churn(t *testing.T, locker *Locker, key string, end time.Time, count *atomic.Int64) {
	for time.Now().Before(end) {
		if err := j.cycle(t, locker, key); err != nil {
			t.Errorf("a cycle of %q: %v", key, err)
			return
		}
		count.Add(1)
	}
}

// travel returns how many cycles the callers have made. It fails the test if more waits at the
// nodes than the callers can want, if Close takes long, or if it leaves anything.
func (j journey) travel(t *testing.T) (cycles int64) {
	locker, fakes := newLocker(t, j.nodes)
	for i, f := range fakes {
		f.Change(func(f *fakeNode) {
			if f.Delay = near; i >= j.nodes-j.far && j.farther == dead {
				refuse(f)
			} else if i >= j.nodes-j.far {
				f.Delay += j.farther
			}
		})
	}
	warm(t, locker)
	for slow := range 4 { // each node learns the scripts, which takes two trips
		must(t, (journey{converts: slow, pause: time.Second}).cycle(t, locker, "first"))
		time.Sleep(time.Second)
	}
	var count atomic.Int64
	var group sync.WaitGroup
	end := time.Now().Add(j.lasts)
	for i := range j.callers {
		group.Go(func() {
			j.churn(t, locker, fmt.Sprint(i%j.keys), end, &count)
		})
	}
	most := 0
	for time.Now().Before(end) {
		time.Sleep(97 * time.Millisecond)
		for _, n := range locker.Stats().Nodes {
			most = max(most, n.Queue+n.Behind)
		}
	}
	group.Wait()
	// One that sets the key, and its release; of a converted lock also what makes the one token
	// into the other, its clean-up, and the end of a wait.
	waits := 4
	if j.converts > 0 {
		waits = 8
	}
	if bound := waits * min(j.callers, 2*j.keys); most > bound {
		t.Errorf("%v: %d requests wait for a node, want at most %d", j, most, bound)
	}
	began := time.Now()
	noError(t, locker.Close(), j)
	wantWithin(t, defaultNodeTimeout, began, j, "Close took")
	time.Sleep(near + j.farther) // what has left arrives
	// A clean-up can leave when its acquire is back, and not before; of a converted lock there are
	// two.
	inTime := j.converts == 0 || 3*(near+j.farther) < defaultNodeTimeout
	for i := range j.keys {
		if names := stray(fakes, fmt.Sprint(i)); names != nil && (inTime || len(names) > j.far) {
			t.Errorf("%v: a key is left at %v", j, names)
		}
	}
	if left := locker.board.Keys.Left(); left.States > 0 || left.Awaited > 0 {
		t.Errorf("%v: left behind: %+v", j, left)
	}
	return count.Load()
}

func TestAMinorityThatIsFartherAwayCostsNothing(t *testing.T) {
	t.Parallel()
	journeys := []journey{
		{callers: 16, keys: 1, lasts: 4 * time.Second},
		{callers: 1, keys: 1, lasts: 2 * time.Second},
		{callers: 4, keys: 4, lasts: 2 * time.Second},
		{callers: 1, keys: 1, converts: 1, lasts: 2 * time.Second},
		{callers: 1, keys: 1, converts: 2, lasts: 2 * time.Second},
		// Whether a conversion leaves before another caller's try, for which it waits, is no chance.
		{callers: 16, keys: 1, converts: 3, pause: time.Millisecond, lasts: 4 * time.Second},
		{callers: 2, keys: 2, converts: 100, lasts: 4 * time.Second},
	}
	for _, j := range journeys[:some(len(journeys))] {
		for _, nodes := range []int{5, 3}[:some(2)] {
			for far := 1; far <= nodes/2; far++ {
				j := j
				j.nodes, j.far = nodes, far
				// A bare quorum has no substitute for a node where somebody's try is before a
				// conversion.
				if j.farther = 0; j.converts > 0 && j.callers > j.keys {
					j.farther = dead
				}
				var want int64
				synctest.Test(t, func(t *testing.T) { want = j.travel(t) })
				distances := []time.Duration{30 * time.Millisecond, 8 * time.Millisecond, 200 * time.Millisecond}
				for _, j.farther = range distances[:some(len(distances))] {
					synctest.Test(t, func(t *testing.T) {
						if cycles := j.travel(t); cycles < want*95/100 {
							t.Errorf("%v: %d cycles, want 95 %% of %d", j, cycles, want)
						}
					})
				}
			}
		}
	}
}

func TestATryThatKnowsTheHolderWaitsForNoNodeThatIsALittleFarther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 3)
		for i, f := range fakes {
			f.Change(func(f *fakeNode) {
				if f.Delay = near; i == 2 {
					f.Delay = 3 * near
				}
			})
		}
		other := another(t, fakes)
		warm(t, locker)
		warm(t, other)
		reader := mustShare(t, locker, "k")
		began := time.Now()
		var tries []time.Duration // the first, and in line: to hear of the time, and from then on to be seen there
		fakes[0].Change(func(f *fakeNode) {
			f.Lose = func(name string) bool {
				if name == "SET" || name == "EVAL" || name == "EVALSHA" {
					tries = append(tries, time.Since(began))
				}
				return false
			}
		})
		returns(t, ErrTaken)(other.Acquire(t.Context(), "k", WithMaxWait(5*near)))
		if len(tries) < 4 {
			t.Errorf("a node has heard of the writer after %v: want each step as soon as two nodes have named the holder, which takes %v", tries, near)
		}
		mustRelease(t, reader)
	})
}

func TestAfterAMinuteNothingHasGatheredAtAFarNode(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		journey{nodes: 5, far: 1, farther: 30 * time.Millisecond, callers: 2, keys: 1, lasts: time.Duration(some(60)) * time.Second}.travel(t)
	})
}

// Each batch costs all callers processor time, and those of a far node nobody waits for. If that
// changes, each caller's own leaves as soon as there is one.
func TestAFarNodeGetsFewBatchesAsLongAsAQuorumIsNear(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const callers, away = 64, 2 * time.Millisecond
		lasts := time.Duration(some(3)) * 350 * time.Millisecond
		locker, fakes := newLocker(t, 5)
		far(fakes[:3], 300*time.Microsecond)
		far(fakes[3:], away)
		warm(t, locker)
		travel := func() (batches int, locked []time.Duration) {
			before := fakes[4].Batches()
			var mu sync.Mutex
			var group sync.WaitGroup
			end := time.Now().Add(lasts)
			for i := range callers {
				group.Go(func() {
					for time.Now().Before(end) {
						time.Sleep(time.Duration(i) * 10 * time.Microsecond) // they do not go in step
						asked := time.Now()
						lock, err := locker.TryAcquire(t.Context(), fmt.Sprint(i))
						took := time.Since(asked)
						if err == nil {
							err = lock.Release()
						}
						noError(t, err)
						mu.Lock()
						locked = append(locked, took)
						mu.Unlock()
					}
				})
			}
			group.Wait()
			slices.Sort(locked)
			return fakes[4].Batches() - before, locked
		}
		if batches, _ := travel(); batches > 2*int(lasts/away)+10 {
			t.Errorf("a node that is %v away gets %d batches in %v, want two in the time of a round trip", away, batches, lasts)
		}
		fakes[0].Change(refuse)
		if _, locked := travel(); locked[len(locked)*9/10] > away+away/2 {
			t.Errorf("when the node is needed, nine in ten locks are had within %v, want %v and not much more", locked[len(locked)*9/10], away)
		}
	})
}

func TestTriesThatFailGatherAtNoFarNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 3)
		warm(t, locker)
		other := another(t, fakes)
		lock := mustAcquire(t, other, "k", WithTTL(time.Hour))
		fakes[2].Change(func(f *fakeNode) { f.Delay = 200 * time.Millisecond })
		for i := range 200 {
			var err error
			if i%2 == 0 {
				_, err = locker.TryAcquire(t.Context(), "k", WithToken(fmt.Sprint("own ", i)))
			} else {
				_, err = locker.Acquire(t.Context(), "k", WithMaxWait(10*time.Millisecond))
			}
			if !errors.Is(err, ErrTaken) {
				t.Fatalf("try %d = %v, want ErrTaken", i, err)
			}
			if n := locker.Stats().Nodes[2]; n.Queue+n.Behind > 10 {
				t.Fatalf("after %d tries %d requests wait for the far node", i+1, n.Queue+n.Behind)
			}
		}
		mustRelease(t, lock)
	})
}

func TestTheEndOfAWaitGoesWhereATicketMayBe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const away = 200 * time.Millisecond
		locker, fakes := newLocker(t, 3, WithFairness())
		warm(t, locker)
		other := another(t, fakes)
		far(fakes[2:], away)
		first := mustTry(t, locker, "k")
		synctest.Wait() // it has left for the far node too: the next tries for k wait behind it there
		mustRelease(t, first)
		lock := mustTry(t, other, "k")
		var told [3]bool
		for i, f := range fakes {
			before([]*fakeNode{f}, "", func(_ *fakeNode, args []any) {
				if len(args) > 1 && (args[1] == scripts.Leave.Digest || args[1] == scripts.Leave.Source) {
					told[i] = true
				}
			})
		}
		returns(t, ErrTaken)(locker.Acquire(t.Context(), "k", WithMaxWait(away/4)))
		time.Sleep(4 * away)
		synctest.Wait()
		if told != [3]bool{true, true, false} {
			t.Errorf("whether the nodes are told that a wait is over: %v, want it of those alone to which a try went", told)
		}
		mustRelease(t, lock)
	})
}

func TestWhatIsAbandonedComesToAFarNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 3)
		warm(t, locker)
		fakes[2].Change(func(f *fakeNode) { f.Delay = 20 * time.Millisecond })
		mustRelease(t, mustAcquire(t, locker, "k"))
		lock, err := locker.TryAcquire(t.Context(), "k") // behind the first at the far node
		must(t, err)
		noError(t, lock.Abandon())
		time.Sleep(100 * time.Millisecond)
		if token, _ := fakes[2].Token("k"); token != lock.Token() {
			t.Errorf("the far node has %q, want the token of the lock that was abandoned", token)
		}
	})
}

func TestStatsCountWhatWaitsBehindAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 3)
		warm(t, locker)
		fakes[2].Change(func(f *fakeNode) { f.Delay = 20 * time.Millisecond })
		mustRelease(t, mustAcquire(t, locker, "k"))
		mustAcquire(t, locker, "k")
		if n := locker.Stats().Nodes[2]; n.Behind != 2 || n.Queue != 0 || n.InFlight != 1 {
			t.Errorf("behind an acquire that is out wait its release and another acquire, and the stats say %+v", n)
		}
		time.Sleep(100 * time.Millisecond)
		if n := locker.Stats().Nodes[2]; n.Behind != 0 || n.InFlight != 0 {
			t.Errorf("when all is done the stats say %+v", n)
		}
	})
}

// renewEach holds so many renewed locks of 2s over three nodes, of which the last takes 800ms of a
// time-out of 1s, and returns how many are lost.
func renewEach(t *testing.T, locker *Locker, count int, slow func()) {
	t.Helper()
	warm(t, locker)
	locks := acquireAll(t, locker, count)
	time.Sleep(time.Second)
	slow()
	for range 10 {
		time.Sleep(time.Second)
		if n := locker.Stats().Nodes[2]; n.Queue+n.Behind > count {
			t.Fatalf("%d requests wait for the slow node on behalf of %d locks", n.Queue+n.Behind, count)
		}
	}
	lost := 0
	for _, lock := range locks {
		if !lock.Valid() {
			lost++
		}
	}
	if lost > 0 {
		t.Errorf("%d of %d locks were lost that a majority renews", lost, count)
	}
	releaseAll(t, locks)
}

func TestASlowMinorityTakesNoRenewedLockAway(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 3, WithTTL(2*time.Second), WithNodeTimeout(time.Second), WithRenewal())
		renewEach(t, locker, some(5000), func() {
			fakes[2].Change(func(f *fakeNode) { f.Delay = 800 * time.Millisecond })
		})
	})
}

func TestAMinorityThatSyncsSlowlyTakesNoRenewedLockAway(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		fakes := proofNodes(3)
		locker := another(t, fakes, WithDurability(Durability{Disk: true}), WithTTL(2*time.Second), WithRenewal())
		renewEach(t, locker, some(5000), func() {
			fakes[2].ChangeProofs(func(f *proofNode) { f.Sync = 1900 * time.Millisecond })
		})
	})
}

func TestAnExtensionIsRecalledOnlyByOneThatAsksForAsMuch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 3)
		warm(t, locker)
		lock := mustAcquire(t, locker, "k")
		noted := extensions(fakes[2])
		fakes[2].Change(func(f *fakeNode) { f.Delay = 100 * time.Millisecond })
		for _, ttl := range []time.Duration{10 * time.Second, 20 * time.Second, time.Minute, 30 * time.Second} {
			noError(t, lock.Extend(t.Context(), ttl), "Extend to", ttl)
			synctest.Wait()
		}
		time.Sleep(time.Second)
		if _, left := fakes[2].Token("k"); left < 55*time.Second {
			t.Errorf("the far node has the key for %v, want the minute of the longest extension", left)
		}
		if sent := len(noted()); sent != 3 {
			t.Errorf("the far node got %d extensions, want the first, the longest and what came after it", sent)
		}
	})
}

func TestNoExtensionIsRefusedBecauseManyWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const count = 4000
		var busy atomic.Int64
		locker, fakes := newLocker(t, 3, WithTTL(10*time.Second), WithRenewal(), onRenewal(func(r ExtendEnd) {
			for _, vote := range r.Votes() {
				if vote.Err != nil && strings.Contains(vote.Err.Error(), "too many operations wait") {
					busy.Add(1)
				}
			}
		}))
		warm(t, locker)
		locks := acquireAll(t, locker, count)
		synctest.Wait()
		far(fakes, 240*time.Millisecond)
		time.Sleep(4 * time.Second)
		forEach(fakes, (*fakeNode).Stop)
		time.Sleep(240 * time.Millisecond)
		for _, lock := range locks {
			locker.board.Renewals.Set(lock.hold.Renewal, locker.clock.Now())
		}
		time.Sleep(260 * time.Millisecond)
		for _, lock := range locks {
			locker.board.Renewals.Set(lock.hold.Renewal, locker.clock.Now())
		}
		forEach(fakes, (*fakeNode).Resume)
		time.Sleep(time.Second)
		if n := busy.Load(); n > 0 {
			t.Errorf("%d votes of renewals were refused because too many wait", n)
		}
	})
}

// dead is how far away a node is that refuses all.
const dead = time.Duration(-1)

// contendOver returns how many locks three Lockers of two callers each get of one key in 4 s.
func contendOver(t *testing.T, away []time.Duration, options ...Option) (locks int64) {
	locker, fakes := newLocker(t, len(away), options...)
	lockers := []*Locker{locker, another(t, fakes, options...), another(t, fakes, options...)}
	for i, f := range fakes {
		f.Change(func(f *fakeNode) {
			if f.Delay, f.Jitter = max(0, away[i]), time.Millisecond; away[i] == dead {
				refuse(f)
			}
		})
	}
	for _, l := range lockers {
		warm(t, l)
	}
	time.Sleep(2 * time.Second)
	var count atomic.Int64
	var group sync.WaitGroup
	end := time.Now().Add(4 * time.Second)
	for _, l := range lockers {
		for range 2 {
			group.Go(func() {
				journey{}.churn(t, l, "k", end, &count)
			})
		}
	}
	group.Wait()
	return count.Load()
}

func TestProcessesThatContendGetAsManyLocksBesideFarNodesAsWithoutThem(t *testing.T) {
	t.Parallel()
	const near, far, farther = time.Millisecond, 31 * time.Millisecond, 201 * time.Millisecond
	distances := [][]time.Duration{
		{near, near, near, far, farther}, {near, near, near, near, far}, {near, near, near, near, farther}, {near, near, near, farther, farther}, {near, near, far},
	}
	for _, away := range distances[:some(len(distances))] {
		without := slices.Clone(away)
		for i := range without {
			if without[i] != near {
				without[i] = dead
			}
		}
		for i, options := range [][]Option{{WithFences()}, nil}[:some(2)] {
			name := []string{"with fences", "plain"}[i]
			// 92 to 103 % as a rule. By the order in which goroutines run, either side may get 2 of 5 more in a round.
			locks, want := int64(0), int64(math.MaxInt64)
			for round := 0; round < 3 && (round == 0 || locks < want*85/100); round++ {
				synctest.Test(t, func(t *testing.T) { locks = max(locks, contendOver(t, away, options...)) })
				synctest.Test(t, func(t *testing.T) { want = min(want, contendOver(t, without, options...)) })
			}
			if locks < want*85/100 {
				t.Errorf("nodes %v away, %s: %d locks, and %d where those that are farther are dead", away, name, locks, want)
			}
		}
	}
}
