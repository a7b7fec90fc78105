package redlock

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/internal/fault"
	"github.com/quorumlock/quorumlock/internal/node"
	"github.com/quorumlock/quorumlock/internal/protocol"
	"github.com/quorumlock/quorumlock/test/fakenode"
)

func TestCheckNamesTheNodesThatHaveNoVote(t *testing.T) {
	for _, tt := range []struct {
		name   string
		harm   func(f *fakeNode)
		says   string
		also   error
		option Option
	}{
		{"nothing", func(*fakeNode) {}, "", nil, WithTTL(10 * time.Second)},
		{"a replica", func(f *fakeNode) { f.Info = "role:slave\r\nmaster_host:h\r\nmaster_port:1\r\n" }, "replica", ErrNode, WithTTL(10 * time.Second)},
		{"evicts", func(f *fakeNode) { f.Info = "role:master\r\nmaxmemory:1\r\nmaxmemory_policy:allkeys-lru\r\n" }, "noeviction", ErrNode, WithTTL(10 * time.Second)},
		{"cut off", func(f *fakeNode) { f.Refused = driver.NotSent(fakenode.ErrCut) }, fakenode.ErrCut.Error(), nil, WithTTL(10 * time.Second)},
		{"silent", (*fakeNode).Hang, "no answer within", nil, WithTTL(10 * time.Second)},
		{"young", func(*fakeNode) {}, "in quarantine", ErrQuarantine, guard10()},
	} {
		for down := range 4 {
			synctest.Test(t, func(t *testing.T) {
				locker, fakes := newLocker(t, 3, tt.option)
				if tt.name == "young" {
					ripen(t, locker)
				}
				for _, f := range fakes[:down] {
					f.Change(tt.harm)
					if tt.name == "young" {
						f.Restart()
					}
				}
				err := locker.Check(t.Context())
				for _, f := range fakes[:down] { // the Locker is to be closed
					f.Change((*fakeNode).Wake)
				}
				var unfit *QuorumError
				switch {
				case tt.says == "" || down == 0:
					noError(t, err, tt.name)
				case !errors.As(err, &unfit) || !strings.Contains(err.Error(), tt.says) || !slices.EqualFunc(unfit.Votes, fakes, func(v Vote, f *fakeNode) bool {
					bad := slices.Contains(fakes[:down], f)
					return v.Node == f.Name() && (v.Err != nil) == bad && (!bad || strings.Contains(err.Error(), f.Name()))
				}):
					t.Errorf("%s, at %d of 3: Check = %v, want an error that names them and says %q", tt.name, down, err, tt.says)
				case errors.Is(err, ErrNoQuorum) != (down > 1) || tt.also != nil && !errors.Is(err, tt.also):
					t.Errorf("%s, at %d of 3: Check = %v, want ErrNoQuorum: %t, and %v", tt.name, down, err, down > 1, tt.also)
				}
			})
		}
	}
}

// A node that has just failed is asked by nobody else for up to a second.
func TestCheckAsksANodeThatOthersDoNotAskYet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 3)
		warm(t, locker)
		fakes[0].Stop()
		for range 2 {
			mustRelease(t, mustAcquire(t, locker, "k"))
			time.Sleep(300 * time.Millisecond)
		}
		mustTry(t, locker, "k")
		begun := time.Now()
		if err := locker.Check(t.Context()); err == nil || strings.Contains(err.Error(), "not asked") {
			t.Errorf("Check of a silent node = %v, want the silence of this question", err)
		}
		if took := time.Since(begun); took < 250*time.Millisecond {
			t.Errorf("Check of a silent node took %v, so it has not asked", took)
		}
		fakes[0].Resume()
		synctest.Wait() // the probe is over, and the node cools down
		noError(t, locker.Check(t.Context()), "Check of a node that answers again")
	})
}

// An error that says that a node gave no answer within a time does not come before that time: who
// was not asked is told so.
func TestAnErrorSaysForHowLongTheNodeWasAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 3)
		for i := range 2 {
			fakes[i].Stop()
		}
		early := 0
		for i := range 40 {
			_, err := locker.TryAcquire(t.Context(), "k")
			var quorum *QuorumError
			if !errors.As(err, &quorum) {
				t.Fatalf("TryAcquire = %v, want a QuorumError", err)
			}
			for _, v := range quorum.Votes {
				var silence *fault.SilenceError
				switch {
				case !errors.As(v.Err, &silence):
				case strings.HasPrefix(v.Err.Error(), "not asked again yet") || strings.HasPrefix(v.Err.Error(), "its probe got"):
					early++
				case v.Latency < silence.After:
					t.Errorf("%v contradicts itself", v)
				}
			}
			time.Sleep(time.Duration(i) * 7 * time.Millisecond)
		}
		if early == 0 {
			t.Error("each request has asked the nodes, so this test shows nothing")
		}
		for i := range 2 {
			fakes[i].Resume()
		}
	})
}

