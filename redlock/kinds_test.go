package redlock

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// kindsOfLocks acquire a lock of each kind, under one name.
var kindsOfLocks = map[string]func(l *Locker, ctx context.Context, options ...AcquireOption) (*Lock, error){
	"an exclusive lock": func(l *Locker, ctx context.Context, options ...AcquireOption) (*Lock, error) {
		return l.Acquire(ctx, "k", options...)
	},
	"a shared lock": func(l *Locker, ctx context.Context, options ...AcquireOption) (*Lock, error) {
		return l.AcquireShared(ctx, "k", options...)
	},
	"several keys": func(l *Locker, ctx context.Context, options ...AcquireOption) (*Lock, error) {
		return l.AcquireAll(ctx, []string{"k", "l", "m"}, options...)
	},
	"a permit": func(l *Locker, ctx context.Context, options ...AcquireOption) (*Lock, error) {
		s, err := l.Semaphore("k", 2)
		if err != nil {
			return nil, err
		}
		return s.Acquire(ctx, options...)
	},
	"several permits": func(l *Locker, ctx context.Context, options ...AcquireOption) (*Lock, error) {
		s, err := l.Semaphore("k", 3)
		if err != nil {
			return nil, err
		}
		return s.AcquireN(ctx, 2, options...)
	},
	"what was downgraded": func(l *Locker, ctx context.Context, options ...AcquireOption) (*Lock, error) {
		lock, err := l.Acquire(ctx, "k", options...)
		if err != nil {
			return nil, err
		}
		return lock.Downgrade(ctx)
	},
	"what was upgraded": func(l *Locker, ctx context.Context, options ...AcquireOption) (*Lock, error) {
		lock, err := l.AcquireShared(ctx, "k", options...)
		if err != nil {
			return nil, err
		}
		return lock.TryUpgrade(ctx)
	},
}

// holdAll takes all that locks of a kind need.
func holdAll(t *testing.T, locker *Locker, kind string, options ...AcquireOption) []*Lock {
	t.Helper()
	all := []*Lock{mustAcquire(t, locker, "k", options...)}
	if permits := map[string]int{"a permit": 2, "several permits": 3}[kind]; permits > 0 {
		s, err := locker.Semaphore("k", permits)
		must(t, err)
		all = append(all, mustTakeN(t, s, permits, options...))
	}
	t.Cleanup(func() { runtime.KeepAlive(all) })
	return all
}

// onEachKind runs a test with a lock of each kind, on five nodes.
func onEachKind(t *testing.T, options []Option, acquire []AcquireOption, test func(t *testing.T, locker *Locker, fakes []*fakeNode, lock *Lock)) {
	t.Helper()
	for name, take := range kindsOfLocks {
		bubble(t, name, func(t *testing.T) {
			locker, fakes := newLocker(t, 5, options...)
			var lock *Lock
			for i := range 2 { // at the first time the nodes do not know the scripts yet
				var err error
				lock, err = take(locker, t.Context(), acquire...)
				synctest.Wait() // so that it leaves for all of them
				if err == nil && i == 0 {
					err = lock.Release()
				}
				must(t, err)
				synctest.Wait()
			}
			test(t, locker, fakes, lock)
		})
	}
}

