package redlocktest

import (
	"errors"
	"net"
	"slices"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// kinds runs the test over nodes with and without a listener.
func kinds(t *testing.T, test func(t *testing.T, nodes Nodes)) {
	t.Run("listening", func(t *testing.T) { test(t, Start(t, 5)) })
	t.Run("bubble", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) { test(t, StartInBubble(t, 5)) })
	})
}

func TestNodesAreIndependent(t *testing.T) {
	kinds(t, func(t *testing.T, nodes Nodes) {
		ask(t, nodes[2], "SET", "key", "token")
		for i, node := range nodes {
			if _, found := node.Get("key"); found != (i == 2) {
				t.Errorf("the key was set on the third node: found on %s = %v", node.Addr(), found)
			}
		}
		addrs := nodes.Addrs()
		slices.Sort(addrs)
		if len(slices.Compact(addrs)) != 5 {
			t.Errorf("addresses %v, want five different ones", addrs)
		}
	})
}

func TestStopAndStart(t *testing.T) {
	kinds(t, func(t *testing.T, nodes Nodes) {
		node := nodes[0]
		addr, run, repl := node.Addr(), node.Info("run_id"), node.Info("master_replid")
		ask(t, node, "SET", "key", "token", "PX", "10000")
		digest := ask(t, node, "SCRIPT", "LOAD", "return 7").Str

		node.Stop()
		node.Stop() // is left alone
		if _, err := try(t, node, "PING"); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("PING to a stopped node = %v, want a refused connection", err)
		}
		if value, _ := node.Get("key"); value != "token" {
			t.Errorf("Get at a stopped node = %q, want what it held", value)
		}

		for range 2 { // the second leaves it alone
			must(t, node.Start())
		}
		says(t, "GET after Stop and Start", ask(t, node, "GET", "key").Str, "token")
		if got := ask(t, node, "EVALSHA", digest, "0"); got.Int != 7 {
			t.Errorf("EVALSHA after Stop and Start = %s, want the script kept", show(got))
		}
		if node.Addr() != addr {
			t.Errorf("address after Stop and Start = %s, want %s", node.Addr(), addr)
		}
		if node.Info("run_id") == run || node.Info("master_replid") == repl {
			t.Error("run_id or master_replid is the same after a start, want new ones")
		}
	})
}

func TestRestartEmpty(t *testing.T) {
	kinds(t, func(t *testing.T, nodes Nodes) {
		node := nodes[0]
		addr, run, repl := node.Addr(), node.Info("run_id"), node.Info("master_replid")
		ask(t, node, "SET", "key", "token")
		digest := ask(t, node, "SCRIPT", "LOAD", "return 7").Str

		must(t, node.RestartEmpty())
		if keys := node.Keys(); len(keys) != 0 || node.Addr() != addr {
			t.Errorf("after RestartEmpty: keys %v at %s, want none at %s", keys, node.Addr(), addr)
		}
		if err := ask(t, node, "EVALSHA", digest, "0").Err(); err == nil || err.Error() != "NOSCRIPT No matching script. Please use EVAL." {
			t.Errorf("EVALSHA after RestartEmpty = %v, want NOSCRIPT", err)
		}
		if node.Info("run_id") == run || node.Info("master_replid") == repl {
			t.Error("run_id or master_replid is the same after RestartEmpty, want new ones")
		}
	})
}

func TestStartSaysThatThePortIsTaken(t *testing.T) {
	node := Start(t, 1)[0]
	node.Stop()
	thief, err := new(net.ListenConfig).Listen(t.Context(), "tcp", node.Addr())
	must(t, err)
	t.Cleanup(func() { _ = thief.Close() }) // is being thrown away
	if err := node.Start(); !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("Start while another has the port = %v, want EADDRINUSE", err)
	}
}

func TestStopWhileCommandsRun(t *testing.T) {
	kinds(t, func(t *testing.T, nodes Nodes) {
		done := make(chan struct{})
		for range 4 {
			go func() {
				defer func() { done <- struct{}{} }()
				for range 50 {
					_, _ = try(t, nodes[0], "EVAL", "return redis.call('INCR', KEYS[1])", "1", "count") // may fail: the node comes and goes
				}
			}()
		}
		for range 10 {
			nodes[0].Stop()
			before, _ := nodes[0].Get("count")
			settle(nodes[0])
			if after, _ := nodes[0].Get("count"); after != before {
				t.Errorf("a stopped node's counter went from %q to %q, want nothing executed", before, after)
			}
			must(t, nodes[0].Start())
		}
		for range 4 {
			<-done
		}
	})
}

