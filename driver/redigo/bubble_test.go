package redigo_test

import (
	"testing"
	"testing/synctest"

	"github.com/gomodule/redigo/redis"

	"github.com/quorumlock/quorumlock/internal/redisserver"
)

// inBubble runs a test in virtual time, with a pool whose connections are pipes to
// a server in memory.
func inBubble(t *testing.T, test func(t *testing.T, server *redisserver.Memory, pool *redis.Pool)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		server := newMemory()
		pool := &redis.Pool{Dial: dialing(server)}
		t.Cleanup(server.Cut)
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
