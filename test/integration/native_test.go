package integration

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/quorumlock/quorumlock/redlock"
	"github.com/quorumlock/quorumlock/test/patient"
)

// A user who may not run scripts, as many managed servers have it.
var scriptless = []string{"--user", "locker", "on", ">secret", "~*", "&*", "+@all", "-eval", "-evalsha"}

// scriptlessNodes starts three servers, and says whether they have commands that stand in
// for scripts.
func scriptlessNodes(t *testing.T) (urls []string, looks []*redis.Client, native bool) {
	t.Helper()
	for range 3 {
		p := process(t, scriptless...)
		urls = append(urls, fmt.Sprintf("redis://locker:secret@%s", p.Addr()))
		looks = append(looks, look(t, p))
	}
	_, err := looks[0].Do(t.Context(), "SET", "nobody's", "x", "IFEQ", "y").Result()
	return urls, looks, errors.Is(err, redis.Nil)
}

// An eventLog keeps the events of a Locker.
type eventLog struct {
	mu     sync.Mutex
	events []redlock.Event
}

func (r *eventLog) note(e redlock.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = append(r.events, e)
}

// of returns those of a kind.
func (r *eventLog) of(kind redlock.EventKind) (found []redlock.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range r.events {
		if e.Kind == kind {
			found = append(found, e)
		}
	}
	return found
}

// The life of a lock where scripts are forbidden: by the server's own commands where it
// has them (Valkey 8.1, Redis 8.4 and later); otherwise there is none, which is said.
func TestWithoutScripts(t *testing.T) {
	t.Parallel()
	onProcesses(t, "", func(t *testing.T, c client) {
		urls, looks, native := scriptlessNodes(t)
		var seen eventLog
		locker := func() *redlock.Locker {
			nodes := c.reach(t, urls...)
			l, err := redlock.New(nodes, redlock.WithNodeTimeout(generous), redlock.WithTTL(time.Minute), redlock.WithHooks(redlock.Hooks{Node: seen.note}))
			must(t, err)
			t.Cleanup(func() { must(t, l.Close()) })
			return l
		}
		ours, theirs := locker(), locker()
		holds := func(want string) {
			t.Helper()
			for i, l := range looks {
				patient.Until(t, fmt.Sprintf("node %d holds %q", i+1, want), func() bool { return l.Get(t.Context(), "job").Val() == want })
			}
		}

		if !native {
			limited(t, ours, &seen)
			holds("")
			return
		}

		lock, err := ours.TryAcquire(t.Context(), "job")
		must(t, err)
		holds(lock.Token())
		must(t, looks[0].Del(t.Context(), "job").Err())
		must(t, lock.Extend(t.Context(), 2*time.Minute))
		must(t, lock.Extend(t.Context(), 5*time.Second))
		holds(lock.Token())
		for i, l := range looks {
			patient.Until(t, fmt.Sprintf("node %d has the longer of two extensions", i+1), func() bool {
				return l.PTTL(t.Context(), "job").Val() > 100*time.Second
			})
		}

		stranger := contend(t, theirs)
		patient.Until(t, "the stranger listens", func() bool { return subscribed(t, looks[0]) > 0 })
		var line []<-chan error
		for range 5 {
			line = append(line, contend(t, ours))
		}
		must(t, lock.Release())
		for _, contender := range append(line, stranger) {
			must(t, <-contender)
		}
		holds("")

		own := redlock.WithToken("a token of the test's own")
		lock, err = ours.TryAcquire(t.Context(), "job", own)
		must(t, err)
		if _, err := theirs.TryAcquire(t.Context(), "job", own, redlock.WithTTL(20*time.Second), redlock.WithoutRenewal()); err != nil {
			t.Errorf("a retry with the same token = %v", err)
		}
		kept := 0
		for _, l := range looks { // one of three may not have it yet
			switch left := l.PTTL(t.Context(), "job").Val(); {
			case left >= 50*time.Second:
				kept++
			case left >= 0:
				t.Errorf("a retry for 20s has cut the lease of 1m to %v", left)
			}
		}
		if kept < 2 {
			t.Errorf("%d of 3 nodes have the lease of 1m, want 2", kept)
		}
		patient.Until(t, "something else is in the lock's place, and no vote comes in between", func() bool {
			must(t, looks[1].Del(t.Context(), "job").Err())
			return looks[1].RPush(t.Context(), "job", "no lock").Err() == nil
		})
		must(t, lock.Release())
		must(t, looks[1].Del(t.Context(), "job").Err())
		holds("")
		for i, l := range looks {
			patient.Until(t, fmt.Sprintf("node %d has no keys", i+1), func() bool { return len(l.Keys(t.Context(), "job*").Val()) == 0 })
		}
		if n := len(seen.of(redlock.NodeLimited)) + len(seen.of(redlock.NodeMuted)); n > 0 {
			t.Errorf("nodes that can do all were reported: %v", seen.events)
		}
	})
}

