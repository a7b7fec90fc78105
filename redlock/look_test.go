package redlock

import (
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumlock/quorumlock/clockdrift"
	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/internal/gate"
)

// A sleeper is a machine that sleeps by an assignment.
type sleeper struct{ slept atomic.Int64 }

func (s *sleeper) sleep(d time.Duration) { s.slept.Add(int64(d)) }

// option gives a Locker the machine's clock.
func (s *sleeper) option() Option {
	clock := clockdrift.NewWith(func() time.Duration { return time.Duration(s.slept.Load()) })
	return option(func(o *lockerOptions) { o.clock = clock })
}

// changeBefore lets a node lose its history in front of the next command that is about
// the key, with no client cut off: so it is where it is demoted and promoted, or flushed,
// between two commands of a batch. f.mu is not held.
func (f *fakeNode) changeBefore(key string, how func(f *fakeNode)) {
	f.change(func(f *fakeNode) {
		f.answer = func(args []any) *driver.Reply {
			if len(args) > 1 && args[1] == key {
				f.answer = nil
				how(f)
			}
			return nil
		}
	})
}

// resynced is a node that was demoted and promoted, and had copied a master without locks
// in between.
func resynced(f *fakeNode) {
	anotherHistory(f)
	for key := range f.keys {
		if !slices.Contains(gate.RecordKeys[:], key) {
			delete(f.keys, key)
		}
	}
}

// flushed is a node after FLUSHALL.
func flushed(f *fakeNode) {
	clear(f.keys)
	clear(f.fences)
}

// A batch is not atomic. What the node loses in front of a grant is seen by the look
// behind it.
func TestANodeThatForgetsInFrontOfAGrantIsSeenBehindIt(t *testing.T) {
	for what, loss := range map[string]func(f *fakeNode){
		"a demotion and a promotion that lose the keys": resynced,
		"FLUSHALL": flushed,
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				one, fakes := admittedLocker(t, 3)
				two := another(t, fakes, WithRestartGuard(10*time.Second))
				mustRelease(t, mustAcquire(t, two, "warm")) // it knows the nodes
				fakes[0].change(func(f *fakeNode) { f.refused = driver.NotSent(errCut) })
				first := mustAcquire(t, one, "k") // at nodes 2 and 3
				fakes[0].change(func(f *fakeNode) { f.refused = nil })
				time.Sleep(2 * time.Second)
				fakes[1].changeBefore("k", loss)
				second, err := two.TryAcquire(t.Context(), "k")
				if err == nil && first.Valid() && second.Valid() {
					t.Errorf("%s between two commands of a batch made two holders", what)
				}
				if !errors.Is(err, ErrQuarantine) {
					t.Errorf("%s between two commands of a batch: TryAcquire = %v, want ErrQuarantine", what, err)
				}
			})
		})
	}
}

// A node that keeps its keys over a demotion and a promotion may have lost others, that
// it had not sent to its master of a moment.
func TestANodeThatIsPromotedInFrontOfAGrantHasNoVote(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := admittedLocker(t, 1)
		mustRelease(t, mustAcquire(t, locker, "warm"))
		fakes[0].changeBefore("k", anotherHistory)
		if _, err := locker.TryAcquire(t.Context(), "k"); !errors.Is(err, ErrQuarantine) {
			t.Errorf("TryAcquire at a node that was promoted in front of the grant = %v, want ErrQuarantine", err)
		}
	})
}

// The same for every other command that makes a vote.
func TestTheLookStandsBehindAllThatMakesAVote(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := admittedLocker(t, 1, WithFences(), noTrims, WithClockGuard(10*time.Second))
		lock := mustAcquire(t, locker, "k")
		if err := lock.Extend(t.Context(), 10*time.Second); err != nil { // the node knows the script now
			t.Fatal(err)
		}
		mustRelease(t, lock)
		synctest.Wait()
		fakes[0].change(func(f *fakeNode) { f.log = nil })
		lock = mustAcquire(t, locker, "k")
		synctest.Wait()
		var log []string
		fakes[0].change(func(f *fakeNode) { log, f.log = f.log, nil })
		if want := []string{"SET", "ZADD", "ZSCORE", "GET", "INFO", "MGET", "TIME"}; !slices.Equal(log, want) {
			t.Errorf("an acquire is %v, want %v", log, want)
		}
		if err := lock.Extend(t.Context(), 10*time.Second); err != nil {
			t.Fatal(err)
		}
		fakes[0].change(func(f *fakeNode) { log = f.log })
		if want := []string{"EVALSHA", "INFO", "MGET", "TIME"}; !slices.Equal(log, want) {
			t.Errorf("an extension is %v, want %v", log, want)
		}
	})
}

