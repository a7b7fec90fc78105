package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/quorumlock/quorumlock/internal/leak"
	"github.com/quorumlock/quorumlock/redlock"
	"github.com/quorumlock/quorumlock/redlocktest"
)

// gateVar is where a process that the tests have started finds the gate.
const gateVar = "COUNTER_TEST_GATE"

// TestMain is the whole program in the processes that the tests start: the program
// starts itself, and here that is this binary.
func TestMain(m *testing.M) {
	if len(os.Args) < 2 || os.Args[1] != "--file" {
		leak.Main(m)
	}
	between := compute
	if os.Getenv(gateVar) != "" {
		between = stop
	}
	ctx, _ := signal.NotifyContext(context.Background(), os.Interrupt)
	if err := run(ctx, os.Stdout, os.Args[1:], between); err != nil {
		fmt.Fprintln(os.Stderr, "counter:", err)
		os.Exit(1)
	}
}

// stop waits at the gate until it opens.
func stop(ctx context.Context) error {
	conn, err := new(net.Dialer).DialContext(context.WithoutCancel(ctx), "tcp", os.Getenv(gateVar))
	if err != nil {
		return err
	}
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	_, _ = io.Copy(io.Discard, conn) // to the end, which is all that is said
	return context.Cause(ctx)
}

// gate stops everybody who has read the number and not yet written it. Once so many
// have, it calls reached and lets them go on; those who come later stay.
func gate(t *testing.T, waiting int, reached func()) {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv(gateVar, listener.Addr().String())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for range waiting {
			conn, err := listener.Accept()
			if err != nil {
				return // the test is over
			}
			defer func() { _ = conn.Close() }()
		}
		reached()
	}()
	t.Cleanup(func() {
		_ = listener.Close()
		<-ended
	})
}

// urlsOf returns what --nodes takes.
func urlsOf(nodes redlocktest.Nodes) string {
	return "redis://" + strings.Join(nodes.Addrs(), ",redis://")
}

// numberIn returns a number in a new file.
func numberIn(t *testing.T, value int) number {
	t.Helper()
	n := number(filepath.Join(t.TempDir(), "number"))
	if err := n.write(value, "test"); err != nil {
		t.Fatal(err)
	}
	return n
}

func TestNoAdditionIsLostUnderTheLock(t *testing.T) {
	for _, client := range []string{"goredis", "redigo", "rueidis"} {
		var out bytes.Buffer
		err := run(t.Context(), &out, []string{"--client", client, "--processes", "3", "--goroutines", "3", "--times", "3"}, compute)
		if want := "27 additions were made, and the number is 27: 0 were lost."; err != nil || !strings.Contains(out.String(), want) {
			t.Errorf("%s: run = %v, and prints\n%swant %q", client, err, &out, want)
		}
	}
}

func TestWithoutTheLockAllButOneOfThoseWhoReadTheSameIsLost(t *testing.T) {
	gate(t, 6, func() {})
	var out bytes.Buffer
	err := run(t.Context(), &out, []string{"--no-lock", "--processes", "3", "--goroutines", "2", "--times", "1"}, compute)
	if want := "6 additions were made, and the number is 1: 5 were lost."; err != nil || !strings.Contains(out.String(), want) {
		t.Errorf("where six read 0 before one of them writes, run = %v, and prints\n%swant %q", err, &out, want)
	}
}

func TestTheProgramFailsWhereItsStoryIsNotTrue(t *testing.T) {
	tests := []struct {
		found  int
		noLock bool
		want   string // "": no error
	}{
		{found: 6, noLock: false, want: ""},
		{found: 5, noLock: false, want: "let two in at once"},
		{found: 5, noLock: true, want: ""},
		{found: 6, noLock: true, want: "by luck"},
	}
	for _, tt := range tests {
		p := parent{out: io.Discard, processes: 2}
		err := p.judge(adder{number: numberIn(t, tt.found), goroutines: 1, times: 3, noLock: tt.noLock})
		if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("6 additions, the number is %d, --no-lock=%t: judge = %v, want %q", tt.found, tt.noLock, err, tt.want)
		}
	}
}

func TestAProcessThatFailsIsReported(t *testing.T) {
	err := run(t.Context(), io.Discard, []string{"--client", "redis", "--processes", "2"}, compute)
	for _, want := range []string{"process 1", "process 2", `--client "redis": want goredis, redigo or rueidis`} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("run with a client that is not there = %v, want an error with %q", err, want)
		}
	}
}

func TestAnInterruptEndsAllProcessesAndGivesTheKeyBack(t *testing.T) {
	nodes := redlocktest.Start(t, 3)
	ctx, interrupt := context.WithCancel(t.Context())
	ended := make(chan struct{})
	gate(t, 1, func() {
		interrupt() // where one has the lock, and keeps it
		<-ended
	})
	err := run(ctx, io.Discard, []string{"--nodes", urlsOf(nodes), "--processes", "2", "--goroutines", "1"}, compute)
	close(ended)
	for _, want := range []string{"process 1: ", "process 2: ", "counter: interrupt"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("run = %v, want an error with %q", err, want)
		}
	}
	for _, node := range nodes {
		if keys := node.Keys(); len(keys) > 0 {
			t.Errorf("node %s still has %q after the interrupt", node.Addr(), keys)
		}
	}
}

func TestNothingIsWrittenOnceTheLockIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nodes := redlocktest.StartInBubble(t, 3)
		locker, err := redlock.New(nodes.Drivers())
		if err != nil {
			t.Fatal(err)
		}
		defer locker.Close()
		a := adder{number: numberIn(t, 41), times: 1, between: func(ctx context.Context) error {
			nodes.Close() // so that the lease is not renewed
			<-ctx.Done()
			return compute(ctx)
		}}
		if err := a.add(t.Context(), locker, "test"); !errors.Is(err, redlock.ErrLost) {
			t.Errorf("add = %v, want the lock lost", err)
		}
		if value, err := a.number.read(); value != 41 || err != nil {
			t.Errorf("the number is %d (%v) after the lock was lost, want 41 as before", value, err)
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
		{[]string{"--times", "0"}, "at least 1"},
		{[]string{"--file", "number"}, "--nodes as well"},
		{[]string{"--nodes", "localhost:6379", "--processes", "1"}, "node 1"},
	}
	for _, tt := range tests {
		if err := run(t.Context(), io.Discard, tt.args, compute); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("run %q = %v, want an error with %q", tt.args, err, tt.want)
		}
	}
	var out bytes.Buffer
	if err := run(t.Context(), &out, []string{"--help"}, compute); err != nil || !strings.Contains(out.String(), "-no-lock") {
		t.Errorf("run --help = %v, and prints\n%swant the flags", err, &out)
	}
}