func TestCheckEndsWithItsContextAndTheLocker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 3)
		must(t, locker.Check(t.Context()))
		fakes[1].Stop()
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if err := locker.Check(ctx); !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, ErrNoQuorum) || !strings.Contains(err.Error(), fakes[1].Name()) {
			t.Errorf("Check = %v, want the end of its context and %s", err, fakes[1].Name())
		}
		fakes[1].Change((*fakeNode).Wake)
		_ = locker.Close()
		returns(t, ErrClosed, "Check of a Locker that was closed")(locker.Check(t.Context()))
	})
}

func TestWhatMakesANodeUnfitIsSeenAtFirstAndInASecondAndSaysSo(t *testing.T) {
	const (
		replica  = "run_id:x\r\nrole:slave\r\nmaster_host:10.0.0.1\r\nmaster_port:6379\r\nmaxmemory:0\r\n"
		evicting = "run_id:x\r\nrole:master\r\nmaxmemory:1048576\r\nmaxmemory_policy:volatile-ttl\r\n"
	)
	for name, tt := range map[string]struct {
		info   string
		option Option
		says   []string // nil: it is fit
		event  EventKind
	}{
		"a master":                  {"run_id:x\r\nrole:master\r\nmaxmemory:0\r\nmaxmemory_policy:allkeys-lru\r\n", WithFences(), nil, NodeUp},
		"a replica":                 {replica, WithFences(), []string{"node-1", "replica", "10.0.0.1:6379", "master's address"}, NodeDown},
		"an evicting node":          {evicting, WithFences(), []string{"node-1", "volatile-ttl", "noeviction"}, NodeDown},
		"an evicting node, allowed": {evicting, WithEvictingNodes(), nil, NodeEvicts},
		"the same server":           {fakenode.Info("node-2"), WithFences(), []string{"same server", "twice"}, NodeDown},
	} {
		for _, late := range []bool{false, true} {
			bubble(t, fmt.Sprint(name, ", late: ", late), func(t *testing.T) {
				var seen recorder
				locker, fakes := newLocker(t, 2, tt.option, seen.option())
				if late {
					mustRelease(t, mustAcquire(t, locker, "k"))
				}
				before := fakes[0].Count("SET") + fakes[1].Count("SET")
				fakes[0].Change(func(f *fakeNode) { f.Info = tt.info })
				for range 3 {
					if late {
						time.Sleep(time.Second)
					}
					began := time.Now()
					lock, err := locker.TryAcquire(t.Context(), "k")
					if tt.says == nil {
						must(t, err)
						mustRelease(t, lock)
					} else if !errors.Is(err, ErrNode) || !errors.Is(err, ErrNoQuorum) || time.Since(began) > 0 {
						t.Errorf("TryAcquire = %v after %v, want ErrNode and ErrNoQuorum at once", err, time.Since(began))
					}
					says(t, ErrNode, tt.says...)(err)
					synctest.Wait()
					if sent := fakes[0].Count("SET") + fakes[1].Count("SET") - before; !late && tt.says != nil && sent > 1 {
						t.Errorf("the nodes got %d SET commands", sent)
					}
					if !late {
						break
					}
				}
				told := len(seen.of(tt.event))
				if node1 := slices.Contains(seen.kinds(), tt.event); tt.says != nil && told == 0 || tt.says == nil && !node1 || late && tt.event != NodeUp && told != 1 {
					t.Errorf("the events are %v, want one %v", seen.events, tt.event)
				}
			})
		}
	}
}

