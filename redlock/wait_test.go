package redlock

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/internal/acquire"
	"github.com/quorumlock/quorumlock/internal/fault"
	"github.com/quorumlock/quorumlock/internal/node"
	"github.com/quorumlock/quorumlock/internal/protocol"
	"github.com/quorumlock/quorumlock/internal/subscription"
	"github.com/quorumlock/quorumlock/test/fakenode"
)

func TestAReleaseWakesAnotherProcess(t *testing.T) {
	for name, tt := range map[string]struct {
		prefix string
		before func(fakes []*fakeNode) // the lock is taken
		while  func(fakes []*fakeNode) // somebody waits for it
		most   time.Duration           // the waiter has it so long after its release, on nodes that answer at once
	}{
		"nothing is in its way":              {},
		"under a prefix":                     {prefix: "shop:"},
		"with two of five nodes away":        {before: func(fakes []*fakeNode) { changeAll([]*fakeNode{fakes[1], fakes[3]}, refuse) }},
		"20s after its connections were cut": {while: func(fakes []*fakeNode) { forEach(fakes, (*fakeNode).HangUp) }},
		"whose announcement gets lost": {
			before: func(fakes []*fakeNode) { changeAll(fakes, func(f *fakeNode) { f.Deaf = true }) }, most: 6 * time.Second,
		},
	} {
		bubble(t, name, func(t *testing.T) {
			ours, fakes := newLocker(t, 5, WithKeyPrefix(tt.prefix), WithTTL(time.Hour))
			theirs := another(t, fakes, WithKeyPrefix(tt.prefix), WithTTL(time.Hour))
			if tt.before != nil {
				tt.before(fakes)
			}
			lock := mustAcquire(t, theirs, "k")
			next := waitFor(t.Context(), ours)
			time.Sleep(time.Second)
			if tt.while != nil {
				tt.while(fakes)
			}
			time.Sleep(20 * time.Second)
			if tries := fakes[0].Count("SET") + fakes[0].Count("EVALSHA"); tt.most == 0 && tries > 15 { // the holder's, the first, one upon each subscription, and one in 4 to 6s; it would poll a holder that it does not know
				t.Errorf("a waiter tried %d times while nothing happened", tries-1)
			}
			released := time.Now()
			mustRelease(t, lock)
			if took := mustGet(t, next).at.Sub(released); took > tt.most {
				t.Errorf("the waiter had the lock %v after its release, want at most %v", took, tt.most)
			}
		})
	}
}

func TestAWaiterSeldomAsksUnderAHolderOfOurs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ours, fakes := newLocker(t, 5)
		theirs := another(t, fakes)
		mustAcquire(t, theirs, "k")
		for range 64 {
			waitFor(t.Context(), ours, WithMaxWait(9*time.Second))
		}
		time.Sleep(time.Second)
		before := make([]int, len(fakes))
		for i, f := range fakes {
			before[i] = f.Batches()
		}
		time.Sleep(7 * time.Second)
		for i, f := range fakes {
			if more := f.Batches() - before[i]; more > 2 {
				t.Errorf("while nothing happened, 64 waiters sent %s %d batches in 7s, want one in 4 to 6s", f.Name(), more)
			}
			if listening := f.Listeners(protocol.WakeChannel + "k"); listening != 1 {
				t.Errorf("64 waiters of one Locker have %d subscriptions at %s, want 1", listening, f.Name())
			}
		}
		time.Sleep(3 * time.Second)
		for _, f := range fakes {
			if listening := f.Listeners(protocol.WakeChannel); listening != 0 {
				t.Errorf("%s has %d listeners after the last waiter has left", f.Name(), listening)
			}
		}
	})
}

func TestAnExpiryThatComesSoonerThanAnAnnouncementIsWaitedFor(t *testing.T) {
	for _, ours := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			locker, fakes := newLocker(t, 5)
			holder := locker
			if !ours {
				holder = another(t, fakes)
			}
			lock := mustAcquire(t, holder, "k", WithTTL(3*time.Second))
			began := time.Now()
			if took := mustGet(t, waitFor(t.Context(), locker)).at.Sub(began); took < 2900*time.Millisecond || took > 3*time.Second+5*time.Millisecond {
				t.Errorf("the holder of 3s is of this Locker: %t, and dies: the next one has the lock after %v, want at its expiry", ours, took)
			}
			if lock.Valid() {
				t.Error("two locks on one key are valid")
			}
		})
	}
}

