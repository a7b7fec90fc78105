package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/quorumlock/quorumlock/examples/internal/programtest"
	"github.com/quorumlock/quorumlock/fence"
	"github.com/quorumlock/quorumlock/internal/leak"
	"github.com/quorumlock/quorumlock/redlocktest"
)

// TestMain is the whole program in the processes that the tests start: the program
// starts itself, and here that is this binary.
func TestMain(m *testing.M) {
	if len(os.Args) < 2 || os.Args[1] != "--account" {
		leak.Main(m)
	}
	ctx, _ := signal.NotifyContext(context.Background(), os.Interrupt)
	if err := run(ctx, os.Stdout, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "fencing:", err)
		os.Exit(1)
	}
}

// refusal is what the late writer says: its own fence, and the one that it met.
var refusal = regexp.MustCompile(`first: wants to write 110, and is refused: its fence (\d+) meets (\d+)\n`)

func TestTheLateWriteIsRefused(t *testing.T) {
	for _, store := range []string{"sqlite", "redis"} {
		t.Run(store, func(t *testing.T) {
			var out bytes.Buffer
			err := run(t.Context(), &out, []string{"--store", store})
			if err != nil {
				t.Fatalf("run = %v, after\n%s", err, &out)
			}
			inOrder(t, out.String(),
				"first: reads 100\n", "first: "+ready, "The first is stopped",
				"second: has the lock after", "second: reads 100\n", "second: has written 150\n", "The first goes on",
				"first: wants to write 110", "first: is told at its release: lock lost", "The account has 150:")
			met := refusal.FindStringSubmatch(out.String())
			if met == nil {
				t.Fatalf("nobody says which fences met:\n%s", &out)
			}
			for i, worker := range []string{"first", "second"} {
				if !regexp.MustCompile(worker + ": has the lock after .*, and the fence " + met[i+1] + "\n").MatchString(out.String()) {
					t.Errorf("the %s worker's fence is not %s:\n%s", worker, met[i+1], &out)
				}
			}
			if offered, last := number(t, met[1]), number(t, met[2]); offered <= 0 || offered >= last {
				t.Errorf("the fence %d met %d, want it to meet a greater one", offered, last)
			}
		})
	}
}

func TestWithoutFencesThePaymentBetweenIsLost(t *testing.T) {
	for _, store := range []string{"sqlite", "redis"} {
		t.Run(store, func(t *testing.T) {
			var out bytes.Buffer
			err := run(t.Context(), &out, []string{"--store", store, "--no-fence"})
			if err != nil {
				t.Fatalf("run = %v, after\n%s", err, &out)
			}
			inOrder(t, out.String(),
				"and no fence\n", "first: "+ready, "The first is stopped", "second: has written 150\n", "The first goes on",
				"first: has written 110\n", "first: is told at its release: lock lost", "The account has 110: the 50 of the second are lost")
		})
	}
}

// inOrder checks that the text has all of these, one after the other.
func inOrder(t *testing.T, text string, want ...string) {
	t.Helper()
	rest := text
	for _, w := range want {
		_, after, found := strings.Cut(rest, w)
		if !found {
			t.Fatalf("%q is missing, or not in its place:\n%s", w, text)
		}
		rest = after
	}
}

// urlsOf returns what --nodes takes.
func urlsOf(nodes redlocktest.Nodes) string {
	return "redis://" + strings.Join(nodes.Addrs(), ",redis://")
}

