package redlock

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/internal/memory"
	"github.com/quorumlock/quorumlock/internal/protocol"
	"github.com/quorumlock/quorumlock/internal/scripts"
	"github.com/quorumlock/quorumlock/test/fakenode"
)

// recordAt is the record of a node.
func recordAt(f *fakeNode) (m fakenode.Memory) {
	f.Change(func(f *fakeNode) { m = f.Memories[memory.Key("")] })
	return m
}

// cutOff makes a node one that cannot be reached.
func cutOff(f *fakeNode) { f.Refused = driver.NotSent(fakenode.ErrCut) }

// Nobody has to do anything, and who waits is told for how long.
func TestAWaitOnNewNodesEndsByItself(t *testing.T) {
	for name, acquire := range kindsOfLocks {
		synctest.Test(t, func(t *testing.T) {
			var seen recorder
			locker, _ := newLocker(t, 3, WithRestartGuard(time.Minute), WithFences(), seen.option())
			start := time.Now()
			_, err := acquire(locker, t.Context(), WithMaxWait(10*time.Second))
			if !errors.Is(err, ErrQuarantine) || !strings.Contains(err.Error(), "it is new, or came back empty; it votes again in 5") || !strings.Contains(err.Error(), "keep a Locker open until then") {
				t.Errorf("an acquire of %s that waits for 10s = %v, want ErrQuarantine, and the time left of 67.5s", name, err)
			}
			lock, err := acquire(locker, t.Context())
			if took := time.Since(start); err != nil || took < 67500*time.Millisecond || took > 75*time.Second {
				t.Fatalf("an acquire of %s on new nodes = %v after %v, want a lock after 9/8 of a minute", name, err, took)
			}
			mustRelease(t, lock)
			if told := seen.of(NodeQuarantined, "it votes again in 1m7.50"); len(told) != 3 {
				t.Errorf("the events are %v, want one of each node that says for how long it sits out", seen.events)
			}
		})
	}
}

// Nobody has to ask for it: one look starts the timer.
func TestAQuarantineEndsWhileNobodyAsks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 1, guard10())
		_, _ = locker.TryAcquire(t.Context(), "k")
		if left := locker.Stats().Nodes[0].QuarantineLeft; left < 11*time.Second || left > 11251*time.Millisecond {
			t.Errorf("Stats says that %v are left, want 11.25s", left)
		}
		time.Sleep(12 * time.Second)
		if age := recordAt(fakes[0]).Age; age < (11251 * time.Millisecond).Microseconds() {
			t.Errorf("12s after one try the memory is %d µs old", age)
		}
		calls := fakes[0].Batches()
		time.Sleep(time.Minute)
		if more := fakes[0].Batches() - calls; more > 0 {
			t.Errorf("an old memory was looked at %d times while nobody asked", more)
		}
		mustAcquire(t, locker, "k")
	})
}

// None of them lives for as long as a quarantine lasts.
func TestShortProcessesInTurnEndAQuarantine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fakes, _ := fakeNodes(3)
		far(fakes, 10*time.Millisecond)
		start := time.Now()
		for {
			locker := another(t, fakes, guard10())
			_, err := locker.TryAcquire(t.Context(), "k")
			if took := time.Since(start); err == nil && took < 11251*time.Millisecond || err != nil && took > 14*time.Second {
				t.Fatalf("after %v TryAcquire = %v, want a lock from 11.251s on", took, err)
			}
			if must(t, locker.Close()); err == nil {
				break
			}
			time.Sleep(time.Second) // less than the 1.25s of a cap
		}
	})
}

// What watched a node at long intervals has not seen the time between.
func TestAMemoryThatNobodyWatchesDoesNotGrow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fakes, _ := fakeNodes(1)
		for range 5 {
			locker := another(t, fakes, guard10())
			returns(t, ErrQuarantine)(locker.TryAcquire(t.Context(), "k"))
			must(t, locker.Close())
			time.Sleep(time.Hour)
		}
		if age := recordAt(fakes[0]).Age; age > 4*1250*1000 {
			t.Errorf("after five looks the age is %d µs, want a cap for each but the first", age)
		}
	})
}

func TestAClockThatIsSetForwardMakesAMemoryOlderByNoMoreThanACap(t *testing.T) {
	for _, step := range []time.Duration{time.Hour, -time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			locker, fakes := newLocker(t, 1, guard10())
			_, _ = locker.TryAcquire(t.Context(), "k")
			time.Sleep(5 * time.Second)
			fakes[0].Change(func(f *fakeNode) { f.Skew = step })
			time.Sleep(5 * time.Second) // the longest TTL since the node was new
			returns(t, ErrQuarantine, "the clock was set by", step)(locker.TryAcquire(t.Context(), "k"))
			time.Sleep(3 * time.Second)
			mustAcquire(t, locker, "k")
		})
	}
}

