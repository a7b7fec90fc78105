package goredis_test

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/test/patient"
	"github.com/quorumlock/quorumlock/test/redisserver"
	"github.com/quorumlock/quorumlock/test/servertest"
)

// clusterOf returns a cluster client of servers that know of no cluster: each has
// the same share of the slots, in the order of the addresses.
func clusterOf(asked *atomic.Int32, addrs ...string) *redis.ClusterClient {
	return redis.NewClusterClient(&redis.ClusterOptions{
		ClusterSlots: func(context.Context) (slots []redis.ClusterSlot, err error) {
			if asked != nil {
				asked.Add(1)
			}
			for i, addr := range addrs {
				slots = append(slots, redis.ClusterSlot{
					Start: i * 16384 / len(addrs), End: (i+1)*16384/len(addrs) - 1,
					Nodes: []redis.ClusterNode{{Addr: addr}},
				})
			}
			return slots, nil
		},
	})
}

func TestRealCluster(t *testing.T) {
	d, masters := servertest.Cluster(t, func(addr string) driver.Driver {
		return open(t, redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{addr}}))
	})

	// go-redis itself would send this 4 times.
	for _, master := range masters {
		master.Ask("CLUSTER", "DELSLOTSRANGE", "0", "16383")
	}
	before := masters[0].Calls("set") + masters[1].Calls("set")
	if got := servertest.Ask(t, d, "SET", "{a}", "3"); servertest.Code(got.Err()) != "CLUSTERDOWN" {
		t.Errorf("SET without slots = %+v, want the reply CLUSTERDOWN", got)
	}
	if sent := masters[0].Calls("set") + masters[1].Calls("set") - before; sent != 1 {
		t.Errorf("the SET that was answered by CLUSTERDOWN was sent %d times", sent)
	}
}

// The keys "a" and "b" have the slots 15495 and 3300.
func TestClusterOfTwoMasters(t *testing.T) {
	low, high := redisserver.Start(t), redisserver.Start(t)
	d := open(t, clusterOf(nil, low.Addr, high.Addr))
	batch := []driver.Command{
		servertest.Command("SET", "a", "1"), servertest.Command("SET", "b", "2"), servertest.Command("PING"), servertest.Command("GET", "a"), servertest.Command("GET", "b"),
	}
	replies, err := d.Do(servertest.Within(t, servertest.Patience), batch)
	if err != nil || len(replies) != 5 || replies[3].Str != "1" || replies[4].Str != "2" {
		t.Fatalf("a batch for two masters = %+v, %v", replies, err)
	}
	if low.Ask("DBSIZE").Int != 1 || high.Ask("DBSIZE").Int != 1 {
		t.Error("the keys did not go to a master each")
	}

	thaw := low.Freeze()
	replies, err = d.Do(servertest.Within(t, 200*time.Millisecond), batch)
	if len(replies) != 1 || replies[0].Str != "OK" || !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, driver.ErrNotSent) {
		t.Errorf("with the second command's master stopped: %+v, %v, want the first reply, and that the deadline has passed", replies, err)
	} else if want := "goredis: 1 of 2 masters of the cluster: context deadline exceeded"; err.Error() != want {
		t.Errorf("the error is %q, want %q", err, want)
	}
	servertest.Expect(t, d, "1", "GET", "a")

	thaw()
	servertest.Expect(t, d, "2", "GET", "b")
	high.Kill()
	_, _ = d.Do(servertest.Within(t, servertest.Patience), batch[:1]) // may still find the connection that has gone
	defer low.Freeze()()
	_, err = d.Do(servertest.Within(t, 200*time.Millisecond), batch)
	if !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, driver.ErrNotSent) {
		t.Errorf("with one master stopped and the other gone: %v, want that the deadline has passed, and that something may have been sent", err)
	} else if want := "goredis: 2 of 2 masters of the cluster: context deadline exceeded"; err.Error() != want {
		t.Errorf("the error is %q, want %q", err, want)
	}
}

func TestClusterMapIsAskedForAgain(t *testing.T) {
	var asked atomic.Int32
	d := open(t, clusterOf(&asked, redisserver.Start(t).Addr))
	servertest.Expect(t, d, "OK", "SET", "key", "value")
	before := asked.Load()
	servertest.Expect(t, d, "MOVED 1 127.0.0.1:1", "EVAL", "return redis.error_reply('MOVED 1 127.0.0.1:1')", "0")
	patient.Until(t, "go-redis asks, in the background", func() bool { return asked.Load() > before })
}

func TestClusterThatCannotBeReached(t *testing.T) {
	closed := redisserver.FreeAddr(t)
	var dials atomic.Int32
	d := open(t, redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{closed}, Dialer: func(ctx context.Context, network, addr string) (net.Conn, error) {
		dials.Add(1)
		return new(net.Dialer).DialContext(ctx, network, addr)
	}}))
	_, err := d.Do(servertest.Within(t, servertest.Patience), []driver.Command{servertest.Command("GET", "key")})
	if !errors.Is(err, driver.ErrNotSent) || dials.Load() > 3 { // one look for the slots makes one or two, and a client that tries again four and more
		t.Errorf("Do = %v after %d dials, want ErrNotSent after those of one try", err, dials.Load())
	} else if want := "goredis: dial tcp " + closed + ": "; !strings.HasPrefix(err.Error(), want) {
		t.Errorf("the error is %q, want %s…", err, want)
	}
}
