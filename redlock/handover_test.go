package redlock

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/internal/waiting"
)

func TestAReleasedLockIsHandedDownTheLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 5)
		lock := mustAcquire(t, locker, "k")
		var line []<-chan waited
		for range 5 {
			line = append(line, waitFor(t.Context(), locker))
		}
		for i, result := range line {
			ctx := lock.Context()
			before := settings(fakes[0])
			if err := lock.Release(t.Context()); err != nil {
				t.Fatalf("Release %d = %v", i+1, err)
			}
			got := <-result
			if got.err != nil {
				t.Fatalf("waiter %d, whose turn it is: %v", i+1, got.err)
			}
			synctest.Wait()
			if !errors.Is(context.Cause(ctx), ErrReleased) {
				t.Errorf("the releaser's context ended because of %v, want ErrReleased", context.Cause(ctx))
			}
			if sent := settings(fakes[0]) - before; sent != 1 && i > 0 { // the first brings the script along
				t.Errorf("hand-over %d took %d commands at a node, want one", i+1, sent)
			}
			if got.lock.Token() == lock.Token() {
				t.Error("a lock was handed over with its old token")
			}
			if token, left := fakes[4].token("k"); token != got.lock.Token() || left < 9*time.Second {
				t.Errorf("after hand-over %d a node has another token, or %v left; want the waiter's and a fresh lease", i+1, left)
			}
			lock = got.lock
		}
	})
}

func TestAHandOverEndsTheContextBeforeItsFirstByteLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 3)
		lock := mustAcquire(t, locker, "k")
		ctx := lock.Context()
		next := waitFor(t.Context(), locker)
		handed := false
		fakes[0].change(func(f *fakeNode) {
			f.answer = func(args []any) *driver.Reply {
				if (args[0] == "EVALSHA" || args[0] == "EVAL") && len(args) == 7 {
					handed = true
					if ctx.Err() == nil {
						t.Error("the key goes to somebody else, and the holder's context has not ended")
					}
				}
				return nil
			}
		})
		if err := lock.Release(t.Context()); err != nil {
			t.Errorf("Release = %v", err)
		}
		if got := <-next; got.err != nil {
			t.Errorf("the heir: %v", got.err)
		}
		synctest.Wait()
		fakes[0].change(func(*fakeNode) {
			if !handed {
				t.Error("the lock was not handed over: the test proves nothing")
			}
		})
	})
}

func TestAfterEightHandOversAnotherProcessHasItsTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ours, fakes := newLocker(t, 5)
		theirs := another(t, fakes)
		for _, f := range fakes {
			f.change(func(f *fakeNode) { f.delay = 200 * time.Microsecond })
		}
		warm(t, theirs)
		lock := mustAcquire(t, ours, "k")
		foreign := waitFor(t.Context(), theirs)
		turns := make(chan int, 100)
		var group sync.WaitGroup
		for range 40 {
			group.Go(func() {
				lock, err := ours.Acquire(t.Context(), "k")
				if err != nil {
					t.Errorf("Acquire = %v", err)
					return
				}
				turns <- 1
				time.Sleep(time.Millisecond)
				_ = lock.Release(t.Context())
			})
		}
		time.Sleep(10 * time.Millisecond)
		if err := lock.Release(t.Context()); err != nil {
			t.Fatalf("Release = %v", err)
		}
		got := <-foreign
		if got.err != nil {
			t.Fatalf("the other process: %v", got.err)
		}
		if before := len(turns); before > waiting.MaxHandoffs+1 {
			t.Errorf("the other process had its turn after %d of ours, want at most %d", before, waiting.MaxHandoffs+1)
		}
		_ = got.lock.Release(t.Context())
		group.Wait()
	})
}

func TestAHandOverWinsNodesThatHaveLostTheKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 5)
		lock := mustAcquire(t, locker, "k")
		next := waitFor(t.Context(), locker)
		fakes[0].change(func(f *fakeNode) { clear(f.keys) })
		fakes[1].plant("k", "somebody else's", time.Minute)
		if err := lock.Release(t.Context()); err != nil {
			t.Errorf("Release, lost at two of five nodes = %v", err)
		}
		got := <-next
		synctest.Wait()
		if got.err != nil {
			t.Fatalf("Acquire = %v", got.err)
		}
		if token, _ := fakes[0].token("k"); token != got.lock.Token() {
			t.Error("a node that has lost the key was not won by the hand-over")
		}
		if token, _ := fakes[1].token("k"); token != "somebody else's" {
			t.Error("a hand-over took away what somebody else holds")
		}
	})
}

func TestAHandOverDoesNotHideThatTheLockWasLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 3)
		lock := mustAcquire(t, locker, "k")
		next := waitFor(t.Context(), locker)
		for _, f := range fakes {
			f.change(func(f *fakeNode) { clear(f.keys) })
		}
		if err := lock.Release(t.Context()); !errors.Is(err, ErrLost) {
			t.Errorf("Release of a lock that no node has = %v, want ErrLost, whoever takes over", err)
		}
		if got := <-next; got.err != nil {
			t.Errorf("the waiter: %v", got.err)
		}
	})
}

