package rueidis_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	client "github.com/redis/rueidis"

	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/driver/rueidis"
	"github.com/quorumlock/quorumlock/internal/redisserver"
)

// protocols runs a test over both, as FromOptions takes them.
func protocols(t *testing.T, test func(t *testing.T, option client.ClientOption)) {
	t.Run("RESP3", func(t *testing.T) { test(t, client.ClientOption{}) })
	t.Run("RESP2", func(t *testing.T) { test(t, client.ClientOption{AlwaysRESP2: true}) })
}

func open(t *testing.T, addr string, option client.ClientOption) driver.Driver {
	t.Helper()
	option.InitAddress = []string{addr}
	nodes, err := rueidis.FromOptions(option)
	if err != nil {
		t.Fatal(err)
	}
	return driverOf(t, nodes[0])
}

// A user with some channels only is refused the others, one by one.
func TestForbiddenChannels(t *testing.T) {
	server := redisserver.Start(t, "user locks on >secret resetchannels &mine:* ~* +@all")
	protocols(t, func(t *testing.T, option client.ClientOption) {
		option.Username, option.Password = "locks", "secret"
		s := subscribe(t, open(t, server.Addr, option))
		s.add("mine:before")
		s.ask("mine:1", "others:1", "mine:2", "others:2")
		count := map[driver.NoticeKind]int{}
		for range 4 {
			n := s.next()
			count[n.Kind]++
			var refused *driver.ServerError
			if n.Kind == driver.Refused && (!errors.As(n.Err, &refused) || refused.Code != "NOPERM") {
				t.Errorf("a channel is refused with %v, want a ServerError with code NOPERM", n.Err)
			}
		}
		if count[driver.Confirmed] != 2 || count[driver.Refused] != 2 {
			t.Errorf("of two channels that are allowed and two that are not %d are confirmed and %d refused, want two each", count[driver.Confirmed], count[driver.Refused])
		}
		s.receivesFrom(server, "mine:before", "mine:1", "mine:2")
	})
}

func TestSubscriptionOverTLS(t *testing.T) {
	files := redisserver.NewCertificates(t)
	addr := redisserver.FreeAddr(t)
	_, port, _ := net.SplitHostPort(addr)
	server := redisserver.StartAt(t, addr,
		append(files.Config(port), "port 0", "requirepass secret")...)
	nodes, err := rueidis.Open("rediss://:secret@" + server.Addr + "?ca=" + files.CA)
	if err != nil {
		t.Fatal(err)
	}
	d := driverOf(t, nodes[0])
	s := subscribe(t, d)
	s.add("channel")
	do(t, d, plain("PUBLISH", "channel", "released"))
	if n := s.next(); n.Kind != driver.Message || n.Payload != "released" {
		t.Errorf("over TLS %v %q was heard, want the message", n.Kind, n.Payload)
	}

	nodes, err = rueidis.Open("rediss://:wrong@" + server.Addr + "?ca=" + files.CA)
	if err != nil {
		t.Fatal(err)
	}
	var refused *driver.ServerError
	if _, err := trySubscribe(t.Context(), t, driverOf(t, nodes[0])); !errors.As(err, &refused) || refused.Code != "WRONGPASS" {
		t.Errorf("Subscribe with a wrong password = %v, want a ServerError with code WRONGPASS", err)
	}
}

// A connection to a silent server is closed at once: there is no time-out in it.
func TestCloseOnSilentServer(t *testing.T) {
	for range 20 {
		synctest.Test(t, func(t *testing.T) {
			silent := false
			node := newMemory(func(args []string) (string, bool) {
				silent = silent || args[0] == "SUBSCRIBE"
				return "", silent
			})
			nodes, err := rueidis.FromOptions(client.ClientOption{
				InitAddress: []string{"node"}, DialCtxFn: node.dial,
				ForceSingleClient: true, DisableCache: true, AlwaysRESP2: true,
			})
			if err != nil {
				t.Fatal(err)
			}
			s := subscribe(t, nodes[0].Driver)
			s.ask("a")
			synctest.Wait()
			start := time.Now()
			s.close()
			if took := time.Since(start); took > 0 {
				t.Errorf("Close on a silent server took %v, want no time", took)
			}
			closeAll(nodes)
			synctest.Wait()
		})
	}
}

