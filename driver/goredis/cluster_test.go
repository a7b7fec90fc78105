package goredis_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/driver/drivertest"
)

// TestDriverOverCluster runs the suite with a cluster client.
func TestDriverOverCluster(t *testing.T) {
	drivertest.Run(t, func(t *testing.T, addr string) drivertest.Subject {
		return drivertest.Subject{Driver: open(t, clusterOf(nil, addr))}
	})
}

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
	server := start(t, "cluster-port "+freePort(t), "cluster-enabled yes")
	server.ask("CLUSTER", "ADDSLOTSRANGE", 0, 16383)
	for !strings.Contains(fmt.Sprint(server.ask("CLUSTER", "INFO")), "cluster_state:ok") {
		time.Sleep(10 * time.Millisecond) // between two questions: it takes 2s to agree with itself
	}
	d := open(t, redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{server.Addr}}))
	expect(t, d, ok, "SET", "{a}", "1", "NX", "PX", "10000")
	replies, err := d.Do(within(t, patience), []driver.Command{
		command("TIME"), command("SET", "b", "2"), command("GET", "b"), command("GET", "{a}"),
	})
	if err != nil || len(replies) != 4 || replies[0].Kind != driver.Array || replies[2].Str != "2" || replies[3].Str != "1" {
		t.Fatalf("a batch for several slots = %+v, %v", replies, err)
	}

	// go-redis itself would send this 4 times.
	server.ask("CLUSTER", "DELSLOTSRANGE", 0, 16383)
	before := server.calls("set")
	replies, err = d.Do(within(t, patience), []driver.Command{command("SET", "{a}", "3")})
	if err != nil || code(replies[0].Err()) != "CLUSTERDOWN" {
		t.Errorf("SET without slots = %v, %v, want the reply CLUSTERDOWN", replies, err)
	}
	if sent := server.calls("set") - before; sent != 1 {
		t.Errorf("the SET that was answered by CLUSTERDOWN was sent %d times", sent)
	}
}

// The keys "a" and "b" have the slots 15495 and 3300.
func TestClusterOfTwoMasters(t *testing.T) {
	low, high := start(t), start(t)
	d := open(t, clusterOf(nil, low.Addr, high.Addr))
	batch := []driver.Command{
		command("SET", "a", "1"), command("SET", "b", "2"), command("PING"), command("GET", "a"), command("GET", "b"),
	}
	replies, err := d.Do(within(t, patience), batch)
	if err != nil || len(replies) != 5 || replies[3].Str != "1" || replies[4].Str != "2" {
		t.Fatalf("a batch for two masters = %+v, %v", replies, err)
	}
	if low.ask("DBSIZE") != int64(1) || high.ask("DBSIZE") != int64(1) {
		t.Error("the keys did not go to a master each")
	}

	thaw := low.Freeze()
	replies, err = d.Do(within(t, 200*time.Millisecond), batch)
	if len(replies) != 1 || replies[0].Str != "OK" || !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, driver.ErrNotSent) {
		t.Errorf("with the second command's master stopped: %+v, %v, want the first reply, and that the deadline has passed", replies, err)
	} else if want := "goredis: 1 of 2 masters of the cluster: context deadline exceeded"; err.Error() != want {
		t.Errorf("the error is %q, want %q", err, want)
	}
	expect(t, d, text("1"), "GET", "a")

	thaw()
	expect(t, d, text("2"), "GET", "b")
	high.Kill()
	_, _ = d.Do(within(t, patience), batch[:1]) // may still find the connection that has gone
	defer low.Freeze()()
	_, err = d.Do(within(t, 200*time.Millisecond), batch)
	if !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, driver.ErrNotSent) {
		t.Errorf("with one master stopped and the other gone: %v, want that the deadline has passed, and that something may have been sent", err)
	} else if want := "goredis: 2 of 2 masters of the cluster: context deadline exceeded"; err.Error() != want {
		t.Errorf("the error is %q, want %q", err, want)
	}
}

func TestClusterMapIsAskedForAgain(t *testing.T) {
	var asked atomic.Int32
	d := open(t, clusterOf(&asked, start(t).Addr))
	expect(t, d, ok, "SET", "key", "value")
	before := asked.Load()
	moved := driver.Reply{Kind: driver.Failure, Str: "MOVED 1 127.0.0.1:1"}
	expect(t, d, moved, "EVAL", "return redis.error_reply('MOVED 1 127.0.0.1:1')", "0")
	for asked.Load() == before {
		time.Sleep(time.Millisecond) // go-redis asks in the background
	}
}

func TestClusterThatCannotBeReached(t *testing.T) {
	closed := "127.0.0.1:" + freePort(t)
	d := open(t, redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{closed}}))
	begun := time.Now()
	_, err := d.Do(within(t, patience), []driver.Command{command("GET", "key")})
	if !errors.Is(err, driver.ErrNotSent) || time.Since(begun) > time.Second {
		t.Errorf("Do = %v after %v, want ErrNotSent at once", err, time.Since(begun))
	} else if want := "goredis: dial tcp " + closed + ": "; !strings.HasPrefix(err.Error(), want) {
		t.Errorf("the error is %q, want %s…", err, want)
	}
}
