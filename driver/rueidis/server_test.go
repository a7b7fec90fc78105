package rueidis_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/internal/redisserver"
)

// process is a real redis-server.
type process struct {
	addr string
	cmd  *exec.Cmd
}

// startRedis starts a server on a free port of the loopback, with further settings:
// "--name value …".
func startRedis(t testing.TB, settings ...string) *process {
	t.Helper()
	return startRedisAt(t, freeAddr(t), settings...)
}

func startRedisAt(t testing.TB, addr string, settings ...string) *process {
	t.Helper()
	_, port, _ := net.SplitHostPort(addr)
	defaults := []string{"--bind 127.0.0.1", "--port " + port, "--dir " + t.TempDir()}
	return startServer(t, addr, "Ready to accept connections", append(defaults, settings...)...)
}

// startServer starts redis-server and waits until it has said that it is ready.
func startServer(t testing.TB, addr, ready string, settings ...string) *process {
	t.Helper()
	path := redisserver.Find(t)
	args := strings.Fields(strings.Join(settings, " "))
	p := &process{addr: addr, cmd: exec.CommandContext(context.Background(), path, args...)} //nolint:gosec // the test's own arguments
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.kill)

	var log strings.Builder
	for lines := bufio.NewScanner(out); lines.Scan(); {
		fmt.Fprintln(&log, lines.Text())
		if strings.Contains(lines.Text(), ready) {
			go func() { _, _ = io.Copy(io.Discard, out) }() // or the server blocks once the pipe is full
			return p
		}
	}
	t.Fatalf("redis-server %s ended at once:\n%s", strings.Join(args, " "), &log)
	return nil
}

// freeAddr returns an address of the loopback at which nobody listens.
func freeAddr(t testing.TB) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // listening on the loopback does not wait
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	return listener.Addr().String()
}

func (p *process) kill() {
	p.signal(syscall.SIGCONT)
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait()
}

func (p *process) signal(sig syscall.Signal) {
	_ = p.cmd.Process.Signal(sig)
}

// command is a command about one key.
func command(name, key string, rest ...string) driver.Command {
	cmd := plain(append([]string{name, key}, rest...)...)
	cmd.FirstKey, cmd.Keys = 1, 1
	return cmd
}

// plain is a command that has no key.
func plain(args ...string) driver.Command {
	var cmd driver.Command
	for _, arg := range args {
		cmd.Args = append(cmd.Args, arg)
	}
	return cmd
}

// newClient makes a client as most people do: with all defaults.
func newClient(t testing.TB, addr string) rueidis.Client {
	t.Helper()
	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{addr}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client
}

// driverOf returns the node's driver and closes it at the end.
func driverOf(t testing.TB, node driver.Node) driver.Driver {
	t.Helper()
	t.Cleanup(func() { closeAll([]driver.Node{node}) })
	return node.Driver
}

func closeAll(nodes []driver.Node) {
	for _, node := range nodes {
		_ = node.Driver.(io.Closer).Close()
	}
}

// do is a call that has no reason to fail.
func do(t testing.TB, d driver.Driver, cmds ...driver.Command) []driver.Reply {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	replies, err := d.Do(ctx, cmds)
	if err != nil {
		t.Fatalf("Do(%q) = %v, want its replies", cmds[0].Args, err)
	}
	return replies
}