func TestEveryKindKeepsThePromisesOfALock(t *testing.T) {
	onEachKind(t, []Option{WithTTL(10 * time.Second), WithFences()}, nil, func(t *testing.T, locker *Locker, fakes []*fakeNode, lock *Lock) {
		granted := 0
		for _, vote := range lock.Votes() {
			if vote.Answer == grantedVote {
				granted++
			}
		}
		if left := time.Until(lock.Until()); !lock.Valid() || left > 10*time.Second || left < 9*time.Second || lock.Fence() == 0 || granted != 5 {
			t.Errorf("valid %v for %v with the fence %d and the votes %v, want a lease of 10s less the drift, a fence and 5 votes", lock.Valid(), left, lock.Fence(), lock.Votes())
		}
		if text := fmt.Sprintf("%v %+v %#v %s", lock, lock, lock, lock); strings.Contains(text, lock.Token()[4:]) || !strings.Contains(text, "valid for 9.898s") {
			t.Errorf("a lock shows as %q, want for how long it is valid, and no token", text)
		}
		held := lock.Context()
		time.Sleep(5 * time.Second)
		keys := 0
		fakes[0].Change(func(f *fakeNode) {
			keys = len(f.Keys)
			clear(f.Keys)
			clear(f.Readers)
		})
		noError(t, lock.Extend(t.Context(), 10*time.Second))
		noError(t, lock.Extend(t.Context(), time.Second), "Extend to less than is left, which shortens nothing")
		synctest.Wait()
		if got := len(fakes[0].Keys); got != keys {
			t.Errorf("after an extension a node that had lost its %d keys has %d", keys, got)
		}
		time.Sleep(8 * time.Second)
		if held.Err() != nil {
			t.Errorf("the context ended before the lease that was extended: %v", context.Cause(held))
		}
		wantHeld(t, lock, true)
		if err := lock.Release(); err != nil || !errors.Is(context.Cause(held), ErrReleased) || lock.Valid() {
			t.Errorf("Release = %v, and the context ended because of %v", err, context.Cause(held))
		}
		returns(t, ErrReleased, "the second Release")(lock.Release())
		returns(t, ErrReleased, "Extend after Release")(lock.Extend(t.Context(), time.Second))
		synctest.Wait()
		for _, key := range []string{"k", "l", "m", "ql:slot:{k}0", "ql:slot:{k}1", "ql:readers:{k}"} {
			wantFree(t, fakes, key)
		}
		time.Sleep(time.Minute)
		empty(t, locker)
	})
}

func TestPitfall19OfEveryKindARenewalThatHangsEndsTheContextAtTheDeadline(t *testing.T) {
	onEachKind(t, []Option{WithTTL(10 * time.Second)}, []AcquireOption{WithRenewal()}, func(t *testing.T, _ *Locker, fakes []*fakeNode, lock *Lock) {
		time.Sleep(time.Minute)
		if !lock.Valid() {
			t.Fatalf("a lock that is renewed is lost: %v", context.Cause(lock.Context()))
		}
		forEach(fakes, (*fakeNode).Stop)
		time.Sleep(time.Millisecond) // a renewal may be under way
		until := lock.Until()
		held := lock.Context()
		<-held.Done()
		if late := time.Since(until); late > 100*time.Millisecond || time.Until(until) > 10*time.Second || !errors.Is(context.Cause(held), ErrLost) {
			t.Errorf("the context ended %v behind the deadline, because of %v", late, context.Cause(held))
		}
		_ = lock.Release()
	})
}

// A lease that was multiplied by its unit at each try lasted hours.
func TestPitfall21OfEveryKindNoTryAndNoRenewalLengthensALease(t *testing.T) {
	const ttl = 10 * time.Second
	for kind, take := range kindsOfLocks {
		bubble(t, kind, func(t *testing.T) {
			locker, fakes := newLocker(t, 3, WithTTL(ttl))
			holdAll(t, another(t, fakes), kind, WithTTL(time.Second)) // so that there are several tries
			lock, err := take(locker, t.Context(), WithRenewal())
			must(t, err)
			seen := 0
			for range 600 {
				changeAll(fakes, func(f *fakeNode) {
					f.Cuts = 1 // and that renewals are sent once more
					for key, held := range f.Keys {
						if left := held.Until.Sub(f.Now()); left > ttl && key != "ql:permits:{k}" {
							t.Errorf("%s keeps %q for %v, and the lease is %v", f.Name(), key, left, ttl)
						} else if left > 0 {
							seen++
						}
					}
				})
				time.Sleep(100 * time.Millisecond)
			}
			if left := time.Until(lock.Until()); !lock.Valid() || left > ttl || seen < 1000 {
				t.Errorf("after a minute the lease lasts %v, and keys were seen %d times", left, seen)
			}
			mustRelease(t, lock)
		})
	}
}

func TestCloseReleasesLocksOfEveryKind(t *testing.T) {
	onEachKind(t, nil, nil, func(t *testing.T, locker *Locker, fakes []*fakeNode, lock *Lock) {
		held := lock.Context()
		if err := locker.Close(); err != nil || !errors.Is(context.Cause(held), ErrClosed) || lock.Valid() {
			t.Errorf("Close = %v, and the context ended because of %v", err, context.Cause(held))
		}
		returns(t, ErrClosed)(locker.TryAcquire(t.Context(), "another"))
		returns(t, nil, "the second Close")(locker.Close())
		for _, key := range []string{"k", "l", "m", "ql:slot:{k}0", "ql:slot:{k}1"} {
			wantFree(t, fakes, key)
		}
	})
}

