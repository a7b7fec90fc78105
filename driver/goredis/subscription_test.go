package goredis_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/driver/goredis"
	"github.com/quorumlock/quorumlock/internal/redisserver"
)

func TestSubscriptionHears(t *testing.T) {
	server := start(t)
	sub, notices := listen(t, open(t, redis.NewClient(&redis.Options{Addr: server.Addr})), "a", "b\r\n")
	for _, payload := range []string{"token", "", "\r\n$-1\r\n\x00", strings.Repeat("long", 5000)} {
		server.ask("PUBLISH", "b\r\n", payload)
		notices.expect(t, driver.Notice{Kind: driver.Message, Channel: "b\r\n", Payload: payload})
	}
	if err := sub.Remove(within(t, patience), "b\r\n", "never asked for"); err != nil {
		t.Fatalf("Remove = %v", err)
	}
	for server.ask("PUBLISH", "b\r\n", "unheard") != int64(0) {
		notices.expect(t, driver.Notice{Kind: driver.Message, Channel: "b\r\n", Payload: "unheard"})
	}
	server.ask("PUBLISH", "a", "the rest")
	notices.expect(t, driver.Notice{Kind: driver.Message, Channel: "a", Payload: "the rest"})
	notices.closes(t, sub)
	if err := sub.Add(within(t, patience), "c"); err == nil || err.Error() != "goredis: the subscription is closed" {
		t.Errorf("Add after Close = %v", err)
	}
	for server.ask("PUBLISH", "a", "nobody") != int64(0) {
		runtime.Gosched()
	}
}

// scribe is a hook that counts connections, and the writes on them.
type recordingHook struct {
	counter
	dials, writes atomic.Int32
}

func (s *recordingHook) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		s.dials.Add(1)
		socket, err := next(ctx, network, addr)
		return written{socket, s}, err
	}
}

type written struct {
	net.Conn
	by *recordingHook
}

func (w written) Write(b []byte) (int, error) {
	w.by.writes.Add(1)
	return w.Conn.Write(b)
}

func TestChannelsAreOneCommandEachInOneWrite(t *testing.T) {
	server := start(t)
	var seen recordingHook
	d := open(t, redis.NewClient(&redis.Options{Addr: server.Addr}), goredis.WithHooks(&seen))
	sub, notices := listen(t, d)
	before := seen.writes.Load()
	if err := sub.Add(within(t, patience), "a", "b", "c"); err != nil {
		t.Fatal(err)
	}
	for _, channel := range []string{"a", "b", "c"} {
		notices.expect(t, driver.Notice{Kind: driver.Confirmed, Channel: channel})
	}
	if writes, commands := seen.writes.Load()-before, server.calls("subscribe"); writes != 1 || commands != 3 {
		t.Errorf("3 channels took %d writes of %d commands, want 1 of 3", writes, commands)
	}
}

func TestSubscriptionIsNotRepaired(t *testing.T) {
	server := start(t)
	var seen recordingHook
	d := open(t, redis.NewClient(&redis.Options{Addr: server.Addr}), goredis.WithHooks(&seen))
	sub, notices := listen(t, d, "a")
	server.ask("CLIENT", "KILL", "TYPE", "pubsub")
	notices.ends(t, sub, "goredis: EOF")
	if dials, commands := seen.dials.Load(), server.calls("subscribe"); dials != 1 || commands != 1 {
		t.Errorf("the subscription dialled %d times and subscribed %d times, want once", dials, commands)
	}

	sub, notices = listen(t, d, "a")
	server.ask("PUBLISH", "a", "again")
	notices.expect(t, driver.Notice{Kind: driver.Message, Channel: "a", Payload: "again"})
	notices.closes(t, sub)
}

func TestRefusedChannelHarmsNoOther(t *testing.T) {
	files := redisserver.NewCertificates(t)
	secure := freePort(t)
	server := start(t, files.Config(secure)...)
	server.ask("ACL", "SETUSER", "locker", "on", ">p@ss/word", "resetchannels", "&lock:*", "+subscribe", "+unsubscribe")
	base := "@127.0.0.1:" + secure + "?ca=" + files.CA
	nodes, err := goredis.Open("rediss://locker:p%40ss%2Fword"+base, "rediss://locker:wrong"+base)
	if err != nil {
		t.Fatal(err)
	}
	right, wrong := closing(t, nodes[0].Driver), closing(t, nodes[1].Driver)

	sub, notices := listen(t, right, "lock:a")
	if err := sub.Add(within(t, patience), "other", "lock:b"); err != nil {
		t.Fatal(err)
	}
	if n := notices.next(t); n.Kind != driver.Refused || code(n.Err) != "NOPERM" {
		t.Errorf("received %+v of the channel that is not allowed, want that NOPERM refused it", n)
	}
	notices.expect(t, driver.Notice{Kind: driver.Confirmed, Channel: "lock:b"})
	server.ask("PUBLISH", "lock:a", "token")
	notices.expect(t, driver.Notice{Kind: driver.Message, Channel: "lock:a", Payload: "token"})
	notices.closes(t, sub)

	_, err = wrong.Subscribe(within(t, patience), func(driver.Notice) {})
	if code(err) != "WRONGPASS" || !strings.HasPrefix(err.Error(), "goredis: the handshake was refused: WRONGPASS ") {
		t.Errorf("with a wrong password: Subscribe = %v, want a ServerError WRONGPASS", err)
	}
}

