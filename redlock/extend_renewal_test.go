package redlock

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumlock/quorumlock/internal/protocol"
	"github.com/quorumlock/quorumlock/internal/quorum"
	"github.com/quorumlock/quorumlock/internal/scripts"
)

// 18. and 19. A renewal that fails or hangs is noticed by nobody.
func TestPitfall18And19ARenewalThatFailsOrHangsEndsTheContextAtTheDeadline(t *testing.T) {
	for name, harm := range map[string]func(*fakeNode){
		"refuse": func(f *fakeNode) { f.Change(refuse) },
		"hang":   func(f *fakeNode) { f.Stop() },
	} {
		synctest.Test(t, func(t *testing.T) {
			locker, fakes := newLocker(t, 5)
			lock := mustAcquire(t, locker, "k", WithRenewal())
			time.Sleep(5*time.Second + time.Millisecond) // no renewal is due at this moment: see quorum.RenewalSlots
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
				if failed := vote.Answer == failedVote; failed != (i < 3) {
					t.Errorf("three of five nodes %s: in the cause node %d says %v", name, i+1, vote)
				}
			}
			for _, f := range fakes[:3] {
				f.Change(func(f *fakeNode) { f.Refused = nil })
				if name == "hang" {
					f.Resume()
				}
			}
			time.Sleep(15 * time.Second)
			if lock.Valid() || !errors.Is(lock.Extend(t.Context(), time.Second), ErrLost) {
				t.Error("a lost lock came back")
			}
		})
	}
}

func TestRenewalsAreReportedBeforeTheLockIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var told []ExtendEnd
		locker, fakes := newLocker(t, 5, WithRenewal(), onRenewal(func(r ExtendEnd) {
			mu.Lock()
			defer mu.Unlock()
			told = append(told, r)
		}))
		mustAcquire(t, locker, "k")
		for down := range 4 {
			time.Sleep(10 * time.Second / quorum.RenewalShare)
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
			fakes[down].Change(refuse)
		}
	})
}

func TestTheContextOfAnAcquireBoundsTheAcquireAlone(t *testing.T) {
	type mark struct{}
	for name, take := range kindsOfLocks {
		bubble(t, name, func(t *testing.T) {
			locker, fakes := newLocker(t, 3)
			ctx, cancel := context.WithTimeout(context.WithValue(t.Context(), mark{}, "caller"), time.Second)
			lock, err := take(locker, ctx, WithRenewal())
			must(t, err)
			early := lock.Context()
			cancel()
			time.Sleep(time.Minute) // six TTLs
			for _, held := range []context.Context{early, lock.Context()} {
				if _, bounded := held.Deadline(); bounded || held.Err() != nil || held.Value(mark{}) != "caller" || FromContext(held) != lock {
					t.Errorf("behind the end of the call's context that of the lock is %v, %v", held, context.Cause(held))
				}
			}
			wantHeld(t, lock, true)
			mustRelease(t, lock)
			returns(t, ErrReleased, "the cause")(context.Cause(early))
			synctest.Wait()
			wantFree(t, fakes, "k")
			if !locker.board.Renewals.Idle() {
				t.Error("after the release renewals are planned, or a timer runs")
			}
		})
	}
}

func TestTheContextOfDoEndsWithThatOfItsCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 3, WithRenewal())
		gone := errors.New("the caller has gone")
		ctx, cancel := context.WithCancelCause(t.Context())
		err := locker.Do(ctx, "k", func(ctx context.Context) error {
			cancel(gone)
			if !errors.Is(context.Cause(ctx), gone) {
				t.Errorf("the function's context says %v, want the cause of its caller's", context.Cause(ctx))
			}
			time.Sleep(time.Minute)             // it cleans up
			wantHeld(t, FromContext(ctx), true) //nolint:contextcheck // ctx has ended
			return ctx.Err()
		})
		if !errors.Is(err, context.Canceled) || errors.Is(err, ErrLost) {
			t.Errorf("Do = %v, want the context's error alone", err)
		}
		synctest.Wait()
		wantFree(t, fakes, "k")
	})
}

