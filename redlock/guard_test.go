package redlock

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/internal/gate"
	"github.com/quorumlock/quorumlock/internal/protocol"
)

// admittedLocker returns a Locker with a guard of 10s on nodes that it has admitted.
func admittedLocker(t *testing.T, n int, options ...Option) (*Locker, []*fakeNode) {
	t.Helper()
	locker, fakes := newLocker(t, n, append([]Option{WithRestartGuard(10 * time.Second)}, options...)...)
	admit(t, locker)
	return locker, fakes
}

func admit(t *testing.T, locker *Locker) {
	t.Helper()
	if err := locker.AdmitNewNodes(t.Context()); err != nil {
		t.Fatalf("Admit = %v", err)
	}
	synctest.Wait()
}

// A vote that a node forgot is given to somebody else: the pair of holders that the
// guard is there against.
func TestANodeThatComesBackEmptyMakesTwoHoldersWithoutTheGuardAndNoneWithIt(t *testing.T) {
	for _, guarded := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			var options []Option
			if guarded {
				options = append(options, WithRestartGuard(10*time.Second))
			}
			one, fakes := newLocker(t, 3, options...)
			two := another(t, fakes, options...)
			if guarded {
				admit(t, one)
			}
			fakes[0].change(func(f *fakeNode) { f.refused = driver.NotSent(errCut) })
			first := mustAcquire(t, one, "k") // at nodes 2 and 3
			fakes[0].change(func(f *fakeNode) { f.refused = nil })
			fakes[1].restart()
			time.Sleep(2 * time.Second)
			second, err := two.TryAcquire(t.Context(), "k")
			switch both := err == nil && first.Valid() && second.Valid(); {
			case both && guarded:
				t.Error("with the guard there are two holders")
			case !both && !guarded:
				t.Errorf("without the guard TryAcquire = %v: this test does not show what the guard is for", err)
			case guarded && !errors.Is(err, ErrQuarantine):
				t.Errorf("TryAcquire = %v, want ErrQuarantine in it", err)
			}
		})
	}
}

func TestAnUnadmittedNodeDoesNotVote(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 3, WithRestartGuard(10*time.Second))
		_, err := locker.TryAcquire(t.Context(), "k")
		if !errors.Is(err, ErrNoQuorum) || !errors.Is(err, ErrQuarantine) || !strings.Contains(err.Error(), "Locker.AdmitNewNodes") {
			t.Errorf("TryAcquire = %v, want ErrNoQuorum and ErrQuarantine that name Locker.AdmitNewNodes", err)
		}
		synctest.Wait()
		if names := stray(fakes, "k"); len(names) > 0 {
			t.Errorf("grants that were no votes are left at %v", names)
		}
		time.Sleep(11 * time.Second)
		mustRelease(t, mustAcquire(t, locker, "k"))
		mustAcquire(t, another(t, fakes, WithRestartGuard(10*time.Second)), "k")
	})
}

// A server that starts from its file, or a replica that is promoted, brings the marker of
// another history along, and may lack votes all the same.
func TestAMarkerAdmitsNoOtherHistory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := admittedLocker(t, 3)
		for _, f := range fakes[:2] {
			f.change(anotherHistory)
		}
		if _, err := locker.TryAcquire(t.Context(), "k"); !errors.Is(err, ErrNoQuorum) || !errors.Is(err, ErrQuarantine) {
			t.Errorf("TryAcquire = %v, want ErrNoQuorum and ErrQuarantine", err)
		}
	})
}

// anotherHistory gives a node that has kept its keys another master_replid.
func anotherHistory(f *fakeNode) {
	old := protocol.Field(f.info, "master_replid:")
	f.info = strings.Replace(f.info, old, fakeHistory(old), 1)
}

