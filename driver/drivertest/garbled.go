package drivertest

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"testing"

	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/test/scripted"
)

// FuzzNotices is [FuzzReplies] for the subscriptions of a driver that is a
// [driver.Subscriber]. What it asks: nothing panics; notices are of the kinds that there
// are, and Ended is the last; a connection that is gone ends the subscription; Close
// returns in time, and then there is silence; the next subscription is well.
func FuzzNotices(f *testing.F, open func(tb testing.TB, addr string) driver.Driver) {
	for _, raw := range hostileNotices {
		for then := range scripted.Endings {
			f.Add([]byte(raw), uint8(then))
		}
	}
	for _, raw := range hostileReplies {
		f.Add([]byte(raw), uint8(scripted.GoesOn))
	}
	on := newStage(f, func(addr string) driver.Driver { return open(f, addr) })
	f.Fuzz(func(t *testing.T, raw []byte, then uint8) {
		on.trial(t).survivesNotice(scripted.Hostility{Raw: string(raw), Place: scripted.Later, Ending: scripted.Ending(then) % scripted.Endings}, on.calls)
	})
}

// survivesNotice opens a subscription, and then the server sends hostile bytes.
func (tr *trial) survivesNotice(h scripted.Hostility, number int) {
	tr.Helper()
	what := fmt.Sprintf("a server that says %s to a subscriber and then %v", quote(h.Raw), h.Ending)
	channel := "hostile " + strconv.Itoa(number)
	s := tr.subscribe(channel)
	tr.server.Interject(tr.server.Subscriber(channel), h, 0)
	tr.publish(channel, "behind")

	// Add and Remove run beside them.
	for name, call := range map[string]func(context.Context, ...string) error{"Add": s.it.Add, "Remove": s.it.Remove} {
		if out := within(brief, func(ctx context.Context) error { return call(ctx, channel+" too") }); errors.Is(out.err, errHung) {
			tr.Errorf("%s: %s %v", what, name, out.err)
		}
	}
	if h.Ending == scripted.HangsUp || h.Ending == scripted.Resets {
		s.ended(what)
	}
	s.closeWithin(patience)
	s.correct()
	for _, n := range s.all() {
		if n.Kind < driver.Confirmed || n.Kind > driver.Ended {
			tr.Errorf("%s: heard %s", what, showNotice(n))
		}
	}
	if n := tr.server.Conns(); n > 2*mayRemain {
		tr.Errorf("%s: the driver has %d connections", what, n)
	}
}
