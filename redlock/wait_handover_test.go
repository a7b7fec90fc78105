package redlock

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

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
			before := sent(fakes[0])
			must(t, lock.Release(), i+1)
			got := mustGet(t, result)
			synctest.Wait()
			returns(t, ErrReleased, "the cause")(context.Cause(ctx))
			if sent := sent(fakes[0]) - before; sent != 1 && i > 0 { // the first brings the script along
				t.Errorf("hand-over %d took %d commands at a node, want one", i+1, sent)
			}
			if got.lock.Token() == lock.Token() {
				t.Error("a lock was handed over with its old token")
			}
			if token, left := fakes[4].Token("k"); token != got.lock.Token() || left < 9*time.Second {
				t.Errorf("after hand-over %d a node has another token, or %v left; want the waiter's and a fresh lease", i+1, left)
			}
			lock = got.lock
		}
	})
}

func TestReleaseEndsTheContextBeforeItsFirstByteLeaves(t *testing.T) {
	for _, handsOver := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			locker, fakes := newLocker(t, 3)
			lock := mustAcquire(t, locker, "k")
			ctx := lock.Context()
			if handsOver {
				waitFor(t.Context(), locker)
			}
			var left atomic.Int32 // each node has a mutex of its own
			before(fakes, "", func(f *fakeNode, args []any) {
				if args[0] != "EVALSHA" && args[0] != "EVAL" || handsOver && len(args) != 7 {
					return
				}
				left.Add(1)
				if ctx.Err() == nil {
					t.Errorf("%s is asked to delete or hand over (%t) the key, and the holder's context has not ended", f.Name(), handsOver)
				}
			})
			noError(t, lock.Release())
			synctest.Wait()
			if left.Load() == 0 {
				t.Errorf("the lock was not released, or handed over (%t): the test proves nothing", handsOver)
			}
		})
	}
}

// The nodes hand the key over, and the connections break before they say so. Sent again, the hand-over finds that done.
func TestAHandOverWhoseAnswersGetLostIsNoLossOfTheLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 3)
		lock := mustAcquire(t, locker, "k")
		next := waitFor(t.Context(), locker)
		time.Sleep(time.Millisecond)
		var lost atomic.Int32 // each node has a mutex of its own
		for _, f := range fakes {
			once := false
			f.Change(func(f *fakeNode) {
				f.Lose = func(name string) bool {
					if once || name != "EVALSHA" && name != "EVAL" || f.Keys["k"].Token == lock.Token() { // it lacks the script
						return false
					}
					once = true
					lost.Add(1)
					return true
				}
			})
		}
		noError(t, lock.Release())
		mustRelease(t, mustGet(t, next).lock)
		synctest.Wait()
		if lost.Load() != 3 {
			t.Errorf("%d answers got lost, want 3: the test proves nothing", lost.Load())
		}
	})
}

func TestAfterEightHandOversOrATenthOfASecondAnotherProcessHasItsTurn(t *testing.T) {
	for name, options := range map[string][]Option{"plain": nil, "fair": {WithFairness()}} {
		t.Run(name+", short holds", func(t *testing.T) { turnsBeforeAnother(t, time.Millisecond, waiting.MaxHandoffs+1, options...) })
		t.Run(name+", long holds", func(t *testing.T) { turnsBeforeAnother(t, 50*time.Millisecond, 3, options...) })
	}
}

// turnsBeforeAnother checks that another process waits for no more turns of ours of that length
// than most.
func turnsBeforeAnother(t *testing.T, hold time.Duration, most int, options ...Option) {
	synctest.Test(t, func(t *testing.T) {
		ours, fakes := newLocker(t, 5, options...)
		theirs := another(t, fakes)
		far(fakes, 200*time.Microsecond)
		warm(t, theirs)
		lock := mustAcquire(t, ours, "k")
		foreign := waitFor(t.Context(), theirs)
		time.Sleep(10 * time.Millisecond) // or their turn may be behind that of all others
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
				time.Sleep(hold)
				_ = lock.Release()
			})
		}
		time.Sleep(10 * time.Millisecond)
		mustRelease(t, lock)
		got := mustGet(t, foreign)
		if before := len(turns); before > most {
			t.Errorf("the other process had its turn after %d of ours, want at most %d", before, most)
		}
		_ = got.lock.Release()
		group.Wait()
	})
}

