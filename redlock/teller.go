package redlock

import (
	"fmt"
	"log/slog"
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
	mu     sync.Mutex // after all others: put is called under any of them
	queue  []func()
	busy   bool          // the goroutine runs
	calls  bool          // and makes a call
	calm   chan struct{} // closed when the teller is idle; nil: nobody waits for it
	over   bool          // Close has stopped to wait: nothing is told any more
	lost   int64         // calls left out so far
	panics int64         // so far
}

// The bounds of waiting calls. Reports come as often as nodes are asked, and hold the requests: a late
// report is worth little. A hold has one end, which would be missed.
const (
	mostReports = 1 << 12
	mostNews    = 1 << 17 // a process may lose 100,000 locks at a time
)

// put lets a hook be called, unless too many calls wait. It may be called under any mutex.
func (t *teller) put(most int, call func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.over || len(t.queue) >= most {
		t.lost++
		return
	}
	t.queue = append(t.queue, call)
	if !t.busy {
		t.busy = true
		go t.run()
	}
}

// run makes the waiting calls.
func (t *teller) run() {
	done := false
	defer func() {
		if !done { // a function has ended the goroutine: see [runtime.Goexit]
			go t.run()
		}
	}()
	for call := t.take(); call != nil; call = t.take() {
		t.call(call)
	}
	done = true
}

// take removes the next call from the queue; nil: there is none, and the goroutine is to end.
func (t *teller) take() (call func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.calls = len(t.queue) > 0; t.calls {
		call, t.queue[0] = t.queue[0], nil
		t.queue = t.queue[1:]
		return call
	}
	t.queue, t.busy = nil, false
	if t.calm != nil {
		close(t.calm)
		t.calm = nil // more may be told later
	}
	return nil
}

// call makes a call. A panic is counted, and the first one is logged.
func (t *teller) call(call func()) {
	returned := false
	defer func() {
		cause := recover()
		switch {
		case returned:
			return
		case cause == nil:
			cause = "runtime.Goexit, as t.FailNow calls it"
		}
		t.mu.Lock()
		t.panics++
		first := t.panics == 1
		t.mu.Unlock()
		if first {
			slog.Error("redlock: a hook has panicked, and the Locker goes on: fix it", "panic", cause, "stack", string(debug.Stack()))
		}
	}()
	call()
	returned = true
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
	left := len(t.queue)
	t.over, t.queue = true, nil
	t.lost += int64(left)
	return fmt.Errorf("redlock: close: a hook has not returned, and its goroutine stays until it does: hooks must not block (%d calls were left out)", left)
}

// count notes the teller's numbers.
func (t *teller) count(s *Stats) {
	t.mu.Lock()
	defer t.mu.Unlock()
	s.Hooks.Lost, s.Hooks.Panics = t.lost, t.panics
	if s.Hooks.Queued = len(t.queue); t.calls && !t.over {
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
