package redigo_test

import (
	"context"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/driver/redigo"
)

// recorder is a subscription and its notices, in order.
type recorder struct {
	driver.Subscription
	notices chan driver.Notice
}

// subscribe opens a subscription to a server that has no reason not to answer.
func subscribe(t testing.TB, d *redigo.Driver, channels ...string) *recorder {
	t.Helper()
	h := &recorder{notices: make(chan driver.Notice, 1000)}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var err error
	if h.Subscription, err = d.Subscribe(ctx, func(n driver.Notice) { h.notices <- n }); err != nil {
		t.Fatalf("Subscribe = %v, want a subscription", err)
	}
	t.Cleanup(func() { _ = h.Close() })
	h.add(t, channels...)
	for _, channel := range channels {
		h.next(t, driver.Notice{Kind: driver.Confirmed, Channel: channel})
	}
	return h
}

func (h *recorder) add(t testing.TB, channels ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := h.Add(ctx, channels...); err != nil {
		t.Fatalf("Add(%q) = %v", channels, err)
	}
}

func (h *recorder) remove(t testing.TB, channels ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := h.Remove(ctx, channels...); err != nil {
		t.Fatalf("Remove(%q) = %v", channels, err)
	}
}

// next waits for the next notice, which has to be want.
func (h *recorder) next(t testing.TB, want driver.Notice) {
	t.Helper()
	select {
	case got := <-h.notices:
		if got != want {
			t.Fatalf("the subscription received %+v, want %+v", got, want)
		}
	case <-time.After(patience):
		t.Fatalf("the subscription has not received %+v", want)
	}
}

// failed waits for the next notice, which has to be of that kind, and returns its
// error.
func (h *recorder) failed(t testing.TB, kind driver.NoticeKind) error {
	t.Helper()
	select {
	case got := <-h.notices:
		if got.Kind != kind || got.Err == nil || got.Channel+got.Payload != "" {
			t.Fatalf("the subscription received %+v, want that it is %v, and why", got, kind)
		}
		return got.Err
	case <-time.After(patience):
		t.Fatalf("the subscription has not received that it is %v", kind)
		return nil
	}
}

// silent is for a subscription that has ended.
func (h *recorder) expectNothing(t testing.TB) {
	t.Helper()
	select {
	case got := <-h.notices:
		t.Errorf("the subscription received %+v after its end", got)
	default:
	}
}

func message(channel, payload string) driver.Notice {
	return driver.Notice{Kind: driver.Message, Channel: channel, Payload: payload}
}
