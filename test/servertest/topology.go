package servertest

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/test/patient"
	"github.com/quorumlock/quorumlock/test/redisserver"
)

// Cluster lets a driver be a node that is a Cluster of two masters, of which open is given one. The
// key "a" is in slot 15495, the second's, and "b" in 3300.
func Cluster(t *testing.T, open func(addr string) driver.Driver) (driver.Driver, []*redisserver.Server) {
	t.Helper()
	masters := redisserver.StartCluster(t, 2)
	d := open(masters[0].Addr)

	both := Command("MGET", "a", "b")
	both.Keys = 2
	var got []string
	for _, reply := range Do(t, d, Command("PING"), Command("SET", "a", "1"), Command("SET", "b", "2"), both, Command("PING"), Command("GET", "a"), Command("GET", "b")) {
		got = append(got, strings.Fields(reply.Str)[0])
	}
	if want := "PONG OK OK CROSSSLOT PONG 1 2"; strings.Join(got, " ") != want {
		t.Errorf("a batch to both masters = %q, want %q", got, want)
	}
	// A driver follows no ASK: the commands of a batch about a key run at one server, in their order.
	var ids [2]string
	for i, master := range masters {
		ids[i] = master.Ask("CLUSTER", "MYID").Str
	}
	masters[0].Ask("CLUSTER", "SETSLOT", "15495", "IMPORTING", ids[1])
	masters[1].Ask("CLUSTER", "SETSLOT", "15495", "MIGRATING", ids[0])
	got = nil
	for _, reply := range Do(t, d, Command("SET", "{a}:new", "1"), Command("GET", "a"), Command("GET", "{a}:new")) {
		got = append(got, strings.Fields(reply.Str)[0])
	}
	if want := "ASK 1 ASK"; strings.Join(got, " ") != want {
		t.Errorf("a batch to a slot that moves = %q, want %q", got, want)
	}
	for _, master := range masters {
		master.Ask("CLUSTER", "SETSLOT", "15495", "STABLE")
	}

	var callers sync.WaitGroup
	for i := range 64 {
		callers.Go(func() {
			key := fmt.Sprint("key ", i)
			if got := Do(t, d, Command("SET", key, "1"), Command("APPEND", key, "2"), Command("GET", key))[2]; got.Str != "12" {
				t.Errorf("SET, APPEND and GET of one key = %+v, want 12", got)
			}
		})
	}
	callers.Wait()

	// A message on one master reaches subscribers on any.
	for i := range 4 { // they may be on a master at random
		removed, kept := fmt.Sprint("removed ", i), fmt.Sprint("kept ", i)
		s := Subscribe(t, d, removed, kept)
		for _, master := range masters {
			s.Hear(master, removed, kept)
		}
		if err := s.Remove(Within(t, Patience), removed); err != nil {
			t.Fatal(err)
		}
		s.Confirm("later")
		s.Confirm("later still") // what is asked for at once may go out before what is given up
		masters[0].Ask("PUBLISH", removed, "unheard")
		s.Hear(masters[0], kept)
		s.Quit()
	}

	// One master stops: calls to it end, calls to the other go on.
	thaw := masters[1].Freeze()
	for range 20 {
		cmds := []driver.Command{Command("SET", "a", "1")}
		if _, err := d.Do(Within(t, 20*time.Millisecond), cmds); err == nil {
			t.Error("SET on a master that is stopped returned no error")
		}
		cmds[0].Args[1] = "" // the caller's again: the race detector sees a call left behind that reads it
		Ask(t, d, "SET", "b", "2")
	}
	thaw()
	Ask(t, d, "SET", "a", "1")
	return d, masters
}

// ClusterByURL lets open make a node of the URL of a Cluster of two masters.
func ClusterByURL(t *testing.T, open func(urls ...string) ([]driver.Node, error)) {
	t.Helper()
	masters := redisserver.StartCluster(t, 2)
	nodes, err := open("redis-cluster://" + masters[0].Addr + "?addr=" + masters[1].Addr)
	if err != nil {
		t.Fatal(err)
	}
	d := Closing(t, nodes[0].Driver)
	Do(t, d, Command("SET", "a", "1"), Command("SET", "b", "2"))
	for i, key := range []string{"b", "a"} {
		if exists := masters[i].Ask("EXISTS", key); exists.Int != 1 {
			t.Errorf("EXISTS %s at its master = %+v, want 1", key, exists)
		}
	}
}

// Failover lets a driver be a node that a Sentinel knows as "main", which changes. It returns what is
// the master then.
func Failover(t *testing.T, open func(sentinel string) driver.Driver) (driver.Driver, *redisserver.Server) {
	t.Helper()
	master := redisserver.Start(t)
	replica := redisserver.Start(t, "replicaof 127.0.0.1 "+master.Port, "repl-diskless-sync-delay 0")
	patient.Until(t, "the replica follows", func() bool {
		return strings.Contains(replica.Ask("INFO", "replication").Str, "master_link_status:up")
	})
	sentinel := redisserver.StartSentinel(t, "sentinel monitor main 127.0.0.1 "+master.Port+" 1")
	d := open(sentinel.Addr)
	Expect(t, d, "OK", "SET", "key", "before")

	// A Renew is followed by the discovery.
	before := Ask(t, d, "CLIENT", "ID").Int
	d.(driver.Renewer).Renew()
	if after := Ask(t, d, "CLIENT", "ID").Int; after == before {
		t.Error("the call after a Renew used the same connection, want another")
	}

	// Subscriptions find the master by the same discovery.
	s := Subscribe(t, d, "key")
	s.Hear(master, "key")
	patient.Until(t, "the sentinel begins a failover", func() bool { return sentinel.Ask("SENTINEL", "FAILOVER", "main").Str == "OK" })
	patient.Until(t, "the replica is the master", func() bool {
		role, err := redisserver.Ask(Within(t, Patience), replica.Addr, "ROLE") // whose connections it closes
		return err == nil && role.Elems[0].Str == "master"
	})
	_ = s.End()
	patient.Until(t, "the lock reaches the new master", func() bool {
		d.(driver.Renewer).Renew() // as the core does where the node is unfit
		replies, err := d.Do(Within(t, Patience), []driver.Command{Command("SET", "key", "after")})
		return err == nil && replies[0].Str == "OK" && replica.Ask("GET", "key").Str == "after"
	})
	Subscribe(t, d, "key").Hear(replica, "key")
	return d, replica
}
