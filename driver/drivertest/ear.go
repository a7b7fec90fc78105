package drivertest

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quorumlock/quorumlock/driver"
)

// ear is what a case gives a subscription as its hear. It keeps all notices.
type ear struct {
	calls atomic.Int32 // of hear, that are under way

	mu      sync.Mutex
	changed *sync.Cond
	heard   []driver.Notice
	deaf    bool     // Close has returned
	wrongs  []string // what no notice may be, whatever the case
}

func newEar() *ear {
	e := &ear{}
	e.changed = sync.NewCond(&e.mu)
	return e
}

func (e *ear) hear(n driver.Notice) {
	alone := e.calls.Add(1) == 1
	defer e.calls.Add(-1)
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case !alone:
		e.wrongs = append(e.wrongs, "hear was called while another call of it was under way")
	case e.deaf:
		e.wrongs = append(e.wrongs, "hear was called after Close had returned, with "+tell(n))
	case e.endedLocked():
		e.wrongs = append(e.wrongs, "hear was called after Ended, with "+tell(n))
	case n.Kind == driver.Ended && n.Err == nil:
		e.wrongs = append(e.wrongs, "Ended came without an error")
	}
	e.heard = append(e.heard, n)
	e.changed.Broadcast()
}

// close is told when Close has returned.
func (e *ear) close() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.deaf = true
}

func (e *ear) endedLocked() bool {
	return slices.ContainsFunc(e.heard, func(n driver.Notice) bool { return n.Kind == driver.Ended })
}

// all returns what has been heard so far, in order.
func (e *ear) all() []driver.Notice {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.heard)
}

// of returns the notices of one kind so far.
func (e *ear) of(kind driver.NoticeKind) []driver.Notice {
	return slices.DeleteFunc(e.all(), func(n driver.Notice) bool { return n.Kind != kind })
}

// await waits for n notices of a kind, or for the subscription's end, and returns
// those that there are after five seconds at the latest.
func (e *ear) await(kind driver.NoticeKind, n int) []driver.Notice {
	expired := false
	timer := time.AfterFunc(patience, func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		expired = true
		e.changed.Broadcast()
	})
	defer timer.Stop()
	e.mu.Lock()
	for !expired && !e.endedLocked() && e.countLocked(kind) < n {
		e.changed.Wait()
	}
	e.mu.Unlock()
	return e.of(kind)
}

func (e *ear) countLocked(kind driver.NoticeKind) int {
	n := 0
	for _, notice := range e.heard {
		if notice.Kind == kind {
			n++
		}
	}
	return n
}

// tell writes a notice into a message.
func tell(n driver.Notice) string {
	switch n.Kind {
	case driver.Confirmed:
		return "confirmed " + quote(n.Channel)
	case driver.Message:
		return "message " + quote(n.Payload) + " on " + quote(n.Channel)
	}
	return fmt.Sprintf("%v: %v", n.Kind, n.Err)
}

// tellAll writes the last few notices into a message.
func tellAll(notices []driver.Notice) string {
	const most = 5
	var told []string
	for _, n := range notices[max(0, len(notices)-most):] {
		told = append(told, tell(n))
	}
	return fmt.Sprintf("%d notices that end with %q", len(notices), told)
}