func number(t *testing.T, text string) int64 {
	t.Helper()
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// The numbers are next to one another, and as great as fences get: the last that floats,
// which Lua has, tell apart.
func TestStores(t *testing.T) {
	const one, two, three = 1<<53 - 4, 1<<53 - 3, 1<<53 - 2
	for _, kind := range []string{"sqlite", "redis"} {
		t.Run(kind, func(t *testing.T) {
			account, err := open(kind, filepath.Join(t.TempDir(), "account"), []string{urlsOf(redlocktest.Start(t, 1))})
			if err != nil {
				t.Fatal(err)
			}
			defer account.Close()
			ctx := t.Context()
			if err := account.create(ctx, 100); err != nil {
				t.Fatal(err)
			}
			read := func(number int64) error {
				_, err := account.read(ctx, number)
				return err
			}
			check := func(what string, err error, met int64, balance int) {
				t.Helper()
				var stale *fence.StaleError
				switch {
				case met == 0 && err != nil:
					t.Errorf("%s = %v, want it accepted", what, err)
				case met != 0 && (!errors.As(err, &stale) || stale.Last != met):
					t.Errorf("%s = %v, want it refused by %d", what, err, met)
				}
				if found, err := account.balance(ctx); found != balance || err != nil {
					t.Errorf("after %s the balance is %d (%v), want %d", what, found, err, balance)
				}
			}
			check("a write with the first fence", account.write(ctx, 110, one), 0, 110)
			check("another write with it", account.write(ctx, 120, one), 0, 120)
			check("a read with the second", read(two), 0, 120)
			check("a write with the first after the second has read", account.write(ctx, 130, one), two, 120)
			check("a read with the first", read(one), two, 120)
			check("a write with the third", account.write(ctx, 140, three), 0, 140)
			check("a write with the second", account.write(ctx, 150, two), three, 140)
		})
	}
}

func TestNothingIsLeftInRedis(t *testing.T) {
	servers := redlocktest.Start(t, 3)
	if err := run(t.Context(), io.Discard, []string{"--store", "redis", "--nodes", urlsOf(servers)}); err != nil {
		t.Fatal(err)
	}
	for _, server := range servers {
		for _, key := range server.Keys() {
			if !strings.HasPrefix(key, "ql:fences:") { // the counter stays, or the order would not outlive the lock
				t.Errorf("node %s still has %q", server.Addr(), key)
			}
		}
	}
}

func TestAnInterruptEndsAProcessThatIsStopped(t *testing.T) {
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	if err := run(ctx, &programtest.Trigger{On: "The first is stopped", Do: interrupt}, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("run = %v, want %v", err, context.Canceled) // and that it returns: it waits for its processes
	}
}

func TestTheProgramFailsWhereItsStoryIsNotTrue(t *testing.T) {
	tests := []struct {
		found   int
		noFence bool
		want    string // "": no error
	}{
		{found: 150, noFence: false, want: ""},
		{found: 110, noFence: false, want: "have not kept"},
		{found: 100, noFence: false, want: "have not kept"},
		{found: 110, noFence: true, want: ""},
		{found: 150, noFence: true, want: "were expected"},
	}
	for _, tt := range tests {
		err := parent{out: io.Discard, noFence: tt.noFence}.judge(tt.found)
		if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("the account has %d, --no-fence=%t: judge = %v, want %q", tt.found, tt.noFence, err, tt.want)
		}
	}
}

func TestFlagsThatAreWrong(t *testing.T) {
	tests := []struct {
		args []string
		want string
	}{
		{[]string{"--bogus"}, "--help"},
		{[]string{"5"}, `"5" is not part of a flag`},
		{[]string{"--store", "postgres"}, `--store "postgres": want sqlite or redis`},
		{[]string{"--account", "a"}, "--nodes as well"},
		{[]string{"--client", "redis"}, `the first: exit status 1: fencing: --client "redis": want goredis, redigo or rueidis`},
		{[]string{"--ttl", "1us"}, "TTL"},
		{[]string{"--store", "redis", "--nodes", "localhost:6379"}, "redis: invalid URL scheme"},
	}
	for _, tt := range tests {
		if err := run(t.Context(), io.Discard, tt.args); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("run %q = %v, want an error with %q", tt.args, err, tt.want)
		}
	}
	var out bytes.Buffer
	if err := run(t.Context(), &out, []string{"--help"}); err != nil || !strings.Contains(out.String(), "-no-fence") {
		t.Errorf("run --help = %v, and prints\n%swant the flags", err, &out)
	}
}
