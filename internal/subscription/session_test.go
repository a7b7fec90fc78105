package subscription

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/internal/protocol"
)

// listens notes what it subscribed.
type listens struct{ subscribed, free bool }

func (l *listens) OnSubscribed(_ int, subscribed bool) { l.subscribed = subscribed }
func (l *listens) OnMessage(int, string)               { l.free = true }

// FuzzNotices lets a subscription hear anything. Only what is said of a channel that was
// asked for counts for who waits there.
func FuzzNotices(f *testing.F) {
	f.Add([]byte{1, 0, 2, 0, 3, 0, 4, 0}, "x")
	f.Add([]byte{2, 0, 1, 1, 1, 2, 2, 1, 2, 2, 0, 0, 255, 0}, protocol.WakeChannel)
	f.Add([]byte{1, 3, 2, 3, 4, 0, 1, 0}, "\x00\xff")
	f.Fuzz(func(t *testing.T, heard []byte, odd string) {
		const channel = protocol.WakeChannel + "k"
		l := new(listens)
		s := &Subscriber{wanted: map[string][]Listener{channel: {l}}, changed: make(chan struct{}, 1)}
		h := &session{subscriber: s, asked: map[string]bool{protocol.WakeChannel: false, channel: false}, over: make(chan error, 1)}
		free, subscribed, over := false, false, false
		channels := []string{channel, protocol.WakeChannel, "", odd}
		for ; len(heard) >= 2; heard = heard[2:] {
			notice := driver.Notice{Kind: driver.NoticeKind(heard[0]), Channel: channels[heard[1]%4], Payload: odd}
			if heard[1]&4 != 0 {
				notice.Err = errors.New("cut")
			}
			h.onNotice(notice)
			free = free || notice.Kind == driver.Message && notice.Channel == channel
			subscribed = subscribed || notice.Kind == driver.Confirmed && notice.Channel == channel
			over = over || notice.Kind == driver.Refused || notice.Kind == driver.Ended
		}
		if l.free != free || l.subscribed != subscribed || (len(h.over) > 0) != over {
			t.Errorf("free %t, heard %t, over %d; want %t, %t and %t", l.free, l.subscribed, len(h.over), free, subscribed, over)
		}
		if len(h.asked) != 2 {
			t.Errorf("what was heard has made the subscription ask for %v", h.asked)
		}
	})
}

// A hangUp confirms the channels that it is asked for, and takes no channel away.
type hangUp struct {
	hear func(driver.Notice)
	then func() // the channels are confirmed
}

var errHungUp = errors.New("hung up")

func (h *hangUp) Subscribe(_ context.Context, hear func(driver.Notice)) (driver.Subscription, error) {
	h.hear = hear
	return h, nil
}

func (h *hangUp) Add(_ context.Context, channels ...string) error {
	for _, channel := range channels {
		h.hear(driver.Notice{Kind: driver.Confirmed, Channel: channel})
	}
	h.then()
	return nil
}

func (h *hangUp) Remove(context.Context, ...string) error { return errHungUp }
func (h *hangUp) Close() error                            { return nil }

func TestARequestThatFailsEndsTheSession(t *testing.T) {
	const channel = protocol.WakeChannel + "k"
	l := new(listens)
	s := &Subscriber{running: true, wanted: map[string][]Listener{channel: {l}}, changed: make(chan struct{}, 1)}
	s.Config = Config{
		Driver: &hangUp{then: func() { s.Unlisten(channel, l) }},
		Life:   t.Context(), Timeout: time.Minute, Connect: time.Minute,
	}
	if err := s.listen(); !errors.Is(err, errEnded) || !errors.Is(err, errHungUp) {
		t.Errorf("behind a channel that could not be given up the session ended with %v, want why", err)
	}
}
