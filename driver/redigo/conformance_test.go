package redigo_test

import (
	"context"
	"testing"

	"github.com/gomodule/redigo/redis"

	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/driver/drivertest"
)

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
			return drivertest.Subject{Driver: open(t, "redis://"+addr)}
		})
	})
}