// limited checks that nodes which have neither give no locks, of which nobody could release any.
func limited(t *testing.T, locker *redlock.Locker, seen *eventLog) {
	t.Helper()
	if _, err := locker.Acquire(t.Context(), "job", redlock.WithMaxWait(patience)); !errors.Is(err, redlock.ErrNode) || !mentions(err, "allow +eval +evalsha") {
		t.Errorf("Acquire = %v, want ErrNode and what to allow", err)
	}
	patient.Until(t, "the Locker has reported each node it asked", func() bool { return len(seen.of(redlock.NodeLimited)) >= 3 })
	if n := len(seen.of(redlock.NodeLimited)); n != 3 {
		t.Errorf("NodeLimited was reported %d times, want once a node", n)
	}
}

// The questions for a server's commands change nothing, whatever holds the key.
func TestTheFirstContactChangesNothing(t *testing.T) {
	t.Parallel()
	onProcesses(t, "", func(t *testing.T, c client) {
		p := process(t)
		nodes := c.reach(t, "redis://"+p.Addr())
		l := look(t, p)
		for key, plant := range map[string]func(context.Context) error{
			"text": func(ctx context.Context) error { return l.Set(ctx, "text", "another", time.Hour).Err() },
			"list": func(ctx context.Context) error { return l.RPush(ctx, "list", "another").Err() },
			"none": func(context.Context) error { return nil },
		} {
			must(t, l.FlushAll(t.Context()).Err())
			must(t, plant(t.Context()))
			before := l.Dump(t.Context(), key).Val()
			must(t, l.ConfigResetStat(t.Context()).Err())
			locker, err := redlock.New(nodes, redlock.WithNodeTimeout(generous))
			must(t, err)
			lock, err := locker.TryAcquire(t.Context(), key)
			if (err == nil) != (key == "none") {
				t.Errorf("TryAcquire of a key with %s = %v", key, err)
			}
			if err == nil {
				must(t, lock.Release())
			}
			if after := l.Dump(t.Context(), key).Val(); after != before {
				t.Errorf("contact has changed a key with %s from %q to %q", key, before, after)
			}
			if left := l.PTTL(t.Context(), key).Val(); key == "text" && left < time.Hour-time.Minute {
				t.Errorf("contact has cut another's lease of 1h to %v", left)
			}
			if keys := l.Keys(t.Context(), "*").Val(); len(slices.DeleteFunc(keys, func(k string) bool { return k == key })) > 0 {
				t.Errorf("contact has left keys: %v", keys)
			}
			must(t, locker.Close())
			nodes = c.reach(t, "redis://"+p.Addr())
		}
	})
}

// contend waits for the lock in a goroutine, and gives it back at once.
func contend(t *testing.T, locker *redlock.Locker) <-chan error {
	t.Helper()
	result := make(chan error, 1)
	go func() {
		result <- locker.Do(t.Context(), "job", func(context.Context) error { return nil }, redlock.WithMaxWait(patience))
	}()
	return result
}

// subscribed is how many listen for a release of the key.
func subscribed(t *testing.T, l *redis.Client) int64 {
	t.Helper()
	const channel = "ql:free:job"
	counts, err := l.PubSubNumSub(t.Context(), channel).Result()
	must(t, err)
	return counts[channel]
}