// TestSubscriptionAtStoppedServer fills the connection of a server that does not read.
func TestSubscriptionAtStoppedServer(t *testing.T) {
	files := redisserver.NewCertificates(t)
	secure := freePort(t)
	server := start(t, files.Config(secure)...)
	nodes, err := goredis.Open("redis://"+server.Addr, "rediss://127.0.0.1:"+secure+"?ca="+files.CA)
	if err != nil {
		t.Fatal(err)
	}
	flood := slices.Repeat([]string{strings.Repeat("x", 100<<10)}, 200) // 20 MB
	for _, node := range nodes {
		d := closing(t, node.Driver)
		late, lateNotices := listen(t, d, "a")
		shut, shutNotices := listen(t, d, "a")
		idle, idleNotices := listen(t, d, "a")
		thaw := server.Freeze()

		begun := time.Now()
		patient := make(chan error)
		go func() { patient <- late.Add(within(t, patience), flood...) }()
		err := late.Remove(within(t, 200*time.Millisecond), flood...)
		if over := time.Since(begun) - 200*time.Millisecond; !errors.Is(err, context.DeadlineExceeded) || over > most {
			t.Errorf("Remove = %v, %v after its deadline, want context.DeadlineExceeded", err, over)
		}
		if err := <-patient; !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the Add beside it = %v, want that a deadline has passed", err)
		}
		lateNotices.ends(t, late, "goredis: context deadline exceeded")

		go func() { patient <- shut.Add(within(t, patience), flood...) }()
		shutNotices.closes(t, shut)
		if err := <-patient; err == nil || err.Error() != "goredis: the subscription is closed" {
			t.Errorf("Add during Close = %v, want that the subscription is closed", err)
		}

		if err := idle.Add(within(t, patience), "b"); err != nil {
			t.Errorf("an Add that has room = %v", err)
		}
		idleNotices.closes(t, idle)
		thaw()
	}
}

func TestSubscribeAtStoppedServer(t *testing.T) {
	server := start(t)
	for name, client := range map[string]redis.UniversalClient{
		"a client":         redis.NewClient(&redis.Options{Addr: server.Addr}),
		"a cluster client": clusterOf(nil, server.Addr),
	} {
		d := open(t, client)
		listen(t, d, "a")
		thaw := server.Freeze()
		onNotice := func(n driver.Notice) { t.Errorf("%s: received %+v without a subscription", name, n) }

		begun := time.Now()
		_, err := d.Subscribe(within(t, 200*time.Millisecond), onNotice)
		if over := time.Since(begun) - 200*time.Millisecond; !errors.Is(err, context.DeadlineExceeded) || over > most {
			t.Errorf("%s: Subscribe = %v, %v after its deadline, want context.DeadlineExceeded", name, err, over)
		}
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(100*time.Millisecond, cancel) // not to wait for anything: it is the fault
		begun = time.Now()
		_, err = d.Subscribe(ctx, onNotice)
		if over := time.Since(begun) - 100*time.Millisecond; !errors.Is(err, context.Canceled) || over > most {
			t.Errorf("%s: Subscribe = %v, %v after it was cancelled, want context.Canceled", name, err, over)
		}
		thaw()
		listen(t, d, "a")
	}
}

func TestCloseEndsSubscriptions(t *testing.T) {
	server := start(t)
	for name, client := range map[string]redis.UniversalClient{
		"a client":         redis.NewClient(&redis.Options{Addr: server.Addr}),
		"a cluster client": clusterOf(nil, server.Addr),
	} {
		d := open(t, client)
		sub, notices := listen(t, d, "a")
		thaw := server.Freeze()
		begun := time.Now()
		if err := d.Close(); err != nil || time.Since(begun) > most {
			t.Errorf("%s: Close = %v after %v", name, err, time.Since(begun))
		}
		notices.ends(t, sub, "goredis: the driver is closed")
		_, err := d.Subscribe(within(t, patience), func(driver.Notice) {})
		if err == nil || err.Error() != "goredis: the driver is closed" {
			t.Errorf("%s: Subscribe at a closed driver = %v", name, err)
		}
		thaw()
	}
}

// TestSubscriptionOfCluster publishes at both of the cluster's nodes.
func TestSubscriptionOfCluster(t *testing.T) {
	servers := make([]*process, 2)
	for i := range servers {
		bus := freePort(t)
		servers[i] = start(t, "cluster-port "+bus, "cluster-enabled yes")
		servers[i].ask("CLUSTER", "ADDSLOTSRANGE", i*8192, i*8192+8191)
		if i > 0 {
			servers[0].ask("CLUSTER", "MEET", "127.0.0.1", servers[i].Port, bus)
		}
	}
	for _, server := range servers {
		for !strings.Contains(fmt.Sprint(server.ask("CLUSTER", "INFO")), "cluster_state:ok") {
			time.Sleep(10 * time.Millisecond) // between two questions: it takes seconds to agree with itself
		}
	}
	d := open(t, redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{servers[0].Addr}}))
	sub, notices := listen(t, d, "a", "b")
	for _, server := range servers {
		server.ask("PUBLISH", "a", server.Port)
		notices.expect(t, driver.Notice{Kind: driver.Message, Channel: "a", Payload: server.Port})
	}
	notices.closes(t, sub)
}
