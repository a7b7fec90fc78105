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
	"github.com/quorumlock/quorumlock/internal/memory"
	"github.com/quorumlock/quorumlock/internal/protocol"
	"github.com/quorumlock/quorumlock/test/fakenode"
)

// guard10 is the guard of most of these tests.
func guard10() Option { return WithRestartGuard(10 * time.Second) }

// ripeLocker returns a Locker with a guard of 10s on nodes that have been watched for long enough.
func ripeLocker(t *testing.T, n int, options ...Option) (*Locker, []*fakeNode) {
	t.Helper()
	locker, fakes := newLocker(t, n, append([]Option{WithRestartGuard(10 * time.Second)}, options...)...)
	ripen(t, locker)
	return locker, fakes
}

// ripen makes the memories of a Locker's nodes old.
func ripen(t *testing.T, l *Locker) {
	t.Helper()
	for _, n := range l.board.Nodes {
		n.Driver.(interface{ Change(how func(*fakeNode)) }).Change(func(f *fakeNode) {
			f.Memories[memory.Key(l.options.prefix)] = ripe(l, f)
		})
	}
}

// ripe is the record of a node that has been watched for long enough. The node's mutex is held.
func ripe(l *Locker, f *fakeNode) fakenode.Memory {
	rules := l.board.Restarts.Rules
	return fakenode.Memory{ID: protocol.Field(f.Info, "master_replid:"), For: rules.Text, Age: rules.Need().Microseconds(), Last: f.Now().UnixMicro()}
}

// A vote that a node forgot is given to somebody else: the pair of holders that the
// guard is there against.
func TestANodeThatComesBackEmptyMakesTwoHoldersWithoutTheGuardAndNoneWithIt(t *testing.T) {
	for name, take := range map[string]func(t *testing.T, l *Locker) (*Lock, error){
		"a key":        func(t *testing.T, l *Locker) (*Lock, error) { return l.TryAcquire(t.Context(), "k") },
		"several keys": func(t *testing.T, l *Locker) (*Lock, error) { return l.TryAcquireAll(t.Context(), []string{"k", "l"}) },
		"a permit":     func(t *testing.T, l *Locker) (*Lock, error) { return newSemaphore(t, l, 1).TryAcquire(t.Context()) },
	} {
		for _, options := range [][]Option{nil, {guard10()}} {
			synctest.Test(t, func(t *testing.T) {
				one, fakes := newLocker(t, 3, options...)
				two := another(t, fakes, options...)
				guarded := options != nil
				if guarded {
					ripen(t, one)
				}
				fakes[0].Change(func(f *fakeNode) { f.Refused = driver.NotSent(fakenode.ErrCut) })
				first, err := take(t, one) // at nodes 2 and 3
				must(t, err)
				time.Sleep(time.Second) // node 1 is not asked again
				fakes[0].Change(func(f *fakeNode) { f.Refused = nil })
				fakes[1].Restart()
				time.Sleep(2 * time.Second)
				second, err := take(t, two)
				switch both := err == nil && first.Valid() && second.Valid(); {
				case both && guarded:
					t.Errorf("with the guard %s has two holders", name)
				case !both && !guarded:
					t.Errorf("of %s without the guard: %v: this test does not show what the guard is for", name, err)
				case guarded && !errors.Is(err, ErrQuarantine) && !errors.Is(err, ErrTaken):
					t.Errorf("of %s with the guard: %v, want ErrTaken, or ErrQuarantine in it", name, err)
				}
			})
		}
	}
}

// anotherHistory gives a node that has kept its keys another master_replid.
func anotherHistory(f *fakeNode) {
	old := protocol.Field(f.Info, "master_replid:")
	f.Info = strings.Replace(f.Info, old, fakenode.History(old), 1)
}

