package redigo_test

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

	"github.com/gomodule/redigo/redis"

	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/driver/redigo"
	"github.com/quorumlock/quorumlock/internal/redisserver"
)

// process is a real redis-server of this test's own.
type process struct {
	addr string
	cmd  *exec.Cmd
}

// startRedis starts a redis-server at a free port, with further lines of its
// configuration, and returns when it answers.
func startRedis(t testing.TB, config ...string) *process {
	t.Helper()
	return startRedisAt(t, freeAddr(t), config...)
}

func startRedisAt(t testing.TB, addr string, config ...string) *process {
	t.Helper()
	path := redisserver.Find(t)
	_, port, _ := net.SplitHostPort(addr)
	lines := []string{"bind 127.0.0.1", `save ""`, "dir " + t.TempDir()}
	if !strings.Contains(strings.Join(config, "\n"), "tls-port") {
		lines = append(lines, "port "+port)
	}
	cmd := exec.CommandContext(context.Background(), path, "-") //nolint:gosec // the installed one
	cmd.Stdin = strings.NewReader(strings.Join(append(lines, config...), "\n") + "\n")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p := &process{addr: addr, cmd: cmd}
	t.Cleanup(p.kill)
	var said strings.Builder
	for lines := bufio.NewScanner(out); lines.Scan(); {
		fmt.Fprintln(&said, lines.Text())
		if strings.Contains(lines.Text(), "Ready to accept connections") {
			go func() { _, _ = io.Copy(io.Discard, out) }()
			return p
		}
	}
	t.Fatalf("redis-server ended before it was ready:\n%s", &said)
	return nil
}

func (p *process) signal(t testing.TB, s syscall.Signal) {
	t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		t.Fatal(err)
	}
}

func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait()
}

func freeAddr(t testing.TB) string {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	return l.Addr().String()
}

// newPool is a pool as people make it: nothing but a Dial, without a time-out
// anywhere.
func newPool(t testing.TB, addr string) *redis.Pool {
	pool := &redis.Pool{Dial: func() (redis.Conn, error) { return redis.Dial("tcp", addr) }}
	t.Cleanup(func() { _ = pool.Close() })
	return pool
}

// newDriver returns the driver of a pool.
func newDriver(t testing.TB, pool *redis.Pool) *redigo.Driver {
	t.Helper()
	node, err := redigo.Node(pool)
	if err != nil {
		t.Fatal(err)
	}
	d := node.Driver.(*redigo.Driver)
	t.Cleanup(func() { _ = d.Close() })
	return d
}

// open returns the driver of a URL.
func open(t testing.TB, url string) *redigo.Driver {
	t.Helper()
	nodes, err := redigo.Open(url)
	if err != nil {
		t.Fatal(err)
	}
	d := nodes[0].Driver.(*redigo.Driver)
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Errorf("Close = %v", err)
		}
	})
	return d
}

// application sends one command as an application does that uses the pool beside
// the lock.
func application(pool *redis.Pool, ctx context.Context, args ...string) error { //nolint:revive // as redis.DoContext has it
	conn, err := pool.GetContext(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	_, err = redis.DoContext(conn, ctx, args[0], redis.Args{}.AddFlat(args[1:])...)
	return err
}

func command(args ...string) driver.Command {
	cmd := driver.Command{}
	for _, arg := range args {
		cmd.Args = append(cmd.Args, arg)
	}
	if len(args) > 1 {
		cmd.FirstKey, cmd.Keys = 1, 1
	}
	return cmd
}
