package drivertest

import (
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/test/scripted"
)

// inbox records the notices of a subscription, and what is wrong with them.
type inbox struct {
	calls atomic.Int32 // of onNotice, that are under way

	mu      sync.Mutex
	changed *sync.Cond
	notices []driver.Notice
	closed  bool     // Close has returned
	wrongs  []string // what no notice may be, whatever the case
}

func newInbox() *inbox {
	e := &inbox{}
	e.changed = sync.NewCond(&e.mu)
	return e
}

func (e *inbox) onNotice(n driver.Notice) {
	alone := e.calls.Add(1) == 1
	defer e.calls.Add(-1)
	runtime.Gosched() // or on one processor no other call would come in between
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case !alone:
		e.wrongs = append(e.wrongs, "onNotice was called while another call of it was under way")
	case e.closed:
		e.wrongs = append(e.wrongs, "onNotice was called after Close had returned, with "+showNotice(n))
	case e.endedLocked():
		e.wrongs = append(e.wrongs, "onNotice was called after Ended, with "+showNotice(n))
	case n.Kind == driver.Ended && n.Err == nil:
		e.wrongs = append(e.wrongs, "Ended came without an error")
	}
	e.notices = append(e.notices, n)
	e.changed.Broadcast()
}

// close is called when Close has returned.
func (e *inbox) close() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.closed = true
}

func (e *inbox) endedLocked() bool {
	return slices.ContainsFunc(e.notices, func(n driver.Notice) bool { return n.Kind == driver.Ended })
}

// all returns the notices so far, in order.
func (e *inbox) all() []driver.Notice {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.notices)
}

// of returns the notices of one kind so far.
func (e *inbox) of(kind driver.NoticeKind) []driver.Notice {
	return slices.DeleteFunc(e.all(), func(n driver.Notice) bool { return n.Kind != kind })
}

// await waits for n notices of a kind, or for the subscription's end, and returns
// those that there are then.
func (e *inbox) await(kind driver.NoticeKind, n int) []driver.Notice {
	e.mu.Lock()
	scripted.Wait(e.changed, patience, func() bool { return e.endedLocked() || e.countLocked(kind) >= n })
	e.mu.Unlock()
	return e.of(kind)
}

func (e *inbox) countLocked(kind driver.NoticeKind) int {
	n := 0
	for _, notice := range e.notices {
		if notice.Kind == kind {
			n++
		}
	}
	return n
}

// showNotice formats a notice.
func showNotice(n driver.Notice) string {
	switch n.Kind {
	case driver.Confirmed:
		return "confirmed " + quote(n.Channel)
	case driver.Message:
		return "message " + quote(n.Payload) + " on " + quote(n.Channel)
	}
	return fmt.Sprintf("%v: %v", n.Kind, n.Err)
}

// showNotices formats the last few notices.
func showNotices(notices []driver.Notice) string {
	const most = 5
	var told []string
	for _, n := range notices[max(0, len(notices)-most):] {
		told = append(told, showNotice(n))
	}
	return fmt.Sprintf("%d notices that end with %q", len(notices), told)
}
