package redlock

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumlock/quorumlock/test/fakenode"
)

// A ledger is told by hooks what Lockers do, and finds starts and ends that do not match.
type ledger struct {
	t      *testing.T
	locker *Locker

	mu  sync.Mutex
	all []*entry
	// What happened at all, so that a schedule which tests nothing is noticed.
	seen map[string]int
}

// An entry is one acquire, as it was told.
type entry struct {
	call     AcquireStart
	ends     []AcquireEnd
	holdEnds []HoldEnd
	releases int
}

type entryKey struct{}

func newLedger(t *testing.T) *ledger { return &ledger{t: t, seen: make(map[string]int)} }

// hooks tell the ledger. They look at what they are given, as hooks may.
func (g *ledger) hooks() Hooks {
	return Hooks{
		AcquireStart: func(ctx context.Context, call AcquireStart) context.Context {
			e := &entry{call: call}
			g.note(ctx, func(*entry) { g.all = append(g.all, e) })
			return context.WithValue(ctx, entryKey{}, e)
		},
		AcquireEnd: func(ctx context.Context, a AcquireEnd) {
			g.looks(a.Lock)
			for _, v := range a.Votes() {
				_ = v.String()
			}
			g.note(ctx, func(e *entry) {
				if e == nil || len(e.ends) > 0 || e.call.Key != a.Key || e.call.Kind != a.Kind {
					g.t.Errorf("the end of an acquire, %+v, comes without its start, or twice: %+v", a, e)
					return
				}
				e.ends = append(e.ends, a)
				g.seen[fmt.Sprintf("%v %v %v", a.Kind, a.Path, a.Err == nil)]++
			})
		},
		HoldEnd: func(ctx context.Context, h HoldEnd) {
			g.looks(nil)
			g.note(ctx, func(e *entry) {
				switch {
				case e == nil || len(e.ends) == 0 || e.ends[0].Lock == nil:
					g.t.Errorf("the end of a hold, %+v, comes before that of its acquire: %+v", h, e)
				case len(e.holdEnds) > 0:
					g.t.Errorf("the end of a hold, %+v, comes twice: %+v", h, e)
				case h.Key != e.call.Key || h.Kind != e.call.Kind || h.Lasted < 0 || h.Left < 0 || h.Reason == endLost && (h.Left > 0 || !errors.Is(h.Err, ErrLost)):
					g.t.Errorf("the end of a hold is %+v, of the acquire %+v", h, e.call)
				}
				if e != nil {
					e.holdEnds = append(e.holdEnds, h)
				}
				g.seen[h.Reason]++
			})
		},
		ReleaseEnd: func(ctx context.Context, r ReleaseEnd) {
			g.looks(nil)
			g.note(ctx, func(e *entry) {
				if e.releases++; e.releases > 1 || r.Key != e.call.Key || r.Kind != e.call.Kind || r.Latency < 0 {
					g.t.Errorf("a release is told twice, or wrongly: %+v of %+v", r, e.call)
				}
				g.seen[fmt.Sprintf("release, handed over: %v", r.HandedOver)]++
			})
		},
		ExtendEnd: func(ctx context.Context, x ExtendEnd) {
			g.looks(nil)
			votes := x.Votes()
			g.note(ctx, func(e *entry) {
				if x.Key != e.call.Key || x.Kind != e.call.Kind || x.Latency < 0 || x.Err == nil && x.Granted < x.Need || (x.Need == 0) != (votes == nil) {
					g.t.Errorf("an extension is told wrongly: %+v of %+v", x, e.call)
				}
				g.seen[fmt.Sprintf("extension, renewal: %v, success: %v", x.Renewal, x.Err == nil)]++
			})
		},
		Batch: func(b NodeBatch) {
			g.looks(nil)
			if of := b.Contexts(3); len(of) > 3 || len(of) > b.Requests || b.Commands == 0 || b.Attempt < 1 || b.Latency < 0 || b.Queued < 0 {
				g.t.Errorf("a batch is told wrongly: %+v of %d acquires", b, len(of))
			}
		},
		Node: func(e Event) {
			g.looks(nil)
			if e.Time.IsZero() || e.Lasted < 0 {
				g.t.Errorf("an event is told without its time: %+v", e)
			}
		},
	}
}

// looks asks what a hook may ask. It hangs if a mutex of the library is held.
func (g *ledger) looks(lock *Lock) {
	if lock != nil {
		_, _, _ = lock.Until(), lock.Valid(), lock.String()
	}
	if g.locker != nil {
		g.locker.Stats()
		for range g.locker.Locks() {
			break
		}
	}
}