// It may have forgotten a greater number.
func TestASecondRoundIsGuarded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := admittedLocker(t, 3, WithFences())
		mustRelease(t, mustAcquire(t, locker, "k"))
		setFence(fakes, time.Now().Add(time.Hour).UnixMicro())
		for _, f := range fakes {
			f.change(func(f *fakeNode) {
				f.answer = func(args []any) *driver.Reply {
					if args[0] == "ZSCORE" && args[2] == "k" {
						anotherHistory(f)
					}
					return nil
				}
			})
		}
		if _, err := locker.TryAcquire(t.Context(), "k"); !errors.Is(err, ErrNoQuorum) || !errors.Is(err, ErrQuarantine) {
			t.Errorf("TryAcquire = %v, want ErrNoQuorum and ErrQuarantine", err)
		}
	})
}

func TestAQuarantineEndsByItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var seen recorder
		locker, fakes := admittedLocker(t, 3, seen.option())
		fakes[0].restart()
		mustRelease(t, mustAcquire(t, locker, "k"))
		synctest.Wait()
		lock := mustAcquire(t, locker, "k")
		if vote := lock.Votes()[0]; !errors.Is(vote.Err, ErrQuarantine) {
			t.Fatalf("%v, want the restarted node in quarantine", vote)
		}
		mustRelease(t, lock)
		time.Sleep(10*time.Second + 50*time.Millisecond)
		lock = mustAcquire(t, locker, "k")
		if vote := lock.Votes()[0]; !errors.Is(vote.Err, ErrQuarantine) {
			t.Errorf("%v after the longest TTL and without the drift allowance, want it in quarantine", vote)
		}
		mustRelease(t, lock)
		time.Sleep(200 * time.Millisecond)
		if vote := mustAcquire(t, locker, "k").Votes()[0]; vote.Answer != Granted {
			t.Errorf("%v after the quarantine, want its vote", vote)
		}
		if want := []EventKind{NodeUp, NodeQuarantined, NodeAdmitted}; !slices.Equal(seen.kinds(), want) {
			t.Errorf("the events are %v, want %v", seen.kinds(), want)
		}
	})
}

func TestAQuarantineBeginsAnewWithEachRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := admittedLocker(t, 3)
		for range 3 {
			fakes[0].restart()
			mustRelease(t, mustAcquire(t, locker, "k"))
			synctest.Wait()
			mustRelease(t, mustAcquire(t, locker, "k"))
			time.Sleep(6 * time.Second)
		}
		lock := mustAcquire(t, locker, "k")
		if vote := lock.Votes()[0]; !errors.Is(vote.Err, ErrQuarantine) {
			t.Errorf("%v 6s after its last restart, want it in quarantine", vote)
		}
		mustRelease(t, lock)
		time.Sleep(5 * time.Second)
		if vote := mustAcquire(t, locker, "k").Votes()[0]; vote.Answer != Granted {
			t.Errorf("%v 11s after its last restart, want its vote", vote)
		}
	})
}

// Who comes later has not seen the history for long enough, and cannot end it sooner.
func TestAFreshProcessDoesNotEndAQuarantine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, fakes := admittedLocker(t, 1)
		fakes[0].restart()
		time.Sleep(time.Hour)
		two := another(t, fakes, WithRestartGuard(10*time.Second))
		_, _ = two.TryAcquire(t.Context(), "k")
		if _, err := two.TryAcquire(t.Context(), "k"); !errors.Is(err, ErrQuarantine) {
			t.Errorf("TryAcquire = %v, want ErrQuarantine", err)
		}
	})
}

func TestWaitersOutlastAQuarantineOfAllNodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := admittedLocker(t, 3)
		mustRelease(t, mustAcquire(t, locker, "k"))
		for _, f := range fakes {
			f.restart()
		}
		start := time.Now()
		lock, err := locker.Acquire(t.Context(), "k")
		if err != nil {
			t.Fatalf("Acquire = %v after %v, want it to wait for the nodes", err, time.Since(start))
		}
		if waited := time.Since(start); waited < 10*time.Second || waited > 11*time.Second {
			t.Errorf("Acquire took %v, want the longest TTL and little more", waited)
		}
		mustRelease(t, lock)
	})
}