func TestANodeThatRefusesTheUserSaysSo(t *testing.T) {
	for _, text := range []string{
		"NOAUTH Authentication required.",
		"WRONGPASS invalid username-password pair or user is disabled.",
		"LOADING Redis is loading the dataset in memory",
	} {
		synctest.Test(t, func(t *testing.T) {
			locker, fakes := newLocker(t, 1, WithMaxOutage(0))
			fakes[0].Answer = func([]any) *driver.Reply { return &driver.Reply{Kind: driver.Failure, Str: text} }
			_, err := locker.Acquire(t.Context(), "k")
			var server *driver.ServerError
			if !errors.As(err, &server) || !strings.HasPrefix(text, server.Code) || !errors.Is(err, ErrNoQuorum) {
				t.Errorf("Acquire = %v, want a ServerError from %q", err, text)
			}
		})
	}
}

func TestADeadNodeIsAskedAgainOnlyAfterARest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var seen recorder
		locker, fakes := newLocker(t, 3, seen.option())
		mustRelease(t, mustAcquire(t, locker, "k"))
		synctest.Wait()
		fakes[0].Stop()
		before := fakes[0].Batches()
		for i := range 500 {
			mustRelease(t, mustTry(t, locker, "k"))
			time.Sleep(20 * time.Millisecond)
			if asked := fakes[0].Batches() - before; i == 100 && asked > 3 {
				t.Errorf("a silent node was asked %d times in 2s", asked)
			}
		}
		if got := fakes[0].Renewals(); got != 1 { // a connection may take longer than a probe
			t.Errorf("in 10s of silence the node was renewed %d times, want once", got)
		}
		fakes[0].Resume()
		time.Sleep(node.MaxCooldown)
		if lock, err := locker.TryAcquire(t.Context(), "k"); err != nil {
			t.Errorf("TryAcquire = %v", err)
		} else {
			synctest.Wait()
			if vote := lock.Votes()[0]; vote.Answer != grantedVote {
				t.Errorf("the node that is back does not vote: %v", vote)
			}
		}
		if want := []EventKind{NodeUp, NodeDown, NodeUp}; !slices.Equal(seen.kinds(), want) {
			t.Errorf("events of the node are %v, want %v", seen.kinds(), want)
		}
	})
}

func TestANodesEventsAreToldOneAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var telling, told atomic.Int32
		locker, fakes := newLocker(t, 1, WithMaxOutage(0), WithHooks(Hooks{Node: func(e Event) {
			if telling.Add(1) > 1 {
				t.Errorf("%v was told while another event of the node was being told", e)
			}
			time.Sleep(time.Second)
			told.Add(1)
			telling.Add(-1)
		}}))
		fakes[0].Change(func(f *fakeNode) {
			f.Delay = 2 * time.Millisecond // so that a second batch may be out
			f.Lose = func(name string) bool { return name == "SET" }
		})
		returns(t, ErrNoQuorum, "TryAcquire whose replies are lost twice")(locker.TryAcquire(t.Context(), "k"))
		time.Sleep(5 * time.Second)
		if told.Load() < 2 {
			t.Errorf("%d events were told, want that the node is up and down at least", told.Load())
		}
	})
}

func TestAServerThatANameLeadsToAnewDoesNotVoteTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var seen recorder
		locker, fakes := newLocker(t, 3, seen.option())
		mustRelease(t, mustAcquire(t, locker, "k"))
		synctest.Wait()
		fakes[0].LeadTo(fakes[1]) // nothing breaks
		fakes[2].Change(func(f *fakeNode) { f.Refused = fakenode.ErrCut })
		time.Sleep(time.Second)
		for range 3 {
			_, err := locker.TryAcquire(t.Context(), "k")
			if !errors.Is(err, ErrNoQuorum) || !errors.Is(err, ErrNode) || !strings.Contains(err.Error(), "same server") {
				t.Errorf("TryAcquire with one server of three = %v, want ErrNoQuorum and ErrNode", err)
			}
			synctest.Wait()
		}
		if !slices.Contains(seen.kinds(), NodeDown) {
			t.Errorf("the events are %v, want NodeDown", seen.events)
		}
		fakes[0].LeadTo(nil)
		time.Sleep(11 * time.Second) // what it has set as another node ends with its TTL
		mustAcquire(t, locker, "k")
	})
}

// The batch may have been taken by another server than the one that it was meant for.
func TestABatchThatIsSentOnceMoreAsksWhoseConnectionItIs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 3)
		mustRelease(t, mustAcquire(t, locker, "k"))
		fakes[2].Change(func(f *fakeNode) { f.Refused = fakenode.ErrCut })
		_, _ = locker.TryAcquire(t.Context(), "warm")
		synctest.Wait()
		fakes[0].LeadTo(fakes[1])
		fakes[0].Change(func(f *fakeNode) { f.Cuts = 1 })
		returns(t, ErrNoQuorum, "TryAcquire with one server of three, in the first second")(locker.TryAcquire(t.Context(), "k"))
	})
}

