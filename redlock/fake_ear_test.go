package redlock

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/quorumlock/quorumlock/driver"
)

// A fakeSubscription hears what is published at a fakeNode, in order, after half of the
// node's delay.
type fakeSubscription struct {
	node *fakeNode
	hear func(driver.Notice)

	mu       sync.Mutex // after node.mu
	channels map[string]bool
	notices  []driver.Notice
	news     chan struct{}
	closed   chan struct{}
	over     sync.WaitGroup
}

// Subscribe makes a fakeNode a driver.Subscriber.
func (f *fakeNode) Subscribe(ctx context.Context, hear func(driver.Notice)) (driver.Subscription, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.subscribed++
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if f.refused != nil {
		return nil, f.refused
	}
	s := &fakeSubscription{
		node: f, hear: hear, channels: map[string]bool{},
		news: make(chan struct{}, 1), closed: make(chan struct{}),
	}
	if f.ears == nil {
		f.ears = map[*fakeSubscription]bool{}
	}
	f.ears[s] = true
	s.over.Go(s.deliver)
	return s, nil
}

func (s *fakeSubscription) deliver() {
	for {
		select {
		case <-s.news:
		case <-s.closed:
			return
		}
		s.node.mu.Lock()
		delay, hung := s.node.delay, s.node.hung
		s.node.mu.Unlock()
		if hung != nil {
			select {
			case <-hung:
			case <-s.closed:
				return
			}
		}
		if delay > 0 {
			select {
			case <-time.After(delay / 2):
			case <-s.closed:
				return
			}
		}
		s.mu.Lock()
		notices := s.notices
		s.notices = nil
		s.mu.Unlock()
		for _, notice := range notices {
			s.hear(notice)
		}
	}
}

func (s *fakeSubscription) put(notice driver.Notice) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.notices = append(s.notices, notice)
	select {
	case s.news <- struct{}{}:
	default:
	}
}

func (s *fakeSubscription) Add(_ context.Context, channels ...string) error {
	s.node.mu.Lock()
	defer s.node.mu.Unlock()
	for _, channel := range channels {
		if s.node.mute {
			s.put(driver.Notice{Kind: driver.Refused, Err: &driver.ServerError{Code: "NOPERM", Message: "NOPERM no channels"}})
			continue
		}
		s.channels[channel] = true
		s.put(driver.Notice{Kind: driver.Confirmed, Channel: channel})
	}
	return nil
}

func (s *fakeSubscription) Remove(_ context.Context, channels ...string) error {
	s.node.mu.Lock()
	defer s.node.mu.Unlock()
	for _, channel := range channels {
		delete(s.channels, channel)
	}
	return nil
}

func (s *fakeSubscription) Close() error {
	s.node.mu.Lock()
	if s.node.ears[s] {
		delete(s.node.ears, s)
		close(s.closed)
	}
	s.node.mu.Unlock()
	s.over.Wait()
	return nil
}

// publish announces something, with what it says, and returns how many have heard it. f.mu is held.
func (f *fakeNode) publish(channel string, says ...string) (count int) {
	for s := range f.ears {
		if s.channels[channel] {
			count++
			if !f.deaf {
				s.put(driver.Notice{Kind: driver.Message, Channel: channel, Payload: strings.Join(says, "")})
			}
		}
	}
	f.published = append(f.published, channel)
	return count
}

// listening counts the subscriptions that have the channel. f.mu is held.
func (f *fakeNode) listening(channel string) (count int64) {
	for s := range f.ears {
		if s.channels[channel] {
			count++
		}
	}
	return count
}

func (f *fakeNode) listeners(channel string) int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.listening(channel)
}

// hangUp ends the node's subscriptions, as a server does that is going away.
func (f *fakeNode) hangUp() { f.change(func(f *fakeNode) { f.end(errCut) }) }

// end ends the subscriptions. f.mu is held.
func (f *fakeNode) end(err error) {
	for s := range f.ears {
		clear(s.channels)
		s.put(driver.Notice{Kind: driver.Ended, Err: err})
	}
}

// Renew makes a fakeNode a driver.Renewer.
func (f *fakeNode) Renew() {
	f.change(func(f *fakeNode) {
		f.renewed++
		if f.next != nil {
			f.instead, f.next, f.hung = f.next, nil, nil
		}
		f.end(driver.ErrRenewed)
	})
}

// moves makes the address of a node lead to another node's server. What is connected stays where it is.
func (f *fakeNode) moves(to *fakeNode) { f.change(func(f *fakeNode) { f.next = to }) }

// renewals is how often the node's connections were given up.
func (f *fakeNode) renewals() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.renewed
}
