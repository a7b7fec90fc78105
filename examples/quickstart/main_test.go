package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/examples/internal/programtest"
	"github.com/quorumlock/quorumlock/redlock"
	"github.com/quorumlock/quorumlock/redlocktest"
)

var clients = []string{"goredis", "redigo", "rueidis"}

// over returns the flags for the nodes. They have time, for tests share a machine.
func over(client string, nodes redlocktest.Nodes, more ...string) []string {
	var urls []string
	for _, addr := range nodes.Addrs() {
		urls = append(urls, "redis://"+addr)
	}
	return append([]string{"--client", client, "--nodes", strings.Join(urls, ", "), "--step", "1ms", "--patience", "2s"}, more...)
}

func TestTheJobIsDoneAndTheKeyGivenBack(t *testing.T) {
	for _, client := range clients {
		nodes := redlocktest.Start(t, 5)
		for _, args := range [][]string{
			{"--client", client, "--step", "1ms", "--patience", "2s"}, // embedded nodes of its own
			over(client, nodes, "--key", "invoices"),
		} {
			var out bytes.Buffer
			if err := run(t.Context(), &out, args); err != nil {
				t.Errorf("run %q = %v, after:\n%s", args, err, &out)
			}
			from := 0
			for _, want := range []string{": locked for 9.", ": step 1 of 3 done", ": locked for another 9.", ": step 3 of 3 done", ": released"} {
				at := strings.Index(out.String()[from:], want)
				if at < 0 {
					t.Errorf("run %q does not print %q in its place, but:\n%s", args, want, &out)
					break
				}
				from += at
			}
		}
		for _, node := range nodes {
			if node.Count("SET") != 2 || len(node.Keys()) > 0 {
				t.Errorf("%s: node %s was sent %v and keeps %q, want two SETs (one asks what the node can do) and no key left", client, node.Addr(), node.Counts(), node.Keys())
			}
		}
	}
}

func TestWhyTheJobIsNotDone(t *testing.T) {
	tests := []struct {
		name   string
		ail    func(redlocktest.Nodes)
		is     error
		advice string
	}{
		{
			"somebody else has the lock", func(nodes redlocktest.Nodes) {
				for _, node := range nodes {
					node.Set("orders:42", "theirs", 0)
				}
			},
			redlock.ErrTaken, "somebody else is doing this job",
		},
		{
			"three of five nodes are down", func(nodes redlocktest.Nodes) { nodes[2:].Close() },
			redlock.ErrNoQuorum, "until more nodes answer",
		},
	}
	for _, client := range clients {
		for _, tt := range tests {
			nodes := redlocktest.Start(t, 5)
			tt.ail(nodes)
			var out bytes.Buffer
			err := run(t.Context(), &out, over(client, nodes, "--wait", "0s"))
			if !errors.Is(err, tt.is) || !strings.Contains(err.Error(), tt.advice) {
				t.Fatalf("%s, %s: run = %v, want %v and %q", client, tt.name, err, tt.is, tt.advice)
			}
			for _, addr := range nodes.Addrs() {
				if !strings.Contains(err.Error(), addr) {
					t.Errorf("%s, %s: the error does not name node %s: %v", client, tt.name, addr, err)
				}
			}
		}
	}
}

func TestAMinorityThatIsDownIsReported(t *testing.T) {
	for _, client := range clients {
		nodes := redlocktest.Start(t, 5)
		nodes[4].Stop()
		var out bytes.Buffer
		err := run(t.Context(), &out, over(client, nodes))
		if err != nil || !strings.Contains(out.String(), "node down: "+nodes[4].Addr()) {
			t.Errorf("%s: with one of five nodes down run = %v, and prints\n%swant the node that is down", client, err, &out)
		}
	}
}

func TestAnInterruptEndsTheJobAndGivesTheKeyBack(t *testing.T) {
	for _, client := range clients {
		nodes := redlocktest.Start(t, 5)
		interrupted := errors.New("interrupted")
		ctx, cancel := context.WithCancelCause(t.Context())
		out := &programtest.Trigger{On: "locked for", Do: func() { cancel(interrupted) }}
		err := run(ctx, out, over(client, nodes, "--step", "1h"))
		if !errors.Is(err, interrupted) || !strings.Contains(err.Error(), "stopped in step 1") {
			t.Errorf("%s: run = %v, want it stopped in step 1 by the interrupt", client, err)
		}
		for _, node := range nodes {
			if keys := node.Keys(); len(keys) > 0 {
				t.Errorf("%s: node %s still has %q after the interrupt", client, node.Addr(), keys)
			}
		}
	}
}

func TestALockThatIsLostStopsTheJob(t *testing.T) {
	nodes := redlocktest.Start(t, 5)
	out := &programtest.Trigger{On: "step 1 of 3 done", Do: func() {
		for _, node := range nodes {
			node.Set("orders:42", "theirs", time.Minute)
		}
	}}
	err := run(t.Context(), out, over("goredis", nodes))
	if !errors.Is(err, redlock.ErrLost) || !strings.Contains(err.Error(), "stopped after step 1") {
		t.Errorf("run = %v, want the lock lost after step 1", err)
	}
}

func TestAnExtensionThatFailsLosesNothingBeforeTheLeaseEnds(t *testing.T) {
	nodes := redlocktest.Start(t, 5)
	var out bytes.Buffer
	err := run(t.Context(), io.MultiWriter(&out, &programtest.Trigger{On: "step 1 of 3 done", Do: nodes[2:].Close}), over("goredis", nodes))
	if !errors.Is(err, redlock.ErrNoQuorum) || !strings.Contains(err.Error(), "release") {
		t.Errorf("run = %v, want a release without a quorum", err)
	}
	for _, want := range []string{": still locked for 9.", "no quorum", ": step 3 of 3 done"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("with three of five nodes down after step 1, %q is missing in\n%s", want, &out)
		}
	}
}

func TestFlagsThatAreWrong(t *testing.T) {
	tests := []struct {
		args []string
		want string
	}{
		{[]string{"--client", "redis"}, `--client "redis": want goredis, redigo or rueidis`},
		{[]string{"--bogus"}, "--help"},
		{[]string{"redis://10.0.0.1"}, `"redis://10.0.0.1" is not part of a flag`},
		{[]string{"--nodes", "localhost:6379"}, "node 1"},
		{[]string{"--nodes", "redis://10.0.0.1,redis://10.0.0.1"}, "10.0.0.1"},
		{[]string{"--patience", "1h"}, "NodeTimeout"},
	}
	for _, tt := range tests {
		var out bytes.Buffer
		err := run(t.Context(), &out, tt.args)
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("run %q = %v, want an error with %q", tt.args, err, tt.want)
		}
	}
	var out bytes.Buffer
	if err := run(t.Context(), &out, []string{"--help"}); err != nil || !slices.Contains(strings.Fields(out.String()), "-client") {
		t.Errorf("run --help = %v, and prints\n%swant the flags", err, &out)
	}
}
