package redlock

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/internal/protocol"
)

// leads makes the way to a node lead to another node's server, as a name does that resolves
// anew, or back to its own.
func (f *fakeNode) leads(to *fakeNode) { f.change(func(f *fakeNode) { f.instead = to }) }

func TestAServerThatANameLeadsToAnewDoesNotVoteTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var seen recorder
		locker, fakes := newLocker(t, 3, seen.option())
		mustRelease(t, mustAcquire(t, locker, "k"))
		synctest.Wait()
		fakes[0].leads(fakes[1]) // nothing breaks
		fakes[2].change(func(f *fakeNode) { f.refused = errCut })
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
		fakes[0].leads(nil)
		time.Sleep(11 * time.Second) // what it has set as another node ends with its TTL
		mustAcquire(t, locker, "k")
	})
}

// The batch may have been taken by another server than the one that it was meant for.
func TestABatchThatIsSentOnceMoreAsksWhoseConnectionItIs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 3)
		mustRelease(t, mustAcquire(t, locker, "k"))
		fakes[2].change(func(f *fakeNode) { f.refused = errCut })
		_, _ = locker.TryAcquire(t.Context(), "warm")
		synctest.Wait()
		fakes[0].leads(fakes[1])
		fakes[0].change(func(f *fakeNode) { f.cuts = 1 })
		if _, err := locker.TryAcquire(t.Context(), "k"); !errors.Is(err, ErrNoQuorum) {
			t.Errorf("TryAcquire with one server of three, in the first second = %v, want ErrNoQuorum", err)
		}
	})
}

func TestABatchThatIsSentOnceMoreIsNoVoteIfNobodySaysWhoseConnectionItIs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 1)
		mustRelease(t, mustAcquire(t, locker, "k"))
		fakes[0].change(func(f *fakeNode) {
			f.cuts = 1
			f.lose = func(name string) bool { return name == "INFO" }
		})
		if _, err := locker.TryAcquire(t.Context(), "k"); !errors.Is(err, ErrNoQuorum) {
			t.Errorf("TryAcquire = %v, want ErrNoQuorum", err)
		}
	})
}

func TestNodesThatHaveChangedPlacesVoteAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 2)
		mustRelease(t, mustAcquire(t, locker, "k"))
		fakes[0].leads(fakes[1])
		fakes[1].leads(fakes[0])
		for range 10 {
			time.Sleep(time.Second)
			_, _ = locker.TryAcquire(t.Context(), "k")
			synctest.Wait()
		}
		time.Sleep(10 * time.Second)
		mustAcquire(t, locker, "k")
	})
}

// Two nodes change places between their votes for one lock.
func TestAServerThatHasVotedAsAnotherNodeIsNoSecondVote(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 3)
		mustRelease(t, mustAcquire(t, locker, "k"))
		fakes[2].change(func(f *fakeNode) { f.refused = errCut })
		_, _ = locker.TryAcquire(t.Context(), "warm")
		synctest.Wait()
		fakes[0].change(func(f *fakeNode) {
			f.delay = 20 * time.Millisecond
			f.answer = func(args []any) *driver.Reply {
				if args[0] == "SET" { // while it is under way the other one is found to be elsewhere
					if err := locker.board.Nodes[1].OnFitness([]driver.Reply{{Kind: driver.String, Str: "run_id:elsewhere\r\n"}}, 0); err != nil {
						t.Error(err)
					}
					if err := locker.board.Nodes[0].OnFitness([]driver.Reply{{Kind: driver.String, Str: "run_id:node-2\r\n"}}, 0); err != nil {
						t.Error(err)
					}
				}
				return nil
			}
		})
		if _, err := locker.TryAcquire(t.Context(), "k"); !errors.Is(err, ErrNoQuorum) || !strings.Contains(err.Error(), "voted already") {
			t.Errorf("TryAcquire with the two votes of one server = %v, want ErrNoQuorum", err)
		}
	})
}

