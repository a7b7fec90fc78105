package redlock

import (
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/quorumlock/quorumlock/driver"
)

// An ear hears what is announced at a node. While somebody waits it has a goroutine and a
// connection, and a moment longer, for who has waited will often wait again.
type ear struct {
	node       *node
	subscriber driver.Subscriber // nil: the driver cannot, so nothing is heard

	mu      sync.Mutex
	running bool
	wanted  map[string]*vigil // by channel
	changes []string          // channels that have come or gone since they were last looked at
	changed chan struct{}
	told    bool // the user knows that nothing is heard
}

// linger is how long an ear stays open when nobody waits any more.
const linger = time.Second

// The pauses before a subscription that has failed is tried again double from the first
// to the last, which also follows a refusal.
const (
	firstDeafness = 50 * time.Millisecond
	lastDeafness  = 5 * time.Second
)

// add makes the ear listen for v.
func (e *ear) add(v *vigil) {
	if e.subscriber == nil {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.wanted == nil {
		e.wanted, e.changed = make(map[string]*vigil), make(chan struct{}, 1)
	}
	e.wanted[v.channel] = v
	e.change(v.channel)
	if !e.running {
		e.running = e.node.locker.work.start(e.run)
	}
}

// remove makes the ear listen for v no longer.
func (e *ear) remove(v *vigil) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.wanted[v.channel] == v {
		delete(e.wanted, v.channel)
		e.change(v.channel)
	}
}

// change gives the goroutine something to do. One that begins looks at all. e.mu is held.
func (e *ear) change(channel string) {
	if !e.running {
		return
	}
	e.changes = append(e.changes, channel)
	select {
	case e.changed <- struct{}{}:
	default:
	}
}

// run keeps a subscription open for as long as anybody waits.
func (e *ear) run() {
	life := e.node.locker.life
	pause := firstDeafness
	for {
		began := time.Now()
		err := e.listen()
		if err == nil {
			return
		}
		if errors.Is(err, errForbidden) {
			pause = lastDeafness
		} else if time.Since(began) > lastDeafness {
			pause = firstDeafness
		}
		e.tell(err)
		timer := time.NewTimer(pause/2 + rand.N(pause/2)) //nolint:gosec // nobody gains by guessing it
		select {
		case <-timer.C:
		case <-life.Done():
		}
		timer.Stop()
		if e.ends(life.Err() != nil) {
			return
		}
		pause = min(2*pause, lastDeafness)
	}
}

// own is how many of a node's listeners are ours.
func (e *ear) own() int64 {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.running {
		return 1
	}
	return 0
}

// ends reports whether the goroutine ends: it must, or nobody waits.
func (e *ear) ends(must bool) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if must || len(e.wanted) == 0 {
		e.running, e.changes = false, nil
	}
	return !e.running
}

// tell lets the user know that waiters poll this node, if it is not the node that is down.
func (e *ear) tell(err error) {
	n := e.node
	n.mu.Lock()
	answers := n.health.state == up && n.locker.life.Err() == nil
	n.mu.Unlock()
	if !answers {
		return // it may be told the next time
	}
	e.mu.Lock()
	told := e.told
	e.told = true
	e.mu.Unlock()
	if told {
		return
	}
	n.mu.Lock()
	n.news = append(n.news, Event{NodeMuted, n.name, err})
	n.mu.Unlock()
	n.announce()
}
