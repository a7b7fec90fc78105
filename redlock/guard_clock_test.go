package redlock

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumlock/quorumlock/clockdrift"
	"github.com/quorumlock/quorumlock/internal/gate"
	"github.com/quorumlock/quorumlock/internal/node"
	"github.com/quorumlock/quorumlock/internal/nodeclock"
	"github.com/quorumlock/quorumlock/test/fakenode"
)

// Two batches are out at once: the clock is set between the two, and the reply of the first
// comes when the second has left.
func TestAStepBetweenTwoBatchesThatOverlapIsSeen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 1, WithClockGuard(10*time.Second))
		holder := mustAcquire(t, another(t, fakes), "k")
		for range node.WindowPeriod { // so that it knows how far the node is
			fakes[0].Change(func(f *fakeNode) { f.Delay = 10 * time.Millisecond })
			mustRelease(t, mustAcquire(t, locker, "warm"))
		}
		go func() { _, _ = locker.TryAcquire(t.Context(), "another") }()
		time.Sleep(4 * time.Millisecond)
		go func() {
			time.Sleep(2 * time.Millisecond)
			fakes[0].Change(func(f *fakeNode) { f.Skew = time.Minute })
		}()
		before := fakes[0].Count("TIME") // none of the two has reached the node
		if _, err := locker.TryAcquire(t.Context(), "k"); !errors.Is(err, ErrQuarantine) {
			t.Errorf("TryAcquire = %v, want ErrQuarantine; the holder is valid: %v", err, holder.Valid())
		}
		if got := fakes[0].Count("TIME") - before; got != 2 {
			t.Errorf("the clock was read %d times, want once by each batch: this test does not show what it is for", got)
		}
	})
}

// A lease of 10s allows for 102ms.
func TestAStepThatIdleTimeCouldHideIsSeen(t *testing.T) {
	for _, idle := range []time.Duration{time.Minute, 5 * time.Minute, time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			locker, fakes := newLocker(t, 1, WithClockGuard(10*time.Second))
			mustRelease(t, mustAcquire(t, locker, "k"))
			time.Sleep(idle)
			holder := mustAcquire(t, another(t, fakes), "k")
			time.Sleep(time.Second)
			step := max(idle/1000, 110*time.Millisecond) // what drift may come to
			fakes[0].Change(func(f *fakeNode) { f.Skew = step })
			time.Sleep(8890*time.Millisecond - min(step-110*time.Millisecond, 8*time.Second))
			if _, err := locker.TryAcquire(t.Context(), "k"); !errors.Is(err, ErrQuarantine) {
				t.Errorf("after %v the clock was set forward by %v: TryAcquire = %v, want ErrQuarantine; the holder is valid: %v", idle, step, err, holder.Valid())
			}
		})
	}
}

func TestAnIdleLockerSendsNothingButReadsTheClocksWithTheClockGuard(t *testing.T) {
	for _, guarded := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			var options []Option
			if guarded {
				options = append(options, WithClockGuard(10*time.Second))
			}
			locker, fakes := newLocker(t, 3, options...)
			if !guarded {
				fakes[1].Stop()
			}
			mustRelease(t, mustAcquire(t, locker, "k"))
			time.Sleep(time.Minute)
			read, asked := fakes[0].Count("TIME"), fakes[0].Batches()+fakes[1].Batches()
			time.Sleep(time.Hour)
			read, asked = fakes[0].Count("TIME")-read, fakes[0].Batches()+fakes[1].Batches()-asked
			if guarded && (read < 3600/13 || read > 3600/12) || !guarded && asked > 0 {
				t.Errorf("with the guard: %t: a clock was read %d times in an hour, and nodes got %d batches; want once in 12.6s, or none", guarded, read, asked)
			}
			for _, n := range locker.board.Nodes {
				if !guarded && n.Left().Armed {
					t.Errorf("the timer of %s still ticks", n.Name())
				}
			}
			fakes[1].Resume()
			mustAcquire(t, locker, "k")
		})
	}
}

