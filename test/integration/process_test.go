package integration

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/redlock"
	"github.com/quorumlock/quorumlock/test/certificates"
	"github.com/quorumlock/quorumlock/test/integration/server"
	"github.com/quorumlock/quorumlock/test/patient"
	"github.com/quorumlock/quorumlock/test/redisserver"
)

// needProcesses skips a test where processes cannot run, and returns their kind.
func needProcesses(t *testing.T) *kind {
	t.Helper()
	if kinds[1].missing != nil {
		t.Skip(kinds[1].missing)
	}
	return kinds[1]
}

// onProcesses runs the test over every client where processes can run.
func onProcesses(t *testing.T, name string, test func(t *testing.T, c client)) {
	t.Helper()
	onProcessesOver(t, clients, name, test)
}

// one is the client whose turn it is in row n of a table: for what all clients do alike.
func one(n int) []client { return clients[n%len(clients):][:1] }

// onProcessesOver is onProcesses over some of the clients.
func onProcessesOver(t *testing.T, over []client, name string, test func(t *testing.T, c client)) {
	t.Helper()
	needProcesses(t)
	for _, c := range over {
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

// newLocker makes a Locker whose leases end by themselves, on nodes that may be unfit or gone in the
// end: what Close says then is no fault.
func newLocker(t *testing.T, nodes []driver.Node, options ...redlock.Option) *redlock.Locker {
	t.Helper()
	return newRenewing(t, nodes, append([]redlock.Option{redlock.WithoutRenewal()}, options...)...)
}

// newRenewing is newLocker, but the leases are renewed.
func newRenewing(t *testing.T, nodes []driver.Node, options ...redlock.Option) *redlock.Locker {
	t.Helper()
	locker, err := redlock.New(nodes, append([]redlock.Option{redlock.WithNodeTimeout(generous), redlock.WithMaxOutage(patience)}, options...)...)
	must(t, err)
	t.Cleanup(func() { _ = locker.Close() })
	return locker
}

// upgrade makes the reader the writer, once releases of others have reached all nodes.
func upgrade(ctx context.Context, reader *redlock.Lock) (writer *redlock.Lock, err error) {
	for err = redlock.ErrTaken; errors.Is(err, redlock.ErrTaken) || errors.Is(err, redlock.ErrContended); {
		writer, err = reader.TryUpgrade(ctx)
	}
	return writer, err
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

// Client and server may disagree about TLS in several ways. The error says what mends it, and
// nobody waits for a certificate that is not trusted.
func TestTLS(t *testing.T) {
	t.Parallel()
	onProcesses(t, "", func(t *testing.T, c client) {
		certs := certificates.New(t, "locks.example")
		port, err := redisserver.FreePort()
		must(t, err)
		var args []string
		for _, line := range certs.Config(fmt.Sprint(port)) {
			args = append(args, strings.Fields("--"+line)...)
		}
		p := process(t, args...)
		secure := fmt.Sprintf("127.0.0.1:%d", port)
		for _, tt := range []struct{ url, says string }{
			{"rediss://" + secure + "?ca=" + certs.CA + "&servername=locks.example", ""},
			{"rediss://" + secure + "?ca=" + certs.CA, "servername="},
			{"rediss://" + secure + "?servername=locks.example", "?ca=FILE"},
			{"rediss://" + p.Addr() + "?ca=" + certs.CA, "or not (redis://)"},
			{"redis://" + secure, "rediss://"},
		} {
			nodes := c.reach(t, tt.url)
			locker, err := redlock.New(nodes, redlock.WithNodeTimeout(generous))
			must(t, err)
			watch := patient.Start()
			lock, err := locker.Acquire(t.Context(), t.Name(), redlock.WithMaxWait(2*generous))
			took := watch.Took()
			switch {
			case tt.says == "" && err != nil:
				t.Errorf("%s: Acquire = %v", tt.url, err)
			case tt.says == "":
				must(t, lock.Release())
			case !errors.Is(err, redlock.ErrNoQuorum) || !mentions(err, tt.says):
				t.Errorf("%s: Acquire = %v, want ErrNoQuorum that says %q", tt.url, err, tt.says)
			case strings.HasPrefix(tt.url, "rediss://"+secure) && took > generous:
				t.Errorf("%s: Acquire waited %v for what waiting cannot mend: %v", tt.url, took, err)
			}
			must(t, locker.Close())
		}
	})
}
