// Package subscription hears what is announced at one node, while somebody listens.
package subscription

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/quorumlock/quorumlock/driver"
)

// A Listener wants to know what is announced on a channel of several nodes.
type Listener interface {
	// OnSubscribed tells whether announcements of a node arrive from now on.
	OnSubscribed(node int, subscribed bool)
	// OnMessage tells that a node has announced something.
	OnMessage(node int, payload string)
}

// A Config is what a node gives its subscriber.
type Config struct {
	Node    int               // its index, which listeners are told
	Driver  driver.Subscriber // nil: the driver cannot, so nothing arrives
	Life    context.Context   //nolint:containedctx // the subscriptions descend from it
	Timeout time.Duration     // of the node
	Connect time.Duration     // the time to make a connection
	Go      func(run func()) bool
	Jitter  func(bound time.Duration) time.Duration
	Failed  func(err error) bool // takes the failure of a subscription; false: it is the node that is down
}

// A Subscriber hears what is announced at a node. While somebody listens it has a goroutine and a
// connection, and a moment longer, for whoever has waited will often wait again.
type Subscriber struct {
	Config

	mu      sync.Mutex
	running bool
	wanted  map[string][]Listener // by channel: none is empty
	changes []string              // channels that have come or gone since they were last looked at
	changed chan struct{}
	now     chan struct{} // ends a pause: see [Subscriber.TryNow]
	told    bool          // the failure was taken
	fails   bool          // no announcement arrives
}

// linger is how long a subscriber stays open when nobody listens any more.
const linger = time.Second

// The pauses before a subscription that has failed is tried again double from the first to the
// last, which also follows a refusal.
const (
	firstRetry = 50 * time.Millisecond
	LastRetry  = 5 * time.Second
)

// Listen lets l hear the channel, beside others who do.
func (s *Subscriber) Listen(channel string, l Listener) {
	if s.Driver == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.wanted == nil {
		s.wanted, s.changed, s.now = make(map[string][]Listener), make(chan struct{}, 1), make(chan struct{}, 1)
	}
	s.wanted[channel] = append(s.wanted[channel], l)
	s.change(channel)
	if !s.running {
		s.running = s.Go(s.run)
	}
}

// Unlisten lets l hear the channel no longer.
func (s *Subscriber) Unlisten(channel string, l Listener) {
	s.mu.Lock()
	defer s.mu.Unlock()
	rest := slices.DeleteFunc(s.wanted[channel], func(other Listener) bool { return other == l })
	switch {
	case len(rest) > 0:
		s.wanted[channel] = rest
	case s.wanted[channel] != nil:
		delete(s.wanted, channel)
		s.change(channel)
	}
}

// change gives the goroutine something to do. One that begins looks at all. s.mu is held.
func (s *Subscriber) change(channel string) {
	if !s.running {
		return
	}
	s.changes = append(s.changes, channel)
	select {
	case s.changed <- struct{}{}:
	default:
	}
}

// run keeps a subscription open for as long as anybody listens.
func (s *Subscriber) run() {
	life := s.Life
	pause := firstRetry
	for {
		began := time.Now()
		err := s.listen()
		if err == nil {
			return
		}
		if errors.Is(err, ErrForbidden) {
			pause = LastRetry
		} else if time.Since(began) > LastRetry {
			pause = firstRetry
		}
		s.tell(err)
		timer := time.NewTimer(pause/2 + s.Jitter(pause/2))
		select {
		case <-timer.C:
		case <-s.now:
		case <-life.Done():
		}
		timer.Stop()
		if s.ends(life.Err() != nil) {
			return
		}
		pause = min(2*pause, LastRetry)
	}
}

// TryNow ends the pause before a failed subscription is tried again, if there is one: the node has
// come back.
func (s *Subscriber) TryNow() {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case s.now <- struct{}{}:
	default: // nobody has listened yet, or the next pause is ended already
	}
}

// Own is how many of the node's listeners are ours.
func (s *Subscriber) Own() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.running {
		return 1
	}
	return 0
}

// Fails reports whether no announcement arrives, though somebody listens or has listened last.
func (s *Subscriber) Fails() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.fails || s.Driver == nil
}

// ends reports whether the goroutine ends: it must, or nobody listens.
func (s *Subscriber) ends(must bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if must || len(s.wanted) == 0 {
		s.running, s.changes = false, nil
	}
	return !s.running
}

// tell hands on why no announcement arrives, once. A driver that was renewed has ended the
// subscription for a cause that is told by itself.
func (s *Subscriber) tell(err error) {
	s.mu.Lock()
	s.fails = true
	told := s.told || errors.Is(err, driver.ErrRenewed)
	s.mu.Unlock()
	if !told && s.Life.Err() == nil && s.Failed(err) {
		s.mu.Lock()
		s.told = true
		s.mu.Unlock()
	}
}

// Left is what a subscriber still has: channels that are listened to or are to be looked at, and
// whether it listens.
func (s *Subscriber) Left() (channels int, listens bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.wanted) + len(s.changes), s.running
}
