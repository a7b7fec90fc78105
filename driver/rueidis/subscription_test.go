package rueidis_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	client "github.com/redis/rueidis"

	"github.com/quorumlock/quorumlock/test/patient"
	"github.com/quorumlock/quorumlock/test/redisserver"
	"github.com/quorumlock/quorumlock/test/servertest"
)

// protocols runs a test over both, as FromOptions takes them.
func protocols(t *testing.T, test func(t *testing.T, option client.ClientOption)) {
	t.Run("RESP3", func(t *testing.T) { test(t, client.ClientOption{}) })
	t.Run("RESP2", func(t *testing.T) { test(t, client.ClientOption{AlwaysRESP2: true}) })
}

// A connection to a silent server is closed at once: there is no time-out in it. In a bubble, where
// time is virtual, an idle connection is kept alive for as long as one likes.
func TestCloseOnSilentServer(t *testing.T) {
	for range 20 {
		synctest.Test(t, func(t *testing.T) {
			silent := false
			option := inBubble(t, func(_ int, args []string) (string, bool) {
				silent = silent || args[0] == "SUBSCRIBE"
				return "", silent
			})
			d := open(t, option)
			servertest.Expect(t, d, "OK", "SET", "key", "token")
			time.Sleep(time.Hour)
			servertest.Expect(t, d, "token", "GET", "key")
			s := servertest.Subscribe(t, d)
			s.Ask("a")
			synctest.Wait()
			start := time.Now()
			s.Quit()
			if took := time.Since(start); took > 0 {
				t.Errorf("Close on a silent server took %v, want no time", took)
			}
			servertest.Close(t, d)
			synctest.Wait()
		})
	}
}

// The package's doc says how many connections a subscription takes, and what a pool
// that is too small means.
func TestConnectionsOfSubscription(t *testing.T) {
	protocols(t, func(t *testing.T, option client.ClientOption) {
		server := redisserver.Start(t)
		option.InitAddress, option.DisableCache = []string{server.Addr}, true
		option.BlockingPoolSize = 2
		d := driverOf(t, newClient(t, option))
		count := func() int { return strings.Count(servertest.Ask(t, d, "CLIENT", "LIST").Str, "id=") }
		before := count()
		want := 1
		if option.AlwaysRESP2 {
			want = 2
		}
		for range 3 {
			s := servertest.Subscribe(t, d, "channel")
			if got := count() - before; got != want {
				t.Errorf("a subscription has %d connections, want %d", got, want)
			}
			if _, err := servertest.TrySubscribe(servertest.Within(t, 20*time.Millisecond), t, d); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("Subscribe with an exhausted pool = %v, want %v", err, context.DeadlineExceeded)
			}
			servertest.Ask(t, d, "SET", "key", "token")
			s.Quit()
			patient.Until(t, "Close has given the connections back", func() bool { return count() == before })
		}
	})
}
