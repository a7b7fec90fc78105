package redlock

import (
	"fmt"
	"reflect"
	"runtime"
	"runtime/debug"
	"sync"
	"time"
)

// A teller calls the functions of hooks for the library's own goroutines, which must not wait for them: one
// call after the other, in order, in a goroutine of its own that runs while there are calls. Waiting calls
// are bounded, and left-out calls are counted.
type teller struct {
	events func(Event) // tells the hooks of an event of the Locker's own; nil: nobody wants to know

	mu     sync.Mutex // after all others: put is called under any of them
	queue  []callback // from next on
	next   int
	busy   bool          // the goroutine runs
	calm   chan struct{} // closed when the teller is idle; nil: nobody waits for it
	over   bool          // Close has stopped to wait: nothing is told any more
	now    string        // the hook under way
	since  time.Time     // its start
	left   int64         // calls left out so far
	panics int64         // so far
	lost   hookError     // left-out calls that were not told of yet
	toldAt time.Time     // of such

	log func(Event) // the goroutine's own: see teller.news
}

// A callback is a call of the functions of a hook.
type callback struct {
	hook string
	call func()
}

// The bounds of waiting calls. Reports come as often as nodes are asked, and hold the requests: a late
// report is worth little. A hold has one end, which would be missed.
const (
	mostReports = 1 << 12
	mostNews    = 1 << 17 // a process may lose 100,000 locks at a time
	fewCalls    = 64      // the memory of an idle Locker's queue
)

// put lets a hook be called, unless too many calls wait. It may be called under any mutex.
func (t *teller) put(hook string, most int, call func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	waiting := len(t.queue) - t.next
	if t.over || waiting >= most {
		if t.left++; t.lost.Lost == 0 {
			t.lost.Hook, t.lost.For = t.now, time.Since(t.since)
		}
		t.lost.Lost++
		return
	}
	if t.next > waiting { // more room is free than is needed
		rest := copy(t.queue, t.queue[t.next:])
		clear(t.queue[rest:])
		t.queue, t.next = t.queue[:rest], 0
	}
	t.queue = append(t.queue, callback{hook, call})
	if !t.busy {
		t.busy, t.since = true, time.Now()
		go t.tell()
	}
}

// tell makes the waiting calls.
func (t *teller) tell() {
	done := false
	defer func() {
		if !done { // a function has ended the goroutine: see [runtime.Goexit]
			go t.tell()
		}
	}()
	for !done {
		lost, c := t.take()
		switch {
		case lost != nil:
			t.news(HooksLost, lost)
		case c.call != nil:
			t.call(c)
		default:
			done = true
		}
	}
}

// take removes the next call from the queue, or once a second the news of left-out calls. If there is
// neither, the goroutine is to end.
func (t *teller) take() (lost *hookError, c callback) {
	t.mu.Lock()
	defer t.mu.Unlock()
	empty := t.next == len(t.queue)
	switch {
	case t.lost.Lost > 0 && !t.over && (empty || time.Since(t.toldAt) >= time.Second):
		told := t.lost
		t.lost, t.toldAt = hookError{}, time.Now()
		t.now, t.since = hookNode, t.toldAt
		return &told, callback{}
	case empty:
		if cap(t.queue) > fewCalls {
			t.queue = nil
		}
		t.queue, t.next, t.now, t.busy = t.queue[:0], 0, "", false
		if t.calm != nil {
			close(t.calm)
			t.calm = nil // more may be told later
		}
		return nil, callback{}
	}
	c = t.queue[t.next]
	t.queue[t.next] = callback{}
	t.next++
	t.now, t.since = c.hook, time.Now()
	return nil, c
}

// call makes a call, and tells of its panic.
func (t *teller) call(c callback) {
	returned := false
	defer func() {
		if cause := recover(); !returned {
			t.news(HookPanicked, t.panicked(c.hook, cause))
		}
	}()
	c.call()
	returned = true
}

