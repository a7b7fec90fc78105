package supervise

import (
	"encoding/json"
	"io"
	"syscall"
	"time"
)

// An order is what the renewer tells its guard: one JSON object a line.
type order struct {
	Plan     *plan          `json:"plan,omitempty"`     // in the first, which starts the program
	Deadline time.Duration  `json:"deadline,omitempty"` // of the lease, by the shared clock
	Signal   syscall.Signal `json:"signal,omitempty"`   // for the program
	Stop     bool           `json:"stop,omitempty"`     // the program, by the plan's signal; if it was asked before, Signal is passed on
}

// A plan is what does not change while the program runs.
type plan struct {
	Grace  time.Duration  `json:"grace"`
	Margin time.Duration  `json:"margin"`
	Stop   syscall.Signal `json:"stop"`             // what asks the program to end
	Group  int            `json:"group,omitempty"`  // that the program joins; 0: it leads one of its own
	Report bool           `json:"report,omitempty"` // a lost lease is nothing to stop the program for
	Lease  string         `json:"lease,omitempty"`  // the file to remove at the end
}

// A notice is what the guard tells the renewer: one JSON object a line.
type notice struct {
	What  What           `json:"what"`
	Pid   int            `json:"pid,omitempty"`   // of started
	Errno syscall.Errno  `json:"errno,omitempty"` // of refused
	Lost  bool           `json:"lost,omitempty"`  // of stopping: because the deadline came near
	Code  int            `json:"code,omitempty"`  // of ended
	By    syscall.Signal `json:"by,omitempty"`    // of ended: what killed the program; 0: nothing
}

// What a guard tells besides what happens to the program.
const (
	noticeRefused What = "refused" // the program cannot be executed
	noticeLate    What = "late"    // the deadline was too near to start anything
	noticeHalted  What = "halted"  // the program was stopped by a terminal
	noticeEnded   What = "ended"   // nothing runs any more
)

// decode sends what it reads from r to a channel, which it closes when r ends or what comes is no
// JSON. It ends when nobody takes any more: stop is closed.
func decode[T any](r io.Reader, stop <-chan struct{}) <-chan T {
	values := make(chan T)
	go func() {
		defer close(values)
		for from := json.NewDecoder(r); ; {
			var value T
			if from.Decode(&value) != nil {
				return
			}
			select {
			case values <- value:
			case <-stop:
				return
			}
		}
	}()
	return values
}