func TestABatchThatIsSentOnceMoreIsNoVoteIfNobodySaysWhoseConnectionItIs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 1)
		mustRelease(t, mustAcquire(t, locker, "k"))
		fakes[0].Change(func(f *fakeNode) {
			f.Cuts = 1
			f.Lose = func(name string) bool { return name == "INFO" }
		})
		returns(t, ErrNoQuorum)(locker.TryAcquire(t.Context(), "k"))
	})
}

// Two nodes change places between their votes for one lock.
func TestAServerThatHasVotedAsAnotherNodeIsNoSecondVote(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 3)
		mustRelease(t, mustAcquire(t, locker, "k"))
		fakes[2].Change(func(f *fakeNode) { f.Refused = fakenode.ErrCut })
		_, _ = locker.TryAcquire(t.Context(), "warm")
		synctest.Wait()
		fakes[0].Change(func(f *fakeNode) {
			f.Delay = 20 * time.Millisecond
			f.Answer = func(args []any) *driver.Reply {
				if args[0] == "SET" { // while it is under way the other one is found to be elsewhere
					fakes[0].Unlocked(func() { // the node gives its connections up
						noError(t, locker.board.Nodes[1].OnFitness([]driver.Reply{{Kind: driver.String, Str: "run_id:elsewhere\r\n"}}, 0))
						noError(t, locker.board.Nodes[0].OnFitness([]driver.Reply{{Kind: driver.String, Str: "run_id:node-2\r\n"}}, 0))
					})
				}
				return nil
			}
		})
		says(t, ErrNoQuorum, "voted already")(locker.TryAcquire(t.Context(), "k"))
	})
}

func TestANodeIsAskedOnceASecondWhetherItIsFit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 1)
		mustRelease(t, mustAcquire(t, locker, "k"))
		before := fakes[0].Count("INFO")
		for range 100 {
			time.Sleep(100 * time.Millisecond)
			mustRelease(t, mustAcquire(t, locker, "k"))
		}
		if got := fakes[0].Count("INFO") - before; got != 10*len(protocol.AskFitness) {
			t.Errorf("in 10s the node got %d INFO, want %d", got, 10*len(protocol.AskFitness))
		}
	})
}

func TestANodeThatIsDownIsAskedAgainWhileStatsAreRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 3)
		mustRelease(t, mustAcquire(t, locker, "k"))
		synctest.Wait()
		fakes[2].Change(func(f *fakeNode) { f.Refused = driver.ErrNotSent }) // so there is nothing to clean up
		for range 2 {
			mustRelease(t, mustAcquire(t, locker, "k"))
			time.Sleep(2 * time.Second)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		calls := func() (calls int) {
			changeAll(fakes, func(f *fakeNode) { calls += f.Calls })
			return calls
		}
		before := calls()
		const seconds = 60
		for range 10 * seconds {
			if s := locker.Stats().Nodes[2].State; s != "down" {
				t.Fatalf("a node that refuses is %v", s)
			}
			time.Sleep(100 * time.Millisecond)
		}
		if asked := calls() - before; asked < 1 || asked > seconds/5 {
			t.Errorf("in a minute of readings the nodes were asked %d times, want at most once in 5s, and only the one that is down", asked)
		}
		fakes[2].Change(func(f *fakeNode) { f.Refused = nil })
		fakes[2].Stop()
		time.Sleep(time.Minute)
		began := time.Now()
		locker.Stats()
		if took := time.Since(began); took != 0 {
			t.Errorf("Stats has waited %v for a node that hangs", took)
		}
		fakes[2].Resume()
		time.Sleep(time.Minute)
		locker.Stats()
		synctest.Wait()
		if s := locker.Stats().Nodes[2].State; s != "up" {
			t.Errorf("a node that is back is %v at the second reading", s)
		}
		mustRelease(t, mustAcquire(t, locker, "k"))
		synctest.Wait()
		if left := locker.Stats().Nodes[2]; left.InFlight != 0 || left.Queue != 0 {
			t.Errorf("%+v", left)
		}
	})
}
