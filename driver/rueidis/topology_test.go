package rueidis_test

import (
	"context"
	"fmt"
	"net"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	client "github.com/redis/rueidis"

	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/driver/rueidis"
	"github.com/quorumlock/quorumlock/internal/redisserver"
)

// A node that is a Cluster of two shards.
func TestCluster(t *testing.T) {
	var shards []*redisserver.Server
	var buses []string
	for range 2 {
		_, bus, _ := net.SplitHostPort(redisserver.FreeAddr(t))
		shards = append(shards, redisserver.Start(t, "cluster-enabled yes", "cluster-port "+bus))
		buses = append(buses, bus)
	}
	ask(t, shards[0], "CLUSTER", "ADDSLOTSRANGE", "0", "8191")
	ask(t, shards[1], "CLUSTER", "ADDSLOTSRANGE", "8192", "16383")
	host, port, _ := net.SplitHostPort(shards[1].Addr)
	ask(t, shards[0], "CLUSTER", "MEET", host, port, buses[1])
	for _, shard := range shards {
		await(t, "the cluster is up", func() bool { return strings.Contains(ask(t, shard, "CLUSTER", "INFO"), "cluster_state:ok") })
	}

	c := newClient(t, shards[0].Addr)
	nodes, err := rueidis.Nodes(c)
	if err != nil {
		t.Fatal(err)
	}
	if nodes[0].Name != "node 1" {
		t.Errorf("a Cluster, which has many addresses, is named %q, want node 1", nodes[0].Name)
	}
	d := driverOf(t, nodes[0])

	// "a" is in slot 15495 and "b" in 3300.
	both := plain("MGET", "a", "b")
	both.FirstKey, both.Keys = 1, 2
	replies := do(t, d, plain("PING"), command("SET", "a", "1"), command("SET", "b", "2"), both, plain("PING"), command("GET", "a"), command("GET", "b"))
	var got []string
	for _, reply := range replies {
		got = append(got, strings.Fields(reply.Str)[0])
	}
	if want := "PONG OK OK CROSSSLOT PONG 1 2"; strings.Join(got, " ") != want {
		t.Errorf("a batch to both shards = %q, want %q", got, want)
	}
	var callers sync.WaitGroup
	for i := range 64 {
		callers.Go(func() {
			key := fmt.Sprint("key ", i)
			if got := do(t, d, command("SET", key, "1"), command("APPEND", key, "2"), command("GET", key))[2]; got.Str != "12" {
				t.Errorf("SET, APPEND and GET of one key = %+v, want 12", got)
			}
		})
	}
	callers.Wait()

	// A message on one shard reaches subscribers on any.
	for i := range 4 { // they are on a shard at random
		removed, kept := fmt.Sprint("removed ", i), fmt.Sprint("kept ", i)
		s := subscribe(t, d)
		s.add(removed, kept)
		for _, shard := range shards {
			s.receivesFrom(shard, removed, kept)
		}
		s.remove(removed)
		publish(t, shards[0], removed)
		s.receivesFrom(shards[0], kept)
		s.close()
	}

	// One shard stops: calls to it end, calls to the other go on.
	shards[1].Signal(syscall.SIGSTOP)
	for range 20 {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
		if _, err := d.Do(ctx, []driver.Command{command("SET", "a", "1")}); err == nil {
			t.Error("SET on a shard that is stopped returned no error")
		}
		cancel()
		do(t, d, command("SET", "b", "2"))
	}
	shards[1].Signal(syscall.SIGCONT)
	do(t, d, command("SET", "a", "1"))
}

// After a failover the node is the new master.
func TestSentinel(t *testing.T) {
	master := redisserver.Start(t)
	host, port, _ := net.SplitHostPort(master.Addr)
	replica := redisserver.Start(t, "replicaof "+host+" "+port, "repl-diskless-sync-delay 0")
	await(t, "the replica follows", func() bool { return strings.Contains(ask(t, replica, "INFO", "replication"), "master_link_status:up") })
	sentinel := redisserver.StartSentinel(t, "sentinel monitor main "+host+" "+port+" 1")
	nodes, err := rueidis.FromOptions(client.ClientOption{
		InitAddress: []string{sentinel.Addr}, Sentinel: client.SentinelOption{MasterSet: "main"},
	})
	if err != nil {
		t.Fatal(err)
	}
	if nodes[0].Name != "main" {
		t.Errorf("the node is named %q, want main, after the master set", nodes[0].Name)
	}
	d := driverOf(t, nodes[0])
	do(t, d, command("SET", "key", "before"))

	// A connection whose server turns out to be a replica is given up.
	before := do(t, d, plain("CLIENT", "ID"))[0].Int
	ask(t, master, "REPLICAOF", "127.0.0.1", "1")
	if got := do(t, d, command("SET", "key", "before"))[0]; !strings.HasPrefix(got.Str, "READONLY ") {
		t.Errorf("SET on a replica = %+v, want a failure with READONLY", got)
	}
	ask(t, master, "REPLICAOF", "NO", "ONE")
	if after := do(t, d, plain("CLIENT", "ID"))[0].Int; after == before {
		t.Error("the call after a READONLY used the same connection, want another")
	}

	s := subscribe(t, d)
	s.add("key")
	s.receivesFrom(master, "key")
	await(t, "the sentinel begins a failover", func() bool { return ask(t, sentinel, "SENTINEL", "FAILOVER", "main") == "OK" })
	await(t, "the lock reaches the new master", func() bool {
		replies, err := try(d, command("SET", "key", "after"))
		return err == nil && replies[0].Str == "OK" && ask(t, replica, "GET", "key") == "after"
	})
	if err := s.ended(); err == nil {
		t.Error("after a failover the subscription has ended for no reason")
	}
	after := subscribe(t, d)
	after.add("key")
	after.receivesFrom(replica, "key")
}

// ask sends one command to a server directly and returns what it says, errors too.
func ask(t *testing.T, p *redisserver.Server, args ...string) string {
	t.Helper()
	c, err := client.NewClient(client.ClientOption{InitAddress: []string{p.Addr}, ForceSingleClient: true, DisableCache: true})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	message, err := c.Do(context.Background(), c.B().Arbitrary(args...).Build()).ToMessage()
	if err != nil {
		return err.Error()
	}
	text, err := message.ToString()
	if err != nil {
		t.Fatalf("%q = %v, want a string", args, &message)
	}
	return text
}

// await waits until something holds, for half a minute at most.
func await(t *testing.T, what string, holds func() bool) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(30 * time.Second); !holds(); <-tick.C {
		if time.Now().After(deadline) {
			t.Fatalf("after 30s it is still not so that %s", what)
		}
	}
}
