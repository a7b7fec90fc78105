package goredis_test

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/internal/redisserver"
)

// process is a redis-server of the test's own.
type process struct {
	t    testing.TB
	port string
	cmd  *exec.Cmd
}

func (p *process) addr() string { return "127.0.0.1:" + p.port }

// start starts a redis-server with these arguments on a free port, and waits until
// it says that it is ready.
func start(t testing.TB, args ...string) *process {
	t.Helper()
	port := freePort(t)
	return run(t, port, append([]string{"--port", port}, args...)...)
}

func run(t testing.TB, port string, args ...string) *process {
	t.Helper()
	binary := redisserver.Find(t)
	args = append(args, "--save", "", "--dir", t.TempDir())
	cmd := exec.CommandContext(context.Background(), binary, args...) //nolint:gosec // the tests' own arguments
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGCONT)
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	var log strings.Builder
	for lines := bufio.NewScanner(out); lines.Scan(); {
		log.WriteString(lines.Text() + "\n")
		if strings.Contains(lines.Text(), "Ready to accept connections") || strings.Contains(lines.Text(), "+monitor master") {
			go func() { // so that the server never waits for its log to be read
				for lines.Scan() {
				}
			}()
			return &process{t: t, port: port, cmd: cmd}
		}
	}
	t.Fatalf("redis-server %s ended:\n%s", strings.Join(args, " "), log.String())
	return nil
}

// freePort returns a port that was free a moment ago.
func freePort(t testing.TB) string {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	return strconv.Itoa(listener.Addr().(*net.TCPAddr).Port)
}

// ask sends a command by a client that has nothing to do with the test's.
func (p *process) ask(args ...any) any {
	p.t.Helper()
	client := redis.NewClient(&redis.Options{Addr: p.addr()})
	defer func() { _ = client.Close() }()
	answer, err := client.Do(context.Background(), args...).Result()
	if err != nil {
		p.t.Fatalf("%v = %v", args, err)
	}
	return answer
}

// freeze stops the server, as kill -STOP does, and returns what continues it.
func (p *process) freeze() (thaw func()) {
	signal := func(s os.Signal) {
		if err := p.cmd.Process.Signal(s); err != nil {
			p.t.Errorf("signalling redis-server: %v", err)
		}
	}
	signal(syscall.SIGSTOP)
	return func() { signal(syscall.SIGCONT) }
}

// calls returns how often the server was sent a command, refused or not.
func (p *process) calls(command string) int {
	p.t.Helper()
	stats := fmt.Sprint(p.ask("INFO", "commandstats"))
	total := 0
	for line := range strings.Lines(stats) {
		fields, found := strings.CutPrefix(strings.TrimSpace(line), "cmdstat_"+command+":")
		for field := range strings.SplitSeq(fields, ",") {
			name, value, _ := strings.Cut(field, "=")
			if found && (name == "calls" || name == "rejected_calls") {
				n, _ := strconv.Atoi(value)
				total += n
			}
		}
	}
	return total
}

// command returns a command whose first argument, if it has one, is its key.
func command(args ...string) driver.Command {
	boxed := make([]any, len(args))
	for i, arg := range args {
		boxed[i] = arg
	}
	keys := 0
	if len(args) > 1 {
		keys = 1
	}
	return driver.Command{Args: boxed, FirstKey: 1, Keys: keys}
}

// within returns a context like the core's, with a deadline.
func within(t testing.TB, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

// expect does one command and compares the reply.
func expect(t testing.TB, d driver.Driver, want driver.Reply, args ...string) {
	t.Helper()
	replies, err := d.Do(within(t, 5*time.Second), []driver.Command{command(args...)})
	if err != nil || len(replies) != 1 || replies[0].Kind != want.Kind || replies[0].Str != want.Str || replies[0].Int != want.Int {
		t.Fatalf("%v = %+v, %v, want %+v", args, replies, err, want)
	}
}

var ok = driver.Reply{Kind: driver.String, Str: "OK"}

func text(s string) driver.Reply { return driver.Reply{Kind: driver.String, Str: s} }