// What keeps a memory from growing is named, and tried again.
func TestAScriptThatMayNotRunIsNamedAndTriedAgain(t *testing.T) {
	for refusal, want := range map[string]string{
		"NOPERM this user has no permissions to run the 'hset' command": "allow +hset",
		"OOM command not allowed when used mem":                         "maxmemory",
	} {
		synctest.Test(t, func(t *testing.T) {
			var seen recorder
			locker, fakes := newLocker(t, 1, guard10(), seen.option())
			fakes[0].Change(func(f *fakeNode) {
				f.Answer = answering(fakenode.Refusal(refusal), func(args []any) bool { return args[0] == "EVALSHA" && args[1] == scripts.Remember.Digest })
			})
			var err error
			for range 60 {
				_, err = locker.TryAcquire(t.Context(), "k")
				time.Sleep(time.Second)
			}
			if !errors.Is(err, ErrQuarantine) || !strings.Contains(err.Error(), refusal) || !strings.Contains(err.Error(), want) {
				t.Errorf("where the script is refused TryAcquire = %v, want ErrQuarantine that says %q and %q", err, refusal, want)
			}
			if named := seen.of(NodeQuarantined, refusal, want); len(named) != 1 {
				t.Errorf("of the events %v %d name the refusal, want one", seen.events, len(named))
			}
			fakes[0].Change(func(f *fakeNode) { f.Answer = nil })
			time.Sleep(13 * time.Second)
			mustAcquire(t, locker, "k")
		})
	}
}

// None of this lets a young node vote, and each error says what to do.
func TestANodeThatTheGuardCannotReadHasNoVote(t *testing.T) {
	for what, tt := range map[string]struct {
		spoil func(f *fakeNode)
		says  []string
	}{
		"a key of another type": {func(f *fakeNode) { f.Put("ql:memory:app:", fakenode.List, time.Hour) }, []string{`"ql:memory:app:"`, "who else uses it?"}},
		"no rights on the key": {func(f *fakeNode) {
			f.Answer = failing("HMGET", "NOPERM this user has no permissions to access one of the keys")
		}, []string{"allow ~ql:memory:app: +hmget +hset"}},
		"no right to read it": {func(f *fakeNode) {
			f.Answer = failing("HMGET", "NOPERM this user has no permissions to run the 'hmget' command")
		}, []string{`"ql:memory:app:"`, "allow +hmget"}},
		"a proxy without HMGET":  {func(f *fakeNode) { f.Answer = failing("HMGET", "ERR unknown command 'HMGET'") }, []string{"does not know HMGET"}},
		"no master_replid":       {func(f *fakeNode) { f.Info = strings.ReplaceAll(f.Info, "master_replid", "other") }, []string{"master_replid", "without WithRestartGuard"}},
		"a replid that is short": {func(f *fakeNode) { f.Info = "role:master\r\nmaster_replid:0123\r\n" }, []string{"40 hex digits"}},
		"no role":                {func(f *fakeNode) { f.Info = "master_replid:" + someReplid + "\r\n" }, []string{"no role"}},
		"a replica":              {func(f *fakeNode) { f.Info = strings.ReplaceAll(f.Info, "role:master", "role:slave") }, []string{"the master's address"}},
		"somebody else's record": {func(f *fakeNode) {
			f.Memories["ql:memory:app:"] = fakenode.Memory{ID: fakenode.History("node-1"), For: "hunter2", Age: 1 << 50}
		}, []string{`"ql:memory:app:"`, "who else uses it?"}},
	} {
		bubble(t, what, func(t *testing.T) {
			locker, fakes := newLocker(t, 1, guard10(), WithKeyPrefix("app:"))
			for _, late := range []bool{false, true} {
				if late { // and in front of a vote that would count
					fakes[0].Restart()
					fakes[0].Change(func(f *fakeNode) { f.Answer = nil })
					time.Sleep(2 * time.Second)
					ripen(t, locker)
					mustRelease(t, mustAcquire(t, locker, "k"))
					time.Sleep(time.Millisecond)
				}
				fakes[0].Change(tt.spoil)
				_, err := locker.TryAcquire(t.Context(), "k")
				for _, want := range append(tt.says, "node-1") {
					if !errors.Is(err, ErrNode) || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hunter2") {
						t.Errorf("%s: TryAcquire = %v, want ErrNode that says %q and nobody's secret", what, err, want)
					}
				}
			}
		})
	}
}