// Whoever is first in line from now on is told so when the one before gets the key, and of the key when that is free: by
// whichever lock of that process is the last of its row.
func TestBehindARowTheNextProcessIsServedAtOnce(t *testing.T) {
	for name, options := range map[string][]Option{"plain": nil, "fair": {WithFairness()}} {
		synctest.Test(t, func(t *testing.T) {
			holder, fakes := newLocker(t, 3, options...)
			far(fakes, time.Millisecond)
			held, first, second := mustAcquire(t, holder, "k"), another(t, fakes, options...), another(t, fakes, options...)
			ours := []<-chan waited{waitFor(t.Context(), first), waitFor(t.Context(), first)}
			time.Sleep(10 * time.Millisecond)
			theirs := waitFor(t.Context(), second)
			time.Sleep(time.Second)
			mustRelease(t, held)
			for _, waits := range ours {
				mustRelease(t, mustGet(t, waits).lock)
			}
			freed := time.Now()
			if got := mustGet(t, theirs); got.at.Sub(freed) > 5*time.Millisecond {
				t.Errorf("%s: the next process was served %v after the last of a row, want it in some round trips of 1ms", name, got.at.Sub(freed))
			}
		})
	}
}

func TestAHandOverDoesNotHideThatTheLockWasLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 3)
		lock := mustAcquire(t, locker, "k")
		next := waitFor(t.Context(), locker)
		changeAll(fakes, func(f *fakeNode) { clear(f.Keys) })
		returns(t, ErrLost, "Release of a lock that no node has", "whoever takes over")(lock.Release())
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
		forEach(fakes[:2], (*fakeNode).Stop)
		began := time.Now()
		noError(t, lock.Release(), "Release with two of five nodes hung")
		got := <-next
		if took := got.at.Sub(began); got.err != nil || took > 0 {
			t.Fatalf("with two of five nodes hung: Acquire = %v after %v", got.err, took)
		}
		time.Sleep(5 * time.Second)
		noError(t, got.lock.Release())
		forEach(fakes[:2], (*fakeNode).Resume)
		time.Sleep(5 * time.Second)
		wantFree(t, fakes, "k")
	})
}

func TestAHandOverThatFailsLeavesTheWaiterWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 3)
		lock := mustAcquire(t, locker, "k")
		next := waitFor(t.Context(), locker)
		changeAll(fakes[:2], func(f *fakeNode) { f.Cuts = 4 })
		if err := lock.Release(); err != nil && !errors.Is(err, ErrNoQuorum) {
			t.Errorf("Release = %v", err)
		}
		got := mustGet(t, next)
		synctest.Wait()
		noError(t, got.lock.Release())
		time.Sleep(11 * time.Second)
		wantFree(t, fakes, "k")
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
		far(fakes, 10*time.Millisecond)
		released := async(func() error { return lock.Release() })
		time.Sleep(7 * time.Millisecond) // the nodes have taken it over, nobody has heard of it
		cancel()
		if got := <-heir; !errors.Is(got.err, context.Canceled) {
			t.Errorf("the heir whose context ended = %v", got.err)
		}
		noError(t, <-released)
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
		heir, _ := locker.lines.Next("k", waiting.Row{})
		cancel()
		synctest.Wait()
		changeAll(fakes, func(f *fakeNode) { clear(f.Keys) })
		gift, err := locker.newLock(heir.Context, *heir.Call.(*request), false)
		must(t, err)
		gift.hold.Acquire.AskAll()
		heir.Give(attempt{gift})
		if result := <-got; result.err == nil { // he got it before he saw that his context has ended
			mustRelease(t, result.lock)
		}
		synctest.Wait()
		wantFree(t, fakes, "k")
	})
}

func TestATokenOfOnesOwnCanBeHandedTheLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 3)
		lock := mustAcquire(t, locker, "k")
		next := waitFor(t.Context(), locker, WithToken("my own"))
		mustRelease(t, lock)
		got := <-next
		if got.err != nil || got.lock.Token() != "my own" {
			t.Fatalf("Acquire with a token of my own = %v", got.err)
		}
		synctest.Wait()
		if token, _ := fakes[0].Token("k"); token != "my own" {
			t.Errorf("a node has %q, want the token that was asked for", token)
		}
	})
}