// settle lets everything else run as far as it can where that can be known.
func settle(node *Node) {
	if !node.listens {
		synctest.Wait()
	}
}

func TestNewRefusesNoNodes(t *testing.T) {
	for _, n := range []int{0, -1} {
		if nodes, err := New(n); err == nil {
			t.Errorf("New(%d) = %v, want an error", n, nodes)
		}
	}
}

func TestLeasesExpireByTheBubblesClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nodes := StartInBubble(t, 5)
		for _, node := range nodes {
			ask(t, node, "SET", "key", "token", "NX", "GET", "PX", "10000")
		}
		time.Sleep(10*time.Second - time.Nanosecond)
		for _, node := range nodes {
			if got := ask(t, node, "GET", "key").Str; got != "token" || node.TTL("key") != time.Nanosecond {
				t.Errorf("1ns before the end: GET = %q, TTL = %v, want the token for 1ns", got, node.TTL("key"))
			}
		}
		time.Sleep(time.Nanosecond)
		for _, node := range nodes {
			if got := ask(t, node, "GET", "key"); show(got) != "nil" || len(node.Keys()) != 0 {
				t.Errorf("after exactly 10s: GET = %s, keys %v, want nothing", show(got), node.Keys())
			}
		}
	})
}

func TestLeasesGoOnWhileTheNodeIsStopped(t *testing.T) {
	alone(t, func(t *testing.T, node *Node) {
		ask(t, node, "SET", "key", "token", "PX", "10000")
		node.Stop()
		time.Sleep(10 * time.Second)
		must(t, node.Start())
		if got := ask(t, node, "GET", "key"); show(got) != "nil" {
			t.Errorf("GET of a lease that ended while the node was stopped = %s, want nil", show(got))
		}
	})
}

func TestTheNodesThatWereStartedAreStopped(t *testing.T) {
	var first *Node
	t.Run("a test that puts another node in the place of one", func(t *testing.T) {
		nodes := Start(t, 1)
		first = nodes[0]
		nodes[0] = Start(t, 1)[0]
	})
	if reply, err := try(t, first, "PING"); err == nil {
		t.Errorf("after its test a node answers %s", show(reply))
	}
}

func TestKeysPastTheProtocol(t *testing.T) {
	kinds(t, func(t *testing.T, nodes Nodes) {
		node := nodes[0]
		node.Hang() // none of them waits for it
		node.Set("b", "foreign", time.Hour)
		node.Set("a", "foreign", 0)
		if got := node.Keys(); !slices.Equal(got, []string{"a", "b"}) {
			t.Errorf("Keys = %v, want a and b", got)
		}
		if ttl := node.TTL("a"); ttl != 0 {
			t.Errorf("TTL of a key without an end = %v, want 0", ttl)
		}
		if ttl := node.TTL("b"); ttl <= 59*time.Minute || ttl > time.Hour {
			t.Errorf("TTL of a key set for an hour = %v", ttl)
		}
		node.FastForward(time.Hour)
		if _, found := node.Get("b"); found {
			t.Error("a key set for an hour is there an hour later")
		}
		node.Del("a")
		if got := node.Keys(); len(got) != 0 || len(node.Counts()) != 0 {
			t.Errorf("after Del and FastForward: keys %v, counts %v, want none", got, node.Counts())
		}
		node.Resume()
	})
}

func TestSetReplacesAKeyOfAnyType(t *testing.T) {
	node := Start(t, 1)[0]
	ask(t, node, "ZADD", "key", "1", "member")
	if value, found := node.Get("key"); found {
		t.Errorf("Get of a sorted set = %q, want none", value)
	}
	node.Set("key", "foreign", 0)
	if value, _ := node.Get("key"); value != "foreign" {
		t.Errorf("Get after Set over a sorted set = %q, want what was set", value)
	}
}
