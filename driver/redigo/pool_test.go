package redigo_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/test/scripted"
	"github.com/quorumlock/quorumlock/test/servertest"
)

func TestDialThatBlocks(t *testing.T) {
	inBubble(t, func(t *testing.T, _ *scripted.Server, pool *redis.Pool) {
		var dials atomic.Int32
		network := make(chan struct{})
		before(pool, func() {
			dials.Add(1)
			<-network
		})
		d := newDriver(t, pool)
		var callers sync.WaitGroup
		for range 20 {
			callers.Go(func() {
				for range 5 {
					start := time.Now()
					ctx, cancel := context.WithTimeout(t.Context(), short)
					_, err := d.Do(ctx, []driver.Command{servertest.Command("PING")})
					cancel()
					if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, driver.ErrNotSent) {
						t.Errorf("Do = %v, want that its deadline has passed and nothing was sent", err)
					}
					if took := time.Since(start); took != short {
						t.Errorf("Do with %v to go returned after %v", short, took)
					}
				}
			})
		}
		callers.Wait()
		if n := dials.Load(); n != 8 {
			t.Errorf("100 calls that were given up left %d dials behind, want 8", n)
		}

		close(network)
		synctest.Wait()
		servertest.Ask(t, d, "SET", "key", "value")
		if n := dials.Load(); n != 8 {
			t.Errorf("a call after %d late connections dialled anew", n)
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if n := inUse(pool); n != 0 {
			t.Errorf("%d of the late connections have not been given back", n)
		}
	})
}

func TestHandshakeSlowerThanACallServesTheNextCall(t *testing.T) {
	inBubble(t, func(t *testing.T, _ *scripted.Server, pool *redis.Pool) {
		var dials atomic.Int32
		before(pool, func() {
			dials.Add(1)
			time.Sleep(short + short/2)
		})
		d := newDriver(t, pool)
		_ = returnsInTime(t, d)
		time.Sleep(short) // the handshake ends
		start := time.Now()
		servertest.Ask(t, d, "PING")
		if took, n := time.Since(start), dials.Load(); took != 0 || n != 1 {
			t.Errorf("the call after a slow handshake took %v, with %d dials so far; want it served by the first, at once", took, n)
		}
	})
}

func TestRefusalSlowerThanACallIsToldToTheNextCall(t *testing.T) {
	inBubble(t, func(t *testing.T, server *scripted.Server, pool *redis.Pool) {
		server.Guard()
		dial := pool.Dial
		pool.Dial = func() (redis.Conn, error) {
			time.Sleep(short + short/2)
			conn, err := dial()
			if err != nil {
				return nil, err
			}
			if _, err := conn.Do("AUTH", "wrong"); err != nil {
				return nil, errors.Join(err, conn.Close())
			}
			return conn, nil
		}
		d := newDriver(t, pool)
		_ = returnsInTime(t, d)
		err := returnsInTime(t, d)
		var refusal *driver.ServerError
		if !errors.As(err, &refusal) || refusal.Code != "WRONGPASS" || !errors.Is(err, driver.ErrNotSent) {
			t.Errorf("Do = %v, want that nothing was sent, and the WRONGPASS of the connection before", err)
		}
		time.Sleep(short) // the second handshake ends
	})
}

func TestPoolOfOneIsShared(t *testing.T) {
	inBubble(t, func(t *testing.T, _ *scripted.Server, pool *redis.Pool) {
		pool.MaxActive, pool.Wait = 1, true
		d := newDriver(t, pool)
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() {
				for range 50 {
					servertest.Ask(t, d, "SET", "lock", "value")
				}
			})
			all.Go(func() {
				for range 50 {
					if err := application(pool, t.Context(), "SET", "application", "value"); err != nil {
						t.Errorf("the application's command failed: %v", err)
					}
				}
			})
		}
		all.Wait()
		if n := inUse(pool); n != 0 {
			t.Errorf("%d connections are in use after the last call, want none", n)
		}

		taken := pool.Get()
		if err := returnsInTime(t, d); !errors.Is(err, driver.ErrNotSent) {
			t.Errorf("the application has the only connection: Do = %v, want that nothing was sent", err)
		}
		_ = taken.Close()
		servertest.Ask(t, d, "SET", "lock", "value")
	})
}

func TestExhaustedPool(t *testing.T) {
	inBubble(t, func(t *testing.T, _ *scripted.Server, pool *redis.Pool) {
		pool.MaxActive = 8
		d := newDriver(t, pool)
		taken := make([]redis.Conn, 7)
		for i := range taken {
			taken[i] = pool.Get()
		}
		servertest.Ask(t, d, "SET", "key", "value")
		if err := application(pool, t.Context(), "SET", "key", "value"); err != nil {
			t.Errorf("the last connection is kept: the application's command failed: %v", err)
		}
		last := pool.Get()
		_, err := d.Do(t.Context(), []driver.Command{servertest.Command("PING")})
		if !errors.Is(err, redis.ErrPoolExhausted) || !errors.Is(err, driver.ErrNotSent) {
			t.Errorf("with all connections taken, Do = %v, want ErrPoolExhausted and that nothing was sent", err)
		}
		for _, conn := range append(taken, last) {
			_ = conn.Close()
		}
		servertest.Ask(t, d, "SET", "key", "value")
	})
}
