package goredis_test

import (
	"context"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/driver/drivertest"
	"github.com/quorumlock/quorumlock/driver/goredis"
)

// TestDriver runs the suite with a client made as people make it.
func TestDriver(t *testing.T) {
	drivertest.Run(t, func(t *testing.T, addr string) drivertest.Subject {
		client := redis.NewClient(&redis.Options{Addr: addr})
		stranger := func(ctx context.Context, args ...string) error {
			boxed := make([]any, len(args))
			for i, arg := range args {
				boxed[i] = arg
			}
			return client.Do(ctx, boxed...).Err()
		}
		return drivertest.Subject{Driver: open(t, client), Stranger: stranger}
	})
}

// TestDriverFromURL runs the suite over what Open makes.
func TestDriverFromURL(t *testing.T) {
	drivertest.Run(t, func(t *testing.T, addr string) drivertest.Subject {
		nodes, err := goredis.Open("redis://" + addr)
		if err != nil {
			t.Fatal(err)
		}
		return drivertest.Subject{Driver: closing(t, nodes[0].Driver)}
	})
}

// open returns the client's driver. Both are closed at the end.
func open(t testing.TB, client redis.UniversalClient, opts ...goredis.Option) *goredis.Driver {
	t.Helper()
	node, err := goredis.Node(client, opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	return closing(t, node.Driver)
}

func closing(t testing.TB, d driver.Driver) *goredis.Driver {
	own := d.(*goredis.Driver)
	t.Cleanup(func() {
		if err := own.Close(); err != nil {
			t.Errorf("Close = %v, want nil", err)
		}
	})
	return own
}
