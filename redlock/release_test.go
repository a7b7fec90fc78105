package redlock

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumlock/quorumlock/clockdrift"
	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/internal/node"
	"github.com/quorumlock/quorumlock/internal/quorum"
)

func TestReleaseEndsTheContextBeforeItsFirstByteLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 3)
		lock, _ := locker.TryAcquire(t.Context(), "k")
		synctest.Wait()
		ctx := lock.Context()
		for _, f := range fakes {
			f.change(func(f *fakeNode) {
				f.answer = func(args []any) *driver.Reply {
					if args[0] == "EVALSHA" && ctx.Err() == nil {
						t.Errorf("%s got the release while the holder's context was alive", f.name)
					}
					return nil
				}
			})
		}
		if err := lock.Release(t.Context()); err != nil {
			t.Errorf("Release = %v", err)
		}
	})
}

func TestAReleaseDoesNotOvertakeItsAcquire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 3)
		warm(t, locker)
		slow := fakes[2]
		slow.change(func(f *fakeNode) { f.delay, f.log = 100*time.Millisecond, nil })
		lock, err := locker.TryAcquire(t.Context(), "k")
		if err != nil {
			t.Fatalf("TryAcquire = %v", err)
		}
		synctest.Wait() // or it would not be sent there any more
		if err := lock.Release(t.Context()); err != nil {
			t.Errorf("Release = %v", err)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if want := []string{"SET", "EVALSHA"}; !slices.Equal(slow.log, want) {
			t.Errorf("the slow node got %v, want %v", slow.log, want)
		}
		if names := stray(fakes, "k"); names != nil {
			t.Errorf("the key is left at %v", names)
		}
	})
}

// Servers that were stopped run what lies in their buffers when they wake up, and not
// in the order of the connections: the acquire after the release.
func TestAnAcquireThatAStoppedServerRunsAfterItsReleaseIsTakenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 3, WithTTL(10*time.Second))
		warm(t, locker)
		stopped := fakes[1]
		stopped.stop()
		lock, err := locker.TryAcquire(t.Context(), "k")
		if err != nil {
			t.Fatalf("TryAcquire = %v", err)
		}
		synctest.Wait() // or it would not be sent there any more
		if err := lock.Release(t.Context()); err != nil {
			t.Errorf("Release = %v", err)
		}
		time.Sleep(20 * time.Second)
		stopped.resume()
		if token, _ := stopped.token("k"); token != lock.Token() {
			t.Fatalf("the test does not show the fault: the acquire did not run on resume")
		}
		time.Sleep(node.MaxCooldown + quorum.LastPause)
		synctest.Wait()
		if names := stray(fakes, "k"); names != nil {
			t.Errorf("the key is left at %v", names)
		}
	})
}

func TestAnUnknownOutcomeIsNotEndedByAnAnswerThatTheTokenIsNotThere(t *testing.T) {
	for _, restarted := range []bool{false, true} { // the server, before all of this
		synctest.Test(t, func(t *testing.T) {
			locker, fakes := newLocker(t, 3, WithTTL(10*time.Second))
			warm(t, locker)
			odd := fakes[1]
			if restarted {
				time.Sleep(time.Minute)
				odd.restart()
				odd.change(func(f *fakeNode) { f.cuts = 2 }) // so it is asked again what it is
				warm(t, locker)
				time.Sleep(2 * time.Minute) // until nothing is owed for that
				warm(t, locker)
				if reborn := locker.board.Nodes[1].Reborn(); reborn == 0 {
					t.Fatal("nobody has noticed the restart")
				}
			}
			// The acquire is lost on its way and runs only after the node has answered
			// a release on another connection.
			odd.stop()
			lock, err := locker.TryAcquire(t.Context(), "k")
			if err != nil {
				t.Fatalf("TryAcquire = %v", err)
			}
			time.Sleep(300 * time.Millisecond)
			odd.change(func(f *fakeNode) { f.hung, f.log = nil, nil })
			if err := lock.Release(t.Context()); err != nil {
				t.Errorf("Release = %v", err)
			}
			time.Sleep(3 * time.Second)
			if odd.count("EVALSHA") == 0 {
				t.Fatalf("the test does not show the fault: no release has reached the node")
			}
			odd.resume() // now the acquire runs
			time.Sleep(quorum.LastPause)
			synctest.Wait()
			if names := stray(fakes, "k"); names != nil {
				t.Errorf("after the late acquire the key is left at %v", names)
			}
			before := odd.count("EVALSHA")
			time.Sleep(time.Minute)
			if after := odd.count("EVALSHA"); after != before {
				t.Errorf("after the node said that it deleted the key it got %d more releases", after-before)
			}
		})
	}
}

