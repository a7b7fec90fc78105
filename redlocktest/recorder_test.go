package redlocktest

import (
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/driver"
)

// listen subscribes the built-in driver to the channels, and returns when they are
// confirmed. Later notices come out of the channel.
func listen(t *testing.T, node *Node, channels ...string) (driver.Subscription, <-chan driver.Notice) {
	t.Helper()
	notices := make(chan driver.Notice, 100)
	s, err := newClient(reach(node)).Subscribe(t.Context(), func(n driver.Notice) { notices <- n })
	if err != nil {
		t.Fatalf("Subscribe = %v", err)
	}
	t.Cleanup(func() { _ = s.Close() }) // is always nil
	if err := s.Add(t.Context(), channels...); err != nil {
		t.Fatalf("Add = %v", err)
	}
	for _, channel := range channels {
		expect(t, notices, driver.Notice{Kind: driver.Confirmed, Channel: channel})
	}
	return s, notices
}

// expect waits for the next notice.
func expect(t *testing.T, notices <-chan driver.Notice, want driver.Notice) {
	t.Helper()
	select {
	case got := <-notices:
		if got != want {
			t.Fatalf("received %v, want %v", got, want)
		}
	case <-time.After(10 * time.Second):
		t.Fatalf("10s without a notice, want %v", want)
	}
}

func expectEnd(t *testing.T, notices <-chan driver.Notice) {
	t.Helper()
	select {
	case got := <-notices:
		if got.Kind != driver.Ended || got.Err == nil {
			t.Fatalf("received %v, want the end, and why", got)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("10s without a notice, want the end")
	}
}

func message(channel, payload string) driver.Notice {
	return driver.Notice{Kind: driver.Message, Channel: channel, Payload: payload}
}