// Nobody has called AdmitNewNodes: a minute of silence would say nothing of that.
func TestAWaitOnNewNodesSaysAtOnceWhatToDo(t *testing.T) {
	for name, acquire := range kindsOfLocks {
		for silent, most := range map[int]time.Duration{0: time.Second, 1: 11 * time.Second} { // the default of WithMaxOutage
			synctest.Test(t, func(t *testing.T) {
				locker, fakes := newLocker(t, 3, WithRestartGuard(time.Minute), WithFences())
				far(fakes, time.Millisecond)
				for _, f := range fakes[:silent] {
					f.stop()
				}
				start := time.Now()
				_, err := acquire(locker, t.Context())
				if took := time.Since(start); took > most || !errors.Is(err, ErrQuarantine) || !errors.Is(err, ErrNoQuorum) {
					t.Errorf("an acquire of %s on new nodes, %d of them silent = %v after %v, want ErrQuarantine within %v", name, silent, err, took, most)
				}
				for _, want := range []string{"nobody has admitted it", "votes again in ", "keep a Locker open until then", "AdmitNewNodes"} {
					if err == nil || !strings.Contains(err.Error(), want) {
						t.Errorf("an acquire of %s on new nodes = %v, want an error with %q", name, err, want)
					}
				}
				for _, f := range fakes[:silent] {
					f.resume()
				}
				time.Sleep(2 * time.Second) // they are asked again
				if err := locker.AdmitNewNodes(t.Context()); !errors.Is(err, ErrAdmitted) || !strings.Contains(err.Error(), "once a Locker was open for the longest TTL") {
					t.Errorf("AdmitNewNodes behind an acquire of %s = %v, want ErrAdmitted, with what to do", name, err)
				}
				time.Sleep(62 * time.Second)
				if _, err := acquire(locker, t.Context()); err != nil {
					t.Errorf("an acquire of %s when the Locker was open for the guard's minute = %v", name, err)
				}
			})
		}
	}
}

// What it has not seen yet may be admitted.
func TestANewProcessOutlastsAQuarantineOfMostNodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, fakes := admittedLocker(t, 3)
		fakes[0].restart()
		fakes[1].restart()
		far(fakes[2:], 100*time.Millisecond)
		start := time.Now()
		lock, err := another(t, fakes, guard10()).Acquire(t.Context(), "k", WithMaxOutage(time.Second))
		if err != nil {
			t.Fatalf("Acquire = %v after %v, want it to wait for the nodes", err, time.Since(start))
		}
		mustRelease(t, lock)
	})
}

func TestTheGuardCostsTwoCommandsABatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := admittedLocker(t, 3)
		mustRelease(t, mustAcquire(t, locker, "warm"))
		synctest.Wait()
		for _, f := range fakes {
			f.change(func(f *fakeNode) { f.log, f.calls = nil, 0 })
		}
		var all sync.WaitGroup
		for range 64 {
			all.Go(func() {
				if _, err := locker.TryAcquire(t.Context(), random.Token("")[len(protocol.TokenMark):]); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		synctest.Wait()
		looks, markers, sets, batches := fakes[0].count("INFO"), fakes[0].count("MGET"), fakes[0].count("SET"), fakes[0].batches()
		if sets != 64 || looks != batches || markers != batches || batches == sets {
			t.Errorf("%d grants came in %d batches with %d looks at the history and %d at the marker, want 64 in fewer batches, and one of each a batch",
				sets, batches, looks, markers)
		}
	})
}

func TestALostMarkerClosesTheNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := admittedLocker(t, 3)
		for _, f := range fakes {
			f.change(func(f *fakeNode) { clear(f.keys) }) // FLUSHALL
		}
		if _, err := locker.TryAcquire(t.Context(), "k"); !errors.Is(err, ErrQuarantine) {
			t.Errorf("TryAcquire after FLUSHALL = %v, want ErrQuarantine", err)
		}
	})
}

