package redlocktest

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/test/patient"
)

func TestASubscriberHears(t *testing.T) {
	kinds(t, func(t *testing.T, nodes Nodes) {
		node := nodes[0]
		s, notices := listen(t, node, "a", "b")
		for i := range 50 {
			channel := []string{"a", "b"}[i%2]
			if got := ask(t, node, "PUBLISH", channel, "\x00\r\n"); got.Int != 1 {
				t.Fatalf("PUBLISH = %s, want 1 listener", show(got))
			}
			expect(t, notices, message(channel, "\x00\r\n"))
		}
		if err := s.Remove(t.Context(), "a", "b"); err != nil { // none is left
			t.Fatalf("Remove = %v", err)
		}
		must(t, s.Add(t.Context(), "c"))
		expect(t, notices, driver.Notice{Kind: driver.Confirmed, Channel: "c"})
		if got := ask(t, node, "PUBLISH", "a", "unheard"); got.Int != 0 {
			t.Errorf("PUBLISH on a channel that was removed = %s, want no listener", show(got))
		}
		ask(t, node, "PUBLISH", "c", "last")
		expect(t, notices, message("c", "last"))
		if node.Count("SUBSCRIBE") != 3 || node.Count("UNSUBSCRIBE") != 2 {
			t.Errorf("Counts = %v, want a command for each channel", node.Counts())
		}
	})
}

// A script runs while the node is locked, and what it publishes may not wait for that.
func TestAScriptPublishesAndCountsListeners(t *testing.T) {
	const wake = `
local heard = redis.pcall('PUBSUB', 'NUMSUB', KEYS[1], KEYS[2])
heard[5] = redis.pcall('PUBLISH', KEYS[1], ARGV[1])
redis.pcall('PUBLISH', KEYS[2], ARGV[1])
return heard`
	kinds(t, func(t *testing.T, nodes Nodes) {
		node := nodes[0]
		_, first := listen(t, node, "a")
		_, second := listen(t, node, "a", "b")
		digest := ask(t, node, "SCRIPT", "LOAD", wake).Str
		for range 50 {
			for _, run := range [][]string{{"EVAL", wake}, {"EVALSHA", digest}} {
				got := ask(t, node, append(run, "2", "a", "b", "released")...)
				if show(got) != `["a" 2 "b" 1 2]` {
					t.Fatalf("PUBSUB NUMSUB and PUBLISH in %s = %s, want 2 and 1, and 2", run[0], show(got))
				}
				expect(t, first, message("a", "released"))
				expect(t, second, message("a", "released"))
				expect(t, second, message("b", "released"))
			}
		}
	})
}

// Many publish at once, from scripts and without, while subscribers come and go.
func TestSubscribersDoNotLockTheNode(t *testing.T) {
	kinds(t, func(t *testing.T, nodes Nodes) {
		node := nodes[0]
		const rounds = 30
		_, notices := listen(t, node, "a")
		done := make(chan struct{}, 3)
		for range 2 {
			go func() {
				defer func() { done <- struct{}{} }()
				for range rounds {
					_, _ = try(t, node, "EVAL", "return redis.pcall('PUBLISH', KEYS[1], '')", "1", "a") // shows in the notices
				}
			}()
		}
		go func() {
			defer func() { done <- struct{}{} }()
			for range rounds {
				s, err := newClient(reach(node)).Subscribe(t.Context(), func(driver.Notice) {})
				if err == nil {
					err = errors.Join(s.Add(t.Context(), "a", "b"), s.Close())
				}
				if err != nil {
					t.Errorf("a subscription that comes and goes: %v", err)
				}
			}
		}()
		for range 2 * rounds {
			expect(t, notices, message("a", ""))
		}
		for range 3 {
			<-done
		}
		says(t, "PING", ask(t, node, "PING").Str, "PONG")
	})
}

func TestAHungNodeDeliversNothing(t *testing.T) {
	alone(t, func(t *testing.T, node *Node) {
		s, notices := listen(t, node, "a")
		node.Hang()
		_, err := try(t, node, "PUBLISH", "a", "while it hung") // gives up
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("PUBLISH to a hung node = %v, want silence", err)
		}
		start := time.Now()
		if err := s.Add(t.Context(), "b"); err != nil || time.Since(start) != 0 {
			t.Errorf("Add at a hung node = %v after %v, want no waiting", err, time.Since(start))
		}
		time.Sleep(time.Hour)
		if len(notices) != 0 {
			t.Errorf("a hung node delivered %v, want nothing", <-notices)
		}
		node.Resume()
		got := []driver.Notice{<-notices, <-notices} // those of two connections, in either order
		for _, want := range []driver.Notice{message("a", "while it hung"), {Kind: driver.Confirmed, Channel: "b"}} {
			if !slices.Contains(got, want) {
				t.Errorf("after Resume received %v, want %v as well", got, want)
			}
		}
	})
}