// news tells the hooks of lost calls and panics of hooks. Without a hook, or after another panic, the news
// is logged: it must not be lost.
func (t *teller) news(kind EventKind, err *hookError) {
	e := Event{Kind: kind, Err: err, Time: time.Now()}
	returned := false
	defer func() {
		if cause := recover(); !returned && t.events != nil {
			_ = t.panicked(hookNode, cause) // counted
			t.logs(e)
		}
	}()
	if t.events != nil {
		t.events(e)
	} else {
		t.logs(e)
	}
	returned = true
}

// logs is for news without a hook.
func (t *teller) logs(e Event) {
	if t.log == nil {
		t.log = LogTo(nil).Node
	}
	t.log(e)
}

// panicked counts a panic, and words it.
func (t *teller) panicked(hook string, cause any) *hookError {
	t.mu.Lock()
	t.panics++
	t.mu.Unlock()
	if cause == nil {
		cause = "runtime.Goexit, as t.FailNow calls it"
	}
	return &hookError{Hook: hook, Panic: cause, Stack: debug.Stack()}
}

// drain waits until all is told, and at most for this time. Then the rest is left out.
func (t *teller) drain(most time.Duration) error {
	t.mu.Lock()
	if !t.busy {
		t.mu.Unlock()
		return nil
	}
	calm := make(chan struct{})
	t.calm = calm
	t.mu.Unlock()
	timer := time.NewTimer(most)
	defer timer.Stop()
	select {
	case <-calm:
		return nil
	case <-timer.C:
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.busy {
		return nil
	}
	left := int64(len(t.queue) - t.next)
	t.over, t.queue, t.next = true, nil, 0
	t.left += left
	return &hookError{Hook: t.now, For: time.Since(t.since), Lost: t.lost.Lost + left, closes: true}
}

// count notes the teller's numbers.
func (t *teller) count(s *Stats) {
	t.mu.Lock()
	defer t.mu.Unlock()
	s.Hooks.Lost, s.Hooks.Panics = t.left, t.panics
	if s.Hooks.Queued = len(t.queue) - t.next; t.now != "" && !t.over {
		s.Hooks.Queued++
	}
}

// byTeller is the name of the function that calls hooks, in a stack.
var byTeller = runtime.FuncForPC(reflect.ValueOf((*teller).call).Pointer()).Name()

// calledByHook reports whether its caller was called by a hook, of any Locker, in a teller's goroutine:
// waiting for a teller there would wait for itself.
func calledByHook() bool {
	var pcs [64]uintptr
	for skip := 0; ; skip += len(pcs) {
		n := runtime.Callers(skip, pcs[:])
		for frames, more := runtime.CallersFrames(pcs[:n]), n > 0; more; {
			var f runtime.Frame
			if f, more = frames.Next(); f.Function == byTeller {
				return true
			}
		}
		if n < len(pcs) {
			return false
		}
	}
}

// hookError is a function of [Hooks] that has panicked, or has not returned for so long that calls were left
// out.
type hookError struct {
	Hook  string        // HoldEnd, ExtendEnd, Batch, or Node; "": none was called yet
	Panic any           // the value of the panic; nil: it has not panicked
	Stack []byte        // of the panic
	For   time.Duration // the time for which it had not returned
	Lost  int64         // left-out calls

	closes bool // Close has stopped to wait
}

func (e *hookError) Error() string {
	if e.Panic != nil {
		return fmt.Sprintf("%s: %v", e.summary(), e.Panic)
	}
	return fmt.Sprintf("%s (%d calls were left out, the first when it had run for %v)", e.summary(), e.Lost, e.For.Round(time.Millisecond))
}

// summary is the text without numbers.
func (e *hookError) summary() string {
	switch {
	case e.Panic != nil:
		return fmt.Sprintf("redlock: the hook %s has panicked, and the Locker goes on: fix it", e.Hook)
	case e.closes:
		return fmt.Sprintf("redlock: close: the hook %s has not returned, and its goroutine stays until it does: hooks must not block", e.Hook)
	case e.Hook == "":
		return "redlock: calls of hooks were left out, for the goroutine that makes them did not run: this process has more to do than it can"
	}
	return fmt.Sprintf("redlock: calls of hooks were left out behind the hook %s, which has not returned: hooks must not block", e.Hook)
}