func (g *ledger) note(ctx context.Context, what func(*entry)) {
	g.mu.Lock()
	defer g.mu.Unlock()
	e, _ := ctx.Value(entryKey{}).(*entry)
	what(e)
}

// settle fails the test if something was not told to its end, or not so many acquires and locks.
func (g *ledger) settle(calls, locks int) {
	g.t.Helper()
	g.mu.Lock()
	defer g.mu.Unlock()
	had := 0
	for _, e := range g.all {
		if len(e.ends) != 1 {
			g.t.Errorf("the start %+v has %d ends, want 1", e.call, len(e.ends))
			continue
		}
		end, holds := e.ends[0], 0
		if end.Lock != nil {
			had++
			holds = 1
		}
		if len(e.holdEnds) != holds {
			g.t.Errorf("%+v has %d ends of its hold, want %d", end, len(e.holdEnds), holds)
		}
	}
	if len(g.all) != calls || had != locks {
		g.t.Errorf("%d acquires and %d locks were told, want %d and %d", len(g.all), had, calls, locks)
	}
}

// A schedule is workers who take locks of all kinds in all ways, on nodes with faults.
type randomSchedule struct {
	lockers []*Locker
	fakes   []*fakeNode

	calls, locks atomic.Int64
}

// anyAcquire makes one call that takes a lock, of any kind and in any way.
func (s *randomSchedule) anyAcquire(ctx context.Context, l *Locker, rng *rand.Rand) (*Lock, error) {
	key := fmt.Sprint("k", rng.IntN(3))
	options := s.anyOptions(rng)
	var had *Lock
	var err error
	s.calls.Add(1)
	switch rng.IntN(8) {
	case 0, 1:
		had, err = l.Acquire(ctx, key, options...)
	case 2:
		had, err = l.TryAcquire(ctx, key, options...)
	case 3:
		had, err = l.AcquireShared(ctx, key, options...)
	case 4:
		had, err = l.TryAcquireShared(ctx, key, options...)
	case 5:
		keys := []string{key, "k0", "k3"}[:rng.IntN(4)] // k0 twice, or none, are refused
		if rng.IntN(2) == 0 {
			had, err = l.AcquireAll(ctx, keys, options...)
		} else {
			had, err = l.TryAcquireAll(ctx, keys, options...)
		}
	default:
		semaphore, _ := l.Semaphore("gpus", 2)
		if rng.IntN(4) > 0 {
			had, err = semaphore.Acquire(ctx, options...)
		} else {
			had, err = semaphore.TryAcquire(ctx, options...)
		}
	}
	if had != nil {
		s.locks.Add(1)
	}
	return had, err
}

// anyOptions are those of an acquire. Some are refused.
func (s *randomSchedule) anyOptions(rng *rand.Rand) (options []AcquireOption) {
	options = append(options, WithMaxWait(time.Duration(rng.IntN(3000))*time.Millisecond))
	for _, more := range [][]AcquireOption{
		{WithRenewal()},
		{WithRenewal(), WithMaxHold(3 * time.Second)},
		{WithTTL(500 * time.Millisecond)},
		{WithMaxOutage(time.Duration(rng.IntN(500)) * time.Millisecond)},
		{WithToken(fmt.Sprint("own", rng.IntN(3)))},
		{WithTTL(0)},
		{nil},
	} {
		if rng.IntN(6) == 0 {
			options = append(options, more...)
		}
	}
	return options
}

// work takes locks, and does to them what can be done.
func (s *randomSchedule) work(ctx context.Context, l *Locker, rng *rand.Rand, depth int) {
	some := func(most time.Duration) time.Duration { return time.Duration(rng.Int64N(int64(most))) }
	call := ctx
	switch rng.IntN(8) {
	case 0:
		limited, cancel := context.WithTimeout(ctx, some(2*time.Second))
		defer cancel()
		call = limited
	case 1:
		over, cancel := context.WithCancel(ctx)
		cancel()
		call = over
	}
	lock, err := s.anyAcquire(call, l, rng)
	if err != nil {
		return
	}
	for range rng.IntN(3) {
		held := lock.Context()
		switch rng.IntN(6) {
		case 0, 1:
			fakenode.Sleep(held, some(3*time.Second)) //nolint:contextcheck // it descends from ctx
		case 2:
			_ = lock.Extend(ctx, time.Duration(rng.IntN(3))*time.Second) // 0 is refused
		case 3:
			if depth < 2 {
				s.work(held, l, rng, depth+1) //nolint:contextcheck // likewise
			}
		default:
			lock = s.converted(ctx, lock)
		}
	}
	switch rng.IntN(6) {
	case 0: // it is lost
	case 1:
		_ = lock.Abandon()
	default:
		_ = lock.Release()
		_ = lock.Release() // which is told nobody
	}
}