// What happened to the clock meanwhile may hide: the node votes again when the leases of that
// time have ended.
func TestANodeWhoseClockWasNotReadForTooLongDoesNotVoteForTheLongestTTL(t *testing.T) {
	for name, away := range map[string]func(machine *sleeper, f *fakeNode){
		"the machine slept": func(machine *sleeper, _ *fakeNode) { machine.sleep(5 * time.Minute) },
		"the node was down": func(_ *sleeper, f *fakeNode) {
			f.Change(func(f *fakeNode) { f.Refused = fakenode.ErrCut })
			time.Sleep(5 * time.Minute)
			f.Change(func(f *fakeNode) { f.Refused = nil })
		},
	} {
		bubble(t, name, func(t *testing.T) {
			var machine sleeper
			locker, fakes := newLocker(t, 1, WithClockGuard(10*time.Second), machine.option())
			mustRelease(t, mustAcquire(t, locker, "k"))
			time.Sleep(time.Second)
			away(&machine, fakes[0])
			fakes[0].Change(func(f *fakeNode) {
				if machine.slept.Load() > 0 {
					f.Skew += 5 * time.Minute // it went on meanwhile
				}
			})
			time.Sleep(2 * time.Second)
			says(t, ErrQuarantine, "not read for too long")(locker.TryAcquire(t.Context(), "k"))
			time.Sleep(11 * time.Second)
			mustAcquire(t, locker, "k")
		})
	}
}

// The reply to a batch may take long, because a disk is waited for. Then the clock is read by
// itself.
func TestAClockThatWasReadTooBlurredIsReadOnceMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 1, WithClockGuard(10*time.Second))
		mustRelease(t, mustAcquire(t, locker, "k"))
		slow := func(name string) <-chan struct{} {
			if name != "SET" {
				return nil
			}
			late := make(chan struct{})
			time.AfterFunc(120*time.Millisecond, func() { close(late) })
			return late
		}
		fakes[0].Change(func(f *fakeNode) { f.Hold = slow })
		mustRelease(t, mustAcquire(t, locker, "k"))
		fakes[0].Change(func(f *fakeNode) { f.Hold, f.Delay = nil, 200*time.Millisecond })
		says(t, ErrNoQuorum, "may hide")(locker.TryAcquire(t.Context(), "k"))
		fakes[0].Change(func(f *fakeNode) { f.Delay = 0 })
		mustAcquire(t, locker, "k")
	})
}

// An offsets is what a node's clock has been ahead of a Locker's, from when on.
type offsets struct {
	mu    sync.Mutex
	turns []turn
	votes map[string]clockdrift.Instant // when the node granted a key
}

type turn struct {
	at  clockdrift.Instant
	off time.Duration
}

// over is by how much the clock had gained, beyond what leases allow for, at the moment of a
// vote, over any time before that leases and the Locker had seen. mu is held.
func (o *offsets) over(from, vote clockdrift.Instant, ttl, longest time.Duration) time.Duration {
	var now time.Duration
	for _, turn := range o.turns {
		if turn.at <= vote {
			now = turn.off
		}
	}
	over := -time.Hour
	for i, turn := range o.turns {
		ends := vote
		if i+1 < len(o.turns) {
			ends = min(ends, o.turns[i+1].at)
		}
		if age := vote.Sub(ends); turn.at <= vote && ends >= from && age <= longest {
			over = max(over, now-turn.off-clockdrift.Allowance(max(age, ttl), clockdrift.DefaultFactor))
		}
	}
	return over
}