// Each of these could have a quorum beside the others.
func TestANodeRefusesClientsWithOtherSettings(t *testing.T) {
	for what, options := range map[string][]Option{
		"a longer TTL":   {WithRestartGuard(time.Minute)},
		"a shorter TTL":  {WithTTL(5 * time.Second), WithRestartGuard(5 * time.Second)},
		"another set":    {guard10(), WithNodeSet(7)},
		"a set of five":  {guard10(), option(func(*lockerOptions) {})},
		"settings to be": {guard10()},
	} {
		bubble(t, what, func(t *testing.T) {
			old, fakes := ripeLocker(t, 3)
			before := recordAt(fakes[0])
			if what == "settings to be" {
				changeAll(fakes, func(f *fakeNode) {
					own := f.Memories[memory.Key("")]
					own.For = "5000 0:3"
					f.Memories[memory.Key("")] = own
				})
				before = recordAt(fakes[0])
			}
			all := fakes
			if what == "a set of five" {
				more, _ := fakeNodes(5)
				all = append(slices.Clone(fakes), more[3:]...)
			}
			other := another(t, all, options...)
			for range 20 {
				says(t, ErrNodeSet, strconv.Quote(before.For), strconv.Quote(other.board.Restarts.Text), "quorumlock settings --from")(other.TryAcquire(t.Context(), "k"))
				time.Sleep(time.Second)
			}
			if after := recordAt(fakes[0]); after != before {
				t.Errorf("a client with %s has made %+v of %+v", what, after, before)
			}
			if what == "settings to be" {
				return
			}
			mustRelease(t, mustAcquire(t, old, "k"))
			forEach(fakes[:1], (*fakeNode).Restart)
			time.Sleep(2 * time.Second)
			_, _ = other.TryAcquire(t.Context(), "k")
			time.Sleep(20 * time.Second)
			if after := recordAt(fakes[0]); after.For != "" {
				t.Errorf("a client with %s has begun %+v at a node that came back empty", what, after)
			}
			mustRelease(t, mustAcquire(t, old, "k"))
			time.Sleep(12 * time.Second)
			if after := recordAt(fakes[0]); after.For != before.For {
				t.Errorf("the record of a node that came back empty is %+v, want the old clients'", after)
			}
		})
	}
}

// A client with the wrong list could begin a record where it hears of no other node.
func TestARecordIsBegunByWhoHasHeardOfAllNodesOrOfOneThatAgrees(t *testing.T) {
	for agrees, begun := range map[bool]bool{false: false, true: true} {
		synctest.Test(t, func(t *testing.T) {
			locker, fakes := newLocker(t, 3, guard10())
			if agrees {
				fakes[1].Change(func(f *fakeNode) { f.Memories[memory.Key("")] = ripe(locker, f) })
			}
			fakes[2].Change(cutOff)
			_, _ = locker.TryAcquire(t.Context(), "k")
			time.Sleep(15 * time.Second)
			if got := recordAt(fakes[0]) != (fakenode.Memory{}); got != begun {
				t.Errorf("one node is down, another agrees: %t, the record of the third was begun: %t", agrees, got)
			}
			_, err := locker.TryAcquire(t.Context(), "k")
			if begun != (err == nil) {
				t.Errorf("one node is down, another agrees: %t: TryAcquire = %v", agrees, err)
			}
			if !begun {
				says(t, ErrQuarantine, "begins no record there before node node-3 has answered")(nil, err)
				fakes[2].Change(func(f *fakeNode) { f.Refused = nil })
				lock, err := locker.Acquire(t.Context(), "k")
				must(t, err, "when all nodes answer")
				mustRelease(t, lock)
			}
		})
	}
}

// After a power cut some nodes may never come back. Those that have kept their files know whose they are.
func TestNodesThatComeBackWithTheirFilesNeedNoOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, fakes := ripeLocker(t, 5)
		changeAll(fakes, anotherHistory)
		changeAll(fakes[3:], cutOff)
		locker := another(t, fakes, guard10())
		says(t, ErrQuarantine, "it was started anew or promoted")(locker.TryAcquire(t.Context(), "k"))
		time.Sleep(12 * time.Second)
		mustRelease(t, mustAcquire(t, locker, "k"))
	})
}