// converted makes a writer of a reader, or the reverse, if it can.
func (s *randomSchedule) converted(ctx context.Context, lock *Lock) *Lock {
	s.calls.Add(1)
	var other *Lock
	if lock.Shared() {
		other, _ = lock.TryUpgrade(ctx)
	} else {
		other, _ = lock.Downgrade(ctx)
	}
	if other == nil {
		return lock
	}
	s.locks.Add(1)
	return other
}

// endsOfOneSchedule runs a schedule, and reports what happened in it.
func endsOfOneSchedule(t *testing.T, seed uint64) map[string]int {
	const workers, rounds, lockers, size = 8, 25, 2, 3
	fakes, _ := fakeNodes(size)
	for _, f := range fakes {
		f.Delay = time.Millisecond
	}
	all := newLedger(t)
	s := &randomSchedule{fakes: fakes}
	options := []Option{WithTTL(2 * time.Second), WithMaxOutage(time.Second), WithHooks(all.hooks()), WithHooks(Hooks{})}
	if seed%2 == 0 {
		options = append(options, WithFences())
	}
	for i := range lockers {
		s.lockers = append(s.lockers, another(t, fakes, append(slices.Clone(options), seeded(seed, uint64(i)))...))
	}
	all.locker = s.lockers[0]
	ctx, cancel := context.WithCancel(t.Context())
	var faults, work sync.WaitGroup
	faults.Go(func() {
		rng := rand.New(rand.NewPCG(seed, 1)) //nolint:gosec // it has to be repeatable
		for ctx.Err() == nil {
			fakenode.Sleep(ctx, time.Duration(rng.Int64N(int64(5*time.Second))))
			for _, i := range rng.Perm(size)[:rng.IntN(size)] {
				new(day).fail(fakes[i], rng)
			}
			fakenode.Sleep(ctx, time.Duration(rng.Int64N(int64(2*time.Second))))
			for _, f := range fakes {
				heal(f, 0)
			}
		}
	})
	for i := range workers {
		work.Go(func() {
			rng := rand.New(rand.NewPCG(seed, uint64(100+i))) //nolint:gosec // it has to be repeatable
			for round := range rounds {
				if i == 0 && round == rounds/2 {
					_ = s.lockers[1].Close() // while others use it
				}
				s.work(t.Context(), s.lockers[i%lockers], rng, 0)
			}
		})
	}
	work.Wait()
	cancel()
	faults.Wait()
	_ = s.lockers[0].Close()
	synctest.Wait()
	all.settle(int(s.calls.Load()), int(s.locks.Load()))
	return all.seen
}

func TestEachStartHasExactlyOneEndInAnySchedule(t *testing.T) {
	schedules := some(24)
	first := rand.Uint64() //nolint:gosec // any will do
	seen := make(map[string]int)
	for i := range schedules {
		seed := first + uint64(i)
		synctest.Test(t, func(t *testing.T) {
			for what, count := range endsOfOneSchedule(t, seed) {
				seen[what] += count
			}
		})
		if t.Failed() {
			t.Fatalf("the seed is %d", seed)
		}
	}
	for _, what := range []string{
		"exclusive direct true", "exclusive woken true", "exclusive handed over true", "exclusive converted true",
		"exclusive direct false", "shared direct true", "shared converted true", "keys direct true", "keys direct false", "permit direct true", "permit handed over true",
		"released", "lost", "closed", "abandoned", "converted",
		"release, handed over: true", "release, handed over: false",
		"extension, renewal: true, success: true", "extension, renewal: false, success: true", "extension, renewal: false, success: false",
	} {
		if seen[what] == 0 && !testing.Short() {
			t.Errorf("in %d schedules from the seed %d there was no %q: they test too little; there was %v", schedules, first, what, seen)
		}
	}
}

func TestHooksThatAreNotSetCostNothing(t *testing.T) {
	locker, _ := newLocker(t, 3)
	call := AcquireStart{Key: "k", Kind: kindExclusive}
	if n := testing.AllocsPerRun(1000, func() {
		_, told := locker.starts(t.Context(), call)
		ends(told, nil, nil)
	}); n != 0 {
		t.Errorf("without hooks an acquire allocates %v times for them", n)
	}
}