func TestMaxHoldEndsAHold(t *testing.T) {
	const most = 25 * time.Second
	for name, tt := range map[string]struct{ renews, extends bool }{
		"renewals": {true, false}, "extensions": {false, true}, "extensions of a lock that is renewed": {true, true},
	} {
		bubble(t, name, func(t *testing.T) {
			locker, fakes := newLocker(t, 3)
			warm(t, locker)
			options := []AcquireOption{WithMaxHold(most)}
			if tt.renews {
				options = append(options, WithRenewal())
			}
			began := time.Now()
			lock := mustAcquire(t, locker, "k", options...)
			if tt.extends {
				time.Sleep(time.Second)
				noError(t, lock.Extend(t.Context(), time.Hour))
				synctest.Wait()
				if _, left := fakes[0].Token("k"); left > most-time.Second || left < most-2*time.Second {
					t.Errorf("1s after the acquire the node has the key for %v, want what is left of a hold of %v", left, most)
				}
				err := lock.Extend(t.Context(), time.Hour)
				var refused *OptionError
				if !errors.As(err, &refused) || refused.Option != "MaxHold" {
					t.Errorf("an Extend that gains nothing = %v, want an OptionError that names MaxHold", err)
				}
			}
			<-lock.Context().Done()
			if held := time.Since(began); held > most || held < most-time.Second {
				t.Errorf("a hold of at most %v lasted %v", most, held)
			}
			if cause := context.Cause(lock.Context()); !errors.Is(cause, ErrLost) || !strings.Contains(cause.Error(), "WithMaxHold") {
				t.Errorf("the cause is %q, want ErrLost, and that it was held for the longest time", cause)
			}
			time.Sleep(time.Until(began.Add(most + 10*time.Millisecond)))
			wantFree(t, fakes, "k")
		})
	}
}

func TestAMachineThatResumesFindsItsLocksExpired(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var machine sleeper
		locker, _ := newLocker(t, 3, machine.option())
		expired := mustAcquire(t, locker, "expired").Context()
		short := mustAcquire(t, locker, "short", WithTTL(30*time.Second)).Context()
		renewed := mustAcquire(t, locker, "renewed", WithTTL(30*time.Second), WithRenewal())
		time.Sleep(500 * time.Millisecond)
		machine.sleep(25 * time.Second)
		time.Sleep(time.Second)
		synctest.Wait()
		returns(t, ErrLost, "the cause")(context.Cause(expired))
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

func TestARevokedLockEndsAtTheRenewalThatFindsTheTombstones(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 5, WithTTL(time.Minute), WithRenewal())
		for name, hold := range map[string]func() *Lock{
			"a writer": func() *Lock { return mustAcquire(t, locker, "k") },
			"a reader": func() *Lock { return mustShare(t, locker, "k") },
		} {
			for graves := 2; graves <= 3; graves++ {
				lock := hold()
				ctx := lock.Context()
				synctest.Wait()
				fakes[2].Plant("k", "another", time.Minute) // too many refuse in any case
				plant(fakes[:graves], "k", protocol.RevokedPrefix+"0123456789abcdef0123456789abcdef:it hangs", time.Minute)
				time.Sleep(21 * time.Second) // a third of the TTL, in which a lock is renewed
				revoked := graves == 3
				if lost := errors.Is(context.Cause(ctx), ErrLost); lost != revoked || lock.Valid() == revoked {
					t.Errorf("%s with tombstones at %d of 5 nodes is valid: %v, its context has ended by %v", name, graves, lock.Valid(), context.Cause(ctx))
				}
				_ = lock.Release() // it may have been lost
				time.Sleep(time.Minute)
			}
		}
	})
}