// The vote that a node forgot may belong to a quorum that somebody else is about to
// complete, so what a holder does there counts no more than what others do.
func TestANodeInQuarantineCountsForNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := admittedLocker(t, 3)
		lock := mustAcquire(t, locker, "k")
		got := waitFor(t.Context(), locker)
		for _, f := range fakes[:2] { // their marker is gone, their keys are not
			f.change(func(f *fakeNode) { delete(f.keys, gate.MarkerKey) })
		}
		time.Sleep(time.Second)
		until := lock.Until()
		if err := lock.Extend(t.Context(), 10*time.Second); !errors.Is(err, ErrQuarantine) {
			t.Errorf("Extend = %v, want ErrQuarantine", err)
		}
		if !lock.Valid() || lock.Until().Sub(until).Abs() > time.Millisecond {
			t.Errorf("after an extension that did not count the lease ends at %v, want %v still", lock.Until(), until)
		}
		mustRelease(t, lock)
		released := time.Now()
		heir := <-got
		if heir.err != nil {
			t.Fatalf("the waiter got %v, want the lock after the quarantine", heir.err)
		}
		if waited := time.Since(released); waited < 9*time.Second {
			t.Errorf("the key was handed over %v after it was released, by nodes in quarantine", waited)
		}
		mustRelease(t, heir.lock)
	})
}

func TestARenewalByNodesInQuarantineDoesNotCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := admittedLocker(t, 3)
		lock := mustAcquire(t, locker, "k", WithRenewal())
		for _, f := range fakes[:2] {
			f.change(anotherHistory)
		}
		until, ctx := lock.Until(), lock.Context()
		select {
		case <-ctx.Done():
		case <-time.After(time.Minute):
			t.Fatal("a minute later the lock is still renewed")
		}
		if late := time.Since(until); late > time.Millisecond {
			t.Errorf("the lock was kept for %v longer, by nodes in quarantine", late)
		}
		if cause := context.Cause(ctx); !errors.Is(cause, ErrLost) || !errors.Is(cause, ErrQuarantine) {
			t.Errorf("the context's cause is %v, want ErrLost and ErrQuarantine", cause)
		}
	})
}

// A failed acquire with a token of the user's own leaves that where a node in quarantine
// has set it: the retry must not take it for a vote.
func TestATokenOfOnesOwnInQuarantineIsNoVote(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 3, WithRestartGuard(10*time.Second))
		for range 2 {
			if _, err := locker.TryAcquire(t.Context(), "k", WithToken("mine")); !errors.Is(err, ErrQuarantine) {
				t.Fatalf("TryAcquire = %v, want ErrQuarantine", err)
			}
			synctest.Wait()
		}
		if names := stray(fakes, "k"); len(names) < 2 {
			t.Fatalf("the token is at %v, which would be no quorum: this test does not show what it is for", names)
		}
	})
}

func TestTheGuardBoundsLeases(t *testing.T) {
	_, nodes := fakeNodes(3)
	for _, options := range [][]Option{
		{WithRestartGuard(5 * time.Second)},
		{WithRestartGuard(-1)},
		{WithRestartGuard(MaxTTL + 1)},
		{WithClockGuard(5 * time.Second)},
		{WithClockGuard(-1)},
		{WithClockGuard(MaxTTL + 1)},
	} {
		if _, err := New(nodes, options...); !errors.Is(err, ErrOption) {
			t.Errorf("New with a guard that does not fit the TTL = %v, want ErrOption", err)
		}
	}
	synctest.Test(t, func(t *testing.T) {
		locker, _ := admittedLocker(t, 3)
		if _, err := locker.Acquire(t.Context(), "k", WithTTL(time.Minute)); !errors.Is(err, ErrOption) {
			t.Errorf("Acquire for longer than the guard knows of = %v, want ErrOption", err)
		}
		if err := mustAcquire(t, locker, "k").Extend(t.Context(), time.Minute); !errors.Is(err, ErrOption) {
			t.Errorf("Extend for longer than the guard knows of = %v, want ErrOption", err)
		}
	})
}

