package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/examples/internal/nodes"
	"github.com/quorumlock/quorumlock/redlock"
	"github.com/quorumlock/quorumlock/redlocktest"
)

// runInBubble runs the program in virtual time, over embedded nodes without sockets.
// In the bubble, time stands still until everybody waits: without the lock, all have
// read before the first of them writes.
func runInBubble(t *testing.T, args ...string) (calls, busiest int, said string) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		embedded := redlocktest.StartInBubble(t, 5)
		connect := func(string, []string) ([]driver.Node, error) { return embedded.Drivers(), nil }
		var out bytes.Buffer
		args := append([]string{"--nodes", strings.Join(embedded.Addrs(), ",")}, args...)
		if err := run(t.Context(), &out, args, connect); err != nil {
			t.Fatalf("run %q = %v, after:\n%s", args, err, &out)
		}
		_, last, _ := strings.Cut(out.String(), "\n")
		if _, err := fmt.Sscanf(last, "They made %d calls, and %d in the busiest second: ", &calls, &busiest); err != nil {
			t.Fatalf("run %q does not print how many calls there were, but\n%s", args, &out)
		}
		said = last
	})
	return calls, busiest, said
}

func TestTheLimitIsKeptUnderTheLock(t *testing.T) {
	for _, limit := range []int{1, 10} {
		calls, busiest, said := runInBubble(t, "--limit", fmt.Sprint(limit))
		if calls < 2*limit || busiest != limit || !strings.Contains(said, "the limit was kept") {
			t.Errorf("with a limit of %d calls a second, 3 seconds have %d, and the busiest of them %d (%s); want it used up and no more", limit, calls, busiest, said)
		}
	}
}

func TestWithoutTheLockAllWhoReadTheSameCall(t *testing.T) {
	_, busiest, said := runInBubble(t, "--no-lock", "--services", "5", "--limit", "3")
	if want := fmt.Sprintf("%d too many", busiest-3); busiest < 5 || !strings.Contains(said, want) {
		t.Errorf("where five services read an empty window at once, run counts %d calls in the busiest second and says %q, want at least 5 and %q", busiest, said, want)
	}
}

func TestTheLimitIsKeptWithEachClient(t *testing.T) {
	for _, client := range []string{"goredis", "redigo", "rueidis"} {
		var out bytes.Buffer
		err := run(t.Context(), &out, []string{"--client", client, "--services", "3", "--limit", "2", "--for", "100ms"}, nodes.Connect)
		if err != nil || !strings.Contains(out.String(), "the limit was kept") {
			t.Errorf("%s: run = %v, and prints\n%swant the limit kept", client, err, &out)
		}
	}
}

func TestACallCountsForOneSecond(t *testing.T) {
	w := window{file: filepath.Join(t.TempDir(), "window"), limit: 2}
	began := time.Now().Round(0)
	for _, tt := range []struct{ at, wait time.Duration }{
		{at: 0, wait: 0},
		{at: 400 * time.Millisecond, wait: 0},
		{at: 500 * time.Millisecond, wait: 500 * time.Millisecond},
		{at: time.Second - 1, wait: 1},
		{at: time.Second, wait: 0}, // the first has left the window
		{at: time.Second, wait: 400 * time.Millisecond},
		{at: 3 * time.Second, wait: 0},
		{at: 3 * time.Second, wait: 0},
		{at: 3 * time.Second, wait: time.Second},
	} {
		if wait, err := w.take(t.Context(), began.Add(tt.at), "test"); wait != tt.wait || err != nil {
			t.Errorf("after %v, take = %v, %v, want %v", tt.at, wait, err, tt.wait)
		}
	}
}

func TestTheProgramFailsWhereItsStoryIsNotTrue(t *testing.T) {
	tests := []struct {
		limit  int
		noLock bool
		want   string // "": no error
	}{
		{limit: 3, noLock: false, want: ""},
		{limit: 2, noLock: false, want: "let two in at once"},
		{limit: 2, noLock: true, want: ""},
		{limit: 3, noLock: true, want: "by luck"},
	}
	var j journal
	for _, ms := range []int{1900, 0, 900, 1700, 1000} { // 0 and 1000 are a second apart, and so are 900 and 1900
		j.add(time.Time{}.Add(time.Duration(ms) * time.Millisecond))
	}
	for _, tt := range tests {
		err := j.judge(io.Discard, tt.limit, tt.noLock)
		if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("a limit of %d, --no-lock=%t: judge = %v, want %q", tt.limit, tt.noLock, err, tt.want)
		}
	}
}

func TestAnInterruptEndsAllServices(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		interrupted := errors.New("interrupted")
		ctx, cancel := context.WithCancelCause(t.Context())
		embedded := redlocktest.StartInBubble(t, 3)
		time.AfterFunc(time.Second, func() { cancel(interrupted) })
		connect := func(string, []string) ([]driver.Node, error) { return embedded.Drivers(), nil }
		err := run(ctx, io.Discard, []string{"--nodes", "in the bubble", "--services", "2", "--for", "1h"}, connect)
		for _, want := range []string{"service 1: ", "service 2: ", "interrupted"} {
			if !errors.Is(err, interrupted) || !strings.Contains(err.Error(), want) {
				t.Errorf("run = %v, want an error with %q", err, want)
			}
		}
		for _, node := range embedded {
			if keys := node.Keys(); len(keys) > 0 {
				t.Errorf("node %s still has %q after the interrupt", node.Addr(), keys)
			}
		}
	})
}

func TestNoCallIsMadeWithoutAQuorum(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		embedded := redlocktest.StartInBubble(t, 3)
		embedded[1:].Close()
		var made journal
		s := service{
			connect: func() ([]driver.Node, error) { return embedded.Drivers(), nil },
			window:  window{file: filepath.Join(t.TempDir(), "window"), limit: 1},
			made:    &made,
		}
		err := together(t.Context(), 2, s, time.Now().Add(time.Hour))
		if !errors.Is(err, redlock.ErrNoQuorum) || len(made.calls) > 0 {
			t.Errorf("with two of three nodes down: %v, and %d calls were made, want no quorum and none", err, len(made.calls))
		}
	})
}

func TestFlagsThatAreWrong(t *testing.T) {
	tests := []struct {
		args []string
		want string
	}{
		{[]string{"--bogus"}, "--help"},
		{[]string{"5"}, `"5" is not part of a flag`},
		{[]string{"--limit", "0"}, "at least 1"},
		{[]string{"--client", "redis"}, `--client "redis": want goredis, redigo or rueidis`},
		{[]string{"--nodes", "localhost:6379"}, "node 1"},
	}
	for _, tt := range tests {
		if err := run(t.Context(), io.Discard, tt.args, nodes.Connect); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("run %q = %v, want an error with %q", tt.args, err, tt.want)
		}
	}
	var out bytes.Buffer
	if err := run(t.Context(), &out, []string{"--help"}, nodes.Connect); err != nil || !strings.Contains(out.String(), "-no-lock") {
		t.Errorf("run --help = %v, and prints\n%swant the flags", err, &out)
	}
}