// extensions notes when a node is asked for how many extensions, without answering itself.
func extensions(f *fakeNode) (noted func() []time.Time) {
	var times []time.Time
	before([]*fakeNode{f}, "", func(_ *fakeNode, args []any) {
		switch {
		case args[0] != "EVALSHA" && args[0] != "EVAL", args[2] == "0", args[2] == "-1":
		case args[1] == scripts.Extend.Digest || args[1] == scripts.Extend.Source:
			times = append(times, slices.Repeat([]time.Time{time.Now()}, atoi(args[2]))...)
		case args[1] == scripts.Hold.Digest || args[1] == scripts.Hold.Source:
			times = append(times, time.Now())
		}
	})
	return func() (all []time.Time) {
		f.Change(func(*fakeNode) { all = times })
		return all
	}
}

func TestLocksThatAreTakenTogetherAreNotRenewedTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const count, ttl = 1000, 30 * time.Second
		locker, fakes := newLocker(t, 1, WithTTL(ttl), WithRenewal())
		warm(t, locker)
		noted := extensions(fakes[0])
		began := time.Now()
		locks := acquireAll(t, locker, count)
		time.Sleep(2*ttl - time.Millisecond)
		times := noted()
		if earliest, latest := times[0].Sub(began), times[count-1].Sub(began); earliest < ttl/6 || latest > ttl/3 {
			t.Errorf("the first renewals came %v to %v after the acquire of a lease of %v, want a sixth to a third of it", earliest, latest, ttl)
		}
		const parts = 60
		var load [2 * parts]int
		for _, at := range times {
			load[int(at.Sub(began)*parts/ttl)]++
		}
		for i, n := range load {
			if n > count/5 {
				t.Errorf("in second %d of %d, half a second has %d of %d renewals", i/2, 60, n, count)
			}
		}
		if most := 2 * count * quorum.EarliestAgain; len(times) > most {
			t.Errorf("%d renewals of %d locks in two TTLs, want at most %d", len(times), count, most)
		}
		moments := len(slices.Compact(times))
		if moments > 2*quorum.RenewalSlots {
			t.Errorf("renewals came at %d moments, want them to gather at %d of a TTL", moments, quorum.RenewalSlots)
		}
		for _, lock := range locks {
			if !lock.Valid() {
				t.Fatalf("%v was lost", lock)
			}
		}
	})
}

// slow makes a node's batches with a command take so long.
func slow(f *fakeNode, command string, d time.Duration) {
	f.Change(func(f *fakeNode) {
		before := f.Hold
		f.Hold = func(name string) <-chan struct{} {
			if name != command && before != nil {
				return before(name)
			}
			if name != command {
				return nil
			}
			passed := make(chan struct{})
			time.AfterFunc(d, func() { close(passed) })
			return passed
		}
	})
}

// A waitingRoom is what is told of three nodes whose batches are slow, and of the renewals of a
// lock there.
type waitingRoom struct {
	locker *Locker
	fakes  []*fakeNode
	lock   *Lock // renewed
	other  *Lock // asking for it takes 100ms, for which nothing else leaves

	mu   sync.Mutex
	down []Event
	told []ExtendEnd
}

// slow delays the answers to a command at all nodes.
func (w *waitingRoom) slow(command string, by time.Duration) {
	forEach(w.fakes, func(f *fakeNode) { slow(f, command, by) })
}

func newWaitingRoom(t *testing.T, options ...Option) *waitingRoom {
	t.Helper()
	w := &waitingRoom{}
	w.locker, w.fakes = newLocker(t, 3, append(options, WithHooks(Hooks{Node: func(e Event) {
		w.mu.Lock()
		defer w.mu.Unlock()
		if e.Kind == NodeDown {
			w.down = append(w.down, e)
		}
	}}),

		onRenewal(func(r ExtendEnd) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.told = append(w.told, r)
		}))...)
	warm(t, w.locker)
	w.lock, w.other = mustAcquire(t, w.locker, "k", WithRenewal()), mustAcquire(t, w.locker, "other")
	synctest.Wait()
	w.slow("GET", 100*time.Millisecond)
	return w
}

