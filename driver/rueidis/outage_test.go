package rueidis_test

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	client "github.com/redis/rueidis"

	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/test/patient"
	"github.com/quorumlock/quorumlock/test/redisserver"
	"github.com/quorumlock/quorumlock/test/servertest"
)

// Calls to a stopped server leave eight behind; the others are not sent.
func TestStoppedServer(t *testing.T) {
	server := redisserver.Start(t)
	d := openURL(t, server.Addr)
	servertest.Ask(t, d, "SET", "before", "token")
	thaw := server.Freeze()
	const calls = 12
	var ours sync.WaitGroup
	for i := range calls {
		ours.Go(func() {
			_, err := d.Do(servertest.Within(t, 100*time.Millisecond), []driver.Command{servertest.Command("SET", "ours "+strconv.Itoa(i), "token")})
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("Do on a stopped server = %v, want %v", err, context.DeadlineExceeded)
			}
		})
	}
	ours.Wait()
	thaw()
	patient.Until(t, "the server carries out 8 of 12 calls", func() bool { return server.Ask("DBSIZE").Int == 1+8 })
}

// The package's doc says how many connections there are.
func TestConnections(t *testing.T) {
	server := redisserver.Start(t)
	c := newClient(t, client.ClientOption{InitAddress: []string{server.Addr}})
	count := func() int { return strings.Count(server.Ask("CLIENT", "LIST", "TYPE", "normal").Str, "id=") }
	before := count()
	for name, tt := range map[string]struct {
		d    driver.Driver
		adds int
	}{"a client": {driverOf(t, c), 1}, "a URL": {openURL(t, server.Addr), 2}} {
		var callers sync.WaitGroup
		for range 64 {
			callers.Go(func() {
				servertest.Do(t, tt.d, servertest.Command("SET", "key", "token"), servertest.Command("GET", "key"))
			})
		}
		callers.Wait()
		if got := count() - before; got != tt.adds {
			t.Errorf("64 callers of %s opened %d connections, want %d", name, got, tt.adds)
		}
		servertest.Close(t, tt.d)
		patient.Until(t, "Close has given the connections back", func() bool { return count() == before })
		servertest.Ask(t, tt.d, "GET", "key") // after Close it connects again
		servertest.Close(t, tt.d)
		patient.Until(t, "Close has given the connections back", func() bool { return count() == before })
	}
}

// A connection that comes about after Close is given back, and the next call makes its
// own.
func TestCloseWhileConnecting(t *testing.T) {
	dial := inBubble(t, nil).DialCtxFn
	dialing, proceed := make(chan struct{}), make(chan struct{})
	var first sync.Once
	d := open(t, client.ClientOption{
		InitAddress: []string{"node"}, ForceSingleClient: true,
		DialCtxFn: func(ctx context.Context, addr string, dialer *net.Dialer, config *tls.Config) (net.Conn, error) {
			first.Do(func() {
				close(dialing)
				<-proceed
			})
			return dial(ctx, addr, dialer, config)
		},
	})
	failed := make(chan error, 1)
	go func() {
		_, err := d.Do(servertest.Within(t, servertest.Patience), []driver.Command{servertest.Command("SET", "key", "token")})
		failed <- err
	}()
	<-dialing
	servertest.Close(t, d)
	close(proceed)
	if err := <-failed; !errors.Is(err, driver.ErrNotSent) {
		t.Errorf("Do while Close came in between = %v, want that nothing was sent", err)
	}
	servertest.Expect(t, d, "OK", "SET", "key", "token")
}
