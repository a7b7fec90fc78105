package redigo_test

import (
	"bufio"
	"context"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/gomodule/redigo/redis"

	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/driver/redigo"
)

// boast announces a string that no memory can hold. redigo panics over it.
const boast = "$9223372036854775807\r\n"

// startBoaster starts a server that boasts where a command has one of the words, and else
// says OK.
func startBoaster(t *testing.T, words ...string) (addr string) {
	t.Helper()
	return listen(t, func(conn net.Conn) {
		defer func() { _ = conn.Close() }()
		for lines := bufio.NewScanner(conn); lines.Scan(); {
			for _, word := range words {
				if lines.Text() == word {
					_, _ = io.WriteString(conn, boast)
				}
			}
			if lines.Text() == "ECHO" {
				_, _ = io.WriteString(conn, "+OK\r\n")
			}
		}
	})
}

// A pool of the application's is not checked for what its connections read.
func TestAPanicOfTheClientBreaksTheConnection(t *testing.T) {
	pool := newPool(t, startBoaster(t, "GET", "SUBSCRIBE"))
	pool.MaxIdle, pool.MaxActive = 8, 8
	d := newDriver(t, pool)
	for i := range 40 { // more than may be left behind
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		_, err := d.Do(ctx, []driver.Command{command("GET", "key")})
		cancel()
		if err == nil || !strings.Contains(err.Error(), "panicked") {
			t.Fatalf("call %d: Do = %v, want that the client panicked", i+1, err)
		}
	}
	do(t, d, command("ECHO", "words"))

	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	ended := make(chan error, 1)
	s, err := d.Subscribe(ctx, func(n driver.Notice) { ended <- n.Err })
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Add(ctx, "channel"); err != nil {
		t.Errorf("Add = %v", err)
	}
	if err := <-ended; err == nil || !strings.Contains(err.Error(), "panicked") {
		t.Errorf("the subscription ended with %v, want that the client panicked", err)
	}
	_ = s.Close()
	giveAllBack(t, d, pool)
}

func giveAllBack(t *testing.T, d *redigo.Driver, pool *redis.Pool) {
	t.Helper()
	if err := d.Close(); err != nil {
		t.Errorf("Close = %v", err)
	}
	if stats := pool.Stats(); stats.ActiveCount != stats.IdleCount {
		t.Errorf("after Close %d of the pool's connections are in use", stats.ActiveCount-stats.IdleCount)
	}
}
