package rueidis

import (
	"sync"

	"github.com/quorumlock/quorumlock/driver"
)

// ear gives a subscription's notices to its owner, one at a time. They come from
// rueidis's reader (confirmations and messages) and from the subscription's goroutine.
type ear struct {
	mu   sync.Mutex
	hear func(driver.Notice) // nil when there is nothing more to hear
}

func (e *ear) tell(n driver.Notice) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.hear == nil {
		return
	}
	e.hear(n)
	if n.Kind == driver.Ended {
		e.hear = nil
	}
}

// close waits for a notice under way, and keeps others from coming.
func (e *ear) close() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.hear = nil
}
