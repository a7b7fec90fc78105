package redisserver

import (
	"bufio"
	"context"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
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

// FreeAddr returns an address of 127.0.0.1 at which nobody listens.
func FreeAddr(t testing.TB) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // listening on the loopback does not wait
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	return listener.Addr().String()
}