// A vote that counted hides no step beyond what leases allow for, within the longest TTL and
// while the process ran: over random steps, batches that overlap, idle times, nodes that are
// down and machines that sleep.
func TestNoVoteThatCountedHidesAStep(t *testing.T) {
	counted, spoilt := 0, 0
	for trial := range some(60) {
		seed := uint64(trial)
		synctest.Test(t, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 0)) //nolint:gosec // a trial has to be repeatable
			ttl := []time.Duration{time.Second, 10 * time.Second}[rng.IntN(2)]
			longest := ttl << rng.IntN(3)
			var machine sleeper
			locker, fakes := newLocker(t, 1, WithTTL(ttl), WithClockGuard(longest), machine.option())
			f, clock := fakes[0], locker.clock
			o := &offsets{turns: []turn{{}}, votes: map[string]clockdrift.Instant{}}
			before([]*fakeNode{f}, "SET", func(_ *fakeNode, args []any) {
				o.mu.Lock()
				defer o.mu.Unlock()
				if key := args[1].(string); o.votes[key] == 0 {
					o.votes[key] = clock.Fresh()
				}
			})
			step := func(by time.Duration) {
				f.Change(func(f *fakeNode) {
					f.Skew += by
					o.mu.Lock()
					defer o.mu.Unlock()
					o.turns = append(o.turns, turn{clock.Fresh(), o.turns[len(o.turns)-1].off + by})
				})
			}
			mustRelease(t, mustAcquire(t, locker, "first"))
			from := clock.Fresh()
			estimator, _ := nodeclock.New(nodeclock.DefaultRate)
			estimator.Guard(ttl, gate.SitOut(locker.options.clockLongest, locker.options.drift), locker.options.drift)
			period := estimator.Period()
			var sums sync.Mutex
			for round := range 40 {
				var work sync.WaitGroup
				by := time.Duration(1 + rng.Int64N(int64(ttl/50)<<rng.IntN(6)))
				if rng.IntN(3) == 0 {
					by = -by
				}
				steps := rng.IntN(3) == 0
				if steps { // what is set back before it is read is not seen
					time.Sleep(3 * period)
				}
				pause := time.Duration(1 + rng.Int64N(int64(ttl)<<rng.IntN(6)))
				how := rng.IntN(6)
				switch how {
				case 0: // idle
					time.Sleep(pause)
				case 1: // down
					f.Change(func(f *fakeNode) { f.Refused = fakenode.ErrCut })
					time.Sleep(pause)
					if steps {
						step(by)
					}
					f.Change(func(f *fakeNode) { f.Refused = nil })
					time.Sleep(node.MaxCooldown)
				case 2: // asleep, while the node's clock goes on
					f.Change(func(f *fakeNode) { // at one moment for whoever reads the clock
						f.Skew += pause
						machine.sleep(pause)
					})
					clock.Fresh()
					if steps {
						step(by)
					}
				case 3: // as far as that
					f.Change(func(f *fakeNode) {
						f.Delay = time.Duration(rng.IntN(10)) * time.Millisecond
						f.Jitter = time.Duration(rng.IntN(5)) * time.Millisecond
					})
				}
				if steps && how != 1 && how != 2 {
					at := time.Duration(1 + rng.IntN(int(20*time.Millisecond)))
					work.Go(func() {
						time.Sleep(at)
						step(by)
					})
				}
				for i := range 1 + rng.IntN(8) {
					at := time.Duration(1 + rng.IntN(int(20*time.Millisecond)))
					work.Go(func() {
						time.Sleep(at)
						key := fmt.Sprint(round, " ", i)
						lock, err := locker.TryAcquire(t.Context(), key)
						o.mu.Lock()
						over := o.over(from, o.votes[key], ttl, longest)
						o.mu.Unlock()
						if lock != nil {
							_ = lock.Release()
						}
						sums.Lock()
						defer sums.Unlock()
						switch {
						case err == nil && over > 0:
							t.Errorf("seed %d, round %d, %d: leases from %v to %v: a vote counted, and within the past %v the clock had gained %v too much",
								seed, round, i, ttl, longest, longest, over)
						case err == nil:
							counted++
						case over > 0:
							spoilt++
						}
					})
				}
				work.Wait()
			}
		})
	}
	t.Logf("%d votes counted, and %d did not that a step had spoilt", counted, spoilt)
	if counted < some(1000) || spoilt < some(100) {
		t.Errorf("%d votes counted, and %d did not that a step had spoilt: that shows too little", counted, spoilt)
	}
}