func TestAForeignHolderIsPolled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 5)
		plant(fakes, "k", "of another library", time.Hour)
		next := waitFor(t.Context(), locker)
		time.Sleep(10 * time.Second)
		if tries := fakes[0].Count("SET") + fakes[0].Count("EVALSHA"); tries < 30 || tries > 200 {
			t.Errorf("%d tries in 10s under a holder that will announce nothing; want one every 125ms or so", tries)
		}
		changeAll(fakes, func(f *fakeNode) { delete(f.Keys, "k") })
		freed := time.Now()
		got := <-next
		if took := got.at.Sub(freed); got.err != nil || took > 250*time.Millisecond {
			t.Errorf("a foreign lock was released: Acquire = %v after %v, want the lock within 250ms", got.err, took)
		}
	})
}

func TestWhereChannelsAreForbiddenWaitersPollAndSaySo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var events recorder
		ours, fakes := newLocker(t, 5, events.option())
		warm(t, ours) // of a node that is not known to be up it is told later
		theirs := another(t, fakes)
		changeAll(fakes, func(f *fakeNode) { f.Mute = true })
		lock := mustAcquire(t, theirs, "k")
		next := waitFor(t.Context(), ours)
		time.Sleep(3 * time.Second)
		if !ours.Stats().Nodes[0].Muted {
			t.Error("Stats show no node as muted where the waiter hears nothing")
		}
		must(t, lock.Release(), "Release where nothing may be announced")
		released := time.Now()
		got := <-next
		if took := got.at.Sub(released); got.err != nil || took > 250*time.Millisecond {
			t.Errorf("Acquire = %v after %v, want the lock within a poll", got.err, took)
		}
		if kinds := events.kinds(); !slices.Contains(kinds, NodeMuted) {
			t.Errorf("what a node reported is %v: not that it is muted", kinds)
		}
	})
}

func TestAnAnnouncementDuringTheSubscriptionIsNotMissed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ours, fakes := newLocker(t, 5, WithTTL(time.Minute), WithBackoff(30*time.Second, 30*time.Second))
		theirs := another(t, fakes, WithTTL(time.Minute))
		warm(t, ours)
		lock := mustAcquire(t, theirs, "k")
		far(fakes, 10*time.Millisecond)
		began := time.Now()
		next := waitFor(t.Context(), ours)
		time.Sleep(11 * time.Millisecond) // the first try is back, the subscription is not confirmed
		for _, f := range fakes {
			f.Change(func(f *fakeNode) { delete(f.Keys, "k") }) // a release that nobody hears
		}
		got := <-next
		if took := got.at.Sub(began); got.err != nil || took > time.Second {
			t.Errorf("a release between try and subscription: Acquire = %v after %v, want one more try upon the confirmation", got.err, took)
		}
		_ = lock
	})
}

func TestWaitersThatLeaveHoldUpNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, _ := newLocker(t, 5)
		lock := mustAcquire(t, locker, "k")
		cause := errors.New("changed my mind")
		var cancels []context.CancelCauseFunc
		var results []<-chan waited
		for range 6 {
			ctx, cancel := context.WithCancelCause(t.Context())
			cancels = append(cancels, cancel)
			results = append(results, waitFor(ctx, locker))
		}
		for _, i := range []int{0, 3, 5} { // the first, one in the middle, the last
			left := time.Now()
			cancels[i](cause)
			got := <-results[i]
			if took := got.at.Sub(left); took > 0 {
				t.Errorf("waiter %d of 6 left %v after its context had ended", i+1, took)
			}
			if !errors.Is(got.err, ErrTaken) || !errors.Is(got.err, context.Canceled) || !errors.Is(got.err, cause) {
				t.Errorf("waiter %d of 6 left with %v, want what was wrong, and the context's error and cause", i+1, got.err)
			}
		}
		for _, i := range []int{1, 2, 4} {
			mustRelease(t, lock)
			got := <-results[i]
			if got.err != nil {
				t.Fatalf("waiter %d of 6, after others had left: %v", i+1, got.err)
			}
			lock = got.lock
		}
		for _, cancel := range cancels {
			cancel(nil)
		}
	})
}

