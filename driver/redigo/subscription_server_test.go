package redigo_test

import (
	"context"
	"errors"
	"net"
	"net/url"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/internal/redisserver"
)

func TestSubscriptionHearsWhatItAskedFor(t *testing.T) {
	server := redisserver.Start(t)
	d := newDriver(t, newPool(t, server.Addr))
	h := subscribe(t, d, "one", "two", "a b\r\nc")
	do(t, d, command("PUBLISH", "one", "1"), command("PUBLISH", "other", "x"), command("PUBLISH", "a b\r\nc", "\x00\r\n"), command("PUBLISH", "two", ""))
	h.next(t, message("one", "1"))
	h.next(t, message("a b\r\nc", "\x00\r\n"))
	h.next(t, message("two", ""))

	h.remove(t, "one", "never asked for")
	h.add(t, "three") // behind Remove, so once confirmed that has been done as well
	h.next(t, driver.Notice{Kind: driver.Confirmed, Channel: "three"})
	do(t, d, command("PUBLISH", "one", "2"), command("PUBLISH", "two", "2"))
	h.next(t, message("two", "2"))

	h.remove(t, "two", "three", "a b\r\nc")
	h.add(t) // none, and no command
	h.remove(t)
	h.add(t, "one") // the connection lives on without a channel
	h.next(t, driver.Notice{Kind: driver.Confirmed, Channel: "one"})
	_ = h.Close()
	h.expectNothing(t)
}

func TestRefusedChannelHarmsNoOther(t *testing.T) {
	server := redisserver.Start(t, "requirepass secret", "user lock on >p@ss/word ~* resetchannels &lock:* +@all")
	d := open(t, "redis://lock:p%40ss%2Fword@"+server.Addr)
	h := subscribe(t, d)
	h.add(t, "lock:1", "other", "lock:2")
	h.next(t, driver.Notice{Kind: driver.Confirmed, Channel: "lock:1"})
	var refusal *driver.ServerError
	if err := h.failed(t, driver.Refused); !errors.As(err, &refusal) || refusal.Code != "NOPERM" {
		t.Errorf("the refusal is %v, want the server's NOPERM", err)
	}
	h.next(t, driver.Notice{Kind: driver.Confirmed, Channel: "lock:2"})
	do(t, d, command("PUBLISH", "lock:2", "released"))
	h.next(t, message("lock:2", "released"))
}

func TestSubscriptionOverTLS(t *testing.T) {
	files := redisserver.NewCertificates(t)
	addr := redisserver.FreeAddr(t)
	_, port, _ := net.SplitHostPort(addr)
	server := redisserver.StartAt(t, addr, append(files.Config(port), "port 0", "user default off", "user lock on >secret ~* &* +@all")...)
	d := open(t, "rediss://lock:secret@"+addr+"/3?ca="+url.QueryEscape(files.CA))
	h := subscribe(t, d, "channel")
	do(t, d, command("PUBLISH", "channel", "released"))
	h.next(t, message("channel", "released"))

	server.Signal(syscall.SIGSTOP)
	defer server.Signal(syscall.SIGCONT)
	fill(t, h)
	start := time.Now()
	_ = h.Close()
	if took := time.Since(start); took > 2*time.Second { // 50ms, and a busy machine
		t.Errorf("Close took %v", took)
	}
}

func TestSubscribeToldWhyItFails(t *testing.T) {
	server := redisserver.Start(t, "requirepass secret")
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	_, err := open(t, "redis://:wrong@"+server.Addr).Subscribe(ctx, ignore)
	var refusal *driver.ServerError
	if !errors.As(err, &refusal) || refusal.Code != "WRONGPASS" || strings.Contains(err.Error(), ":wrong") {
		t.Errorf("Subscribe with a wrong password = %v, want the server's WRONGPASS", err)
	}
	addr := redisserver.FreeAddr(t)
	if _, err = open(t, "redis://"+addr).Subscribe(ctx, ignore); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("Subscribe where nobody listens = %v, want that the connection was refused", err)
	}
}

func TestUserWhoIsDeletedHearsNoMore(t *testing.T) {
	server := redisserver.Start(t, "user lock on >secret ~* &* +@all", "user default on nopass ~* &* +@all")
	h := subscribe(t, open(t, "redis://lock:secret@"+server.Addr), "channel")
	do(t, newDriver(t, newPool(t, server.Addr)), command("ACL", "DELUSER", "lock"))
	_ = h.failed(t, driver.Ended)
}

func TestSubscriptionToAServerThatRestarts(t *testing.T) {
	server := redisserver.Start(t)
	pool := newPool(t, server.Addr)
	pool.MaxIdle = 8
	var idle []redis.Conn
	for range 8 {
		idle = append(idle, pool.Get())
	}
	for _, conn := range idle {
		if err := conn.Close(); err != nil {
			t.Fatal(err)
		}
	}
	d := newDriver(t, pool)
	h := subscribe(t, d, "channel")
	server.Kill()
	_ = h.failed(t, driver.Ended)

	redisserver.StartAt(t, server.Addr)
	again := subscribe(t, d, "channel") // though all that idled in the pool is dead
	do(t, d, command("PUBLISH", "channel", "released"))
	again.next(t, message("channel", "released"))
	h.expectNothing(t)
}

func TestStoppedServerHoldsUpNoSubscription(t *testing.T) {
	server := redisserver.Start(t, "requirepass secret")
	d := open(t, "redis://:secret@"+server.Addr)
	writing, idle := subscribe(t, d, "channel"), subscribe(t, d, "channel")
	server.Signal(syscall.SIGSTOP)
	defer server.Signal(syscall.SIGCONT)

	within := func(what string, limit time.Duration, call func(ctx context.Context) error) error {
		ctx, cancel := context.WithTimeout(t.Context(), short)
		defer cancel()
		start := time.Now()
		err := call(ctx)
		if took := time.Since(start); took > limit+2*time.Second { // 50ms, and a busy machine
			t.Errorf("%s returned after %v, want %v", what, took, limit)
		}
		return err
	}
	err := within("Subscribe", short, func(ctx context.Context) error {
		_, err := d.Subscribe(ctx, ignore) // the handshake is not answered
		return err
	})
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Subscribe = %v, want that its deadline has passed", err)
	}
	fill(t, writing)
	_ = within("Close of a subscription that idles", 0, func(context.Context) error { return idle.Close() })
	_ = within("Close of one that has ended", 0, func(context.Context) error { return writing.Close() })
	idle.expectNothing(t)

	server.Signal(syscall.SIGCONT)
	subscribe(t, d, "channel")
}

// fill writes to a server that is stopped until no more will go, so that the context
// has to end it.
func fill(t *testing.T, h *recorder) {
	t.Helper()
	channels := make([]string, 100)
	for i := range channels {
		channels[i] = strings.Repeat("x", 200_000)
	}
	for name, call := range map[string]func(context.Context, ...string) error{"Add": h.Add, "Remove": h.Remove} {
		ctx, cancel := context.WithTimeout(t.Context(), short)
		start := time.Now()
		err := call(ctx, channels...)
		cancel()
		if err == nil {
			t.Errorf("%s of 20MB to a stopped server = nil, want an error", name)
		}
		if took := time.Since(start); took > short+2*time.Second { // 50ms, and a busy machine
			t.Errorf("%s with %v to go returned after %v", name, short, took)
		}
	}
	if err := h.failed(t, driver.Ended); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the subscription ended with %v, want that a deadline has passed", err)
	}
}
