package rueidis_test

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	client "github.com/redis/rueidis"

	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/driver/rueidis"
	"github.com/quorumlock/quorumlock/internal/redisserver"
)

// A stopped server keeps our calls no longer than their deadlines, and what an
// application has under way on the same client only until it continues.
func TestStoppedServer(t *testing.T) {
	server := redisserver.Start(t)
	c := newClient(t, server.Addr)
	nodes, err := rueidis.Nodes(c)
	if err != nil {
		t.Fatal(err)
	}
	d := driverOf(t, nodes[0])
	do(t, d, command("SET", "before", "token"))

	server.Signal(syscall.SIGSTOP)
	var strangers sync.WaitGroup
	for i := range 4 {
		strangers.Go(func() {
			key := "stranger " + strconv.Itoa(i)
			if err := c.Do(context.Background(), c.B().Set().Key(key).Value("1").Build()).Error(); err != nil {
				t.Errorf("SET of an application on the same client: %v", err)
			}
		})
	}
	var ours sync.WaitGroup
	for i := range 12 { // more than may be left behind
		ours.Go(func() {
			ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
			defer cancel()
			_, err := d.Do(ctx, []driver.Command{command("SET", "ours "+strconv.Itoa(i), "token"), plain("PING")})
			deadline, _ := ctx.Deadline()
			if late := time.Since(deadline); late > 2*time.Second {
				t.Errorf("Do returned %v after its deadline, want at most 50ms (and room for a busy machine)", late)
			}
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("Do on a stopped server = %v, want %v", err, context.DeadlineExceeded)
			} else if want := "rueidis: context deadline exceeded"; err.Error() != want {
				t.Errorf("the error is %q, want %q", err, want)
			}
		})
	}
	ours.Wait()
	server.Signal(syscall.SIGCONT)
	strangers.Wait()

	// The connection was kept, so this comes behind all that was sent before.
	sent := 0
	for i := range 12 {
		if do(t, d, command("GET", "ours "+strconv.Itoa(i)))[0].Str == "token" {
			sent++
		}
	}
	if sent != 8 {
		t.Errorf("of 12 calls that were cut off the server carried out %d, want 8: the rest had to wait for a place", sent)
	}
}

// A node may be down when the service starts, and come back at any time.
func TestDeadNodeComesBack(t *testing.T) {
	addr := redisserver.FreeAddr(t)
	nodes, err := rueidis.FromOptions(client.ClientOption{InitAddress: []string{addr}})
	if err != nil {
		t.Fatalf("FromOptions with a dead node: %v", err)
	}
	if nodes[0].Name != addr || nodes[0].Client != nil {
		t.Errorf("the node is named %q with client %v, want %q and none", nodes[0].Name, nodes[0].Client, addr)
	}
	d := driverOf(t, nodes[0])
	for range 3 {
		if _, err := try(d, command("SET", "key", "token")); !errors.Is(err, driver.ErrNotSent) || !errors.Is(err, syscall.ECONNREFUSED) {
			t.Fatalf("Do on a dead node = %v, want that nothing was sent and that the connection was refused", err)
		} else if want := "rueidis: dial tcp " + addr + ": "; !strings.HasPrefix(err.Error(), want) {
			t.Errorf("the error is %q, want %s…", err, want)
		}
	}
	for life := range 3 {
		server := redisserver.StartAt(t, addr)
		_, err := try(d, command("SET", "key", "token", "NX"))
		if err != nil { // the connection of the life before, if its end has not been noticed
			t.Logf("life %d: first Do = %v", life, err)
			do(t, d, command("SET", "key", "token", "NX"))
		}
		if got := do(t, d, command("GET", "key"))[0]; got.Str != "token" {
			t.Errorf("life %d: GET = %+v, want token", life, got)
		}
		server.Kill()
	}
}

