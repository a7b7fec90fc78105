//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package main

import (
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/quorumlock/quorumlock/internal/supervise"
)

// A runEvent is one line of --status-fd.
type runEvent struct {
	Schema string     `json:"schema"`
	Event  string     `json:"event"`
	Time   time.Time  `json:"time"`
	Key    string     `json:"key"`             // of several all of them
	Keys   []string   `json:"keys,omitempty"`  // if they are several
	Slots  []int      `json:"slots,omitempty"` // of acquired: of a semaphore
	Fence  int64      `json:"fence,omitempty"`
	Until  *time.Time `json:"until,omitempty"` // the deadline
	Pid    int        `json:"pid,omitempty"`   // of started
	Code   *int       `json:"code,omitempty"`  // of exit
	Error  string     `json:"error,omitempty"` // of unwritten
}

// What events there are besides those of package supervise.
const (
	eventWaiting  = "waiting"  // for the key
	eventAcquired = "acquired" // the lock
	eventReleased = "released" // and the nodes have confirmed it
	eventExit     = "exit"     // of run itself: the last line
)

// An eventLog writes events to a descriptor. A reader that does not read delays nothing: what it
// has no room for is dropped.
type eventLog struct {
	file  *os.File
	lines chan []byte
	over  chan struct{}
}

// patience is how long the end of the command waits for a reader.
const patience = time.Second

// openEvents begins with a first line, and fails if the descriptor does not take it. 0 is none.
func openEvents(fd int, first *runEvent) (*eventLog, error) {
	if fd == 0 {
		return nil, nil //nolint:nilnil // nobody is told
	}
	file := os.NewFile(uintptr(fd), fmt.Sprintf("descriptor %d", fd))
	if file == nil {
		return nil, exitf(exitUsage, "--status-fd: %d is no descriptor", fd)
	}
	if _, err := file.Write(first.line()); err != nil {
		return nil, exitf(exitUsage, "--status-fd: %w: want a descriptor that is open for writing, as by 3>FILE", err)
	}
	l := &eventLog{file: file, lines: make(chan []byte, 1024), over: make(chan struct{})}
	go func() {
		defer close(l.over)
		for line := range l.lines {
			_, _ = l.file.Write(line) // its reader may be gone
		}
	}()
	return l, nil
}

// line is an event as it is written.
func (e *runEvent) line() []byte {
	e.Schema, e.Time = "quorumlock.run/v1", time.Now().UTC()
	text, _ := json.Marshal(e) // there is nothing in it that JSON does not know
	return append(text, '\n')
}

func (l *eventLog) write(e *runEvent) {
	if l == nil {
		return
	}
	select {
	case l.lines <- e.line():
	default:
	}
}

// close waits until all is written, or its reader is late.
func (l *eventLog) close() {
	if l == nil {
		return
	}
	close(l.lines)
	select {
	case <-l.over:
	case <-time.After(patience):
	}
}

// event is one about the target.
func (r *running) event(what string) *runEvent {
	e := &runEvent{Event: what, Key: r.key}
	if len(r.keys) > 1 {
		e.Keys = r.keys
	}
	return e
}

// tell tells whoever asked for it what has happened.
func (r *running) tell(e *runEvent) {
	r.figures.note(e)
	r.events.write(e)
}

// tells is what the guard and the lease say, for whoever wants to know it.
func (r *running) tells(fence int64) func(supervise.Event) {
	said := false
	return func(e supervise.Event) {
		until := e.Deadline.UTC()
		line := r.event(string(e.What))
		line.Fence, line.Until, line.Pid = fence, &until, e.Pid
		if e.Err != nil {
			line.Error = e.Err.Error()
		}
		r.tell(line)
		switch {
		case e.What == supervise.Unwritten && !said:
			said = true
			r.say("the lease file cannot be written, so \"quorumlock left\" says less than is left: %v", e.Err)
		case e.What == supervise.Lost && r.onLost == onLostReport:
			r.notify("STATUS=has lost " + r.key + ", and the program runs on")
			r.say("the lock on %s is lost, and the program runs on: its store has to refuse its writes, by the fence", &r.target)
		}
	}
}

// feed tells the init system, until stop is called, that this process goes on: twice in the time
// that it waits for that, if it does (sd_watchdog_enabled(3)).
func (r *running) feed() (stop func()) {
	micro, err := strconv.ParseInt(r.getenv("WATCHDOG_USEC"), 10, 64)
	if pid := r.getenv("WATCHDOG_PID"); err != nil || micro < 2 || pid != "" && pid != strconv.Itoa(os.Getpid()) {
		return func() {}
	}
	done, over := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(over)
		ticks := time.NewTicker(time.Duration(micro) * time.Microsecond / 2)
		defer ticks.Stop()
		for {
			r.notify("WATCHDOG=1")
			select {
			case <-ticks.C:
			case <-done:
				return
			}
		}
	}()
	return func() { close(done); <-over }
}

// notify tells the init system, if there is one that asks.
func (r *running) notify(state string) {
	if err := supervise.Report(r.getenv(socketVariable), state); err != nil && !r.mute.Swap(true) {
		r.say("%s: %v", socketVariable, err)
	}
}

const socketVariable = "NOTIFY_SOCKET"