// mergeNodes makes the third of three nodes silent, and the second two addresses with the first.
func mergeNodes(fakes []*fakeNode) {
	fakes[2].Change(cutOff)
	own := recordAt(fakes[0])
	fakes[1].Change(func(f *fakeNode) {
		f.Info = strings.Replace(f.Info, fakenode.History("node-2"), fakenode.History("node-1"), 1)
		f.Memories[memory.Key("")] = own
	})
}

// Extensions that share a command are votes as any others.
func TestEachExtensionOfACommandIsJudgedByItsLook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := ripeLocker(t, 3)
		var locks []*Lock
		for i := range 8 {
			locks = append(locks, mustAcquire(t, locker, strconv.Itoa(i)))
		}
		synctest.Wait()
		mergeNodes(fakes)
		time.Sleep(time.Second)
		for i, err := range extendAll(t, locks, fakes[0], func(int) time.Duration { return 10 * time.Second }) {
			if !errors.Is(err, ErrNode) || !strings.Contains(err.Error(), "vote twice") {
				t.Errorf("extension %d with one server as two nodes = %v, want ErrNode", i, err)
			}
		}
	})
}

// Two addresses of one server, of which nobody could tell before.
func TestTwoNodesWithOneHistoryAreOneVote(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := ripeLocker(t, 3)
		mustRelease(t, mustAcquire(t, locker, "k"))
		synctest.Wait()
		mergeNodes(fakes)
		says(t, ErrNode, "vote twice")(locker.TryAcquire(t.Context(), "k"))
		synctest.Wait()
		wantFree(t, fakes, "k")
	})
}

// A late copy of the script, with what a client knew a while ago, makes no memory older than it is.
func TestALateScriptMakesNoMemoryOlder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 1, guard10())
		var late []driver.Command
		before(fakes, "EVAL", func(_ *fakeNode, args []any) {
			if args[1] == scripts.Remember.Source {
				late = []driver.Command{{Args: slices.Clone(args)}}
			}
		})
		_, err := locker.Acquire(context.WithoutCancel(t.Context()), "k", WithMaxWait(time.Minute))
		must(t, err)
		must(t, locker.Close())
		fakes[0].Restart()
		fakes[0].Change(func(f *fakeNode) {
			for range 1000 {
				f.Run(late)
			}
		})
		if m := recordAt(fakes[0]); late == nil || m.Age != 0 || m.ID != protocol.Field(fakes[0].Info, "master_replid:") {
			t.Errorf("a thousand late scripts have made %+v of a node that came back empty", m)
		}
	})
}

// A probe asks once for itself and up to twice for the clock. Where they shared one time-out, a node
// that is far, but in time, was down for as long as it was far, and new nodes never voted.
func TestNewNodesComeToVoteThoughEachAnswerOfTwoTakesMostOfATimeOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 5, guard10(), WithClockGuard(10*time.Second))
		changeAll(fakes[3:], func(f *fakeNode) { f.Refused = fakenode.ErrCut })
		_, _ = locker.TryAcquire(t.Context(), "down") // the next probe is not a node's first, which may take longer
		changeAll(fakes[3:], func(f *fakeNode) { f.Delay, f.Refused = 200*time.Millisecond, nil })
		_, _ = locker.TryAcquire(t.Context(), "probe")
		time.Sleep(14 * time.Second)
		_, _ = locker.TryAcquire(t.Context(), "probe")
		time.Sleep(time.Second)
		mustAcquire(t, locker, "k")
		for _, n := range locker.board.Nodes {
			if why := n.DownFor(); why != nil {
				t.Errorf("%s is down: %v", n.Name(), why)
			}
		}
	})
}

// A connection takes a round trip each for TCP, TLS, HELLO and what else a client says.
func TestTheFirstProbeOfAFarNodeHasTimeForAConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 3, guard10())
		connected := time.Now().Add(7 * 240 * time.Millisecond)
		fakes[0].Change(func(f *fakeNode) {
			f.Hold = func(string) <-chan struct{} {
				late := make(chan struct{})
				time.AfterFunc(time.Until(connected), func() { close(late) })
				return late
			}
		})
		_, _ = locker.TryAcquire(t.Context(), "k")
		time.Sleep(time.Until(connected))
		synctest.Wait()
		if why := locker.board.Nodes[0].DownFor(); why != nil || !locker.board.Nodes[0].Up() {
			t.Errorf("after a connection was made in seven round trips of 240ms the node is down: %v", why)
		}
	})
}
