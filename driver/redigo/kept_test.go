package redigo_test

import (
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/test/scripted"
	"github.com/quorumlock/quorumlock/test/servertest"
)

func TestKeptConnectionsGoBack(t *testing.T) {
	for _, tt := range []struct {
		name     string
		set      func(*redis.Pool) // beyond MaxIdle 1
		calls    int               // one each half second
		idle     time.Duration
		borrowed int // times that a connection came from the pool
		kept     int // connections afterwards
	}{
		{name: "in use", calls: 100, borrowed: 1, kept: 1},
		{name: "for less than a second", calls: 1, idle: 900 * time.Millisecond, borrowed: 1, kept: 1},
		{name: "for two seconds", calls: 1, idle: 2 * time.Second, borrowed: 1, kept: 0},
		{name: "busy for five minutes", calls: 600, borrowed: 5, kept: 1},
		{name: "busy, but not to live for more than 10s", set: func(p *redis.Pool) { p.MaxConnLifetime = 10 * time.Second }, calls: 100, borrowed: 5, kept: 1},
		{name: "of a pool with MaxActive", set: func(p *redis.Pool) { p.MaxActive = 8 }, calls: 100, borrowed: 1, kept: 1},
		{name: "of a pool with a small MaxActive", set: func(p *redis.Pool) { p.MaxActive = 7 }, calls: 100, borrowed: 100, kept: 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, _ *scripted.Server, pool *redis.Pool) {
				borrowed := 1
				pool.MaxIdle = 1
				pool.TestOnBorrow = func(redis.Conn, time.Time) error {
					borrowed++
					return nil
				}
				if tt.set != nil {
					tt.set(pool)
				}
				d := newDriver(t, pool)
				for i := range tt.calls {
					if i > 0 {
						time.Sleep(500 * time.Millisecond)
					}
					servertest.Ask(t, d, "SET", "key", "value")
				}
				time.Sleep(tt.idle)
				synctest.Wait()
				if borrowed != tt.borrowed {
					t.Errorf("%d calls took a connection from the pool %d times, want %d", tt.calls, borrowed, tt.borrowed)
				}
				if n := inUse(pool); n != tt.kept {
					t.Errorf("%d connections are kept, want %d", n, tt.kept)
				}
				if err := d.Close(); err != nil || inUse(pool) != 0 {
					t.Errorf("Close = %v, and %d connections are kept, want none", err, inUse(pool))
				}
				servertest.Ask(t, d, "SET", "key", "value") // the pool is the caller's, and open
			})
		})
	}
}

func TestKeptConnectionsThatDiedTogether(t *testing.T) {
	inBubble(t, func(t *testing.T, server *scripted.Server, pool *redis.Pool) {
		pool.MaxIdle = 8
		d := newDriver(t, pool)
		var callers sync.WaitGroup
		release := server.Fault("slow", scripted.KeepSilent)
		for range 4 {
			callers.Go(func() { servertest.Ask(t, d, "GET", "slow") })
		}
		synctest.Wait()
		release()
		callers.Wait()
		if n := inUse(pool); n != 4 {
			t.Errorf("%d connections are kept, want 4", n)
		}
		server.Cut()
		if _, err := d.Do(t.Context(), []driver.Command{servertest.Command("PING")}); err == nil || errors.Is(err, driver.ErrNotSent) {
			t.Errorf("Do on a connection that has died = %v, want a failure of unknown outcome", err)
		}
		servertest.Ask(t, d, "PING")
	})
}
