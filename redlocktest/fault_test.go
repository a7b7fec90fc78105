package redlocktest

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumlock/quorumlock/driver"
)

func TestHangSaysNothing(t *testing.T) {
	alone(t, func(t *testing.T, node *Node) {
		node.Hang()
		node.Hang() // is left alone
		start := time.Now()
		_, err := try(t, node, "SET", "key", "token", "PX", "10000")
		if took := time.Since(start); !errors.Is(err, context.DeadlineExceeded) || took != time.Second {
			t.Errorf("SET to a hung node = %v after %v, want silence for its 1s", err, took)
		}
		if keys := node.Keys(); len(keys) != 0 || node.Count("SET") != 0 {
			t.Errorf("a hung node has keys %v and %d SETs, want nothing executed", keys, node.Count("SET"))
		}
	})
}

func TestResumeExecutesWhatCameMeanwhile(t *testing.T) {
	alone(t, func(t *testing.T, node *Node) {
		node.Hang()
		_, _ = try(t, node, "SET", "key", "token", "PX", "10000") // gives up and hangs up
		time.Sleep(time.Minute)
		node.Resume()
		node.Resume() // is left alone
		synctest.Wait()
		if ttl := node.TTL("key"); ttl != 10*time.Second {
			t.Errorf("TTL of a SET that waited at a hung node = %v, want a fresh 10s", ttl)
		}
		says(t, "PING after Resume", ask(t, node, "PING").Str, "PONG")
	})
}

func TestResumeKeepsTheOrderOfAConnection(t *testing.T) {
	kinds(t, func(t *testing.T, nodes Nodes) {
		node := nodes[0]
		node.Hang()
		done := make(chan []driver.Reply)
		go func() {
			replies, _ := newClient(reach(node)).Do(t.Context(), []driver.Command{
				command("SET", "key", "1"), command("INCR", "key"), command("GETDEL", "key"),
			})
			done <- replies
		}()
		settle(node)
		node.Resume()
		replies := <-done
		if len(replies) != 3 || replies[2].Str != "2" {
			t.Errorf("a batch that waited at a hung node = %v, want all of it in order", replies)
		}
	})
}

func TestStopForgetsWhatAHungNodeWasSent(t *testing.T) {
	alone(t, func(t *testing.T, node *Node) {
		node.Hang()
		_, _ = try(t, node, "SET", "key", "token") // gives up
		node.Stop()
		must(t, node.Start())
		if got := ask(t, node, "GET", "key"); show(got) != "nil" {
			t.Errorf("GET after a hung node was stopped and started = %s, want nil", show(got))
		}
	})
}

func TestSlowDownDelaysABatchOnce(t *testing.T) {
	alone(t, func(t *testing.T, node *Node) {
		node.SlowDown(30 * time.Millisecond)
		batch := make([]driver.Command, 1000)
		for i := range batch {
			batch[i] = command("INCR", "key")
		}
		start := time.Now()
		replies, err := newClient(node.Dial).Do(t.Context(), batch)
		if took := time.Since(start); err != nil || took != 30*time.Millisecond || replies[999].Int != 1000 {
			t.Errorf("1,000 commands to a slow node: %v after %v, want all after 30ms", err, took)
		}
		node.SlowDown(0)
		start = time.Now()
		ask(t, node, "PING")
		if took := time.Since(start); took != 0 {
			t.Errorf("PING after SlowDown(0) took %v, want no time", took)
		}
	})
}

func TestFail(t *testing.T) {
	const readonly = "READONLY You can't write against a read only replica."
	const loading = "LOADING Redis is loading the dataset in memory"
	const release = "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0"
	tests := []struct {
		message  string
		commands []string
		send     []string
		want     string
	}{
		{readonly, nil, []string{"SET", "key", "other", "NX"}, "-" + readonly},
		{readonly, nil, []string{"ZADD", "fence", "1", "f"}, "-" + readonly},
		{readonly, nil, []string{"GET", "key"}, `"token"`},
		{readonly, nil, []string{"PUBLISH", "channel", "message"}, "0"},
		{readonly, nil, []string{"EVAL", release, "1", "key", "token"}, "-" + readonly},
		{readonly, nil, []string{"EVAL", release, "1", "key", "other"}, "0"},
		{readonly, []string{"SET"}, []string{"DEL", "key"}, "1"},
		{readonly, []string{"set"}, []string{"SET", "key", "other"}, "-" + readonly},
		{"NOPERM no", []string{"EVAL"}, []string{"EVAL", release, "1", "key", "other"}, "-NOPERM no"},
		{"NOPERM no", []string{"INFO"}, []string{"INFO", "server"}, "-NOPERM no"},
		{loading, []string{Every}, []string{"GET", "key"}, "-" + loading},
		{loading, []string{Every}, []string{"PING"}, "-" + loading},
		{loading, []string{Every}, []string{"EVAL", release, "1", "key", "other"}, "-" + loading},
		{loading, []string{Every}, []string{"SELECT", "0"}, `"OK"`},
		{"", nil, []string{"DEL", "key"}, "1"},
	}
	for _, tt := range tests {
		alone(t, func(t *testing.T, node *Node) {
			node.Set("key", "token", 0)
			node.Fail(tt.message, tt.commands...)
			says(t, fmt.Sprintf("Fail(%q, %q): %q", tt.message, tt.commands, tt.send), show(ask(t, node, tt.send...)), tt.want)
			node.Heal()
			says(t, "SET after Heal", show(ask(t, node, "SET", "key", "other")), `"OK"`)
		})
	}
}

func TestHealEndsAllFaults(t *testing.T) {
	alone(t, func(t *testing.T, node *Node) {
		node.Fail("OOM command not allowed when used memory > 'maxmemory'.")
		node.SlowDown(time.Hour)
		node.Hang()
		node.Heal()
		start := time.Now()
		if got := show(ask(t, node, "SET", "key", "token")); got != `"OK"` || time.Since(start) != 0 {
			t.Errorf("SET after Heal = %s after %v, want OK at once", got, time.Since(start))
		}
	})
}

func TestTheLastFailCountsAndANamedCommandBeforeAGroup(t *testing.T) {
	alone(t, func(t *testing.T, node *Node) {
		node.Fail("READONLY no")
		node.Fail("OOM no", "SET")
		node.Fail("MASTERDOWN no", Every)
		node.Fail("", "DEL")
		for _, tt := range []struct{ send, want string }{
			{"SET", "OOM"}, {"ZADD", "READONLY"}, {"GET", "MASTERDOWN"}, {"DEL", "ERR"}, // ERR: it has no arguments
		} {
			var refusal *driver.ServerError
			if err := ask(t, node, tt.send).Err(); !errors.As(err, &refusal) || refusal.Code != tt.want {
				t.Errorf("%s = %v, want %s", tt.send, err, tt.want)
			}
		}
	})
}
