package node

import (
	"errors"
	"sync"
	"time"

	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/internal/fault"
)

// A Listener wants to know what is announced on a channel of several nodes.
type Listener interface {
	// OnHears tells whether announcements of a node are heard from now on.
	OnHears(node int, hears bool)
	// OnMessage tells that a node has announced something.
	OnMessage(node int)
}

// A subscriber hears what is announced at a node. While somebody listens it has a goroutine and a
// connection, and a moment longer, for whoever has waited will often wait again.
type subscriber struct {
	node   *Node
	driver driver.Subscriber // nil: the driver cannot, so nothing is heard

	mu      sync.Mutex
	running bool
	wanted  map[string]Listener // by channel
	changes []string            // channels that have come or gone since they were last looked at
	changed chan struct{}
	told    bool // the user knows that nothing is heard
}

// linger is how long a subscriber stays open when nobody listens any more.
const linger = time.Second

// The pauses before a subscription that has failed is tried again double from the first to the
// last, which also follows a refusal.
const (
	firstRetry = 50 * time.Millisecond
	LastRetry  = 5 * time.Second
)

// Listen lets l hear the channel.
func (n *Node) Listen(channel string, l Listener) {
	s := &n.subscriber
	if s.driver == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.wanted == nil {
		s.wanted, s.changed = make(map[string]Listener), make(chan struct{}, 1)
	}
	s.wanted[channel] = l
	s.change(channel)
	if !s.running {
		s.running = s.node.set.Go(s.run)
	}
}

// Unlisten lets l hear the channel no longer.
func (n *Node) Unlisten(channel string, l Listener) {
	s := &n.subscriber
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.wanted[channel] == l {
		delete(s.wanted, channel)
		s.change(channel)
	}
}

// change gives the goroutine something to do. One that begins looks at all. s.mu is held.
func (s *subscriber) change(channel string) {
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
func (s *subscriber) run() {
	life := s.node.set.Life
	pause := firstRetry
	for {
		began := time.Now()
		err := s.listen()
		if err == nil {
			return
		}
		if errors.Is(err, errForbidden) {
			pause = LastRetry
		} else if time.Since(began) > LastRetry {
			pause = firstRetry
		}
		s.tell(err)
		timer := time.NewTimer(pause/2 + s.node.set.Jitter(pause/2))
		select {
		case <-timer.C:
		case <-life.Done():
		}
		timer.Stop()
		if s.ends(life.Err() != nil) {
			return
		}
		pause = min(2*pause, LastRetry)
	}
}

// own is how many of a node's listeners are ours.
func (s *subscriber) own() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.running {
		return 1
	}
	return 0
}

// ends reports whether the goroutine ends: it must, or nobody listens.
func (s *subscriber) ends(must bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if must || len(s.wanted) == 0 {
		s.running, s.changes = false, nil
	}
	return !s.running
}

// tell lets the user know that waiters poll this node, if it is not the node that is down.
func (s *subscriber) tell(err error) {
	n := s.node
	if !n.Up() || n.set.Life.Err() != nil {
		return // it may be told the next time
	}
	s.mu.Lock()
	told := s.told
	s.told = true
	s.mu.Unlock()
	if !told {
		n.Note(fault.NodeMuted, err)
		n.Emit()
	}
}
