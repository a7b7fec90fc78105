package main

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// slowLock has so many holders at a time, and takes its time to tell the next one. It remembers the
// keys, and fails where it is told to.
type slowLock struct {
	free  chan struct{}
	delay time.Duration
	fail  error

	mu   sync.Mutex
	keys map[string]int
}

func newSlowLock(holders int, delay time.Duration) *slowLock {
	l := &slowLock{free: make(chan struct{}, 1000), delay: delay, keys: map[string]int{}}
	for range holders {
		l.free <- struct{}{}
	}
	return l
}

func (l *slowLock) Lock(ctx context.Context, key string) (Hold, error) { return l.Wait(ctx, key) }

func (l *slowLock) Wait(ctx context.Context, key string) (Hold, error) {
	l.mu.Lock()
	l.keys[key]++
	l.mu.Unlock()
	if l.fail != nil {
		return nil, l.fail
	}
	select {
	case <-l.free:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	time.Sleep(l.delay)
	return l, nil
}

func (l *slowLock) Release() error {
	l.free <- struct{}{}
	return nil
}

func (*slowLock) Close() error { return nil }

func TestLoadLocksEachKeyOnce(t *testing.T) {
	session := newSlowLock(8, 0)
	load := (&Load{Session: session, Callers: 8}).Start(t.Context())
	sample := load.Window(t.Context(), Span{Cycles: 5000, Most: time.Minute})
	load.Stop()
	if sample.Lock.count < 5000 || sample.Lost.count != 0 || sample.Unlock.count != sample.Lock.count {
		t.Errorf("a window of 5000 cycles ended with %d, %d failed, and %d times of unlock", sample.Lock.count, sample.Lost.count, sample.Unlock.count)
	}
	if len(session.free) != 8 {
		t.Errorf("%d keys are held after Stop, want none", 8-len(session.free))
	}
	lengths := map[int]bool{}
	for key, n := range session.keys {
		if lengths[len(key)] = true; n != 1 || len(lengths) > 1 {
			t.Fatalf("%q was locked %d times, and keys have lengths of %v; want once, and one", key, n, lengths)
		}
	}
}

func TestLoadCountsFailures(t *testing.T) {
	refusal := errors.New("refused")
	refusing := newSlowLock(1, 0)
	refusing.fail = refusal
	load := (&Load{Session: refusing, Callers: 2}).Start(t.Context())
	defer load.Stop()
	sample := load.Window(t.Context(), Span{Least: 10 * time.Millisecond, Cycles: 1, Most: 20 * time.Millisecond})
	if sample.Lock.count != 0 || sample.Lost.count == 0 || !errors.Is(sample.Err, refusal) {
		t.Errorf("%d cycles, %d failed with %v; want none, some and %v", sample.Lock.count, sample.Lost.count, sample.Err, refusal)
	}
}

func TestWindowEndsWithTheContext(t *testing.T) {
	load := (&Load{Session: newSlowLock(1, 0), Callers: 1}).Start(t.Context())
	defer load.Stop()
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := attempt(func() { load.Window(ctx, Span{Least: time.Hour, Most: time.Hour}) }); !errors.Is(err, context.Canceled) {
		t.Errorf("a window of an hour ended with %v, want the context's error", err)
	}
}

func TestCallersHaveTheKeysOfTheirKind(t *testing.T) {
	for want, load := range map[int]*Load{2 * 256: {Keys: 256}, 2: {Keys: 1}, 1: {Key: "bench:one"}} {
		session := newSlowLock(8, 0)
		load.Session, load.Callers = session, 2
		load.Start(t.Context())
		load.Window(t.Context(), Span{Least: 50 * time.Millisecond, Cycles: 2000, Most: time.Minute})
		load.Stop()
		if len(session.keys) != want {
			t.Errorf("two callers have %d keys, want %d", len(session.keys), want)
		}
	}
}

// In an open loop calls are due at their rate, however long each takes, and their times begin then.
func TestCallsThatDoNotWaitForEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lock := newSlowLock(1000, 100*time.Millisecond)
		load := (&Load{Session: lock, Rate: 100}).Start(t.Context())
		sample := load.Window(t.Context(), Span{Least: time.Second, Most: time.Second})
		load.Stop()
		if sample.Lock.count < 85 || sample.Lock.count > 95 || sample.Lost.count > 0 || load.most.Load() < 9 || load.most.Load() > 11 {
			t.Errorf("a second has %d calls, %d at most at once, and %d failed; want 85 to 95, some 10 and none", sample.Lock.count, load.most.Load(), sample.Lost.count)
		}
		if p50 := sample.Lock.quantile(0.5); bucket(p50) != bucket(100*time.Millisecond) {
			t.Errorf("a call of 100 ms takes %v", p50)
		}
	})
}

func TestCallsEndWithTheirPatience(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		load := (&Load{Session: newSlowLock(0, 0), Rate: 10}).Start(t.Context())
		sample := load.Window(t.Context(), Span{Least: 3 * time.Second, Most: 3 * time.Second})
		load.Stop()
		if sample.Lock.count > 0 || sample.Lost.count == 0 || bucket(sample.Lost.longest) != bucket(time.Second) {
			t.Errorf("%d calls got a lock that nobody releases, %d failed, after %v at most; want none, some, 1 s", sample.Lock.count, sample.Lost.count, sample.Lost.longest)
		}
	})
}

func TestHandOvers(t *testing.T) {
	for name, tt := range map[string]struct {
		holders     int
		delay       time.Duration
		span        Span
		least, most uint64 // hand-overs
		fails       bool
	}{
		"each is as long as the lock is slow":     {1, 3 * time.Millisecond, Span{Cycles: 20, Most: time.Minute}, 20, 20, false},
		"they end with their time":                {1, 80 * time.Millisecond, Span{Cycles: 200, Most: 8 * time.Second}, 70, 90, false},
		"who gets a lock that is held, waits not": {2, 0, Span{Cycles: 20, Most: time.Minute}, 0, 0, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				lock := newSlowLock(tt.holders, tt.delay)
				var times *latencies
				err := attempt(func() { times = handOvers(t.Context(), [2]Session{lock, lock}, tt.span, true) })
				if (err != nil) != tt.fails {
					t.Fatal(err)
				}
				if tt.fails {
					return
				}
				if times.count < tt.least || times.count > tt.most || bucket(times.quantile(0)) != bucket(tt.delay) || bucket(times.longest) != bucket(tt.delay) {
					t.Errorf("%d hand-overs took %v to %v, want %d to %d of %v", times.count, times.quantile(0), times.longest, tt.least, tt.most, tt.delay)
				}
				if len(lock.free) != 1 {
					t.Error("the last holder has not released the lock")
				}
			})
		})
	}
}

func TestARecoveryLastsUntilTheLastQuarterOfASecondWithMoreThanOneBadCallInTen(t *testing.T) {
	for want, bad := range map[time.Duration][]int{0: {10, 0, 1}, 500 * time.Millisecond: {0, 11, 10, 10}, time.Second: {0, 0, 0, 100, 0}} {
		var r recovery
		for i, bad := range bad {
			for call := range 100 {
				r.told(time.Duration(i)*slice, call < bad)
			}
		}
		if got := r.lasted(); got != want {
			t.Errorf("with %d bad calls of 100 in each quarter of a second, a recovery lasts %v, want %v", bad, got, want)
		}
	}
}