// fill sends a batch behind which all has to wait.
func (w *waitingRoom) fill(t *testing.T) {
	go func() { _, _ = w.other.Confirm(t.Context()) }()
	synctest.Wait()
}

func (w *waitingRoom) renew() { w.locker.board.Renewals.Set(w.lock.hold.Renewal, w.locker.clock.Now()) }

// check fails the test if a node was taken out, or so many renewals were not carried.
func (w *waitingRoom) check(t *testing.T, renewals int) {
	t.Helper()
	synctest.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.down != nil {
		t.Errorf("nodes were taken out: %v", w.down)
	}
	for _, r := range w.told {
		if r.Err != nil || r.Granted != 3 {
			t.Errorf("a renewal is reported as %v", r)
		}
	}
	if len(w.told) != renewals {
		t.Errorf("%d renewals were reported, want %d", len(w.told), renewals)
	}
}

func TestTheTimeThatARenewalWaitsToLeaveIsNotTheNodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWaitingRoom(t)
		w.slow("EVALSHA", 200*time.Millisecond)
		w.fill(t)
		w.renew() // it waits 100ms to leave and 200ms for its answer, of 250ms that a node may take
		time.Sleep(310 * time.Millisecond)
		w.check(t, 1)
	})
}

func TestTheTimeThatATryWaitsToLeaveTakesNoNodeOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWaitingRoom(t)
		w.slow("SET", 200*time.Millisecond)
		w.fill(t)
		returns(t, ErrNoQuorum, "after a node time-out")(w.locker.TryAcquire(t.Context(), "slow"))
		time.Sleep(100 * time.Millisecond)
		w.check(t, 0)
	})
}

func TestARenewalStaysInTheQueueAsLongAsItsLeaseRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWaitingRoom(t)
		w.slow("SET", 290*time.Millisecond)
		w.fill(t)
		go func() { _, _ = w.locker.TryAcquire(t.Context(), "slow") }() // out from 100ms to 390ms
		time.Sleep(101 * time.Millisecond)
		w.renew()
		time.Sleep(300 * time.Millisecond)
		w.check(t, 1)
	})
}

func TestTheTimeInWhichTheMachineSleptIsNotTheNodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var machine sleeper
		w := newWaitingRoom(t, WithTTL(30*time.Second), machine.option())
		w.slow("EVALSHA", 260*time.Millisecond)
		w.renew()
		time.Sleep(100 * time.Millisecond)
		machine.sleep(2 * time.Second)
		w.locker.clock.Fresh()
		time.Sleep(200 * time.Millisecond)
		w.check(t, 1)
	})
}

func TestARenewalThatStandsInAQueueIsNotBegunAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 3)
		warm(t, locker)
		lock, other := mustAcquire(t, locker, "k", WithRenewal()), mustAcquire(t, locker, "other")
		synctest.Wait()
		noted := extensions(fakes[0])
		for _, f := range fakes {
			slow(f, "GET", 200*time.Millisecond)
		}
		go func() { _, _ = other.Confirm(t.Context()) }()
		synctest.Wait()
		for range 10 {
			locker.board.Renewals.Set(lock.hold.Renewal, locker.clock.Now())
			time.Sleep(10 * time.Millisecond)
			synctest.Wait()
		}
		time.Sleep(150 * time.Millisecond)
		synctest.Wait()
		if sent := len(noted()); sent != 1 {
			t.Errorf("a renewal that stood in the queue was sent %d times", sent)
		}
		time.Sleep(10 * time.Second)
		if !lock.Valid() {
			t.Error("and it was not begun again when it had left")
		}
	})
}