func TestStopEndsSubscriptions(t *testing.T) {
	for _, state := range []struct {
		name  string
		enter func(*Node)
	}{{"serving", func(*Node) {}}, {"hung", (*Node).Hang}} {
		t.Run(state.name, func(t *testing.T) {
			kinds(t, func(t *testing.T, nodes Nodes) {
				node := nodes[0]
				s, notices := listen(t, node, "a")
				state.enter(node)
				node.Stop()
				expectEnd(t, notices)
				if err := s.Add(t.Context(), "b"); err == nil {
					t.Error("Add to a subscription that has ended = nil, want an error")
				}
				if _, err := newClient(reach(node)).Subscribe(t.Context(), func(driver.Notice) {}); err == nil {
					t.Error("Subscribe to a stopped node = nil, want an error")
				}
				must(t, node.Start())
				if got := ask(t, node, "PUBLISH", "a", "after"); got.Int != 0 {
					t.Errorf("PUBLISH after a restart = %s, want no listener", show(got))
				}
				if len(notices) != 0 {
					t.Errorf("after the end received %v, want nothing", <-notices)
				}
			})
		})
	}
}

func TestFailRefusesChannels(t *testing.T) {
	alone(t, func(t *testing.T, node *Node) {
		s, notices := listen(t, node, "a")
		node.Fail("NOPERM this user has no permissions to run the 'subscribe' command", "SUBSCRIBE")
		must(t, s.Add(t.Context(), "b"))
		got := <-notices
		var refusal *driver.ServerError
		if got.Kind != driver.Refused || !errors.As(got.Err, &refusal) || refusal.Code != "NOPERM" {
			t.Errorf("received %v, want NOPERM", got)
		}
		ask(t, node, "PUBLISH", "a", "still there")
		expect(t, notices, message("a", "still there"))
	})
}

func TestSlowDownDelaysMessages(t *testing.T) {
	alone(t, func(t *testing.T, node *Node) {
		_, notices := listen(t, node, "a")
		node.SlowDown(30 * time.Millisecond)
		start := time.Now()
		go func() { _, _ = try(t, node, "PUBLISH", "a", "late") }() // shows in the notices
		expect(t, notices, message("a", "late"))
		if took := time.Since(start); took != 30*time.Millisecond {
			t.Errorf("a message from a slow node came after %v, want 30ms", took)
		}
	})
}

// listen subscribes the built-in driver to the channels, and returns when they are
// confirmed. Later notices come out of the channel.
func listen(t *testing.T, node *Node, channels ...string) (driver.Subscription, <-chan driver.Notice) {
	t.Helper()
	notices := make(chan driver.Notice, 100)
	s, err := newClient(reach(node)).Subscribe(t.Context(), func(n driver.Notice) { notices <- n })
	must(t, err)
	t.Cleanup(func() { _ = s.Close() }) // is always nil
	must(t, s.Add(t.Context(), channels...))
	for _, channel := range channels {
		expect(t, notices, driver.Notice{Kind: driver.Confirmed, Channel: channel})
	}
	return s, notices
}

// expect waits for the next notice.
func expect(t *testing.T, notices <-chan driver.Notice, want driver.Notice) {
	t.Helper()
	select {
	case got := <-notices:
		if got != want {
			t.Fatalf("received %v, want %v", got, want)
		}
	case <-time.After(patient.Guard):
		t.Fatalf("no notice came in %v, want %v", patient.Guard, want)
	}
}

func expectEnd(t *testing.T, notices <-chan driver.Notice) {
	t.Helper()
	select {
	case got := <-notices:
		if got.Kind != driver.Ended || got.Err == nil {
			t.Fatalf("received %v, want the end, and why", got)
		}
	case <-time.After(patient.Guard):
		t.Fatalf("no notice came in %v, want the end", patient.Guard)
	}
}

func message(channel, payload string) driver.Notice {
	return driver.Notice{Kind: driver.Message, Channel: channel, Payload: payload}
}