func TestAHandOverPastHungNodesLeavesNothingThere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 5, WithTTL(time.Minute))
		lock := mustAcquire(t, locker, "k")
		next := waitFor(t.Context(), locker)
		fakes[0].stop()
		fakes[1].stop()
		began := time.Now()
		if err := lock.Release(t.Context()); err != nil {
			t.Errorf("Release with two of five nodes hung = %v", err)
		}
		got := <-next
		if took := got.at.Sub(began); got.err != nil || took > 0 {
			t.Fatalf("with two of five nodes hung: Acquire = %v after %v", got.err, took)
		}
		time.Sleep(5 * time.Second)
		if err := got.lock.Release(t.Context()); err != nil {
			t.Errorf("Release = %v", err)
		}
		fakes[0].resume()
		fakes[1].resume()
		time.Sleep(5 * time.Second)
		if names := stray(fakes, "k"); names != nil {
			t.Errorf("5s after the hung nodes woke up, %v have a key that was released", names)
		}
	})
}

func TestAHandOverThatFailsLeavesTheWaiterWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 3)
		lock := mustAcquire(t, locker, "k")
		next := waitFor(t.Context(), locker)
		for _, f := range fakes[:2] {
			f.change(func(f *fakeNode) { f.cuts = 4 })
		}
		if err := lock.Release(t.Context()); err != nil && !errors.Is(err, ErrNoQuorum) {
			t.Errorf("Release = %v", err)
		}
		got := <-next
		if got.err != nil {
			t.Fatalf("the waiter, whose hand-over has failed: %v", got.err)
		}
		synctest.Wait()
		if err := got.lock.Release(t.Context()); err != nil {
			t.Errorf("Release = %v", err)
		}
		time.Sleep(11 * time.Second)
		if names := stray(fakes, "k"); names != nil {
			t.Errorf("a failed hand-over has left the key at %v", names)
		}
	})
}

func TestAHeirWhoLeavesGivesTheKeyBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ours, fakes := newLocker(t, 5, WithTTL(time.Minute))
		theirs := another(t, fakes, WithTTL(time.Minute))
		lock := mustAcquire(t, ours, "k")
		ctx, cancel := context.WithCancel(t.Context())
		heir := waitFor(ctx, ours)
		other := waitFor(t.Context(), theirs)
		for _, f := range fakes {
			f.change(func(f *fakeNode) { f.delay = 10 * time.Millisecond })
		}
		released := make(chan error, 1)
		go func() { released <- lock.Release(t.Context()) }()
		time.Sleep(7 * time.Millisecond) // the nodes have taken it over, nobody has heard of it
		cancel()
		if got := <-heir; !errors.Is(got.err, context.Canceled) {
			t.Errorf("the heir whose context ended = %v", got.err)
		}
		if err := <-released; err != nil {
			t.Errorf("Release = %v: it speaks of the releaser's token alone", err)
		}
		began := time.Now()
		got := <-other
		if took := got.at.Sub(began); got.err != nil || took > time.Second {
			t.Errorf("the heir has left: another process had the lock after %v, %v; want it to hear of it", took, got.err)
		}
	})
}

// Between the promise of a lock and the lock itself the heir may leave.
func TestAHeirWhoLeavesUponThePromiseLeavesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 3, WithTTL(time.Hour))
		mustAcquire(t, locker, "k")
		ctx, cancel := context.WithCancel(t.Context())
		got := waitFor(ctx, locker)
		heir := locker.lines.Next("k")
		cancel()
		synctest.Wait()
		for _, f := range fakes {
			f.change(func(f *fakeNode) { clear(f.keys) })
		}
		gift, err := locker.newLock(heir.Context, "k", heir.Call.(*acquireOptions), false)
		if err != nil {
			t.Fatal(err)
		}
		gift.acquire.AskAll()
		heir.Give(attempt{gift})
		if result := <-got; result.err == nil { // he got it before he saw that his context has ended
			mustRelease(t, result.lock)
		}
		synctest.Wait()
		if names := stray(fakes, "k"); len(names) > 0 {
			t.Errorf("the heir has left, and the key stays at %v", names)
		}
	})
}

func TestATokenOfOnesOwnCanBeHandedTheLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 3)
		lock := mustAcquire(t, locker, "k")
		next := waitFor(t.Context(), locker, WithToken("my own"))
		if err := lock.Release(t.Context()); err != nil {
			t.Fatalf("Release = %v", err)
		}
		got := <-next
		if got.err != nil || got.lock.Token() != "my own" {
			t.Fatalf("Acquire with a token of my own = %v", got.err)
		}
		synctest.Wait()
		if token, _ := fakes[0].token("k"); token != "my own" {
			t.Errorf("a node has %q, want the token that was asked for", token)
		}
	})
}
