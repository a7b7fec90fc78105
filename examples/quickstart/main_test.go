package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumlock/quorumlock/examples/internal/programtest"
	"github.com/quorumlock/quorumlock/redlock"
	"github.com/quorumlock/quorumlock/redlocktest"
	"github.com/quorumlock/quorumlock/test/leak"
)

func TestMain(m *testing.M) { leak.Main(m) }

func TestTheJobIsDoneAndTheKeyGivenBack(t *testing.T) {
	for _, down := range []int{0, 2} { // who is down is reported, and nothing else changes
		told, err := programtest.Tells(t, down, run,
			"The job orders:42 has 3 steps, .*",
			"Locked: for 9.*s nobody else starts it.",
			"Step 1 of 3 is done.", "Extended: nobody else starts it for another 9.*s.",
			"Step 2 of 3 is done.", "Extended: nobody else starts it for another 9.*s.",
			"Step 3 of 3 is done.",
			"Released: .*")
		if err != nil || strings.Count(told, "node down: ") != down || strings.Contains(told, "node up") {
			t.Errorf("with %d of five nodes down run = %v, after\n%s", down, err, told)
		}
	}
}

// What may happen while the job prints such a line, and what is said then.
func TestTheJobEndsWithTheLockAndNotBefore(t *testing.T) {
	for _, tt := range []struct {
		during string
		happen func(nodes redlocktest.Nodes, interrupt func())
		is     error
		says   string
	}{
		{"", func(nodes redlocktest.Nodes, _ func()) { nodes.Take(key, 0) }, redlock.ErrTaken, "somebody else is doing this job"},
		{"", func(nodes redlocktest.Nodes, _ func()) { nodes[2:].Close() }, redlock.ErrNoQuorum, "until more nodes answer"},
		{"Locked: ", func(_ redlocktest.Nodes, interrupt func()) { interrupt() }, context.Canceled, "stopped in step 1"},
		{"Step 1", func(nodes redlocktest.Nodes, _ func()) { nodes.Take(key, 0) }, redlock.ErrLost, "stopped after step 1"},
		{"Step 1", func(nodes redlocktest.Nodes, _ func()) { // an extension that fails loses nothing yet
			nodes[2:].Hang()
			time.AfterFunc(*step, nodes[2:].Resume)
		}, nil, "still locked for"},
		{"Step 3", func(nodes redlocktest.Nodes, _ func()) { nodes[2:].Close() }, redlock.ErrNoQuorum, "release"},
	} {
		synctest.Test(t, func(t *testing.T) {
			nodes := redlocktest.StartInBubble(t, 5)
			ctx, interrupt := context.WithCancel(t.Context())
			told, err := programtest.Play(ctx, nodes, tt.during, func() { tt.happen(nodes, interrupt) }, run)
			if !errors.Is(err, tt.is) || !strings.Contains(told+fmt.Sprint(err), tt.says) {
				t.Errorf("run = %v, want %v and %q, after\n%s", err, tt.is, tt.says, told)
			}
			for _, node := range nodes[:2] {
				if held, found := node.Get(key); found && held != "somebody else" {
					t.Errorf("node %s still has the key", node.Addr())
				}
			}
		})
	}
}