// A connection that breaks behind the grant leaves it without a look.
func TestAGrantWhoseLookIsLostIsNoVote(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := admittedLocker(t, 1)
		mustRelease(t, mustAcquire(t, locker, "warm"))
		synctest.Wait()
		fakes[0].change(func(f *fakeNode) {
			f.lose = func(name string) bool { return name == "INFO" }
		})
		if _, err := locker.TryAcquire(t.Context(), "k"); !errors.Is(err, ErrNoQuorum) {
			t.Errorf("TryAcquire whose look is lost = %v, want ErrNoQuorum", err)
		}
		fakes[0].change(func(f *fakeNode) { f.lose = nil })
		synctest.Wait()
		if names := stray([]*fakeNode{fakes[0]}, "k"); len(names) > 0 {
			t.Errorf("a grant that was no vote is left at %v", names)
		}
	})
}

// Replies that come late belong to a proposal of long ago, and to a look that has passed.
func TestAVoteWhoseReplyTookLongerThanTheNodeTimeoutDoesNotCount(t *testing.T) {
	for _, late := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			machine := new(sleeper)
			locker, fakes := newLocker(t, 1, WithRestartGuard(10*time.Second), WithFences(), machine.option())
			admit(t, locker)
			mustRelease(t, mustAcquire(t, locker, "warm"))
			time.Sleep(2 * time.Second)
			fakes[0].change(func(f *fakeNode) {
				f.answer = func(args []any) *driver.Reply {
					if args[0] == "SET" && args[1] == "k" && late {
						machine.sleep(time.Second) // while timers stand still
					}
					return nil
				}
			})
			_, err := locker.TryAcquire(t.Context(), "k")
			if failed := errors.Is(err, ErrNoQuorum); failed != late {
				t.Errorf("a reply that came after the node time-out: %v; TryAcquire = %v", late, err)
			}
		})
	}
}

// Without scripts an extension is two sendings. What the first finds is a vote only if the
// look behind it says so, and both have the time of one.
func TestBothHalvesOfAHoldAreLookedAt(t *testing.T) {
	for what, tt := range map[string]struct {
		between func(f *fakeNode, machine *sleeper) // in front of the first half's look
		fails   error
	}{
		"nothing": {func(*fakeNode, *sleeper) {}, nil},
		"a marker that is away for the first half": {func(f *fakeNode, _ *sleeper) {
			marker := f.keys[gate.MarkerKey]
			delete(f.keys, gate.MarkerKey)
			f.answer = func(args []any) *driver.Reply {
				if args[0] == "PEXPIRE" {
					f.keys[gate.MarkerKey] = marker
				}
				return nil
			}
		}, ErrQuarantine},
		"more time than one sending has": {func(_ *fakeNode, machine *sleeper) { machine.sleep(time.Second) }, ErrNoQuorum},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				machine := new(sleeper)
				locker, fakes := newLocker(t, 1, WithRestartGuard(10*time.Second), machine.option())
				fakes[0].change(func(f *fakeNode) { f.scriptless, f.kind = true, valkey9 })
				admit(t, locker)
				lock := mustAcquire(t, locker, "k")
				time.Sleep(time.Second)
				fakes[0].change(func(f *fakeNode) {
					f.answer = func(args []any) *driver.Reply {
						if args[0] == "INFO" {
							f.answer = nil
							tt.between(f, machine)
						}
						return nil
					}
				})
				if err := lock.Extend(t.Context(), 10*time.Second); tt.fails == nil && err != nil || !errors.Is(err, tt.fails) {
					t.Errorf("%s between the halves: Extend = %v, want %v", what, err, tt.fails)
				}
			})
		})
	}
}
