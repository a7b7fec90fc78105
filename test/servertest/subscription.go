package servertest

import (
	"context"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/test/patient"
	"github.com/quorumlock/quorumlock/test/redisserver"
)

// Subscription is a subscription and its notices, in order.
type Subscription struct {
	driver.Subscription
	Notices chan driver.Notice

	t testing.TB
}

// Subscribe subscribes to channels at a server that has no reason to refuse, and waits until they
// are confirmed.
func Subscribe(t testing.TB, d driver.Driver, channels ...string) *Subscription {
	t.Helper()
	s, err := TrySubscribe(Within(t, Patience), t, d)
	if err != nil {
		t.Fatalf("Subscribe = %v, want a subscription", err)
	}
	s.Confirm(channels...)
	return s
}

// TrySubscribe is Subscribe that may fail.
func TrySubscribe(ctx context.Context, t testing.TB, d driver.Driver) (*Subscription, error) {
	s := &Subscription{t: t, Notices: make(chan driver.Notice, 1000)}
	var err error
	s.Subscription, err = d.(driver.Subscriber).Subscribe(ctx, func(n driver.Notice) { s.Notices <- n })
	if err == nil {
		t.Cleanup(func() { _ = s.Close() })
	}
	return s, err
}

// Ask calls Add, which has no reason to fail.
func (s *Subscription) Ask(channels ...string) {
	s.t.Helper()
	if err := s.Add(Within(s.t, Patience), channels...); err != nil {
		s.t.Fatalf("Add(%q) = %v, want no error", channels, err)
	}
}

// Confirm calls Add and waits until each channel is confirmed once.
func (s *Subscription) Confirm(channels ...string) {
	s.t.Helper()
	s.Ask(channels...)
	wanted := map[string]bool{}
	for _, channel := range channels {
		wanted[channel] = true
	}
	for range channels {
		n := s.Next()
		if n.Kind != driver.Confirmed || !wanted[n.Channel] {
			s.t.Fatalf("after Add(%q) came %+v, want that each is confirmed once", channels, n)
		}
		delete(wanted, n.Channel)
	}
}

// Next waits for the next notice.
func (s *Subscription) Next() driver.Notice {
	s.t.Helper()
	select {
	case n := <-s.Notices:
		return n
	case <-time.After(Patience):
		s.t.Fatalf("no notice came for %v", Patience)
		return driver.Notice{}
	}
}

// Hear publishes on channels at a server, and waits for the messages.
func (s *Subscription) Hear(at *redisserver.Server, channels ...string) {
	s.t.Helper()
	for _, channel := range channels {
		at.Ask("PUBLISH", channel, "released")
		if got, want := s.Next(), (driver.Notice{Kind: driver.Message, Channel: channel, Payload: "released"}); got != want {
			s.t.Fatalf("after PUBLISH on %q came %+v, want the message", channel, got)
		}
	}
}

// End waits for the end, whatever comes before it, and returns why. Nothing comes behind it.
func (s *Subscription) End() error {
	s.t.Helper()
	n := s.Next()
	for n.Kind != driver.Ended {
		n = s.Next()
	}
	if n.Err == nil {
		s.t.Error("the subscription has ended for no reason")
	}
	for name, call := range map[string]func(context.Context, ...string) error{"Add": s.Add, "Remove": s.Remove} {
		if err := call(Within(s.t, Patience), "more"); err == nil || err.Error() != n.Err.Error() {
			s.t.Errorf("%s after the end = %v, want %v", name, err, n.Err)
		}
	}
	s.Quit()
	return n.Err
}

// Quit closes the subscription, which may take no time and say nothing.
func (s *Subscription) Quit() {
	s.t.Helper()
	watch := patient.Start()
	err := s.Close()
	if took := watch.Took(); err != nil || took > most {
		s.t.Errorf("Close = %v after %v, want nil at once", err, took)
	}
	select {
	case n := <-s.Notices:
		s.t.Errorf("a notice too many: %+v", n)
	default:
	}
}
