package redlock

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/internal/scripts"
)

// ownToken is a token of the user's own, for a request that is repeated.
var ownToken = WithToken("request-42")

// retry takes the lock on "k" again with [ownToken], and fails the test if it has not its
// keys at all nodes at the end of what harm does.
func retry(t *testing.T, locker *Locker, fakes []*fakeNode, harm func()) {
	t.Helper()
	again := mustAcquire(t, locker, "k", ownToken, WithTTL(time.Minute))
	if harm != nil {
		harm()
	}
	time.Sleep(2 * time.Second)
	synctest.Wait()
	if names := stray(fakes, "k"); len(names) != len(fakes) {
		t.Errorf("the retry's lock, which is valid (%v), has its key only at %v", again.Valid(), names)
	}
	if held, err := again.Confirm(t.Context()); !held {
		t.Errorf("Held = %v, %v: somebody else may take the key of the retry", held, err)
	}
}

// ownTokenRetries runs a test with the retry in the same process, and in another.
func ownTokenRetries(t *testing.T, test func(t *testing.T, first, second *Locker, fakes []*fakeNode)) {
	t.Helper()
	for name, same := range map[string]bool{"by the same process": true, "by another process": false} {
		bubble(t, name, func(t *testing.T) {
			first, fakes := newLocker(t, 3, WithTTL(1500*time.Millisecond), WithNodeTimeout(500*time.Millisecond))
			second := first
			if !same {
				second = another(t, fakes, WithNodeTimeout(500*time.Millisecond))
			}
			warm(t, first)
			warm(t, second)
			test(t, first, second, fakes)
		})
	}
}

func TestARetryWithItsOwnTokenIsNotDeletedByALateExtension(t *testing.T) {
	for name, options := range map[string][]AcquireOption{"extend": {ownToken}, "renewal": {ownToken, WithRenewal()}} {
		t.Run(name, func(t *testing.T) {
			ownTokenRetries(t, func(t *testing.T, first, second *Locker, fakes []*fakeNode) {
				lock := mustAcquire(t, first, "k", options...)
				if name == "renewal" {
					changeAll(fakes, func(f *fakeNode) { f.Answer = failing("EVALSHA", "BUSY Redis is busy running a script") })
				}
				time.Sleep(1340 * time.Millisecond)
				for _, f := range fakes {
					f.Change(func(f *fakeNode) { f.Delay, f.Answer = 300*time.Millisecond, nil }) // it runs after half of that
				}
				if name == "renewal" {
					first.board.Renewals.Set(lock.hold.Renewal, first.clock.Now())
				} else {
					go func() {
						returns(t, ErrLost, "its votes come after the deadline")(lock.Extend(t.Context(), 10*time.Second))
					}()
				}
				time.Sleep(150 * time.Millisecond)
				if lock.Valid() {
					t.Fatal("the test does not show the fault: the lock is not lost")
				}
				retry(t, second, fakes, nil)
			})
		})
	}
}

func TestCloseSparesALostLockWithATokenOfOnesOwn(t *testing.T) {
	ownTokenRetries(t, func(t *testing.T, first, second *Locker, fakes []*fakeNode) {
		held := mustAcquire(t, first, "held", ownToken, WithRenewal())
		mustAcquire(t, first, "k", ownToken)
		time.Sleep(1490 * time.Millisecond) // what looks for locks that are over comes once a second
		if first == second {
			second = another(t, fakes)
		}
		retry(t, second, fakes, func() { _ = first.Close() })
		if names := stray(fakes, "held"); names != nil || held.Valid() {
			t.Errorf("Close has left a lock that was held at %v, valid %v", names, held.Valid())
		}
	})
}

func TestAReleaseOfALostLockSparesTheRetryThatHasItsToken(t *testing.T) {
	for _, waits := range []bool{false, true} { // somebody, to whom a lock would be handed over
		ownTokenRetries(t, func(t *testing.T, first, second *Locker, fakes []*fakeNode) {
			lock := mustAcquire(t, first, "k", ownToken)
			time.Sleep(1490 * time.Millisecond)
			retry(t, second, fakes, func() {
				if waits {
					waitFor(t.Context(), first, WithMaxWait(5*time.Second))
				}
				returns(t, ErrLost, "Release of a lost lock")(lock.Release())
				returns(t, ErrReleased, "the second Release")(lock.Release())
			})
			// It was not released, so it may be used.
			mustAcquire(t, first, "k", ownToken)
		})
	}
}

