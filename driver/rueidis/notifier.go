package rueidis

import (
	"sync"

	"github.com/quorumlock/quorumlock/driver"
)

// notifier passes a subscription's notices on, one at a time. They come from rueidis's reader
// (confirmations and messages) and from the subscription's goroutine.
type notifier struct {
	mu       sync.Mutex
	onNotice func(driver.Notice) // nil after the last notice
}

func (e *notifier) notify(n driver.Notice) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.onNotice == nil {
		return
	}
	e.onNotice(n)
	if n.Kind == driver.Ended {
		e.onNotice = nil
	}
}

// close waits for a notice under way, and drops later ones.
func (e *notifier) close() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.onNotice = nil
}