// It may have forgotten a greater number.
func TestASecondRoundIsGuarded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := ripeLocker(t, 3, WithFences())
		mustRelease(t, mustAcquire(t, locker, "k"))
		setFence(fakes, time.Now().Add(time.Hour).UnixMicro())
		before(fakes, "ZSCORE", func(f *fakeNode, args []any) {
			if args[2] == "k" {
				anotherHistory(f)
			}
		})
		if _, err := locker.TryAcquire(t.Context(), "k"); !errors.Is(err, ErrNoQuorum) || !errors.Is(err, ErrQuarantine) {
			t.Errorf("TryAcquire = %v, want ErrNoQuorum and ErrQuarantine", err)
		}
	})
}

func TestAQuarantineEndsByItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var seen recorder
		locker, fakes := ripeLocker(t, 3, seen.option())
		fakes[0].Restart()
		mustRelease(t, mustAcquire(t, locker, "k"))
		synctest.Wait()
		lock := mustAcquire(t, locker, "k")
		if vote := lock.Votes()[0]; !errors.Is(vote.Err, ErrQuarantine) {
			t.Fatalf("%v, want the restarted node in quarantine", vote)
		}
		mustRelease(t, lock)
		time.Sleep(11*time.Second + 200*time.Millisecond)
		lock = mustAcquire(t, locker, "k")
		if vote := lock.Votes()[0]; !errors.Is(vote.Err, ErrQuarantine) {
			t.Errorf("%v after 11.2s, want it in quarantine for 9/8 of 10s", vote)
		}
		mustRelease(t, lock)
		time.Sleep(700 * time.Millisecond) // the timer watches twice in 1.25s
		if vote := mustAcquire(t, locker, "k").Votes()[0]; vote.Answer != grantedVote {
			t.Errorf("%v after the quarantine, want its vote", vote)
		}
		if want := []EventKind{NodeUp, NodeQuarantined, NodeAdmitted}; !slices.Equal(seen.kinds(), want) {
			t.Errorf("the events are %v, want %v", seen.kinds(), want)
		}
	})
}

func TestAQuarantineBeginsAnewWithEachLoss(t *testing.T) {
	for loss, lose := range map[string]func(f *fakeNode){
		"restart":  (*fakeNode).Restart,
		"FLUSHALL": func(f *fakeNode) { f.Change(flushed) },
	} {
		bubble(t, loss, func(t *testing.T) {
			locker, fakes := ripeLocker(t, 3)
			for range 3 {
				lose(fakes[0])
				mustRelease(t, mustAcquire(t, locker, "k"))
				synctest.Wait()
				mustRelease(t, mustAcquire(t, locker, "k"))
				time.Sleep(6 * time.Second)
			}
			lock := mustAcquire(t, locker, "k")
			if vote := lock.Votes()[0]; !errors.Is(vote.Err, ErrQuarantine) {
				t.Errorf("%v 6s after its last %s, want it in quarantine", vote, loss)
			}
			mustRelease(t, lock)
			time.Sleep(6 * time.Second)
			if vote := mustAcquire(t, locker, "k").Votes()[0]; vote.Answer != grantedVote {
				t.Errorf("%v 12s after its last %s, want its vote", vote, loss)
			}
		})
	}
}

// What it has not seen yet may vote.
func TestANewProcessOutlastsAQuarantineOfMostNodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, fakes := ripeLocker(t, 3)
		forEach(fakes[:2], (*fakeNode).Restart)
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
		locker, fakes := ripeLocker(t, 3)
		mustRelease(t, mustAcquire(t, locker, "warm"))
		synctest.Wait()
		changeAll(fakes, func(f *fakeNode) { f.Log, f.Calls = nil, 0 })
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
		looks, markers, sets, batches := fakes[0].Count("INFO"), fakes[0].Count("HMGET"), fakes[0].Count("SET"), fakes[0].Batches()
		if sets != 64 || looks != batches || markers != batches || batches == sets {
			t.Errorf("%d grants came in %d batches with %d looks at the history and %d at the marker, want 64 in fewer batches, and one of each a batch",
				sets, batches, looks, markers)
		}
	})
}

