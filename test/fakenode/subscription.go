package fakenode

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/quorumlock/quorumlock/driver"
)

// A Subscription hears what is published at a [Node], in order, after half of the node's delay.
type Subscription struct {
	node *Node
	hear func(driver.Notice)

	mu       sync.Mutex // after node.mu
	channels map[string]bool
	notices  []driver.Notice
	news     chan struct{}
	closed   chan struct{}
	over     sync.WaitGroup
}

// Subscribe makes a Node a [driver.Subscriber]. Its subscriptions are [Subscription]s.
func (f *Node) Subscribe(ctx context.Context, hear func(driver.Notice)) (driver.Subscription, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.Subscribed++
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if f.Refused != nil {
		return nil, f.Refused
	}
	s := &Subscription{
		node: f, hear: hear, channels: map[string]bool{},
		news: make(chan struct{}, 1), closed: make(chan struct{}),
	}
	if f.ears == nil {
		f.ears = map[*Subscription]bool{}
	}
	f.ears[s] = true
	s.over.Go(s.deliver)
	return s, nil
}

func (s *Subscription) deliver() {
	for {
		select {
		case <-s.news:
		case <-s.closed:
			return
		}
		s.node.mu.Lock()
		delay, hung := s.node.Delay, s.node.hung
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

// Put tells the subscription something that nobody has published.
func (s *Subscription) Put(notice driver.Notice) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.notices = append(s.notices, notice)
	select {
	case s.news <- struct{}{}:
	default:
	}
}

// Add makes a Subscription a [driver.Subscription].
func (s *Subscription) Add(_ context.Context, channels ...string) error {
	s.node.mu.Lock()
	defer s.node.mu.Unlock()
	for _, channel := range channels {
		if s.node.Mute {
			s.Put(driver.Notice{Kind: driver.Refused, Err: &driver.ServerError{Code: "NOPERM", Message: "NOPERM no channels"}})
			continue
		}
		s.channels[channel] = true
		s.Put(driver.Notice{Kind: driver.Confirmed, Channel: channel})
	}
	return nil
}

// Remove makes a Subscription a [driver.Subscription].
func (s *Subscription) Remove(_ context.Context, channels ...string) error {
	s.node.mu.Lock()
	defer s.node.mu.Unlock()
	for _, channel := range channels {
		delete(s.channels, channel)
	}
	return nil
}

// Close makes a Subscription a [driver.Subscription].
func (s *Subscription) Close() error {
	s.node.mu.Lock()
	if s.node.ears[s] {
		delete(s.node.ears, s)
		close(s.closed)
	}
	s.node.mu.Unlock()
	s.over.Wait()
	return nil
}

// publish announces something, with what it says, and returns how many have heard it. The mutex is held.
func (f *Node) publish(channel string, says ...string) (count int) {
	for s := range f.ears {
		if s.channels[channel] {
			count++
			if !f.Deaf {
				s.Put(driver.Notice{Kind: driver.Message, Channel: channel, Payload: strings.Join(says, "")})
			}
		}
	}
	f.Published = append(f.Published, channel)
	return count
}

// listening counts the subscriptions that have the channel. The mutex is held.
func (f *Node) listening(channel string) (count int64) {
	for s := range f.ears {
		if s.channels[channel] {
			count++
		}
	}
	return count
}

// Listeners counts the subscriptions that have the channel.
func (f *Node) Listeners(channel string) int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.listening(channel)
}

// HangUp ends the node's subscriptions, as a server does that is going away.
func (f *Node) HangUp() { f.Change(func(f *Node) { f.end(ErrCut) }) }

// end ends the subscriptions. The mutex is held.
func (f *Node) end(err error) {
	for s := range f.ears {
		clear(s.channels)
		s.Put(driver.Notice{Kind: driver.Ended, Err: err})
	}
}