func TestSixteenProcessesOnOneKeyAllGetTheirTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		// Many more timers at once than these are too much for the race detector of Go 1.26
		// in a bubble: it fails a check of its own.
		const processes, turns = 16, 2
		_, fakes := newLocker(t, 5)
		changeAll(fakes, func(f *fakeNode) { f.Jitter = 2 * time.Millisecond })
		began := time.Now()
		var group sync.WaitGroup
		holders := make(chan struct{}, 1)
		for i := range processes {
			locker := another(t, fakes)
			group.Go(func() {
				for turn := range turns {
					lock, err := locker.Acquire(t.Context(), "k")
					if err != nil {
						t.Errorf("process %d, turn %d: %v", i+1, turn+1, err)
						return
					}
					select {
					case holders <- struct{}{}:
					default:
						t.Error("two hold the lock at once")
					}
					time.Sleep(time.Millisecond)
					<-holders
					noError(t, lock.Release(), "process", i+1, "turn", turn+1)
					time.Sleep(rand.N(5 * time.Millisecond)) //nolint:gosec // work is no secret
				}
			})
		}
		group.Wait()
		took := time.Since(began)
		t.Logf("%d turns of 1ms took %v, with %d tries", processes*turns, took, fakes[0].Count("SET"))
		if most := 20 * time.Millisecond * processes * turns; took > most {
			t.Errorf("%d turns of 1ms took %v, more than %v: too much is lost to split votes", processes*turns, took, most)
		}
	})
}

func TestAnOutageWhileWaitingIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 3)
		mustAcquire(t, locker, "k")
		first := waitFor(t.Context(), locker, WithMaxOutage(time.Second))
		second := waitFor(t.Context(), locker, WithMaxWait(30*time.Second), WithMaxOutage(time.Minute))
		changeAll(fakes[:2], refuse)
		if got := <-first; !errors.Is(got.err, ErrNoQuorum) || !errors.Is(got.err, errRefused) {
			t.Errorf("no quorum while waiting: %v, want ErrNoQuorum and each node's error", got.err)
		}
		if got := <-second; !errors.Is(got.err, ErrNoQuorum) {
			t.Errorf("no quorum to the end of a long wait: %v, want ErrNoQuorum", got.err)
		}
	})
}

// A node that takes no fences, or is in quarantine, sets the key and has no vote. What is
// announced when the try is cleaned up is no news.
func TestAWaiterIsNotWokenByTheEndOfItsOwnTries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 3, WithFences())
		fakes[0].Plant("k", protocol.TokenMark+"left behind", time.Hour)
		fakes[1].Change(func(f *fakeNode) {
			f.Answer = func(args []any) *driver.Reply {
				if args[0] == "ZADD" || takes(args) {
					return &driver.Reply{Kind: driver.Failure, Str: "OOM no memory for a fence"}
				}
				return nil
			}
		})
		far(fakes, time.Millisecond)
		warm(t, locker)
		before := fakes[2].Batches()
		if _, err := locker.Acquire(t.Context(), "k", WithMaxWait(5*time.Second)); !errors.Is(err, ErrTaken) {
			t.Fatalf("Acquire of a key that is held at one node, with another that takes no fence = %v, want ErrTaken", err)
		}
		if tries := (fakes[2].Batches() - before) / 2; tries > 100 {
			t.Errorf("the waiter has tried %d times in 5s, want no more than the pauses of up to %v allow", tries, acquire.MaxSplitBackoff)
		}
	})
}

