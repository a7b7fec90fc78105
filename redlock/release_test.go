package redlock

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumlock/quorumlock/internal/node"
	"github.com/quorumlock/quorumlock/internal/quorum"
)

// Servers that were stopped run what lies in their buffers when they wake up, and not
// in the order of the connections: the acquire after the release.
func TestAnAcquireThatAStoppedServerRunsAfterItsReleaseIsTakenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 3, WithTTL(10*time.Second))
		warm(t, locker)
		stopped := fakes[1]
		stopped.Stop()
		lock := mustTry(t, locker, "k")
		synctest.Wait() // or it would not be sent there any more
		noError(t, lock.Release())
		time.Sleep(20 * time.Second)
		stopped.Resume()
		if token, _ := stopped.Token("k"); token != lock.Token() {
			t.Fatalf("the test does not show the fault: the acquire did not run on resume")
		}
		time.Sleep(node.MaxCooldown + quorum.LastPause)
		synctest.Wait()
		wantFree(t, fakes, "k")
	})
}

func TestAnUnknownOutcomeIsNotEndedByAnAnswerThatTheTokenIsNotThere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 3, WithTTL(10*time.Second))
		warm(t, locker)
		odd := fakes[1]
		// The acquire is lost on its way and runs only after the node has answered
		// a release on another connection.
		odd.Stop()
		lock := mustTry(t, locker, "k")
		time.Sleep(300 * time.Millisecond)
		odd.Change(func(f *fakeNode) { f.Wake(); f.Log = nil })
		noError(t, lock.Release())
		time.Sleep(3 * time.Second)
		if odd.Count("EVALSHA") == 0 {
			t.Fatalf("the test does not show the fault: no release has reached the node")
		}
		odd.Resume() // now the acquire runs
		time.Sleep(quorum.LastPause)
		synctest.Wait()
		wantFree(t, fakes, "k")
		before := odd.Count("EVALSHA")
		time.Sleep(time.Minute)
		if after := odd.Count("EVALSHA"); after != before {
			t.Errorf("after the node said that it deleted the key it got %d more releases", after-before)
		}
	})
}

func TestReleasesForAnUnknownOutcomeEndOneTTLAfterTheNodeAnswersAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 3, WithTTL(2*time.Second))
		warm(t, locker)
		lossy := fakes[0]
		lossy.Stop()
		lock, _ := locker.TryAcquire(t.Context(), "k")
		time.Sleep(time.Second)
		lossy.Change(func(f *fakeNode) { f.Wake(); f.Buffer = nil }) // it died, and came back
		noError(t, lock.Release())
		time.Sleep(2500 * time.Millisecond)
		before := lossy.Count("EVALSHA") + lossy.Count("EVAL")
		if before < 3 {
			t.Errorf("%d releases in one TTL: an unknown outcome wants more", before)
		}
		time.Sleep(time.Minute)
		if after := lossy.Count("EVALSHA") + lossy.Count("EVAL"); after > before+1 {
			t.Errorf("%d releases came later than one TTL", after-before)
		}
	})
}

func TestAReleaseWaitsForNoMoreThanANodeTimeout(t *testing.T) {
	for name, before := range map[string]func(ctx context.Context, lock *Lock){
		"by itself":         func(context.Context, *Lock) {},
		"behind a question": func(ctx context.Context, lock *Lock) { _, _ = lock.Confirm(ctx) },
		"behind extensions": func(ctx context.Context, lock *Lock) {
			brief, cancel := context.WithTimeout(ctx, 20*time.Millisecond)
			defer cancel()
			_ = lock.Extend(brief, time.Minute)
			_ = lock.Extend(ctx, time.Minute)
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			locker, fakes := newLocker(t, 3, WithTTL(time.Minute))
			warm(t, locker)
			lock := mustAcquire(t, locker, "k")
			synctest.Wait()
			forEach(fakes, (*fakeNode).Stop)
			go before(t.Context(), lock)
			time.Sleep(defaultNodeTimeout / 2)
			began := time.Now()
			if err := lock.Release(); !errors.Is(err, ErrNoQuorum) || time.Since(began) > defaultNodeTimeout {
				t.Errorf("%s over silent nodes, Release = %v after %v, want ErrNoQuorum within %v", name, err, time.Since(began), defaultNodeTimeout)
			}
			forEach(fakes, (*fakeNode).Resume)
			time.Sleep(5 * time.Second)
			wantFree(t, fakes, "k", name)
		})
	}
}

func TestAReleaseWhoseReplyIsLostIsNotALostLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 3)
		warm(t, locker)
		lock, _ := locker.TryAcquire(t.Context(), "k")
		synctest.Wait()
		changeAll(fakes, func(f *fakeNode) { f.Lose = once("EVALSHA") })
		noError(t, lock.Release(), "Release whose first replies were lost")
	})
}

// Nodes that refuse at once decide an attempt before all nodes have it. Its clean-up must
// come behind it all the same, or what it sets there keeps out the next attempt.
func TestACleanUpStandsBehindTheWholeAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 3)
		warm(t, locker)
		for i := range 2 {
			fakes[i].Change(refuse)
		}
		for range 2 { // the first try finds the nodes down, and the second begins their cooldown
			_, _ = locker.TryAcquire(t.Context(), "another")
			synctest.Wait()
		}
		fakes[2].Change(func(f *fakeNode) { f.Log = nil })
		r, err := locker.prepare(t.Context(), "k", exclusive, nil)
		must(t, err)
		returns(t, ErrNoQuorum)(locker.try(t.Context(), r, true))
		synctest.Wait()
		if want := []string{"SET", "PTTL", "EVALSHA"}; !slices.Equal(fakes[2].Log, want) {
			t.Errorf("the node got %v, want %v", fakes[2].Log, want)
		}
	})
}

// A job that must not run twice a night leaves its key to the TTL.
func TestAbandonLeavesTheKeyToItsTTL(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 3, WithTTL(time.Minute))
		other := another(t, fakes, WithTTL(time.Minute))
		for _, token := range [][]AcquireOption{nil, {WithToken("night")}} {
			lock := mustAcquire(t, locker, "job", append(token, WithRenewal())...)
			ctx := lock.Context()
			time.Sleep(time.Second)
			noError(t, lock.Abandon())
			if lock.Valid() || !errors.Is(context.Cause(ctx), ErrReleased) {
				t.Errorf("after Abandon the lock is valid: %t, and its context's cause is %v", lock.Valid(), context.Cause(ctx))
			}
			for _, err := range []error{lock.Abandon(), lock.Release(), lock.Extend(t.Context(), time.Minute)} {
				if !errors.Is(err, ErrReleased) {
					t.Errorf("a call after Abandon = %v, want ErrReleased", err)
				}
			}
			if _, err := locker.TryAcquire(t.Context(), "job", token...); token != nil && !errors.Is(err, ErrReleased) {
				t.Errorf("TryAcquire with the token of a lock that was abandoned = %v, want ErrReleased", err)
			}
			began := time.Now()
			next, err := other.Acquire(t.Context(), "job")
			must(t, err)
			if waited := time.Since(began); waited < 58*time.Second || waited > 65*time.Second {
				t.Errorf("the next holder waited %v, want the TTL", waited)
			}
			mustRelease(t, next)
		}
	})
}