func TestWhatMakesANodeUnfitAtRunTimeIsSeenInASecond(t *testing.T) {
	for name, tt := range map[string]struct {
		info    string
		options []Option
		says    string // "" for a vote
		event   EventKind
	}{
		"an eviction policy": {info: "run_id:node-1\r\nrole:master\r\nmaxmemory:1048576\r\nmaxmemory_policy:allkeys-lru\r\n", says: "noeviction", event: NodeDown},
		"an eviction policy, allowed": {
			info:    "run_id:node-1\r\nrole:master\r\nmaxmemory:1048576\r\nmaxmemory_policy:allkeys-lru\r\n",
			options: []Option{WithEvictingNodes()}, event: NodeEvicts,
		},
		"a master": {info: "run_id:node-1\r\nrole:slave\r\nmaster_host:10.0.0.1\r\nmaster_port:6379\r\nmaxmemory:0\r\n", says: "replica", event: NodeDown},
	} {
		synctest.Test(t, func(t *testing.T) {
			var seen recorder
			locker, fakes := newLocker(t, 1, append(tt.options, seen.option())...)
			mustRelease(t, mustAcquire(t, locker, "k"))
			fakes[0].change(func(f *fakeNode) { f.info = tt.info })
			for range 3 {
				time.Sleep(time.Second)
				lock, err := locker.TryAcquire(t.Context(), "k")
				switch {
				case tt.says == "" && err != nil:
					t.Errorf("%s: TryAcquire = %v", name, err)
				case tt.says == "":
					mustRelease(t, lock)
				case !errors.Is(err, ErrNode) || !strings.Contains(err.Error(), tt.says):
					t.Errorf("%s: TryAcquire = %v, want ErrNode that says %q", name, err, tt.says)
				}
				synctest.Wait()
			}
			if kinds := seen.kinds(); len(slices.DeleteFunc(kinds, func(k EventKind) bool { return k != tt.event })) != 1 {
				t.Errorf("%s: the events are %v, want one %v", name, seen.events, tt.event)
			}
		})
	}
}

func TestANodeIsAskedOnceASecondWhetherItIsFit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 1)
		mustRelease(t, mustAcquire(t, locker, "k"))
		before := fakes[0].count("INFO")
		for range 100 {
			time.Sleep(100 * time.Millisecond)
			mustRelease(t, mustAcquire(t, locker, "k"))
		}
		if got := fakes[0].count("INFO") - before; got != 10*len(protocol.AskFitness) {
			t.Errorf("in 10s the node got %d INFO, want %d", got, 10*len(protocol.AskFitness))
		}
	})
}

func TestANodeWhoseUserMayNoLongerAskIsReportedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var seen recorder
		locker, fakes := newLocker(t, 1, seen.option())
		mustRelease(t, mustAcquire(t, locker, "k"))
		fakes[0].change(func(f *fakeNode) {
			f.answer = failing("INFO", "NOPERM this user has no permissions to run the 'info' command")
		})
		for range 5 {
			time.Sleep(time.Second)
			mustRelease(t, mustAcquire(t, locker, "k"))
		}
		synctest.Wait()
		if want := []EventKind{NodeUp, NodeUnchecked}; !slices.Equal(seen.kinds(), want) {
			t.Errorf("the events are %v, want %v", seen.kinds(), want)
		}
	})
}

func TestANodeThatIsDownIsAskedAgainWhileStatsAreRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 3)
		mustRelease(t, mustAcquire(t, locker, "k"))
		synctest.Wait()
		fakes[2].change(func(f *fakeNode) { f.refused = driver.ErrNotSent }) // so there is nothing to clean up
		for range 2 {
			mustRelease(t, mustAcquire(t, locker, "k"))
			time.Sleep(2 * time.Second)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		calls := func() (calls int) {
			for _, f := range fakes {
				f.change(func(f *fakeNode) { calls += f.calls })
			}
			return calls
		}
		before := calls()
		const seconds = 60
		for range 10 * seconds {
			if s := locker.Stats().Nodes[2].State; s != HealthDown {
				t.Fatalf("a node that refuses is %v", s)
			}
			time.Sleep(100 * time.Millisecond)
		}
		if asked := calls() - before; asked < 1 || asked > seconds/5 {
			t.Errorf("in a minute of readings the nodes were asked %d times, want at most once in 5s, and only the one that is down", asked)
		}
		fakes[2].change(func(f *fakeNode) { f.refused = nil })
		fakes[2].stop()
		time.Sleep(time.Minute)
		began := time.Now()
		locker.Stats()
		if took := time.Since(began); took != 0 {
			t.Errorf("Stats has waited %v for a node that hangs", took)
		}
		fakes[2].resume()
		time.Sleep(time.Minute)
		locker.Stats()
		synctest.Wait()
		if s := locker.Stats().Nodes[2].State; s != HealthUp {
			t.Errorf("a node that is back is %v at the second reading", s)
		}
		mustRelease(t, mustAcquire(t, locker, "k"))
		synctest.Wait()
		if left := locker.Stats().Nodes[2]; left.InFlight != 0 || left.Queue != 0 {
			t.Errorf("%+v", left)
		}
	})
}