// A batch whose connection broke is sent once more. What a release deletes then was set by
// one of the two sendings, and the other may still be on its way.
func TestADeletionDoesNotEndTheReleasesOfAKeyThatWasAskedForTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fakes, nodes := fakeNodes(3)
		odd := fakes[1]
		var late []driver.Command // the first sending, which a stopped server has not run yet
		nodes[1].Driver = driverFunc(func(ctx context.Context, cmds []driver.Command) ([]driver.Reply, error) {
			if late == nil && cmds[0].Args[0] == "SET" {
				for _, cmd := range cmds {
					late = append(late, driver.Command{Args: slices.Clone(cmd.Args)})
				}
				return nil, errCut
			}
			return odd.Do(ctx, cmds)
		})
		locker, err := New(nodes)
		if err != nil {
			t.Fatal(err)
		}
		defer locker.Close()
		lock := mustAcquire(t, locker, "k")
		if token, _ := odd.token("k"); token != lock.Token() {
			t.Fatalf("the test does not show the fault: the second sending has not set the key")
		}
		mustRelease(t, lock)
		synctest.Wait()
		odd.change(func(f *fakeNode) { f.run(late) })
		if token, _ := odd.token("k"); token != lock.Token() {
			t.Fatalf("the test does not show the fault: the first sending has not set the key")
		}
		time.Sleep(2 * quorum.LastPause)
		synctest.Wait()
		if names := stray(fakes, "k"); names != nil {
			t.Errorf("the key is left at %v", names)
		}
	})
}

func TestReleasesForAnUnknownOutcomeEndOneTTLAfterTheNodeAnswersAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 3, WithTTL(2*time.Second))
		warm(t, locker)
		lossy := fakes[0]
		lossy.stop()
		lock, _ := locker.TryAcquire(t.Context(), "k")
		time.Sleep(time.Second)
		lossy.change(func(f *fakeNode) { f.hung, f.buffer = nil, nil }) // it died, and came back
		if err := lock.Release(t.Context()); err != nil {
			t.Errorf("Release = %v", err)
		}
		time.Sleep(2500 * time.Millisecond)
		before := lossy.count("EVALSHA") + lossy.count("EVAL")
		if before < 3 {
			t.Errorf("%d releases in one TTL: an unknown outcome wants more", before)
		}
		time.Sleep(time.Minute)
		if after := lossy.count("EVALSHA") + lossy.count("EVAL"); after > before+1 {
			t.Errorf("%d releases came later than one TTL", after-before)
		}
	})
}

func TestWhatAServerTookWithItIsNotOwedARelease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 3)
		warm(t, locker)
		killed := fakes[0]
		killed.stop()
		lock, _ := locker.TryAcquire(t.Context(), "k")
		time.Sleep(time.Second)
		killed.change(func(f *fakeNode) { // and started again, empty
			f.hung, f.buffer, f.info = nil, nil, strings.Replace(f.info, "run_id:", "run_id:new-", 1)
		})
		if err := lock.Release(t.Context()); err != nil {
			t.Errorf("Release = %v", err)
		}
		time.Sleep(2 * quorum.LastPause)
		before := killed.count("EVALSHA") + killed.count("EVAL")
		if before == 0 {
			t.Error("the new server got no release at all")
		}
		time.Sleep(time.Minute)
		if after := killed.count("EVALSHA") + killed.count("EVAL"); after != before {
			t.Errorf("the new server got %d more releases for what the old one took with it", after-before)
		}
		began := time.Now()
		if err := locker.Close(); err != nil || time.Since(began) > 0 {
			t.Errorf("Close = %v after %v", err, time.Since(began))
		}
	})
}

