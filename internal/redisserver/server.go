package redisserver

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
)

// Server is a redis-server of a test's own.
type Server struct {
	Addr, Port string

	t   testing.TB
	cmd *exec.Cmd
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
	s := &Server{Addr: addr, Port: port, t: t}
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
			go func() { _, _ = io.Copy(io.Discard, out) }() // or the server would wait for its log to be read
			return s
		}
	}
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
	s.Signal(syscall.SIGSTOP)
	return func() { s.Signal(syscall.SIGCONT) }
}

// Kill ends the server.
func (s *Server) Kill() {
	_ = s.cmd.Process.Kill()
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

// FreePort finds a port on loopback that nobody listens on, and that this process has not
// had from it before: two nodes that start at once would otherwise get one port now and
// then, and one of them would answer for both. It lies below those that the system gives to
// outgoing connections, and so does the port of a Cluster's bus, 10,000 above it: while a
// node is down, one of its own clients' dials could otherwise take its port away.
func FreePort() (int, error) {
	const tries = 100
	var err error
	for range tries {
		port := nextPort()
		var probe net.Listener
		if probe, err = net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port)); err == nil { //nolint:noctx // returns at once
			return port, probe.Close()
		}
	}
	return 0, fmt.Errorf("no free port on loopback: %w", err)
}

// nextPort returns each port once, in an order that each process draws for itself.
var nextPort = func() func() int {
	const lowest, highest = 12000, 22000
	ports := rand.Perm(highest - lowest) //nolint:gosec // a port is no secret
	var given atomic.Uint64
	return func() int { return lowest + ports[given.Add(1)%uint64(len(ports))] }
}()
