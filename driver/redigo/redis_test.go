package redigo_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/driver/drivertest"
	"github.com/quorumlock/quorumlock/driver/redigo"
	"github.com/quorumlock/quorumlock/test/leak"
	"github.com/quorumlock/quorumlock/test/patient"
	"github.com/quorumlock/quorumlock/test/servertest"
)

func TestMain(m *testing.M) { leak.Main(m) }

func TestConformance(t *testing.T) {
	for name, set := range map[string]func(*redis.Pool){
		"default pool":            func(*redis.Pool) {},
		"pool with MaxIdle":       func(p *redis.Pool) { p.MaxIdle = 3 },
		"pool with MaxActive":     func(p *redis.Pool) { p.MaxIdle, p.MaxActive, p.Wait = 8, 32, true },
		"pool that keeps nothing": func(p *redis.Pool) { p.MaxIdle, p.MaxActive, p.Wait = 7, 7, true },
	} {
		t.Run(name, func(t *testing.T) {
			drivertest.Run(t, func(t *testing.T, addr string) drivertest.Subject {
				pool := newPool(t, addr)
				set(pool)
				var d driver.Driver = newDriver(t, pool)
				if 0 < pool.MaxActive && pool.MaxActive < 32 {
					d = struct{ driver.Driver }{d} // it has no room for the suite's 8 subscriptions at once
				}
				return drivertest.Subject{
					Driver: d,
					Stranger: func(ctx context.Context, args ...string) error {
						return application(pool, ctx, args...)
					},
				}
			})
		})
	}
	t.Run("from a URL", func(t *testing.T) {
		drivertest.Run(t, func(t *testing.T, addr string) drivertest.Subject {
			return drivertest.Subject{Driver: openURL(t, addr)}
		})
	})
}

func TestServers(t *testing.T) { servertest.Run(t, "redigo", redigo.Open) }

func FuzzReplies(f *testing.F) { drivertest.FuzzReplies(f, openURL) }

func FuzzNotices(f *testing.F) { drivertest.FuzzNotices(f, openURL) }

func TestHostileReplies(t *testing.T) { drivertest.HostileReplies(t, openURL) }

func openURL(tb testing.TB, addr string) driver.Driver {
	return servertest.Open(tb, redigo.Open, "redis://"+addr)
}

// newPool is a pool as people make it: nothing but a Dial, without a time-out
// anywhere.
func newPool(t testing.TB, addr string) *redis.Pool {
	pool := &redis.Pool{Dial: func() (redis.Conn, error) { return redis.Dial("tcp", addr) }}
	t.Cleanup(func() { _ = pool.Close() })
	return pool
}

// newDriver returns the driver of a pool.
func newDriver(t testing.TB, pool *redis.Pool) servertest.Driver {
	t.Helper()
	node, err := redigo.Node(pool)
	if err != nil {
		t.Fatal(err)
	}
	return servertest.Closing(t, node.Driver)
}

// idles leaves so many connections in the pool.
func idles(t *testing.T, pool *redis.Pool, size int) {
	t.Helper()
	pool.MaxIdle = size
	all := make([]redis.Conn, size)
	for i := range all {
		all[i] = pool.Get()
	}
	for _, conn := range all {
		if err := conn.Close(); err != nil {
			t.Fatal(err)
		}
	}
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

const short = 200 * time.Millisecond // for a call that will not be answered

// returnsInTime sends one command to a server that will not answer, and returns
// Do's error.
func returnsInTime(t testing.TB, d driver.Driver) error {
	t.Helper()
	watch := patient.Start()
	_, err := d.Do(servertest.Within(t, short), []driver.Command{servertest.Command("SET", "key", "value")})
	if took := watch.Took(); took > short+2*time.Second { // 50ms, and what computes on a busy machine
		t.Errorf("Do with %v to go returned after %v", short, took)
	}
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Do = %v, want that its deadline has passed", err)
	}
	return err
}
