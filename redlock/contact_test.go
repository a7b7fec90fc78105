package redlock

import (
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/internal/node"
)

// recorder keeps the events of a Locker; kinds are those of its first node.
type recorder struct {
	mu     sync.Mutex
	events []Event
}

func (r *recorder) option() Option {
	return OnEvent(func(e Event) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.events = append(r.events, e)
	})
}

func (r *recorder) kinds() (kinds []EventKind) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range r.events {
		if e.Node == "node-1" {
			kinds = append(kinds, e.Kind)
		}
	}
	return kinds
}

func TestNodesThatMayNotVoteAreRefusedInWords(t *testing.T) {
	const fit = "run_id:%s\r\nrole:master\r\nmaxmemory:0\r\nmaxmemory_policy:noeviction\r\n"
	for name, tt := range map[string]struct {
		info   string
		option Option
		fit    bool
		says   []string
		event  EventKind
	}{
		"a master": {info: "run_id:x\r\nrole:master\r\nmaxmemory:0\r\nmaxmemory_policy:allkeys-lru\r\n", fit: true, event: NodeUp},
		"a replica": {
			info: "run_id:x\r\nrole:slave\r\nmaster_host:10.0.0.1\r\nmaster_port:6379\r\nmaxmemory:0\r\n",
			says: []string{"node-1", "replica", "10.0.0.1:6379", "master's address"}, event: NodeDown,
		},
		"an evicting node": {
			info: "run_id:x\r\nrole:master\r\nmaxmemory:1048576\r\nmaxmemory_policy:volatile-ttl\r\n",
			says: []string{"node-1", "volatile-ttl", "noeviction"}, event: NodeDown,
		},
		"an evicting node, allowed": {
			info:   "run_id:x\r\nrole:master\r\nmaxmemory:1048576\r\nmaxmemory_policy:volatile-ttl\r\n",
			option: WithEvictingNodes(), fit: true, event: NodeEvicts,
		},
		"the same server": {
			info: strings.ReplaceAll(fit, "%s", "node-2"),
			says: []string{"same server", "twice"}, event: 0,
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			fakes, nodes := fakeNodes(2)
			fakes[0].info = tt.info
			var seen recorder
			options := []Option{seen.option()}
			if tt.option != nil {
				options = append(options, tt.option)
			}
			locker, err := New(nodes, options...)
			if err != nil {
				t.Fatalf("New = %v", err)
			}
			defer locker.Close()
			_, err = locker.TryAcquire(t.Context(), "k")
			if (err == nil) != tt.fit {
				t.Errorf("%s: TryAcquire = %v", name, err)
			}
			if !tt.fit && (!errors.Is(err, ErrNode) || !errors.Is(err, ErrNoQuorum)) {
				t.Errorf("%s: TryAcquire = %v, want ErrNode and ErrNoQuorum", name, err)
			}
			for _, want := range tt.says {
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("%s: the error does not say %q: %v", name, want, err)
				}
			}
			synctest.Wait()
			if tt.event != 0 && !slices.Contains(seen.kinds(), tt.event) {
				t.Errorf("%s: events of node-1 are %v, want %v among them", name, seen.kinds(), tt.event)
			}
			if n := fakes[0].count("SET"); !tt.fit && fakes[0].count("SET")+fakes[1].count("SET") > 1 {
				t.Errorf("%s: it got %d SET commands", name, n)
			}
		})
	}
}

func TestAnUnfitNodeDoesNotMakeAcquireWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 3)
		for _, f := range fakes[:2] {
			f.info = "role:slave\r\n"
		}
		began := time.Now()
		if _, err := locker.Acquire(t.Context(), "k"); !errors.Is(err, ErrNode) || time.Since(began) > 0 {
			t.Errorf("Acquire = %v after %v, want ErrNode at once", err, time.Since(began))
		}
	})
}

func TestANodeThatForbidsINFOVotesAndIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var seen recorder
		locker, fakes := newLocker(t, 1, seen.option())
		fakes[0].answer = failing("INFO", "NOPERM this user has no permissions to run the 'info' command")
		if _, err := locker.TryAcquire(t.Context(), "k"); err != nil {
			t.Errorf("TryAcquire = %v", err)
		}
		synctest.Wait()
		if !slices.Contains(seen.kinds(), NodeUnchecked) {
			t.Errorf("events = %v, want NodeUnchecked", seen.events)
		}
	})
}

func TestANodeThatRefusesTheUserSaysSo(t *testing.T) {
	for _, text := range []string{
		"NOAUTH Authentication required.",
		"WRONGPASS invalid username-password pair or user is disabled.",
		"LOADING Redis is loading the dataset in memory",
	} {
		synctest.Test(t, func(t *testing.T) {
			locker, fakes := newLocker(t, 1, WithMaxOutage(0))
			fakes[0].answer = func([]any) *driver.Reply { return &driver.Reply{Kind: driver.Failure, Str: text} }
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
		fakes[0].stop()
		for range 100 {
			lock, err := locker.TryAcquire(t.Context(), "k")
			if err != nil {
				t.Fatalf("TryAcquire = %v", err)
			}
			if err := lock.Release(t.Context()); err != nil {
				t.Fatalf("Release = %v", err)
			}
			time.Sleep(20 * time.Millisecond)
		}
		if fakes[0].batches() > 3 {
			t.Errorf("a silent node was asked %d times in 2s", fakes[0].batches())
		}
		fakes[0].resume()
		time.Sleep(node.MaxCooldown)
		if lock, err := locker.TryAcquire(t.Context(), "k"); err != nil {
			t.Errorf("TryAcquire = %v", err)
		} else {
			synctest.Wait()
			if vote := lock.Votes()[0]; vote.Answer != Granted {
				t.Errorf("the node that is back does not vote: %v", vote)
			}
		}
		if want := []EventKind{NodeDown, NodeUp}; !slices.Equal(seen.kinds(), want) {
			t.Errorf("events of the node are %v, want %v", seen.kinds(), want)
		}
	})
}

func TestAnIdleLockerStartsNoTimersAndSendsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 3)
		fakes[0].stop()
		lock, _ := locker.TryAcquire(t.Context(), "k")
		if err := lock.Release(t.Context()); err != nil {
			t.Errorf("Release = %v", err)
		}
		time.Sleep(time.Minute)
		calls := fakes[0].batches() + fakes[1].batches()
		time.Sleep(time.Hour)
		if after := fakes[0].batches() + fakes[1].batches(); after != calls {
			t.Errorf("an idle Locker sent %d batches", after-calls)
		}
		for _, n := range locker.board.Nodes {
			if n.Left().Armed {
				t.Errorf("the timer of %s still ticks", n.Name())
			}
		}
		fakes[0].resume()
	})
}

func TestANodesEventsAreToldOneAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var telling, told atomic.Int32
		locker, fakes := newLocker(t, 1, WithMaxOutage(0), OnEvent(func(e Event) {
			if telling.Add(1) > 1 {
				t.Errorf("%v was told while another event of the node was being told", e)
			}
			time.Sleep(time.Second)
			told.Add(1)
			telling.Add(-1)
		}))
		fakes[0].change(func(f *fakeNode) {
			f.delay = 2 * time.Millisecond // so that a second batch may be out
			f.lose = func(name string) bool { return name == "SET" }
		})
		if _, err := locker.TryAcquire(t.Context(), "k"); !errors.Is(err, ErrNoQuorum) {
			t.Errorf("TryAcquire whose replies are lost twice = %v, want ErrNoQuorum", err)
		}
		time.Sleep(5 * time.Second)
		if told.Load() < 2 {
			t.Errorf("%d events were told, want that the node is up and down at least", told.Load())
		}
	})
}