func TestWaitersThatComeAndGoWhileANodeIsDownLeaveNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ours, fakes := newLocker(t, 3)
		theirs := another(t, fakes)
		_ = mustAcquire(t, theirs, "k", WithTTL(time.Hour))
		_ = mustAcquire(t, theirs, "other", WithTTL(time.Hour))
		fakes[0].Change(refuse)
		always := waitFor(t.Context(), ours, WithMaxWait(500*time.Second))
		for range 400 {
			if _, err := ours.Acquire(t.Context(), "other", WithMaxWait(time.Second)); !errors.Is(err, ErrTaken) {
				t.Fatalf("Acquire of a key that is held = %v, want ErrTaken", err)
			}
		}
		changes := func() (count int, listens bool) {
			left := ours.board.Nodes[0].Left()
			return left.Channels, left.Listens
		}
		if n, _ := changes(); n > 20 {
			t.Errorf("400 waiters have left %d channels to look at when the node is back, want those of the last seconds", n)
		}
		<-always
		time.Sleep(2 * subscription.LastRetry)
		if n, listens := changes(); n > 0 || listens {
			t.Errorf("when nobody waits there are %d channels to look at, and somebody listens: %t, want neither", n, listens)
		}
	})
}

// deaf listens, and does not care what is announced.
type deaf struct{}

func (deaf) OnSubscribed(int, bool) {}

func (deaf) OnMessage(int, string) {}

func TestNobodyBeginsToListenWhileCloseWaits(t *testing.T) {
	for range 300 {
		locker, _ := newLocker(t, 1)
		var group sync.WaitGroup
		start := make(chan struct{})
		for i := range 8 {
			group.Go(func() {
				<-start
				locker.board.Nodes[0].Listen(strconv.Itoa(i), deaf{})
			})
		}
		group.Go(func() {
			<-start
			noError(t, locker.Close())
		})
		close(start)
		group.Wait()
		if locker.board.Nodes[0].Listen("late", deaf{}); locker.board.Nodes[0].Left().Listens {
			t.Fatal("somebody listens after Close")
		}
	}
}

func TestATimeToLiveThatNoLeaseHasIsNotWaitedFor(t *testing.T) {
	for _, left := range []int64{math.MaxInt64, math.MaxInt64/1_000_000 + 1, math.MinInt64} {
		synctest.Test(t, func(t *testing.T) {
			locker, fakes := newLocker(t, 3)
			warm(t, locker)
			for _, f := range fakes[:2] {
				f.Plant("k", "somebody", time.Hour)
				f.Change(func(f *fakeNode) {
					f.Answer = answering(driver.Reply{Kind: driver.Integer, Int: left}, func(args []any) bool { return args[0] == "PTTL" })
				})
			}
			far(fakes, time.Millisecond)
			before := sent(fakes[2])
			if _, err := locker.Acquire(t.Context(), "k", WithMaxWait(5*time.Second)); !errors.Is(err, ErrTaken) {
				t.Fatalf("Acquire of a key that is held = %v, want ErrTaken", err)
			}
			if tries := sent(fakes[2]) - before; tries > 200 {
				t.Errorf("where a node has the key for another %d ms, a waiter has tried %d times in 5s, want no more than its pauses allow", left, tries)
			}
		})
	}
}

// The context may end between the nodes' no and what is made of it.
func TestAWaitThatEndsWithItsFirstTrySaysBoth(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, _ := newLocker(t, 3)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		for _, err := range []error{&QuorumError{Reason: ErrTaken}, &fault.StateError{Op: "acquire", Key: "k", Why: context.Canceled}} {
			w := locker.waiter(ctx, request{settings: &locker.options.acquire, key: "k", kind: exclusive, line: behindAll}, 0)
			if !w.Over(err) {
				t.Error("the waiting goes on though its context has ended")
			}
			if end := w.GiveUp(err); !errors.Is(end, context.Canceled) || !errors.Is(end, err) {
				t.Errorf("after %v the waiting ends with %v, want both that and the context's end", err, end)
			}
		}
	})
}

