package redigo_test

import (
	"testing"
	"testing/synctest"

	"github.com/gomodule/redigo/redis"

	"github.com/quorumlock/quorumlock/test/scripted"
)

// inBubble runs a test in virtual time, with a pool whose connections are pipes to
// a server in memory.
func inBubble(t *testing.T, test func(t *testing.T, server *scripted.Server, pool *redis.Pool)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		server := scripted.New()
		_ = server.Fault("BLPOP", scripted.KeepSilent) // for ever
		pool := &redis.Pool{Dial: dialing(server)}
		t.Cleanup(server.Close)
		t.Cleanup(func() { _ = pool.Close() })
		test(t, server, pool)
	})
}

// dialing returns a redis.Pool.Dial.
func dialing(s *scripted.Server) func() (redis.Conn, error) {
	return func() (redis.Conn, error) { return redis.NewConn(s.Dial(), 0, 0), nil }
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