func TestNodesThatTheGuardCannotJudgeAreRefused(t *testing.T) {
	for what, change := range map[string]func(f *fakeNode){
		"Redis Cluster": func(f *fakeNode) { f.info += "redis_mode:cluster\r\n" },
		"master_replid": func(f *fakeNode) { f.info = strings.ReplaceAll(f.info, "master_replid", "other") },
		"+time":         func(f *fakeNode) { f.answer = failing("TIME", "NOPERM this user may not") },
	} {
		synctest.Test(t, func(t *testing.T) {
			locker, fakes := newLocker(t, 1, WithRestartGuard(10*time.Second), WithClockGuard(10*time.Second))
			fakes[0].change(change)
			if _, err := locker.TryAcquire(t.Context(), "k"); !errors.Is(err, ErrNode) || !strings.Contains(err.Error(), what) {
				t.Errorf("TryAcquire = %v, want ErrNode that names %s", err, what)
			}
		})
	}
}

// The marker comes with the data that a replica copies. Until it is promoted it is none
// of the masters.
func TestAReplicaIsNoVoteWhateverItsMarker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := admittedLocker(t, 1)
		fakes[0].change(func(f *fakeNode) { f.info = strings.ReplaceAll(f.info, "role:master", "role:slave") })
		if _, err := locker.TryAcquire(t.Context(), "k"); !errors.Is(err, ErrNode) {
			t.Errorf("TryAcquire = %v, want ErrNode", err)
		}
	})
}

func TestAStepOfANodesClock(t *testing.T) {
	for _, tt := range []struct {
		step    time.Duration
		options []Option
		out     bool
	}{
		{time.Minute, []Option{WithClockGuard(10 * time.Second)}, true},
		{-time.Minute, []Option{WithClockGuard(10 * time.Second)}, false},
		{time.Minute, nil, false},
	} {
		synctest.Test(t, func(t *testing.T) {
			var seen recorder
			locker, fakes := newLocker(t, 3, append(tt.options, seen.option())...)
			lock := mustAcquire(t, locker, "k")
			fakes[0].change(func(f *fakeNode) { f.skew = tt.step })
			time.Sleep(1500 * time.Millisecond)
			if err := lock.Extend(t.Context(), 10*time.Second); err != nil {
				t.Errorf("a clock was stepped by %v: Extend = %v", tt.step, err)
			}
			mustRelease(t, lock)
			synctest.Wait()
			vote := mustAcquire(t, locker, "other").Votes()[0]
			if out := errors.Is(vote.Err, ErrQuarantine); out != tt.out {
				t.Errorf("a clock was stepped by %v: %v, want in quarantine: %v", tt.step, vote, tt.out)
			}
			if !slices.Contains(seen.kinds(), NodeClockStepped) {
				t.Errorf("a clock was stepped by %v: the events are %v, want NodeClockStepped", tt.step, seen.kinds())
			}
			time.Sleep(11 * time.Second)
			if vote := mustAcquire(t, locker, "third").Votes()[0]; vote.Answer != Granted {
				t.Errorf("11s after a clock was stepped by %v: %v, want its vote", tt.step, vote)
			}
		})
	}
}

// The step is seen in the very batch that grants.
func TestAStepBetweenTwoBatchesSpoilsTheSecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 1, WithClockGuard(10*time.Second))
		holder := mustAcquire(t, locker, "k")
		fakes[0].change(func(f *fakeNode) { f.skew = time.Minute })
		two := another(t, fakes, WithClockGuard(10*time.Second))
		_ = two // it knows nothing of the time before
		if _, err := locker.TryAcquire(t.Context(), "k"); !errors.Is(err, ErrQuarantine) {
			t.Errorf("TryAcquire in the first batch after the step = %v, want ErrQuarantine; the holder is valid: %v", err, holder.Valid())
		}
	})
}

func TestADriftingClockIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var seen recorder
		locker, fakes := newLocker(t, 3, seen.option())
		for range 60 { // 800 ppm
			fakes[0].change(func(f *fakeNode) { f.skew += 1600 * time.Microsecond })
			time.Sleep(2 * time.Second)
			lock, err := locker.TryAcquire(context.WithoutCancel(t.Context()), "k")
			if err != nil {
				t.Fatal(err)
			}
			mustRelease(t, lock)
			synctest.Wait() // node-1 may not have been among the first
		}
		if n := len(slices.DeleteFunc(seen.kinds(), func(k EventKind) bool { return k != NodeClockDrifts })); n != 1 {
			t.Errorf("a clock that runs 800 ppm fast is reported %d times (%v), want once", n, seen.events)
		}
	})
}

