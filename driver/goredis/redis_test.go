package goredis_test

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/internal/redisserver"
)

// process is a redis-server of the test's own.
type process struct {
	*redisserver.Server
	t testing.TB
}

func start(t testing.TB, config ...string) *process {
	t.Helper()
	return &process{redisserver.Start(t, config...), t}
}

func freePort(t testing.TB) string {
	t.Helper()
	_, port, _ := net.SplitHostPort(redisserver.FreeAddr(t))
	return port
}

// ask sends a command by a client that has nothing to do with the test's.
func (p *process) ask(args ...any) any {
	p.t.Helper()
	client := redis.NewClient(&redis.Options{Addr: p.Addr})
	defer func() { _ = client.Close() }()
	answer, err := client.Do(context.Background(), args...).Result()
	if err != nil {
		p.t.Fatalf("%v = %v", args, err)
	}
	return answer
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

// patience is how long a test waits for what must come, however busy the machine is.
const patience = time.Minute

// within returns a context like the core's, with a deadline.
func within(t testing.TB, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

// expect does one command and compares the reply.
func expect(t testing.TB, d driver.Driver, want driver.Reply, args ...string) {
	t.Helper()
	replies, err := d.Do(within(t, patience), []driver.Command{command(args...)})
	if err != nil || len(replies) != 1 || replies[0].Kind != want.Kind || replies[0].Str != want.Str || replies[0].Int != want.Int {
		t.Fatalf("%v = %+v, %v, want %+v", args, replies, err, want)
	}
}

var ok = driver.Reply{Kind: driver.String, Str: "OK"}

func text(s string) driver.Reply { return driver.Reply{Kind: driver.String, Str: s} }
