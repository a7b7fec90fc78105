package redigo_test

import (
	"context"
	"testing"

	"github.com/gomodule/redigo/redis"

	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/driver/redigo"
)

// newPool is a pool as people make it: nothing but a Dial, without a time-out
// anywhere.
func newPool(t testing.TB, addr string) *redis.Pool {
	pool := &redis.Pool{Dial: func() (redis.Conn, error) { return redis.Dial("tcp", addr) }}
	t.Cleanup(func() { _ = pool.Close() })
	return pool
}

// newDriver returns the driver of a pool.
func newDriver(t testing.TB, pool *redis.Pool) *redigo.Driver {
	t.Helper()
	node, err := redigo.Node(pool)
	if err != nil {
		t.Fatal(err)
	}
	d := node.Driver.(*redigo.Driver)
	t.Cleanup(func() { _ = d.Close() })
	return d
}

// open returns the driver of a URL.
func open(t testing.TB, url string) *redigo.Driver {
	t.Helper()
	nodes, err := redigo.Open(url)
	if err != nil {
		t.Fatal(err)
	}
	d := nodes[0].Driver.(*redigo.Driver)
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Errorf("Close = %v", err)
		}
	})
	return d
}

// application sends one command as an application does that uses the pool beside
// the lock.
func application(pool *redis.Pool, ctx context.Context, args ...string) error { //nolint:revive // as redis.DoContext has it
	conn, err := pool.GetContext(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	_, err = redis.DoContext(conn, ctx, args[0], redis.Args{}.AddFlat(args[1:])...)
	return err
}

func command(args ...string) driver.Command {
	cmd := driver.Command{}
	for _, arg := range args {
		cmd.Args = append(cmd.Args, arg)
	}
	if len(args) > 1 {
		cmd.FirstKey, cmd.Keys = 1, 1
	}
	return cmd
}
