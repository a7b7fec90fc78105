package redlock

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumlock/quorumlock/internal/protocol"
)

func TestTwentyThousandTriesASecondCostTheHolderNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 5)
		far(fakes, time.Millisecond)
		const ttl, lasting, pause = 200 * time.Millisecond, time.Second, 50 * time.Microsecond
		lock := mustAcquire(t, locker, "k", WithTTL(ttl), WithRenewal())
		before := fakes[0].Count("SET")
		var out, most, users atomic.Int64
		var released atomic.Bool
		var group sync.WaitGroup
		var stop atomic.Bool
		stopped := make(chan struct{})
		began := time.Now()
		go func() {
			defer close(stopped)
			for ; !stop.Load(); time.Sleep(pause) {
				group.Go(func() {
					most.Store(max(most.Load(), out.Add(1)))
					defer out.Add(-1)
					late, err := locker.TryAcquire(t.Context(), "k")
					switch {
					case err == nil && released.Load():
						_ = late.Release()
					case !errors.Is(err, ErrTaken):
						t.Errorf("TryAcquire of a key that is held = %v, want ErrTaken", err)
					}
				})
				users.Store(max(users.Load(), int64(locker.board.Keys.Left().Users)))
			}
		}()
		time.Sleep(lasting)
		if tries, trips := fakes[0].Count("SET")-before, int(time.Since(began)/time.Millisecond); tries > trips+5 {
			t.Errorf("a node has seen %d tries in %d round trips, want one each", tries, trips)
		}
		if !lock.Valid() {
			t.Error("the lock of the holder was lost")
		}
		began = time.Now()
		if err := lock.Extend(t.Context(), ttl); err != nil || time.Since(began) > 3*time.Millisecond {
			t.Errorf("Extend = %v after %v, want a round trip or two of 1ms", err, time.Since(began))
		}
		released.Store(true)
		began = time.Now()
		if err := lock.Release(); err != nil || time.Since(began) > 3*time.Millisecond {
			t.Errorf("Release = %v after %v, want a round trip or two of 1ms", err, time.Since(began))
		}
		stop.Store(true)
		<-stopped
		group.Wait()
		// Who comes waits for two tries, which may stand behind a renewal, the Extend and the
		// Release: 20 come in each of these round trips.
		if most.Load() > 120 {
			t.Errorf("%d callers were waiting at once, want those of a few round trips", most.Load())
		}
		if users.Load() > 10 {
			t.Errorf("%d operations were under way at once, want a few", users.Load())
		}
	})
}

// newTaken returns a Locker of three nodes that are so far away, at which another has the key "k".
func newTaken(t *testing.T, trip time.Duration, options ...Option) (*Locker, []*fakeNode) {
	t.Helper()
	locker, fakes := newLocker(t, 3, options...)
	warm(t, locker)
	plant(fakes, "k", protocol.TokenMark+"another", time.Hour)
	far(fakes, trip)
	return locker, fakes
}

func TestAnAnswerIsForThoseWhoCameBeforeItsTryLeft(t *testing.T) {
	for _, before := range []int{1, 3} { // callers before: a try alone, or one and a flight behind it
		synctest.Test(t, func(t *testing.T) {
			locker, fakes := newTaken(t, 20*time.Millisecond)
			first := make(chan error, before)
			for range before {
				go func() {
					_, err := locker.TryAcquire(t.Context(), "k")
					first <- err
				}()
			}
			synctest.Wait()
			if before > 1 {
				time.Sleep(20 * time.Millisecond)
			}
			time.Sleep(15 * time.Millisecond) // the nodes have refused the last of these
			changeAll(fakes, leave)
			lock, err := locker.TryAcquire(t.Context(), "k") // the key is free when this is called
			if err != nil {
				t.Errorf("TryAcquire of a free key, behind %d that left before it was free = %v", before, err)
			} else {
				mustRelease(t, lock)
			}
			for range before {
				returns(t, ErrTaken, "one of", before, "that left before the key was free")(<-first)
			}
		})
	}
}

func TestOfThoseWhoShareATryOneGetsTheLock(t *testing.T) {
	for _, options := range [][]Option{nil, {WithFairness()}} {
		synctest.Test(t, func(t *testing.T) {
			locker, fakes := newTaken(t, 20*time.Millisecond, options...)
			go func() { _, _ = locker.TryAcquire(t.Context(), "k") }()
			time.Sleep(15 * time.Millisecond)
			before := sent(fakes[0])
			changeAll(fakes, leave)
			var mu sync.Mutex
			var won []*Lock
			var group sync.WaitGroup
			for range 50 {
				group.Go(func() {
					lock, err := locker.TryAcquire(t.Context(), "k")
					mu.Lock()
					defer mu.Unlock()
					if err == nil {
						won = append(won, lock)
						return
					}
					var quorum *QuorumError
					if !errors.Is(err, ErrTaken) || !errors.As(err, &quorum) || len(quorum.Votes) != 3 {
						t.Errorf("TryAcquire that shares a try which has won = %v, want ErrTaken with three votes", err)
						return
					}
					held := 0
					for _, vote := range quorum.Votes {
						if vote.Answer == grantedVote {
							t.Errorf("who does not have the lock is told of %v", vote)
						}
						if vote.Answer == takenVote {
							held++
						}
					}
					if held < quorum.Need {
						t.Errorf("ErrTaken with %d votes that say so: %v", held, err)
					}
				})
			}
			group.Wait()
			if len(won) != 1 {
				t.Fatalf("%d of 50 have the lock, want one", len(won))
			}
			if tries := sent(fakes[0]) - before; tries != 1 {
				t.Errorf("for 50 callers at the same moment a node has seen %d tries, want one", tries)
			}
			mustRelease(t, won[0])
		})
	}
}