// Who waits for a place among those who ask the nodes at once waits no longer than for the key.
func TestTheLongestWaitIsHeededHoweverManyAskAtOnce(t *testing.T) {
	const maxWait, timeout, trip = 2500 * time.Millisecond, 2 * time.Second, 500 * time.Millisecond
	waiters := some(2000)
	for kind, acquire := range map[string]func(ctx context.Context, l *Locker, key string, options ...AcquireOption) error{
		"a lock": func(ctx context.Context, l *Locker, key string, options ...AcquireOption) error {
			_, err := l.Acquire(ctx, key, options...)
			return err
		},
		"a lock on several keys": func(ctx context.Context, l *Locker, key string, options ...AcquireOption) error {
			_, err := l.AcquireAll(ctx, []string{key, key + "/more"}, options...)
			return err
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			locker, fakes := newLocker(t, 3, WithNodeTimeout(timeout))
			warm(t, locker)
			far(fakes, trip)
			for _, f := range fakes {
				for i := range waiters {
					f.Plant(strconv.Itoa(i), "of another library", time.Hour)
				}
			}
			var group sync.WaitGroup
			began := time.Now()
			for i := range waiters {
				group.Go(func() {
					err := acquire(t.Context(), locker, strconv.Itoa(i), WithMaxWait(maxWait))
					if took := time.Since(began); took > maxWait+timeout || !errors.Is(err, ErrTaken) || errors.Is(err, context.DeadlineExceeded) {
						t.Errorf("%s: %d wait for %v at most, and one ends after %v with %v, want ErrTaken", kind, waiters, maxWait, took, err)
					}
				})
			}
			group.Wait()
		})
	}
}

// Only first tries take the room for those who ask the nodes: neither who waits for a holder, nor who
// pauses because the votes are split.
func TestWhoeverWaitsForOthersTakesNoRoomOfThoseWhoTry(t *testing.T) {
	for name, wait := range map[string]func(ctx context.Context, l *Locker) error{
		"for a lock":         func(ctx context.Context, l *Locker) error { return passing(l.Acquire(ctx, "k")) },
		"for several keys":   func(ctx context.Context, l *Locker) error { return passing(l.AcquireAll(ctx, []string{"k", "l"})) },
		"for a split to end": func(ctx context.Context, l *Locker) error { return passing(l.TryAcquire(ctx, "split")) },
	} {
		synctest.Test(t, func(t *testing.T) {
			locker, fakes := newLocker(t, 2)
			warm(t, locker)
			forEach(fakes, func(f *fakeNode) { f.Plant("k", "another's", time.Hour) })
			fakes[0].Plant("split", "one's", time.Hour)
			fakes[1].Plant("split", "the other's", time.Hour)
			far(fakes, time.Millisecond)
			ctx, cancel := context.WithCancel(t.Context())
			var all sync.WaitGroup
			const most = node.MaxBatch + int(time.Millisecond/(20*time.Microsecond)) // so many have room
			for range most + 10 {
				all.Go(func() { _ = wait(ctx, locker) })
			}
			time.Sleep(2 * locker.options.timeout(locker.options.acquire.ttl) / 5)
			if inside, waiting := locker.room.Len(); inside+waiting > most/2 {
				t.Errorf("%s: %d are in the room and %d wait for it, want it no more than half full", name, inside, waiting)
			}
			began := time.Now()
			mustRelease(t, mustTry(t, locker, "other"))
			wantWithin(t, 10*time.Millisecond, began, "a try beside those who wait", name)
			cancel()
			all.Wait()
			if inside, waiting := locker.room.Len(); inside+waiting > 0 {
				t.Errorf("%s: %d are in the room and %d wait for it at the end, want none", name, inside, waiting)
			}
		})
	}
}

func TestAnAcquireThatHasNoTurnInItsLongestWaitIsBusy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 3, WithNodeTimeout(2*time.Second))
		warm(t, locker)
		far(fakes, time.Second)
		var all sync.WaitGroup
		for i := range 2 * node.MaxBatch {
			all.Go(func() { _ = passing(locker.TryAcquire(t.Context(), strconv.Itoa(i))) })
		}
		synctest.Wait()
		began := time.Now()
		_, err := locker.Acquire(t.Context(), "k", WithMaxWait(100*time.Millisecond))
		says(t, ErrBusy, `"k"`, "its turn to ask the nodes did not come", "ask for fewer at once")(err)
		wantWithin(t, 100*time.Millisecond, began, "the longest wait")
		all.Wait()
	})
}

