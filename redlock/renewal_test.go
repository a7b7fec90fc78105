package redlock

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumlock/quorumlock/clockdrift"
	"github.com/quorumlock/quorumlock/internal/protocol"
)

func TestRenewalKeepsALockAlive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 5)
		lock := mustAcquire(t, locker, "k", WithRenewal())
		ctx := lock.Context()
		for range 100 {
			time.Sleep(time.Second)
			if ctx.Err() != nil || !lock.Valid() {
				t.Fatalf("a lock that is renewed was lost: %v", context.Cause(ctx))
			}
			if left := time.Until(lock.Until()); left < 6*time.Second {
				t.Fatalf("%v of 10s are left of a lease that is renewed every third of it", left)
			}
		}
		if sent := settings(fakes[0]); sent > 41 {
			t.Errorf("%d commands for 100s of a lease of 10s, want one each quarter to third of it", sent)
		}
		if err := lock.Release(t.Context()); err != nil {
			t.Errorf("Release = %v", err)
		}
		synctest.Wait() // a quorum is enough for Release
		before := settings(fakes[0])
		time.Sleep(time.Minute)
		if after := settings(fakes[0]); after != before {
			t.Errorf("%d commands after the release", after-before)
		}
	})
}

func TestRenewalHealsNodesThatLostTheKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 5)
		lock := mustAcquire(t, locker, "k", WithRenewal())
		for _, f := range fakes[:2] {
			f.change(func(f *fakeNode) { clear(f.keys) })
		}
		time.Sleep(4 * time.Second)
		for _, f := range fakes[:2] {
			if token, _ := f.token("k"); token != lock.Token() {
				t.Errorf("%s lost the key and did not get it again at the renewal", f.name)
			}
		}
	})
}

// 18. and 19. A renewal that fails or hangs is noticed by nobody.
func TestPitfall18And19ARenewalThatFailsOrHangsEndsTheContextAtTheDeadline(t *testing.T) {
	for name, harm := range map[string]func(*fakeNode){
		"refuse": func(f *fakeNode) { f.change(refuse) },
		"hang":   func(f *fakeNode) { f.stop() },
	} {
		synctest.Test(t, func(t *testing.T) {
			locker, fakes := newLocker(t, 5)
			lock := mustAcquire(t, locker, "k", WithRenewal())
			time.Sleep(5 * time.Second)
			deadline := lock.Until()
			ctx := lock.Context()
			for _, f := range fakes[:3] {
				harm(f)
			}
			time.Sleep(time.Until(deadline) - time.Millisecond)
			if ctx.Err() != nil || !lock.Valid() {
				t.Fatalf("three of five nodes %s: the lock was lost before its deadline: %v", name, context.Cause(ctx))
			}
			time.Sleep(time.Millisecond)
			synctest.Wait()
			if ctx.Err() == nil || lock.Valid() {
				t.Errorf("three of five nodes %s: the lock is held past its deadline", name)
			}
			var quorum *QuorumError
			if cause := context.Cause(ctx); !errors.Is(cause, ErrLost) || !errors.As(cause, &quorum) {
				t.Fatalf("three of five nodes %s: the cause is %v, want ErrLost with each node's answer", name, cause)
			}
			for i, vote := range quorum.Votes {
				if failed := vote.Answer == Failed; failed != (i < 3) {
					t.Errorf("three of five nodes %s: in the cause node %d says %v", name, i+1, vote)
				}
			}
			for _, f := range fakes[:3] {
				f.change(func(f *fakeNode) { f.refused = nil })
				if name == "hang" {
					f.resume()
				}
			}
			time.Sleep(15 * time.Second)
			if lock.Valid() || !errors.Is(lock.Extend(t.Context(), time.Second), ErrLost) {
				t.Error("a lost lock came back")
			}
		})
	}
}

func TestRenewalOutlastsAShortOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 5)
		lock := mustAcquire(t, locker, "k", WithRenewal())
		time.Sleep(3 * time.Second)
		for _, f := range fakes {
			f.change(refuse)
		}
		time.Sleep(5 * time.Second)
		for _, f := range fakes {
			f.change(func(f *fakeNode) { f.refused = nil })
		}
		time.Sleep(20 * time.Second)
		if !lock.Valid() {
			t.Error("all nodes were away for half a lease, and the lock was lost")
		}
	})
}

func TestRenewalsAreReportedBeforeTheLockIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var told []Renewal
		locker, fakes := newLocker(t, 5, WithRenewal(), OnRenewal(func(r Renewal) {
			mu.Lock()
			defer mu.Unlock()
			told = append(told, r)
		}))
		mustAcquire(t, locker, "k")
		for down := range 4 {
			time.Sleep(10 * time.Second / renewalShare)
			time.Sleep(300 * time.Millisecond) // a node time-out
			mu.Lock()
			last := told[len(told)-1]
			mu.Unlock()
			if down < 3 && (last.Err != nil || last.Granted != 5-down || last.Nodes != 5 || last.Need != 3) {
				t.Errorf("with %d of 5 nodes down the report is %v (%+v)", down, last, last)
			}
			if down == 3 && !errors.Is(last.Err, ErrNoQuorum) {
				t.Errorf("with 3 of 5 nodes down the report is %v, want ErrNoQuorum", last)
			}
			fakes[down].change(refuse)
		}
	})
}

