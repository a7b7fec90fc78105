package drivertest

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"testing"

	"github.com/quorumlock/quorumlock/driver"
)

// FuzzNotices is [FuzzReplies] for the subscriptions of a driver that is a
// [driver.Subscriber]. What it asks: nothing panics; notices are of the kinds that there
// are, and Ended is the last; a connection that is gone ends the subscription; Close
// returns in time, and then there is silence; the next subscription is well.
func FuzzNotices(f *testing.F, open func(tb testing.TB, addr string) driver.Driver) {
	for _, raw := range hostileNotices {
		for then := range endings {
			f.Add([]byte(raw), uint8(then))
		}
	}
	for _, raw := range hostileReplies {
		f.Add([]byte(raw), uint8(goesOn))
	}
	on := newStage(f, func(addr string) driver.Driver { return open(f, addr) })
	f.Fuzz(func(t *testing.T, raw []byte, then uint8) {
		on.trial(t).survivesNotice(hostility{string(raw), later, ending(then % uint8(endings))}, on.calls)
	})
}

// hostileNotices are what a fuzzer begins with, beside replies.
var hostileNotices = []string{
	"*3\r\n$7\r\nmessage\r\n$5\r\nother\r\n$1\r\nx\r\n", "*3\r\n$7\r\nmessage\r\n$-1\r\n$-1\r\n", "*2\r\n$7\r\nmessage\r\n$1\r\nx\r\n", "*1\r\n$7\r\nmessage\r\n",
	"*4\r\n$7\r\nmessage\r\n$1\r\nx\r\n$1\r\ny\r\n$1\r\nz\r\n", "*3\r\n$7\r\nmessage\r\n*0\r\n*1\r\n:1\r\n", "*3\r\n:1\r\n:2\r\n:3\r\n", "*3\r\n*3\r\n+message\r\n+x\r\n+y\r\n+x\r\n+y\r\n",
	">3\r\n$7\r\nmessage\r\n$5\r\nother\r\n$1\r\nx\r\n", ">3\r\n$7\r\nmessage\r\n_\r\n_\r\n", ">2\r\n$7\r\nmessage\r\n$1\r\nx\r\n", ">3\r\n$7\r\nmessage\r\n*0\r\n%1\r\n:1\r\n:2\r\n",
	">4\r\n+pmessage\r\n+x\r\n+y\r\n+z\r\n", ">3\r\n+smessage\r\n+x\r\n+y\r\n", ">3\r\n+MESSAGE\r\n+x\r\n+y\r\n",
	"*3\r\n$9\r\nsubscribe\r\n$5\r\nother\r\n:1\r\n", ">3\r\n$9\r\nsubscribe\r\n$5\r\nother\r\n:1\r\n", ">3\r\n$9\r\nsubscribe\r\n_\r\n$1\r\nx\r\n", ">2\r\n$9\r\nsubscribe\r\n_\r\n",
	"*3\r\n$11\r\nunsubscribe\r\n$5\r\nother\r\n:0\r\n", ">3\r\n$11\r\nunsubscribe\r\n$5\r\nother\r\n:0\r\n", ">3\r\n+unsubscribe\r\n_\r\n:-1\r\n", ">3\r\n+sunsubscribe\r\n+x\r\n:0\r\n",
	"*2\r\n$4\r\npong\r\n$0\r\n\r\n", "+PONG\r\n", "-NOPERM no\r\n", "-ERR max number of clients reached\r\n", ">3\r\n$7\r\nmessage\r\n$5\r\nother\r\n$400000000\r\n", "*3\r\n$7\r\nmessage\r\n$5\r\nother\r\n$400000000\r\n",
}

// survivesNotice opens a subscription, and then the server sends hostile bytes.
func (tr *trial) survivesNotice(h hostility, number int) {
	tr.Helper()
	what := fmt.Sprintf("a server that says %s to a subscriber and then %v", quote(h.raw), h.ending)
	channel := "hostile " + strconv.Itoa(number)
	s := tr.subscribe(channel)
	tr.server.interject(tr.server.subscriber(channel), h, 0)
	tr.publish(channel, "behind")

	// Add and Remove run beside them.
	ctx, cancel := context.WithTimeout(context.Background(), brief)
	defer cancel()
	for name, call := range map[string]func(context.Context, ...string) error{"Add": s.it.Add, "Remove": s.it.Remove} {
		if out := bounded(ctx, func() outcome { return outcome{err: call(ctx, channel+" too")} }); errors.Is(out.err, errHung) {
			tr.Errorf("%s: %s %v", what, name, out.err)
		}
	}
	if h.ending == hangsUp || h.ending == resets {
		s.ended(what)
	}
	s.closeWithin(patience)
	s.correct()
	for _, n := range s.all() {
		if n.Kind < driver.Confirmed || n.Kind > driver.Ended {
			tr.Errorf("%s: heard %s", what, showNotice(n))
		}
	}
	if n := tr.server.openConns(); n > 2*mayRemain {
		tr.Errorf("%s: the driver has %d connections", what, n)
	}
}

// subscriber returns a connection that subscribes to the channel.
func (s *server) subscriber(channel string) *conn {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.conns {
		if _, listens := c.channels[channel]; listens {
			return c
		}
	}
	return nil
}
