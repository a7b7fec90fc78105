package goredis_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/quorumlock/quorumlock/driver"
)

// TestStoppedServer holds a default client, whose own time-out is 5s, to a deadline
// and to an earlier cancel.
func TestStoppedServer(t *testing.T) {
	server := start(t)
	d := open(t, redis.NewClient(&redis.Options{Addr: server.Addr}))
	expect(t, d, ok, "SET", "key", "value")

	thaw := server.Freeze()
	begun := time.Now()
	_, err := d.Do(within(t, 200*time.Millisecond), []driver.Command{command("GET", "key")})
	if late := time.Since(begun) - 200*time.Millisecond; !errors.Is(err, context.DeadlineExceeded) || late > most {
		t.Errorf("Do = %v, %v after its deadline, want context.DeadlineExceeded", err, late)
	}

	ctx, cancel := context.WithCancel(within(t, patience))
	time.AfterFunc(100*time.Millisecond, cancel) // not to wait for anything: it is the fault
	begun = time.Now()
	_, err = d.Do(ctx, []driver.Command{command("GET", "key")})
	if late := time.Since(begun) - 100*time.Millisecond; !errors.Is(err, context.Canceled) || late > most {
		t.Errorf("Do = %v, %v after it was cancelled, want context.Canceled", err, late)
	}

	thaw()
	expect(t, d, text("value"), "GET", "key")
}

// TestIdleConnectionIsReplaced shows that no batch is lost to a connection that died
// while it was idle.
func TestIdleConnectionIsReplaced(t *testing.T) {
	server := start(t)
	d := open(t, redis.NewClient(&redis.Options{Addr: server.Addr}))
	expect(t, d, ok, "SET", "key", "value")

	server.ask("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
	for len(connections(server)) > 0 {
		runtime.Gosched()
	}
	expect(t, d, text("value"), "GET", "key")
}

func TestReadOnlyReplyEndsConnections(t *testing.T) {
	server := start(t)
	d := open(t, redis.NewClient(&redis.Options{Addr: server.Addr}))
	expect(t, d, ok, "SET", "key", "value")
	first := connections(server)
	server.ask("REPLICAOF", "127.0.0.1", "1")
	replies, err := d.Do(within(t, patience), []driver.Command{command("SET", "key", "2")})
	if err != nil || code(replies[0].Err()) != "READONLY" {
		t.Fatalf("SET at a replica = %v, %v, want the reply READONLY", replies, err)
	}
	expect(t, d, text("value"), "GET", "key")
	if second := connections(server); first[0] == second[0] {
		t.Errorf("after READONLY the driver still uses connection %s: behind a name or a Sentinel, the master is elsewhere", first[0])
	}
}

func TestConnectionsAreBounded(t *testing.T) {
	server := start(t)
	client := redis.NewClient(&redis.Options{Addr: server.Addr, MinIdleConns: 3})
	d := open(t, client)
	expect(t, d, ok, "SET", "key", "value")
	if got := connections(server); len(got) != 1 {
		t.Errorf("one caller has %d connections, want 1", len(got))
	}
	var callers sync.WaitGroup
	for range 64 {
		callers.Go(func() {
			for range 20 {
				expect(t, d, text("value"), "GET", "key")
			}
		})
	}
	callers.Wait()
	if got := connections(server); len(got) < 2 || len(got) > 8 {
		t.Errorf("64 callers had %d connections, want some and at most 8", len(got))
	}
}

// connections returns the ids of those connections whose last command was a GET or
// a SET: the driver's.
func connections(server *process) (ids []string) {
	for line := range strings.Lines(fmt.Sprint(server.ask("CLIENT", "LIST"))) {
		if strings.Contains(line, " cmd=get ") || strings.Contains(line, " cmd=set ") {
			id, _, _ := strings.Cut(line, " ")
			ids = append(ids, id)
		}
	}
	return ids
}

func TestCloseLeavesTheClientAlone(t *testing.T) {
	server := start(t)
	for name, client := range map[string]redis.UniversalClient{
		"a client":         redis.NewClient(&redis.Options{Addr: server.Addr}),
		"a cluster client": clusterOf(nil, server.Addr),
	} {
		d := open(t, client)
		expect(t, d, ok, "SET", "key", "value")
		if err := d.Close(); err != nil {
			t.Errorf("%s: Close = %v", name, err)
		}
		if got, err := client.Get(t.Context(), "key").Result(); got != "value" || err != nil {
			t.Errorf("after Close, the GET of %s = %q, %v", name, got, err)
		}
		replies, err := d.Do(within(t, patience), []driver.Command{command("GET", "key")})
		if len(replies) != 0 || !errors.Is(err, driver.ErrNotSent) {
			t.Errorf("%s: Do of a closed driver = %v, %v, want ErrNotSent", name, replies, err)
		}
	}
}

// breaker is an application's circuit breaker.
type breaker struct{ asked int }

func (b *breaker) Allow() error     { b.asked++; return nil }
func (*breaker) ReportResult(error) {}

func TestCircuitBreakerIsNotAsked(t *testing.T) {
	limiter := new(breaker)
	d := open(t, redis.NewClient(&redis.Options{Addr: start(t).Addr, Limiter: limiter}))
	expect(t, d, ok, "SET", "key", "value")
	if limiter.asked != 0 {
		t.Errorf("the application's circuit breaker was asked %d times about a lock's command", limiter.asked)
	}
}

func TestCloseEndsWhatIsOut(t *testing.T) {
	server := start(t)
	d := open(t, redis.NewClient(&redis.Options{Addr: server.Addr}))
	expect(t, d, ok, "SET", "key", "value")
	failed := make(chan error)
	go func() {
		_, err := d.Do(within(t, patience), []driver.Command{command("BLPOP", "nothing", "0")})
		failed <- err
	}()
	for !strings.Contains(fmt.Sprint(server.ask("CLIENT", "LIST")), " cmd=blpop ") {
		runtime.Gosched()
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-failed; err == nil || errors.Is(err, driver.ErrNotSent) || errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("what was out at Close ended with %v, want an error that says so", err)
	}
}

func TestBlockingCommand(t *testing.T) {
	server := start(t)
	// The client's own read time-out is shorter than what the command takes.
	d := open(t, redis.NewClient(&redis.Options{Addr: server.Addr, ReadTimeout: 50 * time.Millisecond}))
	wait := command("WAIT", "1", "300")
	wait.Keys, wait.Blocks = 0, true
	begun := time.Now()
	replies, err := d.Do(within(t, patience), []driver.Command{command("SET", "key", "value"), wait})
	if err != nil || len(replies) != 2 || replies[1].Kind != driver.Integer || time.Since(begun) < 300*time.Millisecond {
		t.Errorf("WAIT = %v, %v after %v, want a number after its 300ms", replies, err, time.Since(begun))
	}
}