// The vote that a node forgot may belong to a quorum that somebody else is about to
// complete, so what a holder does there counts no more than what others do.
func TestANodeInQuarantineCountsForNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := ripeLocker(t, 3)
		lock := mustAcquire(t, locker, "k")
		got := waitFor(t.Context(), locker)
		for _, f := range fakes[:2] { // their record is gone, their keys are not
			f.Change(func(f *fakeNode) { clear(f.Memories) })
		}
		time.Sleep(time.Second)
		until := lock.Until()
		returns(t, ErrQuarantine)(lock.Extend(t.Context(), 10*time.Second))
		if !lock.Valid() || lock.Until().Sub(until).Abs() > time.Millisecond {
			t.Errorf("after an extension that did not count the lease ends at %v, want %v still", lock.Until(), until)
		}
		mustRelease(t, lock)
		released := time.Now()
		heir := mustGet(t, got)
		if waited := time.Since(released); waited < 9*time.Second {
			t.Errorf("the key was handed over %v after it was released, by nodes in quarantine", waited)
		}
		mustRelease(t, heir.lock)
	})
}

func TestAnExtensionByNodesInQuarantineDoesNotCount(t *testing.T) {
	onEachKind(t, []Option{guard10()}, []AcquireOption{WithRenewal()}, func(t *testing.T, _ *Locker, fakes []*fakeNode, lock *Lock) {
		changeAll(fakes[:3], anotherHistory)
		returns(t, ErrQuarantine, "Extend")(lock.Extend(t.Context(), 10*time.Second))
		until, ctx := lock.Until(), lock.Context()
		select {
		case <-ctx.Done():
		case <-time.After(time.Minute):
			t.Fatal("a minute later the lock is still renewed")
		}
		wantWithin(t, time.Millisecond, until, "the lock was kept for")
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
	synctest.Test(t, func(t *testing.T) {
		locker, _ := newLocker(t, 3, WithClockGuard(10*time.Second))
		returns(t, ErrOption, "Acquire for longer than the clock guard knows of")(locker.Acquire(t.Context(), "k", WithTTL(time.Minute)))
	})
	synctest.Test(t, func(t *testing.T) {
		locker, _ := ripeLocker(t, 3)
		returns(t, ErrOption, "Acquire for longer than the guard knows of")(locker.Acquire(t.Context(), "k", WithTTL(time.Minute)))
		returns(t, ErrOption, "Extend for longer than the guard knows of")(mustAcquire(t, locker, "k").Extend(t.Context(), time.Minute))
	})
}

func TestNodesThatTheGuardCannotJudgeAreRefused(t *testing.T) {
	cluster := func(name string) func(f *fakeNode) {
		return func(f *fakeNode) { f.Info += name + ":cluster\r\n" }
	}
	for _, tt := range []struct {
		guard  Option
		what   string
		change func(f *fakeNode)
	}{
		{WithRestartGuard(10 * time.Second), "Redis Cluster", cluster("redis_mode")},
		{WithRestartGuard(10 * time.Second), "Redis Cluster", cluster("server_mode")}, // of Valkey
		{WithRestartGuard(10 * time.Second), "Redis Cluster", cluster("redict_mode")},
		{WithClockGuard(10 * time.Second), "Redis Cluster", cluster("server_mode")},
		{WithRestartGuard(10 * time.Second), "INFO replication", func(f *fakeNode) { f.Answer = failing("INFO", "ERR unknown command 'INFO'") }}, // a proxy hides it
		{WithClockGuard(10 * time.Second), "+time", func(f *fakeNode) { f.Answer = failing("TIME", "NOPERM this user may not") }},
	} {
		synctest.Test(t, func(t *testing.T) {
			locker, fakes := newLocker(t, 1, tt.guard)
			fakes[0].Change(tt.change)
			says(t, ErrNode, tt.what)(locker.TryAcquire(t.Context(), "k"))
		})
	}
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
			fakes[0].Change(func(f *fakeNode) { f.Skew = tt.step })
			time.Sleep(1500 * time.Millisecond)
			noError(t, lock.Extend(t.Context(), 10*time.Second), "a clock was stepped by", tt.step)
			mustRelease(t, lock)
			synctest.Wait()
			vote := mustAcquire(t, locker, "other").Votes()[0]
			if out := errors.Is(vote.Err, ErrQuarantine); out != tt.out {
				t.Errorf("a clock was stepped by %v: %v, want in quarantine: %v", tt.step, vote, tt.out)
			}
			if !slices.Contains(seen.kinds(), NodeClockStepped) {
				t.Errorf("a clock was stepped by %v: the events are %v, want NodeClockStepped", tt.step, seen.kinds())
			}
			time.Sleep(10*time.Second + 50*time.Millisecond) // the longest TTL, without the allowance for drift
			lock = mustAcquire(t, locker, "fourth")
			if out := errors.Is(lock.Votes()[0].Err, ErrQuarantine); out != tt.out {
				t.Errorf("10.05s after a clock was stepped by %v: %v, want in quarantine: %v", tt.step, lock.Votes()[0], tt.out)
			}
			time.Sleep(time.Second)
			if vote := mustAcquire(t, locker, "third").Votes()[0]; vote.Answer != grantedVote {
				t.Errorf("11s after a clock was stepped by %v: %v, want its vote", tt.step, vote)
			}
		})
	}
}

func TestADriftingClockIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var seen recorder
		locker, fakes := newLocker(t, 3, seen.option())
		for range 60 { // 800 ppm
			fakes[0].Change(func(f *fakeNode) { f.Skew += 1600 * time.Microsecond })
			time.Sleep(2 * time.Second)
			lock, err := locker.TryAcquire(context.WithoutCancel(t.Context()), "k")
			must(t, err)
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
		fakes[0].Change(func(f *fakeNode) { f.Answer = failing("TIME", "BUSY Redis is busy running a script") })
		for range 2 {
			says(t, ErrNoQuorum, "its time")(locker.TryAcquire(t.Context(), "k"))
			synctest.Wait()
		}
		fakes[0].Change(func(f *fakeNode) { f.Answer = nil })
		mustRelease(t, mustAcquire(t, locker, "k"))
	})
}

// changeBefore lets a node lose its history in front of the next command that is about
// the key, with no client cut off: so it is where it is demoted and promoted, or flushed,
// between two commands of a batch. The node's mutex is not held.
func changeBefore(f *fakeNode, key string, how func(f *fakeNode)) {
	before([]*fakeNode{f}, "", func(f *fakeNode, args []any) {
		if len(args) > 1 && args[1] == key {
			f.Answer = nil
			how(f)
		}
	})
}

// resynced is a node that was demoted and promoted, and had copied a master without locks
// in between.
func resynced(f *fakeNode) {
	anotherHistory(f)
	clear(f.Keys)
}

// flushed is a node after FLUSHALL.
func flushed(f *fakeNode) {
	clear(f.Keys)
	clear(f.Fences)
	clear(f.Memories)
}

// A batch is not atomic. What the node loses in front of a grant is seen by the look
// behind it.
func TestANodeThatForgetsInFrontOfAGrantIsSeenBehindIt(t *testing.T) {
	for what, loss := range map[string]func(f *fakeNode){
		"a demotion and a promotion that lose the keys": resynced,
		"FLUSHALL": flushed,
	} {
		bubble(t, what, func(t *testing.T) {
			one, fakes := ripeLocker(t, 3)
			two := another(t, fakes, WithRestartGuard(10*time.Second))
			mustRelease(t, mustAcquire(t, two, "warm")) // it knows the nodes
			fakes[0].Change(func(f *fakeNode) { f.Refused = driver.NotSent(fakenode.ErrCut) })
			first := mustAcquire(t, one, "k") // at nodes 2 and 3
			fakes[0].Change(func(f *fakeNode) { f.Refused = nil })
			time.Sleep(2 * time.Second)
			changeBefore(fakes[1], "k", loss)
			second, err := two.TryAcquire(t.Context(), "k")
			if err == nil && first.Valid() && second.Valid() {
				t.Errorf("%s between two commands of a batch made two holders", what)
			}
			if !errors.Is(err, ErrQuarantine) {
				t.Errorf("%s between two commands of a batch: TryAcquire = %v, want ErrQuarantine", what, err)
			}
		})
	}
}