// The package's doc says how many connections there are.
func TestConnections(t *testing.T) {
	server := redisserver.Start(t)
	c := newClient(t, server.Addr)
	count := func() int {
		t.Helper()
		list, err := c.Do(context.Background(), c.B().Arbitrary("CLIENT", "LIST", "TYPE", "normal").Build()).ToString()
		if err != nil {
			t.Fatal(err)
		}
		return strings.Count(list, "id=")
	}
	before := count()
	nodes, err := rueidis.Nodes(c)
	if err != nil {
		t.Fatal(err)
	}
	own, err := rueidis.Open("redis://" + server.Addr)
	if err != nil {
		t.Fatal(err)
	}
	defer closeAll(own)
	for _, tt := range []struct {
		node driver.Node
		adds int
	}{{nodes[0], 1}, {own[0], 2}} {
		var callers sync.WaitGroup
		for range 64 {
			callers.Go(func() { do(t, tt.node.Driver, command("SET", "key", "token"), command("GET", "key")) })
		}
		callers.Wait()
		if got := count() - before; got != tt.adds {
			t.Errorf("64 callers of %s opened %d connections, want %d", tt.node.Name, got, tt.adds)
		}
		closeAll([]driver.Node{tt.node})
		await(t, "Close has given the connections back", func() bool { return count() == before })
	}
	do(t, nodes[0].Driver, command("GET", "key")) // after Close it connects again
	closeAll(nodes)
}

// In a bubble there are no networks, and time is virtual.
func TestBubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := newMemory(nil)
		nodes, err := rueidis.FromOptions(client.ClientOption{
			InitAddress: []string{"node"}, DialCtxFn: node.dial,
			ForceSingleClient: true, DisableCache: true, AlwaysRESP2: true,
		})
		if err != nil {
			t.Fatal(err)
		}
		d := nodes[0].Driver
		do(t, d, command("SET", "key", "token"))
		time.Sleep(time.Hour) // rueidis keeps an idle connection alive meanwhile
		if got := do(t, d, command("SET", "key", "another", "NX"), command("GET", "key")); got[0].Kind != driver.Nil || got[1].Str != "token" {
			t.Errorf("SET of a key that is held, and GET of it = %+v, want nil and token", got)
		}
		closeAll(nodes)
		synctest.Wait()
	})
}

// A connection that comes about after Close is given back, and the next call makes its
// own.
func TestCloseWhileConnecting(t *testing.T) {
	node := newMemory(nil)
	dialing, proceed := make(chan struct{}), make(chan struct{})
	var first sync.Once
	nodes, err := rueidis.FromOptions(client.ClientOption{
		InitAddress: []string{"node"}, ForceSingleClient: true,
		DialCtxFn: func(ctx context.Context, addr string, dialer *net.Dialer, config *tls.Config) (net.Conn, error) {
			first.Do(func() {
				close(dialing)
				<-proceed
			})
			return node.dial(ctx, addr, dialer, config)
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	d := driverOf(t, nodes[0])
	failed := make(chan error, 1)
	go func() {
		_, err := try(d, command("SET", "key", "token"))
		failed <- err
	}()
	<-dialing
	closeAll(nodes)
	close(proceed)
	if err := <-failed; !errors.Is(err, driver.ErrNotSent) {
		t.Errorf("Do while Close came in between = %v, want that nothing was sent", err)
	}
	if got := do(t, d, command("SET", "key", "token"))[0]; got.Str != "OK" {
		t.Errorf("SET after that = %+v, want OK", got)
	}
}

func TestUnixSocket(t *testing.T) {
	socket := t.TempDir() + "/redis.sock"
	redisserver.Start(t, "unixsocket "+socket)
	nodes, err := rueidis.Open("unix://" + socket + "?db=1")
	if err != nil {
		t.Fatal(err)
	}
	if got := do(t, driverOf(t, nodes[0]), command("SET", "key", "token"))[0]; got.Str != "OK" {
		t.Errorf("SET over a socket = %+v, want OK", got)
	}
}
