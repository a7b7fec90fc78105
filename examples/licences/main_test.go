package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
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
func runInBubble(t *testing.T, args ...string) (said string, took time.Duration) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		embedded := redlocktest.StartInBubble(t, 5)
		connect := func(string, []string) ([]driver.Node, error) { return embedded.Drivers(), nil }
		var out bytes.Buffer
		began := time.Now()
		args := append([]string{"--nodes", strings.Join(embedded.Addrs(), ",")}, args...)
		if err := run(t.Context(), &out, args, connect); err != nil {
			t.Fatalf("run %q = %v, after:\n%s", args, err, &out)
		}
		_, said, _ = strings.Cut(out.String(), "\n")
		took = time.Since(began)
	})
	return said, took
}

func TestNobodySharesALicenceUnderTheSemaphore(t *testing.T) {
	for _, licences := range []int{1, 3, 8} {
		said, took := runInBubble(t, "--licences", fmt.Sprint(licences), "--job", "1s")
		if !strings.Contains(said, "They did 80 jobs, each with a licence of its own.") {
			t.Errorf("with %d licences run says %q, want each its own", licences, said)
		}
		if least := 80 * time.Second / time.Duration(licences); took < least || took > least*5/4 {
			t.Errorf("80 jobs of 1s with %d licences took %v, want them all to be in use, for %v", licences, took, least)
		}
	}
}

func TestWithoutTheSemaphoreWorkersShareLicences(t *testing.T) {
	said, _ := runInBubble(t, "--no-semaphore", "--jobs", "1")
	// In virtual time all have looked before the first of them takes it.
	if want := "They did 8 jobs, and 7 of them began with a licence that was in use."; !strings.Contains(said, want) {
		t.Errorf("where eight look at once, run says %q, want %q", said, want)
	}
}

func TestLicencesAreKeptWithEachClient(t *testing.T) {
	for _, client := range []string{"goredis", "redigo", "rueidis"} {
		var out bytes.Buffer
		err := run(t.Context(), &out, []string{"--client", client, "--workers", "4", "--licences", "2", "--jobs", "2", "--job", "1ms"}, nodes.Connect)
		if err != nil || !strings.Contains(out.String(), "each with a licence of its own") {
			t.Errorf("%s: run = %v, and prints\n%swant each its own", client, err, &out)
		}
	}
}

func TestTheProgramFailsWhereItsStoryIsNotTrue(t *testing.T) {
	for _, tt := range []struct {
		shared, noSemaphore bool
		want                string // "": no error
	}{
		{shared: false, noSemaphore: false},
		{shared: true, noSemaphore: false, want: "given one slot twice"},
		{shared: true, noSemaphore: true},
		{shared: false, noSemaphore: true, want: "by luck"},
	} {
		p := newPool(2)
		p.use(0)
		if !tt.shared {
			p.leave(0)
		}
		p.use(0)
		err := p.judge(io.Discard, tt.noSemaphore)
		if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("shared=%t, --no-semaphore=%t: judge = %v, want %q", tt.shared, tt.noSemaphore, err, tt.want)
		}
	}
}

func TestAnInterruptEndsAllWorkers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		interrupted := errors.New("interrupted")
		ctx, cancel := context.WithCancelCause(t.Context())
		embedded := redlocktest.StartInBubble(t, 3)
		time.AfterFunc(time.Second, func() { cancel(interrupted) })
		connect := func(string, []string) ([]driver.Node, error) { return embedded.Drivers(), nil }
		err := run(ctx, io.Discard, []string{"--nodes", "in the bubble", "--workers", "2", "--licences", "1", "--job", "1h"}, connect)
		for _, want := range []string{"worker 1: ", "worker 2: ", "interrupted"} {
			if !errors.Is(err, interrupted) || !strings.Contains(err.Error(), want) {
				t.Errorf("run = %v, want an error with %q", err, want)
			}
		}
		for _, node := range embedded {
			if held, found := node.Get("ql:slot:{" + key + "}0"); found {
				t.Errorf("node %s still has %q in slot 0 after the interrupt", node.Addr(), held)
			}
		}
	})
}

func TestNoJobIsDoneWithoutAQuorum(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		embedded := redlocktest.StartInBubble(t, 3)
		embedded[1:].Close()
		w := worker{
			connect: func() ([]driver.Node, error) { return embedded.Drivers(), nil },
			pool:    newPool(1), jobs: 1,
		}
		if err := together(t.Context(), 2, w); !errors.Is(err, redlock.ErrNoQuorum) || w.pool.jobs > 0 {
			t.Errorf("with two of three nodes down: %v, and %d jobs were done, want no quorum and none", err, w.pool.jobs)
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
		{[]string{"--licences", "0"}, "at least 1"},
		{[]string{"--licences", "129"}, "at most 128"},
		{[]string{"--job", "-1s"}, "at least 0"},
		{[]string{"--client", "redis"}, `--client "redis": want goredis, redigo or rueidis`},
		{[]string{"--nodes", "localhost:6379"}, "node 1"},
	}
	for _, tt := range tests {
		if err := run(t.Context(), io.Discard, tt.args, nodes.Connect); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("run %q = %v, want an error with %q", tt.args, err, tt.want)
		}
	}
	var out bytes.Buffer
	if err := run(t.Context(), &out, []string{"--help"}, nodes.Connect); err != nil || !strings.Contains(out.String(), "-no-semaphore") {
		t.Errorf("run --help = %v, and prints\n%swant the flags", err, &out)
	}
}
