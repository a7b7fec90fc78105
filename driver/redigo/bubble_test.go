package redigo_test

import (
	"testing"
	"testing/synctest"

	"github.com/gomodule/redigo/redis"
)

// inBubble runs a test in virtual time, with a pool whose connections are pipes to
// a server in memory.
func inBubble(t *testing.T, test func(t *testing.T, server *memory, pool *redis.Pool)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		server := new(memory)
		pool := &redis.Pool{Dial: server.dial}
		t.Cleanup(server.cut)
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