func TestReleaseWithAnEndedContextStillReleases(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 3)
		warm(t, locker)
		lock, _ := locker.TryAcquire(t.Context(), "k")
		for _, f := range fakes {
			f.change(func(f *fakeNode) { f.delay = 10 * time.Millisecond })
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := lock.Release(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("Release = %v, want context.Canceled", err)
		}
		time.Sleep(100 * time.Millisecond)
		if names := stray(fakes, "k"); names != nil {
			t.Errorf("the key is left at %v", names)
		}
	})
}

func TestAReleaseWhoseReplyIsLostIsNotALostLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 3)
		warm(t, locker)
		lock, _ := locker.TryAcquire(t.Context(), "k")
		synctest.Wait()
		for _, f := range fakes {
			lost := false
			f.change(func(f *fakeNode) {
				f.lose = func(name string) bool {
					first := name == "EVALSHA" && !lost
					lost = lost || first
					return first
				}
			})
		}
		if err := lock.Release(t.Context()); err != nil {
			t.Errorf("Release whose first replies were lost = %v", err)
		}
	})
}

func TestCloseReleasesWhatIsHeldAndEndsTheContexts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 3)
		lock, _ := locker.TryAcquire(t.Context(), "k")
		ctx := lock.Context()
		if err := locker.Close(); err != nil {
			t.Errorf("Close = %v", err)
		}
		if context.Cause(ctx) != ErrClosed || lock.Valid() {
			t.Errorf("after Close: cause %v, valid %v", context.Cause(ctx), lock.Valid())
		}
		if names := stray(fakes, "k"); names != nil {
			t.Errorf("the key is left at %v", names)
		}
		if _, err := locker.TryAcquire(t.Context(), "k"); !errors.Is(err, ErrClosed) {
			t.Errorf("TryAcquire after Close = %v", err)
		}
		if err := locker.Close(); err != nil {
			t.Errorf("the second Close = %v", err)
		}
	})
}

func TestCloseLeavesNothingOfAcquiresAndReleasesThatItMeets(t *testing.T) {
	const callers = 16
	for range 300 {
		synctest.Test(t, func(t *testing.T) {
			locker, fakes := newLocker(t, 3)
			var work sync.WaitGroup
			for i := range callers {
				lock := mustAcquire(t, locker, fmt.Sprint("held ", i))
				work.Go(func() { _ = lock.Release(t.Context()) })
				work.Go(func() { _, _ = locker.Acquire(t.Context(), fmt.Sprint("free ", i)) })
			}
			if err := locker.Close(); err != nil {
				t.Errorf("Close = %v", err)
			}
			work.Wait()
			for _, f := range fakes {
				f.change(func(f *fakeNode) {
					if len(f.keys) != 0 {
						t.Errorf("%s has %v", f.name, f.keys)
					}
				})
			}
		})
	}
}

func TestCloseIsBoundedOverSilentNodesAndSaysWhatIsLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 3)
		warm(t, locker)
		if _, err := locker.TryAcquire(t.Context(), "k"); err != nil {
			t.Fatalf("TryAcquire = %v", err)
		}
		synctest.Wait()
		fakes[0].stop()
		fakes[1].stop()
		began := time.Now()
		err := locker.Close()
		var left *CloseError
		if !errors.As(err, &left) || !errors.Is(err, ErrNoQuorum) {
			t.Fatalf("Close over two of three nodes that are silent and have a key = %v, want a CloseError", err)
		}
		want := []UnreleasedKey{{"k", []string{"node-1", "node-2"}}}
		if !reflect.DeepEqual(left.Keys, want) {
			t.Errorf("Close says that %v are left, want %v", left.Keys, want)
		}
		if took := time.Since(began); took > 2*time.Second+50*time.Millisecond {
			t.Errorf("Close took %v, want at most the bound of 2s", took)
		}
	})
}

func TestCloseWakesThoseWhoWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 3)
		for _, f := range fakes {
			f.plant("k", "somebody", time.Hour)
		}
		done := make(chan error)
		go func() {
			_, err := locker.Acquire(t.Context(), "k")
			done <- err
		}()
		time.Sleep(time.Second)
		_ = locker.Close()
		if err := <-done; !errors.Is(err, ErrClosed) || !errors.Is(err, ErrTaken) {
			t.Errorf("Acquire = %v, want ErrClosed and ErrTaken", err)
		}
	})
}

