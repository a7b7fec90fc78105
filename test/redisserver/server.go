// Package redisserver runs real servers for tests.
package redisserver

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// Server is a redis-server of a test's own.
type Server struct {
	Addr, Port string

	t     testing.TB
	cmd   *exec.Cmd
	ended chan struct{} // closed when the server, and each process that it forked, has ended
}

// Start starts a server at a free port, with further lines of its configuration
// ("requirepass secret"), and returns when it is ready.
func Start(t testing.TB, config ...string) *Server {
	t.Helper()
	return StartAt(t, FreeAddr(t), config...)
}

// StartAt is Start at an address of 127.0.0.1.
func StartAt(t testing.TB, addr string, config ...string) *Server {
	t.Helper()
	return run(t, addr, append([]string{`save ""`}, config...))
}

// StartSentinel starts a Sentinel.
func StartSentinel(t testing.TB, config ...string) *Server {
	t.Helper()
	return run(t, FreeAddr(t), config, "--sentinel")
}

func run(t testing.TB, addr string, config []string, args ...string) *Server {
	t.Helper()
	_, port, _ := net.SplitHostPort(addr)
	dir := t.TempDir()
	config = append([]string{"bind 127.0.0.1", "port " + port, "dir " + dir}, config...)
	file := filepath.Join(dir, "redis.conf")
	if err := os.WriteFile(file, []byte(strings.Join(config, "\n")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := &Server{Addr: addr, Port: port, t: t, ended: make(chan struct{})}
	s.cmd = exec.CommandContext(context.Background(), Find(t), append([]string{file}, args...)...) //nolint:gosec // the installed one
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Kill)
	var log strings.Builder
	for lines := bufio.NewScanner(out); lines.Scan(); {
		log.WriteString(lines.Text() + "\n")
		if strings.Contains(lines.Text(), "Ready to accept connections") || strings.Contains(lines.Text(), "+monitor master") {
			go func() { // or the server would wait for its log to be read
				defer close(s.ended)
				_, _ = io.Copy(io.Discard, out)
			}()
			return s
		}
	}
	close(s.ended)
	t.Fatalf("redis-server with %q ended before it was ready:\n%s", config, &log)
	return nil
}

// Signal sends a signal to the server.
func (s *Server) Signal(signal syscall.Signal) {
	s.t.Helper()
	if err := s.cmd.Process.Signal(signal); err != nil {
		s.t.Fatalf("signalling redis-server: %v", err)
	}
}

// Freeze stops the server, as kill -STOP does, and returns what continues it.
func (s *Server) Freeze() (thaw func()) {
	s.t.Helper()
	s.Signal(stop)
	return func() { s.Signal(goOn) }
}

// Kill ends the server, and waits for what it has forked to write its data.
func (s *Server) Kill() {
	_ = s.cmd.Process.Kill()
	<-s.ended
	_ = s.cmd.Wait()
}

// FreeAddr returns an address of 127.0.0.1 at which nobody listens: see [FreePort].
func FreeAddr(t testing.TB) string {
	t.Helper()
	port, err := FreePort()
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("127.0.0.1:%d", port)
}

// FreePort finds a port on loopback that nobody listens on, and that is this process's from
// then on: two nodes that start at once, of one process or of two, would otherwise get one
// port now and then. It lies below those that the system gives to outgoing connections, and
// so does the port of a Cluster's bus, 10,000 above it: while a node is down, one of its own
// clients' dials could otherwise take its port away.
//
// Whether somebody listens is found by a dial: a listener of our own could go on in a child that is
// just being started.
func FreePort() (int, error) {
	const lowest, highest, tries = 12000, 22000, 100
	for range tries {
		port := lowest + rand.IntN(highest-lowest) //nolint:gosec // a port is no secret
		addr := fmt.Sprintf("127.0.0.1:%d", port)
		mine, err := net.ListenPacket("udp", addr) //nolint:noctx // returns at once
		if err != nil {
			continue
		}
		if conn, err := net.Dial("tcp", addr); err == nil { //nolint:noctx // likewise, on loopback
			_ = errors.Join(conn.Close(), mine.Close())
			continue
		}
		reserved.Store(addr, mine)
		return port, nil
	}
	return 0, errors.New("no free port on loopback")
}

// reserved has a socket of UDP, which no server uses, for each port that this process was
// given: as long as it is open, no other process is given that port.
var reserved sync.Map

// ErrNone says that no server is installed.
var ErrNone = errors.New("no redis-server or valkey-server in PATH (install redis-server)")

// Lookup returns the server that tests run: the one that QUORUMLOCK_SERVER names, else
// redis-server, else valkey-server.
func Lookup() (string, error) {
	if name := os.Getenv("QUORUMLOCK_SERVER"); name != "" {
		path, err := exec.LookPath(name)
		if err != nil {
			return "", fmt.Errorf("QUORUMLOCK_SERVER: %w", err)
		}
		return path, nil
	}
	for _, name := range []string{"redis-server", "valkey-server"} {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", ErrNone
}

// Required reports whether QUORUMLOCK_REQUIRE names this kind of nodes: then it is a
// failure if they are missing.
func Required(kind string) bool {
	return strings.Contains(os.Getenv("QUORUMLOCK_REQUIRE"), kind)
}

// Find is Lookup for a test, which it skips where no server is installed, unless one is required.
func Find(t testing.TB) string {
	t.Helper()
	path, err := Lookup()
	switch {
	case errors.Is(err, ErrNone) && !Required("processes"):
		t.Skip(err)
	case err != nil:
		t.Fatal(err)
	}
	return path
}
