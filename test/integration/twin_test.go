package integration

import (
	"context"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/quorumlock/quorumlock/driver/goredis"
	"github.com/quorumlock/quorumlock/redlock"
	"github.com/quorumlock/quorumlock/test/integration/server"
)

// A name that resolves anew: the client makes its next connection to another server, and
// tells nobody. Within a second that server is no two votes any more.
func TestAServerThatANameLeadsToAnewIsNoSecondVote(t *testing.T) {
	if processes := kinds[1]; processes.missing != nil {
		t.Skip(processes.missing)
	}
	for name, guard := range map[string][]redlock.Option{
		"without the guard": nil,
		"with the guard":    {redlock.WithRestartGuard(longest)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var servers [3]*server.Process
			var names [3]atomic.Pointer[string]
			var made []redis.UniversalClient
			for i := range servers {
				servers[i] = launch(t, server.Setup{})
				addr := servers[i].Addr()
				names[i].Store(&addr)
				c := redis.NewClient(&redis.Options{Addr: addr, Dialer: func(ctx context.Context, network, _ string) (net.Conn, error) {
					return new(net.Dialer).DialContext(ctx, network, *names[i].Load())
				}})
				t.Cleanup(func() { _ = c.Close() })
				made = append(made, c)
			}
			nodes, err := goredis.Nodes(made...)
			if err != nil {
				t.Fatal(err)
			}
			locker, err := redlock.New(nodes, append(guard, redlock.WithTTL(longest))...)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = locker.Close() })
			if guard != nil {
				if err := locker.AdmitNewNodes(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			for range 3 {
				lock, err := locker.Acquire(t.Context(), "k")
				if err != nil {
					t.Fatal(err)
				}
				if err := lock.Release(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			if err := servers[2].Kill(); err != nil {
				t.Fatal(err)
			}
			other := servers[1].Addr()
			names[0].Store(&other)
			if _, err := servers[0].Do("CLIENT", "KILL", "TYPE", "normal"); err != nil {
				t.Fatal(err)
			}
			moved := time.Now()
			early, tries := 0, 0
			for time.Since(moved) < 4*time.Second {
				lock, err := locker.TryAcquire(t.Context(), "k")
				switch late := time.Since(moved) > 1500*time.Millisecond; { // a second and a slow machine
				case err == nil && late:
					t.Fatalf("%v after the name had moved one server of three made a lock: %v", time.Since(moved), lock.Votes())
				case err == nil:
					early++
				case late:
					tries++
				}
				if lock != nil {
					_ = lock.Release(t.Context())
				}
				time.Sleep(5 * time.Millisecond) // between two tries
			}
			t.Logf("%d locks in the first second and none in %d tries afterwards", early, tries)
			own := servers[0].Addr()
			names[0].Store(&own)
			if _, err := servers[1].Do("CLIENT", "KILL", "TYPE", "normal"); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			if _, err := locker.Acquire(ctx, "k"); err != nil {
				t.Errorf("when the name leads back: %v", err)
			}
		})
	}
}