func TestCloseSaysWhatIsLeftWhateverItsBound(t *testing.T) {
	for _, bound := range []time.Duration{0, 50 * time.Millisecond, 300 * time.Millisecond, 1600 * time.Millisecond, 2 * time.Second, 2600 * time.Millisecond} {
		t.Run(bound.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				locker, fakes := newLocker(t, 3, WithTTL(time.Hour), WithCloseTimeout(bound))
				warm(t, locker)
				if _, err := locker.TryAcquire(t.Context(), "k"); err != nil {
					t.Fatalf("TryAcquire = %v", err)
				}
				synctest.Wait()
				fakes[0].stop()
				fakes[1].stop()
				if err := locker.Close(); err == nil {
					t.Errorf("with a bound of %v Close says nothing, and %v still has the key", bound, stray(fakes, "k"))
				}
			})
		})
	}
}

func TestCloseGivesUpOnADriverThatNeverReturns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fakes, nodes := fakeNodes(3)
		locker, err := New(nodes)
		if err != nil {
			t.Fatalf("New = %v", err)
		}
		warm(t, locker)
		forever := make(chan struct{})
		fakes[0].change(func(f *fakeNode) { f.block = forever })
		if _, err := locker.TryAcquire(t.Context(), "k"); err != nil {
			t.Fatalf("TryAcquire = %v", err)
		}
		synctest.Wait() // it is called
		if err := locker.Close(); err == nil || !strings.Contains(err.Error(), "did not return") {
			t.Errorf("Close = %v, want that a driver did not return", err)
		}
		close(forever)
	})
}

// Nodes that refuse at once decide an attempt before all nodes have it. Its clean-up must
// come behind it all the same, or what it sets there keeps out the next attempt.
func TestACleanUpStandsBehindTheWholeAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 3)
		warm(t, locker)
		for i := range 2 {
			fakes[i].change(refuse)
		}
		for range 2 { // the first try finds the nodes down, and the second begins their cooldown
			_, _ = locker.TryAcquire(t.Context(), "another")
			synctest.Wait()
		}
		fakes[2].change(func(f *fakeNode) { f.log = nil })
		o, err := locker.prepare(t.Context(), "k", nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := locker.try(t.Context(), "k", o, true, new(clockdrift.Instant)); !errors.Is(err, ErrNoQuorum) {
			t.Errorf("try = %v, want ErrNoQuorum", err)
		}
		synctest.Wait()
		if want := []string{"SET", "PTTL", "EVALSHA"}; !slices.Equal(fakes[2].log, want) {
			t.Errorf("the node got %v, want %v", fakes[2].log, want)
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
			if err := lock.Abandon(); err != nil {
				t.Errorf("Abandon = %v", err)
			}
			if lock.Valid() || !errors.Is(context.Cause(ctx), ErrReleased) {
				t.Errorf("after Abandon the lock is valid: %t, and its context's cause is %v", lock.Valid(), context.Cause(ctx))
			}
			for _, err := range []error{lock.Abandon(), lock.Release(t.Context()), lock.Extend(t.Context(), time.Minute)} {
				if !errors.Is(err, ErrReleased) {
					t.Errorf("a call after Abandon = %v, want ErrReleased", err)
				}
			}
			if _, err := locker.TryAcquire(t.Context(), "job", token...); token != nil && !errors.Is(err, ErrReleased) {
				t.Errorf("TryAcquire with the token of a lock that was abandoned = %v, want ErrReleased", err)
			}
			began := time.Now()
			next, err := other.Acquire(t.Context(), "job")
			if err != nil {
				t.Fatal(err)
			}
			if waited := time.Since(began); waited < 58*time.Second || waited > 65*time.Second {
				t.Errorf("the next holder waited %v, want the TTL", waited)
			}
			mustRelease(t, next)
		}
	})
}

func TestAbandonSaysWhatHasBecomeOfTheLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, _ := newLocker(t, 3)
		lost, closed := mustAcquire(t, locker, "lost", WithTTL(time.Second)), mustAcquire(t, locker, "closed")
		time.Sleep(2 * time.Second)
		if err := lost.Abandon(); !errors.Is(err, ErrLost) {
			t.Errorf("Abandon of a lock that was lost = %v, want ErrLost", err)
		}
		_ = locker.Close()
		if err := closed.Abandon(); !errors.Is(err, ErrClosed) {
			t.Errorf("Abandon after Close = %v, want ErrClosed", err)
		}
	})
}