func TestFailedRenewalsDoNotFlood(t *testing.T) {
	for name, harm := range map[string]func(*fakeNode){
		"refuse": func(f *fakeNode) { f.Change(refuse) },
		"hang":   func(f *fakeNode) { f.Stop() },
	} {
		synctest.Test(t, func(t *testing.T) {
			const floor = 250 * time.Millisecond / 4
			var mu sync.Mutex
			var told []ExtendEnd
			var times []time.Time
			locker, fakes := newLocker(t, 3, WithTTL(10*time.Second), onRenewal(func(r ExtendEnd) {
				mu.Lock()
				defer mu.Unlock()
				told, times = append(told, r), append(times, time.Now())
			}))
			lock := mustAcquire(t, locker, "k", WithRenewal())
			until := lock.Until()
			synctest.Wait()
			for _, f := range fakes {
				harm(f)
			}
			<-lock.Context().Done()
			mu.Lock()
			defer mu.Unlock()
			if len(told) < 5 || len(told) > 35 {
				t.Errorf("nodes %s: %d attempts for one lock of 10s, want some twenty", name, len(told))
			}
			for i, r := range told {
				if r.Err == nil || r.Attempt != i+1 {
					t.Errorf("nodes %s: report %d is %v of attempt %d", name, i+1, r.Err, r.Attempt)
				}
				if i == 0 {
					continue
				}
				least := min(floor, until.Sub(times[i-1])/2)
				if pause := times[i].Sub(times[i-1]); pause < least {
					t.Errorf("nodes %s: attempt %d failed %v after the one before, want no pause below %v", name, i+1, pause, least)
				}
			}
		})
	}
}

func TestAttemptsAreCountedFromTheLastThatWasCarried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var attempts []int
		locker, fakes := newLocker(t, 3, onRenewal(func(r ExtendEnd) {
			mu.Lock()
			defer mu.Unlock()
			attempts = append(attempts, r.Attempt)
		}))
		mustAcquire(t, locker, "k", WithRenewal())
		time.Sleep(5 * time.Second)
		changeAll(fakes, refuse)
		time.Sleep(4 * time.Second) // longer than a third of the TTL: a renewal falls due
		changeAll(fakes, func(f *fakeNode) { f.Refused = nil })
		time.Sleep(10 * time.Second)
		mu.Lock()
		defer mu.Unlock()
		last := attempts[len(attempts)-1]
		if attempts[0] != 1 || last != 1 || slices.Max(attempts) < 2 {
			t.Errorf("the attempts before, in and after an outage of 4s are %v", attempts)
		}
	})
}

// Two of three nodes are silent for half of a TTL and more, and answer again before the lease is over, at whichever
// moment that began: no cooldown of theirs refuses the extension that would prolong it.
func TestARenewedLockIsKeptWhenItsNodesAreBackInTime(t *testing.T) {
	t.Parallel()
	const moments = 20
	for _, tt := range []struct{ ttl, silence time.Duration }{
		{time.Second, 500 * time.Millisecond},
		{2 * time.Second, 1200 * time.Millisecond},
		{10 * time.Second, 6 * time.Second},
	} {
		for name, fail := range map[string]func(*fakeNode, time.Duration){
			"stopped": func(f *fakeNode, lasts time.Duration) { f.Stop(); time.Sleep(lasts); f.Resume() },
			"cut off": freeze,
		} {
			for i := range time.Duration(moments) {
				bubble(t, fmt.Sprint(tt.ttl, tt.silence, name, i), func(t *testing.T) {
					locker, fakes := newLocker(t, 3, WithTTL(tt.ttl))
					lock := mustAcquire(t, locker, "k", WithRenewal())
					time.Sleep(2*tt.ttl + tt.ttl*i/(2*moments))
					var both sync.WaitGroup
					for _, f := range fakes[:2] {
						both.Go(func() { fail(f, tt.silence) })
					}
					both.Wait()
					time.Sleep(2 * tt.ttl)
					wantHeld(t, lock, true)
					mustRelease(t, lock)
				})
			}
		}
	}
}
