package server

import (
	"errors"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/internal/redisserver"
)

// launch starts an ordinary server for one test.
func launch(t *testing.T, args ...string) *Process {
	t.Helper()
	return launchAs(t, Setup{Args: args})
}

// launchAs starts a server for one test, or skips the test where it cannot run: the
// suite of package integration says in one line that processes did not run.
func launchAs(t *testing.T, setup Setup) *Process {
	t.Helper()
	p, err := setup.Launch()
	if Missing(err) && !Required("processes") {
		t.Skip(err)
	}
	if err != nil {
		t.Fatalf("no server was started: %v", err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Errorf("closing the server: %v", err)
		}
	})
	return p
}

// ask sends one command, which the server must take.
func ask(t *testing.T, p *Process, words ...string) string {
	t.Helper()
	answer, err := p.Do(words...)
	if err != nil {
		t.Fatal(err)
	}
	return answer
}

func TestKillAndStart(t *testing.T) {
	for _, tt := range []struct {
		disk string
		args []string
		want string
	}{
		{"no persistence", nil, ""},
		{"an append-only file", []string{"--appendonly", "yes", "--appendfsync", "always"}, "1"},
	} {
		t.Run(tt.disk, func(t *testing.T) {
			p := launch(t, tt.args...)
			addr := p.Addr()
			ask(t, p, "SET", "k", "1")
			if err := p.Kill(); err != nil {
				t.Fatalf("Kill: %v", err)
			}
			if _, err := p.Do("PING"); !errors.Is(err, syscall.ECONNREFUSED) {
				t.Errorf("a killed server: %v, want connection refused", err)
			}
			if err := p.Start(); err != nil {
				t.Fatalf("Start: %v", err)
			}
			if p.Addr() != addr {
				t.Errorf("the address went from %s to %s", addr, p.Addr())
			}
			if got := ask(t, p, "GET", "k"); got != tt.want {
				t.Errorf("GET after a restart with %s = %q, want %q", tt.disk, got, tt.want)
			}
		})
	}
}

func TestPauseAndContinue(t *testing.T) {
	p := launch(t)
	if err := p.Pause(); err != nil {
		t.Fatalf("Pause: %v", err)
	}
	if got, err := do(t.Context(), p.Addr(), 50*time.Millisecond, "PING"); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("a paused server: PING = %q, %v, want silence", got, err)
	}
	if err := p.Continue(); err != nil {
		t.Fatalf("Continue: %v", err)
	}
	if got := ask(t, p, "PING"); got != "PONG" {
		t.Errorf("a server that goes on: PING = %q", got)
	}
	if err := p.Pause(); err != nil {
		t.Fatalf("Pause: %v", err)
	}
	if err := p.Kill(); err != nil {
		t.Errorf("Kill of a paused server: %v", err)
	}
}

func TestLaunchSaysWhy(t *testing.T) {
	if _, err := Find(); err != nil {
		t.Skip(err)
	}
	_, err := Launch("--no-such-setting", "1")
	if err == nil || !strings.Contains(err.Error(), "no-such-setting") {
		t.Errorf("Launch with a bad setting: %v, want what the server's log says of no-such-setting", err)
	}
}

func TestNoPortIsGivenTwice(t *testing.T) {
	given := map[int]bool{}
	for range 2000 { // of random ports some are the same
		port, err := redisserver.FreePort()
		if err != nil {
			t.Fatal(err)
		}
		if given[port] {
			t.Fatalf("port %d again, after %d others", port, len(given))
		}
		given[port] = true
	}
}
