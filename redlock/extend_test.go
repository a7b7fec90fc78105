package redlock

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestAnExtensionDecidedAfterTheDeadlineDoesNotCountAndIsTakenBack(t *testing.T) {
	for _, timer := range []bool{true, false} { // a lock has one if its context was asked for
		synctest.Test(t, func(t *testing.T) {
			// What looks for the sleep of the machine once a second comes too early for this lease.
			locker, fakes := newLocker(t, 3, WithTTL(1500*time.Millisecond), WithNodeTimeout(500*time.Millisecond))
			warm(t, locker)
			lock := mustTry(t, locker, "k")
			if timer {
				lock.Context()
			}
			time.Sleep(1340 * time.Millisecond)
			for _, f := range fakes {
				f.Change(func(f *fakeNode) { f.Delay = 300 * time.Millisecond }) // runs after 150ms: the key has not expired
			}
			err := lock.Extend(t.Context(), 10*time.Second)
			if !errors.Is(err, ErrLost) {
				t.Errorf("Extend = %v, want ErrLost: its votes came 157ms after the deadline", err)
			}
			if cause := context.Cause(lock.Context()); cause != ErrLost || lock.Valid() {
				t.Errorf("the lock lives on: cause %v, valid %v", cause, lock.Valid())
			}
			time.Sleep(time.Second)
			synctest.Wait()
			wantFree(t, fakes, "k")
		})
	}
}

// The table in the package's documentation.
func TestWhatExtendAndReleaseReturnInEachState(t *testing.T) {
	type state struct {
		name            string
		reach           func(t *testing.T, locker *Locker, lock *Lock, fakes []*fakeNode)
		extend, release []error // all that it matches
	}
	only := func(err error) []error { return []error{err} }
	for _, tt := range []state{
		{"held", func(*testing.T, *Locker, *Lock, []*fakeNode) {}, nil, nil},
		{"expired", func(_ *testing.T, _ *Locker, lock *Lock, _ []*fakeNode) { <-lock.Context().Done() }, only(ErrLost), only(ErrLost)},
		{"expired, unknown at a majority", func(_ *testing.T, _ *Locker, lock *Lock, fakes []*fakeNode) {
			<-lock.Context().Done()
			changeAll(fakes[:2], refuse)
		}, only(ErrLost), []error{ErrLost, ErrNoQuorum}},
		{"taken over", func(_ *testing.T, _ *Locker, _ *Lock, fakes []*fakeNode) {
			plant(fakes, "k", "another", time.Minute)
		}, only(ErrLost), only(ErrLost)},
		{"taken over at a minority", func(_ *testing.T, _ *Locker, _ *Lock, fakes []*fakeNode) {
			fakes[0].Plant("k", "another", time.Minute)
		}, nil, nil},
		{"taken over at a minority, unknown at another", func(_ *testing.T, _ *Locker, _ *Lock, fakes []*fakeNode) {
			fakes[0].Plant("k", "another", time.Minute)
			fakes[1].Change(refuse)
		}, only(ErrNoQuorum), nil},
		{"unknown at a minority", func(_ *testing.T, _ *Locker, _ *Lock, fakes []*fakeNode) {
			fakes[0].Change(refuse)
		}, nil, nil},
		{"unknown at a majority", func(_ *testing.T, _ *Locker, _ *Lock, fakes []*fakeNode) {
			changeAll(fakes[:2], refuse)
		}, only(ErrNoQuorum), only(ErrNoQuorum)},
		{"gone from all nodes", func(_ *testing.T, _ *Locker, _ *Lock, fakes []*fakeNode) {
			changeAll(fakes, func(f *fakeNode) { clear(f.Keys) })
		}, nil, only(ErrLost)},
		{"released", func(t *testing.T, _ *Locker, lock *Lock, _ []*fakeNode) {
			noError(t, lock.Release())
		}, only(ErrReleased), only(ErrReleased)},
		{"closed", func(t *testing.T, locker *Locker, _ *Lock, _ []*fakeNode) {
			noError(t, locker.Close())
		}, only(ErrClosed), only(ErrClosed)},
	} {
		for _, op := range []string{"Extend", "Release", "Abandon"} {
			synctest.Test(t, func(t *testing.T) {
				locker, fakes := newLocker(t, 3)
				lock := mustAcquire(t, locker, "k")
				tt.reach(t, locker, lock, fakes)
				var got error
				var want []error
				switch op {
				case "Extend":
					got, want = lock.Extend(t.Context(), 10*time.Second), tt.extend
				case "Release":
					got, want = lock.Release(), tt.release
				default: // it asks no node
					got = lock.Abandon()
					if over := []error{ErrReleased, ErrClosed}; tt.extend != nil && slices.Contains(over, tt.extend[0]) || strings.HasPrefix(tt.name, "expired") {
						want = tt.extend
					}
				}
				if (got == nil) != (want == nil) {
					t.Errorf("%s of a lock that is %s = %v, want %v", op, tt.name, got, want)
				}
				for _, sentinel := range []error{ErrTaken, ErrNoQuorum, ErrLost, ErrReleased, ErrClosed} {
					if matches := errors.Is(got, sentinel); matches != slices.Contains(want, sentinel) {
						t.Errorf("%s of a lock that is %s = %v, which matches %q: %v", op, tt.name, got, sentinel, matches)
					}
				}
			})
		}
	}
}

func TestAnInterruptedQuestionIsNotHeldByAnother(t *testing.T) {
	for name, do := range map[string]func(context.Context, *Lock) error{
		"Confirm": func(ctx context.Context, l *Lock) error { _, err := l.Confirm(ctx); return err },
		"Extend":  func(ctx context.Context, l *Lock) error { return l.Extend(ctx, time.Minute) },
	} {
		bubble(t, name, func(t *testing.T) {
			locker, fakes := newLocker(t, 3)
			lock := mustAcquire(t, locker, "k")
			fakes[0].Plant("k", "another", time.Hour)
			fakes[2].Change(func(f *fakeNode) { f.Delay = 200 * time.Millisecond })
			ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			defer cancel()
			err := do(ctx, lock)
			if errors.Is(err, ErrTaken) || !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%s with one yes, one no and one open = %v, which matches ErrTaken: %v", name, err, errors.Is(err, ErrTaken))
			}
			returns(t, context.DeadlineExceeded, name, "with a context that has ended")(do(ctx, lock))
		})
	}
}

// The nodes grant their lease some time after it was cut.
func TestASlowExtendDoesNotPassTheLongestHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 3, WithTTL(10*time.Second), WithNodeTimeout(2*time.Second), WithDriftFactor(0))
		warm(t, locker)
		began := time.Now()
		lock := mustAcquire(t, locker, "k", WithMaxHold(15*time.Second))
		blocked := make(chan struct{})
		changeAll(fakes, func(f *fakeNode) { f.Hold = func(string) <-chan struct{} { return blocked } })
		go func() { // one batch is out, so the next one waits
			_, _ = lock.Confirm(t.Context())
		}()
		synctest.Wait()
		go func() {
			time.Sleep(time.Second)
			close(blocked)
		}()
		noError(t, lock.Extend(t.Context(), time.Hour))
		if until := lock.Until().Sub(began); until > 15*time.Second {
			t.Errorf("a hold of at most 15s lasts %v", until)
		}
	})
}
