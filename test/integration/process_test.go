package integration

import (
	"fmt"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/quorumlock/quorumlock/test/integration/server"
)

// onProcesses runs the test over every client where processes can run.
func onProcesses(t *testing.T, name string, test func(t *testing.T, c client)) {
	t.Helper()
	if processes := kinds[1]; processes.missing != nil {
		t.Skip(processes.missing)
	}
	for _, c := range clients {
		t.Run(strings.TrimPrefix(name+"/"+c.name, "/"), func(t *testing.T) {
			t.Parallel()
			test(t, c)
		})
	}
}

func process(t *testing.T, args ...string) *server.Process {
	t.Helper()
	p, err := server.Launch(args...)
	must(t, err)
	t.Cleanup(func() { must(t, p.Close()) })
	return p
}

// look connects to a server for the test itself.
func look(t *testing.T, p *server.Process) *redis.Client {
	c := redis.NewClient(&redis.Options{Addr: p.Addr(), MaxRetries: -1, DisableIdentity: true, Protocol: 2})
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// demote makes the server a replica, of a master that nobody can reach.
func demote(t *testing.T, c *redis.Client) {
	t.Helper()
	must(t, c.ReplicaOf(t.Context(), "127.0.0.1", "1").Err())
}

// occupy puts a list where the lock should be.
func occupy(t *testing.T, c *redis.Client) {
	t.Helper()
	must(t, c.RPush(t.Context(), t.Name(), "job").Err())
}

// fill fills the server's memory and lets it evict nothing.
func fill(t *testing.T, c *redis.Client) {
	t.Helper()
	must(t, c.ConfigSet(t.Context(), "maxmemory", "1mb").Err())
	for i := range 10_000 {
		err := c.Set(t.Context(), fmt.Sprint("filler", i), strings.Repeat("x", 10_000), 0).Err()
		if err != nil && strings.HasPrefix(err.Error(), "OOM") {
			return
		}
		must(t, err)
	}
	t.Fatal("the server takes more than it should")
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