// A stopped server holds nobody up, and the Driver closes all the same.
func TestSubscriptionOnStoppedServer(t *testing.T) {
	protocols(t, func(t *testing.T, option client.ClientOption) {
		server := redisserver.Start(t)
		d := open(t, server.Addr, option)
		closed, left := subscribe(t, d), subscribe(t, d)
		closed.add("channel")
		left.add("channel")
		server.Signal(syscall.SIGSTOP)
		const limit = 50 * time.Millisecond
		best := map[string]time.Duration{}
		took := func(what string, since time.Time) {
			if late, seen := best[what]; !seen || time.Since(since) < late {
				best[what] = time.Since(since)
			}
		}
		for i := range 5 { // a busy machine may be late, but not every time
			ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
			if _, err := trySubscribe(ctx, t, d); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("Subscribe on a stopped server = %v, want %v", err, context.DeadlineExceeded)
			}
			deadline, _ := ctx.Deadline()
			took("Subscribe", deadline)
			cancel()
			start := time.Now()
			closed.ask("channel "+strconv.Itoa(i), "another "+strconv.Itoa(i))
			took("Add", start)
			start = time.Now()
			if err := closed.Remove(context.Background(), "channel"); err != nil {
				t.Errorf("Remove on a stopped server = %v, want no error", err)
			}
			took("Remove", start)
		}
		start := time.Now()
		closed.close()
		took("Close", start)
		for what, late := range best {
			if late > 10*limit || late > limit && what != "Close" {
				t.Errorf("%s on a stopped server returned %v late, want at most %v", what, late, limit)
			}
		}
		closing := make(chan struct{})
		go func() {
			closeDriver(d)
			close(closing)
		}()
		if err := left.ended(); err == nil || err.Error() != "rueidis: the driver was closed" {
			t.Errorf("a subscription of a Driver that was closed has ended with %v, want that this is why", err)
		}
		<-closing // before the server goes on
		left.close()
		server.Signal(syscall.SIGCONT)
		again := subscribe(t, d)
		again.add("channel")
		again.receivesFrom(server, "channel")
	})
}

// The package's doc says how many connections a subscription takes, and what a pool
// that is too small means.
func TestConnectionsOfSubscription(t *testing.T) {
	protocols(t, func(t *testing.T, option client.ClientOption) {
		server := redisserver.Start(t)
		option.InitAddress, option.DisableCache = []string{server.Addr}, true
		option.BlockingPoolSize = 2
		c, err := client.NewClient(option)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(c.Close)
		nodes, err := rueidis.Nodes(c)
		if err != nil {
			t.Fatal(err)
		}
		d := driverOf(t, nodes[0])
		count := func() int {
			return strings.Count(do(t, d, plain("CLIENT", "LIST"))[0].Str, "id=")
		}
		before := count()
		want := 1
		if option.AlwaysRESP2 {
			want = 2
		}
		for range 3 {
			s := subscribe(t, d)
			s.add("channel")
			if got := count() - before; got != want {
				t.Errorf("a subscription has %d connections, want %d", got, want)
			}
			ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
			if _, err := trySubscribe(ctx, t, d); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("Subscribe with an exhausted pool = %v, want %v", err, context.DeadlineExceeded)
			}
			cancel()
			do(t, d, command("SET", "key", "token"))
			s.close()
			await(t, "Close has given the connections back", func() bool { return count() == before })
		}
	})
}

// A Driver that is closed with a subscription under way ends it, and its client.
func TestCloseWithSubscription(t *testing.T) {
	server := redisserver.Start(t)
	protocols(t, func(t *testing.T, option client.ClientOption) {
		d := open(t, server.Addr, option)
		for i := range 3 {
			s := subscribe(t, d)
			s.add(fmt.Sprint("channel ", i))
			closeDriver(d)
			if err := s.ended(); err == nil || err.Error() != "rueidis: the driver was closed" {
				t.Errorf("the subscription has ended with %v, want that the driver was closed", err)
			}
			if err := s.Remove(context.Background(), "channel"); err == nil {
				t.Error("Remove after the end = nil, want an error")
			}
		}
	})
}

func closeDriver(d driver.Driver) { closeAll([]driver.Node{{Driver: d}}) }