func TestRenewalEndsWithTheContextOfTheAcquire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 3)
		ctx, cancel := context.WithCancel(t.Context())
		lock, err := locker.Acquire(ctx, "k", WithRenewal())
		if err != nil {
			t.Fatalf("Acquire = %v", err)
		}
		cancel()
		if lock.Context().Err() == nil {
			t.Error("the context of the Acquire has ended, and that of the lock has not")
		}
		time.Sleep(11 * time.Second)
		if names := stray(fakes, "k"); names != nil || lock.Valid() {
			t.Errorf("the hold was renewed after the end of its context: keys at %v", names)
		}
	})
}

func TestMaxHoldEndsAHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 3)
		began := time.Now()
		lock := mustAcquire(t, locker, "k", WithRenewal(), WithMaxHold(25*time.Second))
		<-lock.Context().Done()
		held := time.Since(began)
		if held > 25*time.Second || held < 24*time.Second {
			t.Errorf("a hold of at most 25s lasted %v", held)
		}
		if cause := context.Cause(lock.Context()); !errors.Is(cause, ErrLost) || cause == ErrLost {
			t.Errorf("the cause is %q, want ErrLost and why", cause)
		}
		time.Sleep(time.Until(began.Add(25*time.Second + 10*time.Millisecond)))
		if names := stray(fakes, "k"); names != nil {
			t.Errorf("after the longest hold the key is still at %v", names)
		}
	})
}

func TestAMachineThatResumesFindsItsLocksExpired(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var slept atomic.Int64
		clock := clockdrift.NewWith(func() time.Duration { return time.Duration(slept.Load()) })
		locker, _ := newLocker(t, 3, option(func(o *lockerOptions) { o.clock = clock }))
		expired := mustAcquire(t, locker, "expired").Context()
		short := mustAcquire(t, locker, "short", WithTTL(30*time.Second)).Context()
		renewed := mustAcquire(t, locker, "renewed", WithTTL(30*time.Second), WithRenewal())
		time.Sleep(500 * time.Millisecond)
		slept.Store(int64(25 * time.Second))
		time.Sleep(time.Second)
		synctest.Wait()
		if !errors.Is(context.Cause(expired), ErrLost) {
			t.Errorf("1s after a sleep of 25s the context of a lease of 10s ended because of %v, want ErrLost", context.Cause(expired))
		}
		if short.Err() != nil {
			t.Errorf("a lease of 30s ended after a sleep of 25s: %v", context.Cause(short))
		}
		time.Sleep(4 * time.Second)
		synctest.Wait()
		if short.Err() == nil {
			t.Error("the timer of a lease goes by the time that the machine was awake")
		}
		if !renewed.Valid() {
			t.Error("a lease that was valid at the resume was not renewed at once")
		}
	})
}

func TestALockerThatHoldsNothingHasNoTimer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, _ := newLocker(t, 3)
		lock := mustAcquire(t, locker, "k")
		mustAcquire(t, locker, "never released", WithTTL(time.Second))
		if err := lock.Release(t.Context()); err != nil {
			t.Fatalf("Release = %v", err)
		}
		time.Sleep(3 * time.Second)
		locker.holds.mu.Lock()
		defer locker.holds.mu.Unlock()
		if locker.holds.sleep.on || len(locker.holds.locks) > 0 {
			t.Errorf("3s after the last hold it looks once a second still, and keeps %d locks", len(locker.holds.locks))
		}
	})
}

func TestARevokedLockEndsAtTheRenewalThatFindsTheTombstones(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 5, WithTTL(time.Minute), WithRenewal())
		for name, hold := range map[string]func() handle{
			"a writer": func() handle { return mustAcquire(t, locker, "k").handle },
			"a reader": func() handle { return mustShare(t, locker, "k").handle },
		} {
			for graves := 2; graves <= 3; graves++ {
				lock := hold()
				ctx := lock.Context()
				synctest.Wait()
				fakes[2].plant("k", "another", time.Minute) // too many refuse in any case
				for _, f := range fakes[:graves] {
					f.plant("k", protocol.RevokedPrefix+"0123456789abcdef0123456789abcdef:it hangs", time.Minute)
				}
				time.Sleep(21 * time.Second) // a third of the TTL, in which a lock is renewed
				revoked := graves == 3
				if lost := errors.Is(context.Cause(ctx), ErrLost); lost != revoked || lock.Valid() == revoked {
					t.Errorf("%s with tombstones at %d of 5 nodes is valid: %v, its context has ended by %v", name, graves, lock.Valid(), context.Cause(ctx))
				}
				_ = lock.Release(t.Context()) // it may have been lost
				time.Sleep(time.Minute)
			}
		}
	})
}
