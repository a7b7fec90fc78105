package goredis_test

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/test/patient"
	"github.com/quorumlock/quorumlock/test/redisserver"
	"github.com/quorumlock/quorumlock/test/servertest"
)

// TestIdleConnectionIsReplaced shows that no batch is lost to a connection that died
// while it was idle.
func TestIdleConnectionIsReplaced(t *testing.T) {
	server, d := start(t)
	servertest.Expect(t, d, "OK", "SET", "key", "value")

	server.Ask("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
	patient.Until(t, "the server has closed it", func() bool {
		return strings.Count(server.Ask("CLIENT", "LIST").Str, "id=") == 1 // which asks
	})
	servertest.Expect(t, d, "value", "GET", "key")
}

func TestCloseLeavesTheClientAlone(t *testing.T) {
	server := redisserver.Start(t)
	for name, client := range map[string]redis.UniversalClient{
		"a client":         redis.NewClient(&redis.Options{Addr: server.Addr}),
		"a cluster client": clusterOf(nil, server.Addr),
	} {
		d := open(t, client)
		servertest.Expect(t, d, "OK", "SET", "key", "value")
		if err := d.Close(); err != nil {
			t.Errorf("%s: Close = %v", name, err)
		}
		if got, err := client.Get(t.Context(), "key").Result(); got != "value" || err != nil {
			t.Errorf("after Close, the GET of %s = %q, %v", name, got, err)
		}
		replies, err := d.Do(servertest.Within(t, servertest.Patience), []driver.Command{servertest.Command("GET", "key")})
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
	d := open(t, redis.NewClient(&redis.Options{Addr: redisserver.Start(t).Addr, Limiter: limiter}))
	servertest.Expect(t, d, "OK", "SET", "key", "value")
	if limiter.asked != 0 {
		t.Errorf("the application's circuit breaker was asked %d times about a lock's command", limiter.asked)
	}
}

func TestCloseEndsWhatIsOut(t *testing.T) {
	server, d := start(t)
	servertest.Expect(t, d, "OK", "SET", "key", "value")
	failed := make(chan error)
	go func() {
		_, err := d.Do(servertest.Within(t, servertest.Patience), []driver.Command{servertest.Command("BLPOP", "nothing", "0")})
		failed <- err
	}()
	for !strings.Contains(server.Ask("CLIENT", "LIST").Str, " cmd=blpop ") {
		runtime.Gosched()
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-failed; err == nil || errors.Is(err, driver.ErrNotSent) || errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("what was out at Close ended with %v, want an error that says so", err)
	}
}