func TestWhoLeavesAFlightHoldsUpNobody(t *testing.T) {
	for name, after := range map[string]time.Duration{
		"while the try before is out": 5 * time.Millisecond,
		"while his own try is out":    15 * time.Millisecond,
	} {
		synctest.Test(t, func(t *testing.T) {
			locker, _ := newTaken(t, 10*time.Millisecond)
			go func() { _, _ = locker.TryAcquire(t.Context(), "k") }()
			synctest.Wait()
			cause := errors.New("changed my mind")
			ctx, cancel := context.WithCancelCause(t.Context())
			results := make(chan error, 2)
			for _, ctx := range []context.Context{ctx, t.Context()} {
				go func() {
					_, err := locker.TryAcquire(ctx, "k")
					results <- err
				}()
				synctest.Wait()
			}
			time.Sleep(after)
			cancel(cause)
			left := time.Now()
			if err := <-results; !errors.Is(err, context.Canceled) || !errors.Is(err, cause) || time.Since(left) > 0 {
				t.Errorf("the leader's context ends %s: TryAcquire = %v after %v, want its cause at once", name, err, time.Since(left))
			}
			if err := <-results; !errors.Is(err, ErrTaken) || errors.Is(err, cause) || time.Since(left) > 20*time.Millisecond {
				t.Errorf("the leader's context ends %s: the other's TryAcquire = %v after %v, want ErrTaken after a try of its own", name, err, time.Since(left))
			}
			time.Sleep(time.Second)
			if left := locker.board.Keys.Left(); left.States > 0 || left.Flights > 0 {
				t.Errorf("the leader's context ends %s: %d keys and %d flights are left", name, left.States, left.Flights)
			}
		})
	}
}

func TestWhoHasATokenOfHisOwnSharesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 3)
		warm(t, locker)
		plant(fakes, "k", "request 42", time.Hour)
		far(fakes, 10*time.Millisecond)
		go func() { _, _ = locker.TryAcquire(t.Context(), "k") }()
		go func() { _, _ = locker.TryAcquire(t.Context(), "k") }()
		synctest.Wait()
		lock, err := locker.TryAcquire(t.Context(), "k", WithToken("request 42"))
		must(t, err, "TryAcquire with the token that has the key")
		mustRelease(t, lock)
	})
}

func TestNobodyOfAProcessTriesWhileItSettlesASplit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 3)
		warm(t, locker)
		rivals(fakes, small+"a", small+"b")
		far(fakes, 20*time.Millisecond)
		try := func() <-chan error {
			result := async(func() error { _, err := locker.TryAcquire(t.Context(), "k"); return err })
			return result
		}
		first := try()
		time.Sleep(21 * time.Millisecond) // it has one of three votes
		second := try()
		synctest.Wait()
		changeAll(fakes[:2], leave)
		noError(t, <-first, "the first")
		returns(t, ErrTaken, "who came while the first settled it")(<-second)
		if tries := fakes[0].Count("SET"); tries != 4 { // warming, two rounds, one try behind them
			t.Errorf("a node has seen %d tries, want 4", tries)
		}
	})
}

// The votes of the try before are split at the very moment: what it writes then is not yet for
// those whose contexts end.
func TestWhoLeavesAFlightReadsNothingOfATryThatIsUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const trip = 10 * time.Millisecond
		locker, fakes := newLocker(t, 3)
		warm(t, locker)
		rivals(fakes, small+"a", small+"b")
		far(fakes, trip)
		for range 200 {
			var group sync.WaitGroup
			for i := range 4 {
				group.Go(func() {
					ctx, cancel := context.WithCancel(t.Context())
					defer cancel()
					if i > 0 {
						time.AfterFunc(trip/2*time.Duration(rand.N(5)), cancel) //nolint:gosec // who leaves is no secret
					}
					if _, err := locker.TryAcquire(ctx, "k"); !errors.Is(err, context.Canceled) && !taken(err) {
						t.Errorf("TryAcquire of a key whose votes others have = %v, want its context's end or ErrContended", err)
					}
				})
			}
			group.Wait()
		}
	})
}