// Callers that are refused, and try again at once, do not keep those out that may come in. They leave the processor
// only where it is taken from them, so that many of them stand still in the middle of a call.
func TestCallsThatAreRefusedAreNotUnderWay(t *testing.T) {
	const callers = 16
	turns := int32(some(24)) //nolint:gosec // it is small
	locker, _ := newLocker(t, 3, WithMaxAcquires(1), WithTTL(time.Hour), WithNodeTimeout(10*time.Minute))
	var served atomic.Int32
	var all sync.WaitGroup
	for range callers {
		all.Go(func() {
			for served.Load() < turns {
				switch err := passing(locker.TryAcquire(t.Context(), "k")); {
				case err == nil:
					served.Add(1)
				case !errors.Is(err, ErrBusy) && !errors.Is(err, ErrTaken): // the last release may be under way
					t.Errorf("TryAcquire beside others = %v, want ErrBusy or ErrTaken", err)
					return
				}
			}
		})
	}
	all.Wait()
}

func TestOneAcquireMoreThanIsAllowedIsRefusedAtOnce(t *testing.T) {
	kinds := maps.Clone(kindsOfLocks)
	kinds["a try"] = func(l *Locker, ctx context.Context, options ...AcquireOption) (*Lock, error) {
		return l.TryAcquire(ctx, "k", options...)
	}
	for kind, take := range kinds {
		bubble(t, kind, func(t *testing.T) {
			locker, fakes := newLocker(t, 3, WithMaxAcquires(2))
			held := holdAll(t, locker, kind)
			ctx, cancel := context.WithCancel(t.Context())
			waits := func() error { return passing(locker.Acquire(ctx, "k")) }
			waiters := []<-chan error{async(waits), async(waits)}
			synctest.Wait()
			if s := locker.Stats(); s.Acquires != 2 || s.Waiting != 2 {
				t.Errorf("%d acquires are under way and %d wait, want 2 and 2", s.Acquires, s.Waiting)
			}
			before, began := fakes[0].Batches(), time.Now()
			if _, err := take(locker, t.Context()); !errors.Is(err, ErrBusy) || errors.Is(err, ErrTaken) || time.Since(began) != 0 || fakes[0].Batches() != before {
				t.Errorf("an acquire beside two = %v after %v, want ErrBusy at once, and nothing sent", err, time.Since(began))
			}
			cancel()
			for _, waiter := range waiters {
				returns(t, context.Canceled, "one of two that wait")(<-waiter)
			}
			for _, lock := range held {
				mustRelease(t, lock)
			}
			noError(t, passing(take(locker, t.Context())), "when nobody waits")
			if s := locker.Stats(); s.Acquires != 0 {
				t.Errorf("%d acquires are under way at the end, want none", s.Acquires)
			}
		})
	}
}

// Waiters of one Locker for what another one holds cost the nodes as much as two of them do, however many they are:
// only who can be served next asks.
func TestWhatWaitersCostWhileNothingHappensDoesNotGrowWithTheirNumber(t *testing.T) {
	t.Parallel()
	kinds := maps.Clone(kindsOfLocks)
	var next atomic.Int32
	kinds["several keys, one of them in common"] = func(l *Locker, ctx context.Context, options ...AcquireOption) (*Lock, error) {
		return l.AcquireAll(ctx, []string{"k", fmt.Sprint("own ", next.Add(1))}, options...)
	}
	for kind, take := range kinds {
		for _, options := range [][]Option{nil, {WithFairness()}} {
			bubble(t, fmt.Sprint(kind, len(options)), func(t *testing.T) {
				cost := func(waiters int) (commands int) {
					locker, fakes := newLocker(t, 3, options...)
					far(fakes, time.Millisecond)
					other := another(t, fakes, options...)
					holdAll(t, other, kind, WithTTL(time.Hour))
					ctx, cancel := context.WithCancel(t.Context())
					var all sync.WaitGroup
					for range waiters {
						all.Go(func() { returns(t, context.Canceled, "waiting for what is held")(take(locker, ctx)) })
					}
					time.Sleep(5 * time.Second) // each has tried once
					for _, f := range fakes {
						f.Change(func(f *fakeNode) { commands -= len(f.Log) })
					}
					time.Sleep(20 * time.Second)
					for _, f := range fakes {
						f.Change(func(f *fakeNode) { commands += len(f.Log) })
					}
					cancel()
					all.Wait()
					return commands
				}
				crowd := some(200)
				if few, many := cost(2), cost(crowd); many > 2*few+60 {
					t.Errorf("%d waiters cost %d commands in 20s, and two cost %d", crowd, many, few)
				}
			})
		}
	}
}

