package server

import (
	"bufio"
	"context"
	"errors"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"
)

// launch starts a server for one test, or skips the test where none is installed:
// the suite of package integration says in one line that processes did not run.
func launch(t *testing.T, args ...string) *Process {
	t.Helper()
	p, err := Launch(args...)
	if errors.Is(err, ErrNoServer) && !strings.Contains(os.Getenv("QUORUMLOCK_REQUIRE"), "processes") {
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

// say sends one line and returns the first line of the answer.
func say(p *Process, line string, wait time.Duration) (string, error) {
	conn, err := new(net.Dialer).DialContext(context.Background(), "tcp", p.Addr())
	if err != nil {
		return "", err
	}
	defer func() { _ = conn.Close() }()
	if err := conn.SetDeadline(time.Now().Add(wait)); err != nil {
		return "", err
	}
	if _, err := conn.Write([]byte(line + "\r\n")); err != nil {
		return "", err
	}
	return bufio.NewReader(conn).ReadString('\n')
}

func TestKillAndStart(t *testing.T) {
	for _, tt := range []struct {
		disk string
		args []string
		want string
	}{
		{"no persistence", nil, "$-1\r\n"},
		{"an append-only file", []string{"--appendonly", "yes", "--appendfsync", "always"}, "$1\r\n"},
	} {
		t.Run(tt.disk, func(t *testing.T) {
			p := launch(t, tt.args...)
			addr := p.Addr()
			if got, err := say(p, "SET k 1", time.Second); got != "+OK\r\n" {
				t.Fatalf("SET = %q, %v", got, err)
			}
			if err := p.Kill(); err != nil {
				t.Fatalf("Kill: %v", err)
			}
			if _, err := say(p, "PING", time.Second); !errors.Is(err, syscall.ECONNREFUSED) {
				t.Errorf("a killed server: %v, want connection refused", err)
			}
			if err := p.Start(); err != nil {
				t.Fatalf("Start: %v", err)
			}
			if p.Addr() != addr {
				t.Errorf("the address went from %s to %s", addr, p.Addr())
			}
			if got, err := say(p, "GET k", time.Second); got != tt.want {
				t.Errorf("GET after a restart with %s = %q, %v, want %q", tt.disk, got, err, tt.want)
			}
		})
	}
}

func TestPauseAndContinue(t *testing.T) {
	p := launch(t)
	if err := p.Pause(); err != nil {
		t.Fatalf("Pause: %v", err)
	}
	if got, err := say(p, "PING", 50*time.Millisecond); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("a paused server: PING = %q, %v, want silence", got, err)
	}
	if err := p.Continue(); err != nil {
		t.Fatalf("Continue: %v", err)
	}
	if got, err := say(p, "PING", 5*time.Second); got != "+PONG\r\n" {
		t.Errorf("a server that goes on: PING = %q, %v", got, err)
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