// A set and a lock on one of its keys are one lock there, and so are sets that overlap.
func TestAReleaseEndsAllLocksOfItsTokenInOneLocker(t *testing.T) {
	release := func(_ context.Context, lock *Lock) error { return lock.Release() }
	c := []string{"c"}
	for name, tt := range map[string]struct {
		gives, ends []string
		give        func(ctx context.Context, lock *Lock) error
	}{
		"Release":                  {c, c, release},
		"Abandon":                  {c, c, func(_ context.Context, lock *Lock) error { return lock.Abandon() }},
		"Downgrade":                {c, c, func(ctx context.Context, lock *Lock) error { return passing(lock.Downgrade(ctx)) }},
		"a lock on a key of a set": {[]string{"c", "d"}, c, release},
		"a set":                    {c, []string{"c", "d"}, release},
		"a set that overlaps":      {[]string{"b", "c"}, []string{"c", "d"}, release},
	} {
		bubble(t, name, func(t *testing.T) {
			locker, fakes := newLocker(t, 3, WithTTL(time.Minute), WithRenewal())
			take := func(keys []string) *Lock {
				if len(keys) == 1 {
					return mustAcquire(t, locker, keys[0], ownToken)
				}
				return mustAcquireAll(t, locker, keys, ownToken)
			}
			ends, gives, other := take(tt.ends), take(tt.gives), take([]string{"another key"})
			must(t, tt.give(t.Context(), gives))
			if ends.Valid() || !errors.Is(context.Cause(ends.Context()), ErrReleased) {
				t.Errorf("the other lock is valid (%v), its context has ended by %v; want ErrReleased", ends.Valid(), context.Cause(ends.Context()))
			}
			returns(t, ErrReleased, "Extend of the other")(ends.Extend(t.Context(), time.Minute))
			returns(t, ErrReleased, "Release of the other")(ends.Release())
			if !other.Valid() {
				t.Error("the lock on another key has ended as well")
			}
			time.Sleep(10 * time.Second)
			for _, key := range []string{"b", "c", "d"} {
				if names := stray(fakes, key); (len(names) > 0) != (name == "Abandon" && key == "c") {
					t.Errorf("%q is at %v", key, names)
				}
			}
		})
	}
}

func TestALockOnAnotherKeyWithASpentTokenIsExtended(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, _ := newLocker(t, 3, WithTTL(time.Minute))
		a, b := mustAcquire(t, locker, "a", ownToken), mustAcquire(t, locker, "b", ownToken)
		mustRelease(t, a)
		noError(t, b.Extend(t.Context(), time.Minute), "Extend of a lock on another key than the one that was released")
		mustRelease(t, b)
	})
}

func TestNoExtensionOfASpentTokenLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 3, WithTTL(time.Minute))
		first, second := mustAcquire(t, locker, "k", ownToken), mustAcquire(t, locker, "k", ownToken)
		if err := first.Extend(t.Context(), time.Minute); err != nil { // nodes know the script from now on
			t.Fatalf("Extend = %v", err)
		}
		synctest.Wait() // the third as well
		var extensions atomic.Int32
		changeAll(fakes, func(f *fakeNode) {
			f.Delay = 10 * time.Millisecond
			f.Answer = func(args []any) *driver.Reply {
				if len(args) > 1 && (args[1] == scripts.Extend.Digest || args[1] == scripts.Hold.Digest) {
					extensions.Add(1)
				}
				return nil
			}
		})
		for range 2 { // the second stands behind the first at the nodes
			go func() { _ = first.Extend(t.Context(), time.Minute) }()
		}
		time.Sleep(time.Millisecond)
		mustRelease(t, second)
		time.Sleep(time.Second)
		wantFree(t, fakes, "k")
		synctest.Wait()
		if count := int(extensions.Load()); count != len(fakes) {
			t.Errorf("%d extensions have left, want one a node", count)
		}
	})
}

func TestALockThatIsGrantedWhileItsTokenIsReleasedIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 3, WithTTL(time.Minute))
		lock := mustAcquire(t, locker, "k", ownToken)
		far(fakes, 10*time.Millisecond)
		result := make(chan error)
		go func() { _, err := locker.Acquire(t.Context(), "k", ownToken); result <- err }()
		time.Sleep(time.Millisecond)
		mustRelease(t, lock)
		returns(t, ErrReleased)(<-result)
		time.Sleep(time.Second)
		wantFree(t, fakes, "k")
	})
}
