package redigo_test

import (
	"context"
	"strings"
	"testing"

	"github.com/gomodule/redigo/redis"

	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/test/scripted"
	"github.com/quorumlock/quorumlock/test/servertest"
)

// boast announces a string that no memory can hold. redigo panics over it.
const boast = "$9223372036854775807\r\n"

// A pool of the application's is not checked for what its connections read.
func TestAPanicOfTheClientBreaksTheConnection(t *testing.T) {
	server := scripted.Start(t)
	server.Locked(func() {
		server.Instead = func(_ int, args []string) (string, bool) {
			return boast, args[0] == "GET" || args[0] == "SUBSCRIBE"
		}
	})
	pool := newPool(t, server.Addr())
	pool.MaxIdle, pool.MaxActive = 8, 8
	d := newDriver(t, pool)
	for i := range 40 { // more than may be left behind
		ctx, cancel := context.WithTimeout(context.Background(), servertest.Patience)
		_, err := d.Do(ctx, []driver.Command{servertest.Command("GET", "key")})
		cancel()
		if err == nil || !strings.Contains(err.Error(), "panicked") {
			t.Fatalf("call %d: Do = %v, want that the client panicked", i+1, err)
		}
	}
	servertest.Ask(t, d, "ECHO", "words")

	ctx, cancel := context.WithTimeout(context.Background(), servertest.Patience)
	defer cancel()
	ended := make(chan error, 1)
	s, err := d.Subscribe(ctx, func(n driver.Notice) { ended <- n.Err })
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Add(ctx, "channel"); err != nil && !strings.Contains(err.Error(), "panicked") { // which may be known by now
		t.Errorf("Add = %v", err)
	}
	if err := <-ended; err == nil || !strings.Contains(err.Error(), "panicked") {
		t.Errorf("the subscription ended with %v, want that the client panicked", err)
	}
	_ = s.Close()
	giveAllBack(t, d, pool)
}

func giveAllBack(t *testing.T, d servertest.Driver, pool *redis.Pool) {
	t.Helper()
	if err := d.Close(); err != nil {
		t.Errorf("Close = %v", err)
	}
	if stats := pool.Stats(); stats.ActiveCount != stats.IdleCount {
		t.Errorf("after Close %d of the pool's connections are in use", stats.ActiveCount-stats.IdleCount)
	}
}

func TestAPanicOfADialerOrAConnectionIsAnError(t *testing.T) {
	servertest.Panics(t, func(addr string, may func()) driver.Driver {
		pool := newPool(t, addr)
		pool.Dial = func() (redis.Conn, error) { may(); return redis.Dial("tcp", addr) }
		return newDriver(t, pool)
	})
	servertest.Panics(t, func(addr string, may func()) driver.Driver {
		pool := newPool(t, addr)
		dial := pool.Dial
		pool.Dial = func() (redis.Conn, error) {
			c, err := dial()
			return sends{c.(plain), may}, err
		}
		return newDriver(t, pool)
	})
}

type plain interface {
	redis.ConnWithTimeout
	redis.ConnWithContext
}

// sends calls the function before it sends.
type sends struct {
	plain
	before func()
}

func (s sends) Send(name string, args ...any) error {
	s.before()
	return s.plain.Send(name, args...)
}