// A server that is busy with a script answers nothing but BUSY for a moment.
func TestANodeThatDoesNotTellItsTimeHasNoVoteWithTheClockGuard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 1, WithClockGuard(10*time.Second))
		mustRelease(t, mustAcquire(t, locker, "k"))
		fakes[0].change(func(f *fakeNode) { f.answer = failing("TIME", "BUSY Redis is busy running a script") })
		for range 2 {
			if _, err := locker.TryAcquire(t.Context(), "k"); !errors.Is(err, ErrNoQuorum) || !strings.Contains(err.Error(), "its time") {
				t.Errorf("TryAcquire at a node that does not tell its time = %v, want ErrNoQuorum that says so", err)
			}
			synctest.Wait()
		}
		fakes[0].change(func(f *fakeNode) { f.answer = nil })
		mustRelease(t, mustAcquire(t, locker, "k"))
	})
}

// The marker is set while others go on to acquire, and again if that fails.
func TestAQuarantineEndsUnderLoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 1, WithRestartGuard(10*time.Second))
		sets := 0
		fakes[0].change(func(f *fakeNode) {
			f.answer = func(args []any) *driver.Reply {
				if args[0] == "SET" && args[1] == gate.MarkerKey {
					if sets++; sets < 3 {
						return &driver.Reply{Kind: driver.Failure, Str: "OOM command not allowed"}
					}
				}
				return nil
			}
		})
		start := time.Now()
		for {
			lock, err := locker.TryAcquire(t.Context(), "k")
			if err == nil {
				mustRelease(t, lock)
				break
			}
			if time.Since(start) > 12*time.Second {
				t.Fatalf("after %v: %v", time.Since(start), err)
			}
			time.Sleep(2 * time.Millisecond)
		}
	})
}

// shows lets a node show these records.
func shows(f *fakeNode, records ...driver.Reply) {
	f.change(func(f *fakeNode) {
		f.answer = func(args []any) *driver.Reply {
			if args[0] != "MGET" {
				return nil
			}
			return &driver.Reply{Kind: driver.Array, Elems: records}
		}
	})
}

func TestOnlyAStringIsARecord(t *testing.T) {
	m := gate.Marker{Replid: fakeHistory("node-1"), Nonce: random.Nonce(), Ms: 10000}
	for odd := -1; odd < len(gate.RecordKeys); odd++ {
		for _, kind := range []driver.Kind{driver.Nil, driver.Integer, driver.Array, driver.Failure, 99} {
			synctest.Test(t, func(t *testing.T) {
				locker, fakes := newLocker(t, 1, WithRestartGuard(10*time.Second))
				var records []driver.Reply
				for i, text := range []string{gate.FormatEpoch(m.Nonce), m.String(), gate.FormatSet(0, 1)} {
					records = append(records, driver.Reply{Kind: driver.String, Str: text})
					if i == odd {
						records[i].Kind = kind
					}
				}
				shows(fakes[0], records...)
				if _, err := locker.TryAcquire(t.Context(), "k"); (err == nil) != (odd < 0) {
					t.Errorf("where record %d is a reply of kind %d: TryAcquire = %v", odd, kind, err)
				}
			})
		}
	}
}

func TestTheGuardsKeysAreNoKeysOfLocks(t *testing.T) {
	for _, key := range gate.RecordKeys {
		synctest.Test(t, func(t *testing.T) {
			guarded, fakes := admittedLocker(t, 3)
			if lock, err := guarded.TryAcquire(t.Context(), key); !errors.Is(err, ErrOption) {
				t.Errorf("TryAcquire of the guard's key %q = %v, %v, want ErrOption", key, lock, err)
			}
			mustRelease(t, mustAcquire(t, another(t, fakes, WithKeyPrefix("p:")), key))
		})
	}
}