// What may pass is waited for; what somebody has to correct in a client, a user or the key ends a wait at once.
func TestAWaitEndsAtOnceWhereNothingPasses(t *testing.T) {
	t.Parallel()
	answers := func(text string) func(*fakeNode) { return func(f *fakeNode) { f.Answer = refusing(text) } }
	info := func(old, changed string) func(*fakeNode) {
		return func(f *fakeNode) { f.Info = strings.Replace(f.Info, old, changed, 1) }
	}
	fails := func(err error) func(*fakeNode) { return func(f *fakeNode) { f.Refused = err } }
	for name, tt := range map[string]struct {
		harm   func(*fakeNode)
		passes bool
	}{
		"a replica refuses writes":    {answers("READONLY You can't write against a read only replica."), true},
		"it loads its data":           {answers("LOADING Redis is loading the dataset in memory"), true},
		"a script runs":               {answers("BUSY Redis is busy running a script."), true},
		"a slot moves":                {answers("TRYAGAIN Multiple keys request during rehashing of slot"), true},
		"the cluster is down":         {answers("CLUSTERDOWN The cluster is down"), true},
		"the master is down":          {answers("MASTERDOWN Link with MASTER is down"), true},
		"replicas are missing":        {answers("NOREPLICAS Not enough good replicas to write."), true},
		"its memory is full":          {answers("OOM command not allowed when used memory > 'maxmemory'."), false},
		"its disk is full":            {answers("MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk."), false},
		"it has too many clients":     {answers("ERR max number of clients reached"), true},
		"it is a replica":             {info("role:master", "role:slave"), true},
		"it evicts keys":              {info("maxmemory:0\r\nmaxmemory_policy:noeviction", "maxmemory:1000000\r\nmaxmemory_policy:allkeys-lru"), true},
		"it is another node's server": {func(f *fakeNode) { f.Info = fakenode.Info("node-3") }, true},
		"it refuses connections":      {refuse, true},

		"the user may not write":             {answers("NOPERM this user has no permissions to run the 'set' command"), false},
		"a password is missing":              {answers("NOAUTH Authentication required."), false},
		"the password is wrong":              {answers("WRONGPASS invalid username-password pair"), false},
		"it is protected":                    {answers("DENIED Redis is running in protected mode"), false},
		"the key holds a list":               {answers("WRONGTYPE Operation against a key holding the wrong kind of value"), false},
		"its certificate is for other names": {fails(x509.HostnameError{Certificate: &x509.Certificate{}, Host: "h"}), false},
		"nobody knows its authority":         {fails(&tls.CertificateVerificationError{Err: x509.UnknownAuthorityError{}}), false},
		"its client is closed":               {fails(driver.ErrClosed), false},
	} {
		bubble(t, name, func(t *testing.T) {
			locker, fakes := newLocker(t, 3)
			far(fakes, time.Millisecond)
			warm(t, locker)
			changeAll(fakes[:2], tt.harm)
			time.Sleep(2 * time.Second) // each node was asked whether it is fit since
			began := time.Now()
			time.AfterFunc(4*time.Second, func() {
				changeAll(fakes[:2], func(f *fakeNode) { f.Answer, f.Refused, f.Info = nil, nil, fakenode.Info(f.Name()) })
			})
			lock, err := locker.Acquire(t.Context(), "k", WithMaxWait(time.Minute))
			switch {
			case tt.passes && err != nil:
				t.Errorf("after %v: %v; want it waited for", time.Since(began), err)
			case tt.passes:
				mustRelease(t, lock)
			case !errors.Is(err, ErrNoQuorum):
				t.Errorf("Acquire = %v, want ErrNoQuorum", err)
			default:
				wantWithin(t, time.Second, began, err)
			}
		})
	}
}