func TestALostLockOfEveryKindSaysSo(t *testing.T) {
	onEachKind(t, []Option{WithTTL(time.Second)}, nil, func(t *testing.T, _ *Locker, _ []*fakeNode, lock *Lock) {
		time.Sleep(2 * time.Second)
		if lock.Valid() || !errors.Is(context.Cause(lock.Context()), ErrLost) {
			t.Errorf("after its lease it is valid: %v, and ended because of %v", lock.Valid(), context.Cause(lock.Context()))
		}
		returns(t, ErrLost)(lock.Extend(t.Context(), time.Second))
		returns(t, ErrLost)(lock.Release())
	})
}

// 8. The context ends while waiting, and the error says neither that nor why. Two wait, one behind the other if they take
// turns.
func TestPitfall08TheEndOfWaitingSaysBoth(t *testing.T) {
	leaving := errors.New("service is shutting down")
	for kind, take := range kindsOfLocks {
		for whose, ours := range map[string]bool{"of this Locker": true, "of another": false} {
			bubble(t, kind+" beside a holder "+whose, func(t *testing.T) {
				locker, fakes := newLocker(t, 3)
				holder := locker
				if !ours {
					holder = another(t, fakes)
				}
				held := holdAll(t, holder, kind, WithTTL(time.Hour))
				cancelled, cancel := context.WithCancelCause(t.Context())
				defer cancel(nil)
				limited, end := context.WithTimeout(t.Context(), 6*time.Second)
				defer end()
				for _, tt := range []struct {
					ctx    context.Context //nolint:containedctx // of one call
					option AcquireOption
					waits  time.Duration
					want   []error
				}{
					{t.Context(), WithMaxWait(0), 0, []error{ErrTaken}},
					{t.Context(), WithMaxWait(2 * time.Second), 2 * time.Second, []error{ErrTaken}},
					{cancelled, WithMaxWait(time.Hour), time.Second, []error{ErrTaken, context.Canceled, leaving}},
					{limited, WithMaxWait(time.Hour), 3 * time.Second, []error{ErrTaken, context.DeadlineExceeded}},
				} {
					began := time.Now()
					wait := func() error { return passing(take(locker, tt.ctx, tt.option)) }
					results := []<-chan error{async(wait), async(wait)}
					if tt.ctx == cancelled {
						time.AfterFunc(tt.waits, func() { cancel(leaving) })
					}
					for i, result := range results {
						err := <-result
						for _, want := range tt.want {
							returns(t, want, "waiter", i+1, "ends with")(err)
						}
						if took := time.Since(began); took != tt.waits {
							t.Errorf("waiter %d ends with %v after %v, want that after %v", i+1, err, took, tt.waits)
						}
					}
				}
				for _, lock := range held {
					mustRelease(t, lock)
				}
				noError(t, passing(take(locker, t.Context(), WithMaxWait(0))), "nobody is left in line who would be given it, and an acquire")
			})
		}
	}
}

func TestWhatNeedsScriptsSaysSoAtOnce(t *testing.T) {
	for name, take := range kindsOfLocks {
		synctest.Test(t, func(t *testing.T) {
			var options []Option
			if name == "an exclusive lock" {
				options = append(options, WithFairness()) // others do without scripts
			}
			locker, fakes := newLocker(t, 3, options...)
			changeAll(fakes, func(f *fakeNode) { f.Scriptless = true })
			began := time.Now()
			for range 2 {
				_, err := take(locker, t.Context())
				if !errors.Is(err, ErrNode) || !strings.Contains(err.Error(), "allow +eval +evalsha") || time.Since(began) > time.Second {
					t.Errorf("without scripts an acquire of %s = %v after %v, want ErrNode that says what to allow", name, err, time.Since(began))
				}
				if name == "what was downgraded" {
					return // the lock is held still
				}
			}
		})
	}
}