// The same for every other command that makes a vote.
func TestTheLookStandsBehindAllThatMakesAVote(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := ripeLocker(t, 1, WithFences(), noTrims, WithClockGuard(10*time.Second))
		lock := mustAcquire(t, locker, "k")
		if err := lock.Extend(t.Context(), 10*time.Second); err != nil { // the node knows the script now
			t.Fatal(err)
		}
		mustRelease(t, lock)
		synctest.Wait()
		fakes[0].Change(func(f *fakeNode) { f.Log = nil })
		lock = mustAcquire(t, locker, "k")
		synctest.Wait()
		var log []string
		fakes[0].Change(func(f *fakeNode) { log, f.Log = f.Log, nil })
		if want := []string{"SET", "ZADD", "ZSCORE", "GET", "INFO", "HMGET", "TIME"}; !slices.Equal(log, want) {
			t.Errorf("an acquire is %v, want %v", log, want)
		}
		must(t, lock.Extend(t.Context(), 10*time.Second))
		fakes[0].Change(func(f *fakeNode) { log = f.Log })
		if want := []string{"EVALSHA", "INFO", "HMGET", "TIME"}; !slices.Equal(log, want) {
			t.Errorf("an extension is %v, want %v", log, want)
		}
	})
}

// A connection that breaks behind the grant leaves it without a look.
func TestAGrantWhoseLookIsLostIsNoVote(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := ripeLocker(t, 1)
		mustRelease(t, mustAcquire(t, locker, "warm"))
		synctest.Wait()
		fakes[0].Change(func(f *fakeNode) { f.Lose = func(name string) bool { return name == "INFO" } })
		returns(t, ErrNoQuorum, "TryAcquire whose look is lost")(locker.TryAcquire(t.Context(), "k"))
		fakes[0].Change(func(f *fakeNode) { f.Lose = nil })
		synctest.Wait()
		wantFree(t, []*fakeNode{fakes[0]}, "k")
	})
}

// Replies that come late belong to a proposal of long ago, and to a look that has passed.
func TestAVoteWhoseReplyTookLongerThanTheNodeTimeoutDoesNotCount(t *testing.T) {
	for _, late := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			machine := new(sleeper)
			locker, fakes := newLocker(t, 1, WithRestartGuard(10*time.Second), WithFences(), machine.option())
			ripen(t, locker)
			mustRelease(t, mustAcquire(t, locker, "warm"))
			time.Sleep(2 * time.Second)
			before(fakes[:1], "SET", func(_ *fakeNode, args []any) {
				if args[1] == "k" && late {
					machine.sleep(time.Second) // while timers stand still
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
		"a record that is away for the first half": {func(f *fakeNode, _ *sleeper) {
			own := f.Memories[memory.Key("")]
			clear(f.Memories)
			f.Answer = func(args []any) *driver.Reply {
				if args[0] == "PEXPIRE" {
					f.Memories[memory.Key("")] = own
				}
				return nil
			}
		}, ErrQuarantine},
		"more time than one sending has": {func(_ *fakeNode, machine *sleeper) { machine.sleep(time.Second) }, ErrNoQuorum},
	} {
		bubble(t, what, func(t *testing.T) {
			machine := new(sleeper)
			locker, fakes := newLocker(t, 1, WithRestartGuard(10*time.Second), machine.option())
			fakes[0].Change(func(f *fakeNode) { f.Scriptless, f.Kind = true, fakenode.Valkey9 })
			ripen(t, locker)
			lock := mustAcquire(t, locker, "k")
			time.Sleep(time.Second)
			before(fakes[:1], "INFO", func(f *fakeNode, _ []any) {
				f.Answer = nil
				tt.between(f, machine)
			})
			if err := lock.Extend(t.Context(), 10*time.Second); tt.fails == nil && err != nil || !errors.Is(err, tt.fails) {
				t.Errorf("%s between the halves: Extend = %v, want %v", what, err, tt.fails)
			}
		})
	}
}
