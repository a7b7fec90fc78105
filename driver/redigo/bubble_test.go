package redigo_test

import (
	"testing"
	"testing/synctest"

	"github.com/alicebob/miniredis/v2"
	"github.com/gomodule/redigo/redis"
)

// inBubble runs a test in virtual time, with a pool whose connections are pipes to
// an embedded server.
func inBubble(t *testing.T, test func(t *testing.T, server *miniredis.Miniredis, pool *redis.Pool)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		server := miniredis.NewMiniRedis()
		pool := &redis.Pool{Dial: func() (redis.Conn, error) {
			pipe, err := server.Dial()
			if err != nil {
				return nil, err
			}
			return redis.NewConn(pipe, 0, 0), nil
		}}
		t.Cleanup(server.Close)
		t.Cleanup(func() { _ = pool.Close() })
		test(t, server, pool)
	})
}

// before adds work to a pool's Dial.
func before(pool *redis.Pool, work func()) {
	dial := pool.Dial
	pool.Dial = func() (redis.Conn, error) {
		work()
		return dial()
	}
}

// inUse is how many of the pool's connections somebody has.
func inUse(pool *redis.Pool) int {
	stats := pool.Stats()
	return stats.ActiveCount - stats.IdleCount
}
