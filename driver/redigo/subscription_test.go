package redigo_test

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/internal/redisserver"
)

func TestReadTimeoutDoesNotEndASubscription(t *testing.T) {
	inBubble(t, func(t *testing.T, server *redisserver.Memory, pool *redis.Pool) {
		pool.Dial = func() (redis.Conn, error) {
			client, end := net.Pipe()
			go server.Serve(end)
			return redis.NewConn(client, time.Second, time.Second), nil
		}
		h := subscribe(t, newDriver(t, pool), "channel")
		time.Sleep(time.Hour)
		publish(server, "channel", "an hour later")
		h.next(t, message("channel", "an hour later"))
	})
}

// silence makes the pool's next connections lead to nobody who would read.
func silence(pool *redis.Pool) {
	pool.Dial = func() (redis.Conn, error) {
		client, _ := net.Pipe()
		return redis.NewConn(client, 0, 0), nil
	}
}

func TestContextEndsAWriteToAStalledServer(t *testing.T) {
	for _, waiting := range []int{0, 3} {
		inBubble(t, func(t *testing.T, _ *redisserver.Memory, pool *redis.Pool) {
			silence(pool)
			h := subscribe(t, newDriver(t, pool))
			ctx, cancel := context.WithTimeout(t.Context(), short)
			defer cancel()
			start := time.Now()
			var writers sync.WaitGroup
			for range 1 + waiting {
				writers.Go(func() {
					if err := h.Add(ctx, "channel"); !errors.Is(err, context.DeadlineExceeded) {
						t.Errorf("Add with %d more waiting = %v, want that its deadline has passed", waiting, err)
					}
					if took := time.Since(start); took != short {
						t.Errorf("Add with %v to go and %d more waiting returned after %v", short, waiting, took)
					}
				})
			}
			writers.Wait()
			if err := h.failed(t, driver.Ended); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("the subscription ended with %v, want the deadline of Add", err)
			}
			if err := h.Remove(t.Context(), "channel"); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("Remove after the end = %v, want why it ended", err)
			}
			if err := h.Close(); err != nil {
				t.Errorf("Close after the end = %v", err)
			}
			h.expectNothing(t)
			if stats := pool.Stats(); stats.ActiveCount != 0 {
				t.Errorf("the pool has %d connections after the end, want none", stats.ActiveCount)
			}
		})
	}
}

func TestAWaitingWritersContextEndsTheSubscription(t *testing.T) {
	inBubble(t, func(t *testing.T, _ *redisserver.Memory, pool *redis.Pool) {
		silence(pool)
		h := subscribe(t, newDriver(t, pool))
		ctx, cancel := context.WithCancel(t.Context())
		var first sync.WaitGroup
		first.Go(func() {
			if err := h.Add(t.Context(), "first"); !errors.Is(err, context.Canceled) {
				t.Errorf("the Add under way = %v, want that another was cancelled", err)
			}
		})
		synctest.Wait()
		time.AfterFunc(short, cancel)
		start := time.Now()
		if err := h.Remove(ctx, "second"); !errors.Is(err, context.Canceled) {
			t.Errorf("the Remove that waited = %v, want that it was cancelled", err)
		}
		first.Wait()
		if took := time.Since(start); took != short {
			t.Errorf("a cancel after %v ended all after %v", short, took)
		}
		_ = h.failed(t, driver.Ended)
	})
}

func TestAddWithoutTimeEndsTheSubscription(t *testing.T) {
	inBubble(t, func(t *testing.T, _ *redisserver.Memory, pool *redis.Pool) {
		d := newDriver(t, pool)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		for range 50 { // the write may win the race against the context
			h := subscribe(t, d, "channel")
			if err := h.Add(ctx, "another"); !errors.Is(err, context.Canceled) {
				t.Fatalf("Add = %v, want that it was cancelled", err)
			}
			for n := range h.notices {
				if n.Kind == driver.Ended {
					break
				}
			}
		}
	})
}

func TestCloseDoesNotWaitForAStalledServer(t *testing.T) {
	for _, writing := range []bool{false, true} {
		inBubble(t, func(t *testing.T, _ *redisserver.Memory, pool *redis.Pool) {
			silence(pool)
			h := subscribe(t, newDriver(t, pool))
			var writer sync.WaitGroup
			if writing {
				writer.Go(func() {
					err := h.Add(t.Context(), "channel")
					if want := "redigo: the subscription is closed"; err == nil || err.Error() != want {
						t.Errorf("the Add under way = %v, want %s", err, want)
					}
				})
				synctest.Wait()
			}
			start := time.Now()
			for range 2 {
				if err := h.Close(); err != nil {
					t.Errorf("Close = %v", err)
				}
			}
			if took := time.Since(start); took != 0 {
				t.Errorf("Close while somebody writes (%t) took %v", writing, took)
			}
			writer.Wait()
			h.expectNothing(t)
			if stats := pool.Stats(); stats.ActiveCount != 0 {
				t.Errorf("the pool has %d connections after Close, want none", stats.ActiveCount)
			}
		})
	}
}

func TestDroppedConnectionEndsASubscriptionOnce(t *testing.T) {
	inBubble(t, func(t *testing.T, server *redisserver.Memory, pool *redis.Pool) {
		d := newDriver(t, pool)
		h := subscribe(t, d, "channel")
		server.Cut()
		err := h.failed(t, driver.Ended)
		if !strings.HasPrefix(err.Error(), "redigo: ") {
			t.Errorf("the subscription ended with %q, want redigo: …", err)
		}
		if err := h.Add(t.Context(), "channel"); err == nil {
			t.Error("Add after the end = nil, want an error")
		}
		synctest.Wait()
		h.expectNothing(t)
		subscribe(t, d, "channel") // another, once the server is well
	})
}

func TestMethodsAreSafeForConcurrentUse(t *testing.T) {
	server := redisserver.Start(t)
	pool := newPool(t, server.Addr)
	d := newDriver(t, pool)
	h := subscribe(t, d)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var writers sync.WaitGroup
	for range 8 {
		writers.Go(func() {
			for h.Add(ctx, "one", "two") == nil && h.Remove(ctx, "one", "two") == nil {
				continue
			}
		})
	}
	for i := range 1000 {
		if n := <-h.notices; n.Kind != driver.Confirmed || n.Channel != "one" && n.Channel != "two" {
			t.Fatalf("notice %d is %+v, want that one of the channels is confirmed", i+1, n)
		}
	}
	go func() {
		for range h.notices { // or onNotice would block
			continue
		}
	}()
	var closers sync.WaitGroup
	for range 2 {
		closers.Go(func() { _ = h.Close() })
	}
	closers.Wait()
	close(h.notices) // a notice from now on panics
	writers.Wait()
	if ctx.Err() != nil {
		t.Error("writers went on after Close")
	}
	if n := inUse(pool); n != 0 {
		t.Errorf("%d connections are in use after Close, want none", n)
	}
}
