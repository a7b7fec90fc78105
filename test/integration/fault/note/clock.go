package note

import (
	"context"
	"time"

	"golang.org/x/sys/unix"

	"github.com/quorumlock/quorumlock/test/integration/fault/history"
)

// Now reads the clock that all processes of this machine share.
func Now() history.Moment {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		panic(err) // every Linux has it
	}
	return history.Moment(now.Nano())
}

// At returns the moment of a time that the process's own clock tells.
func At(t time.Time) history.Moment {
	const same = history.Moment(time.Millisecond)
	for {
		now := Now()
		left := time.Until(t)
		if Now()-now < same { // or the process was stopped between the two clocks
			return now + history.Moment(left)
		}
	}
}

const (
	heartbeat = 10 * time.Millisecond
	late      = 15 * time.Millisecond // more than a lease of a second allows a clock's reading to be in doubt
)

// Beat tells when this process does not get to run in time, because it is stopped or the
// machine has too much else to do, until ctx ends.
func Beat(ctx context.Context, tell func(starved history.Span)) {
	ticker := time.NewTicker(heartbeat)
	defer ticker.Stop()
	for last := Now(); ; {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		now := Now()
		if time.Duration(now-last) > heartbeat+late {
			tell(history.Span{From: last, To: now})
		}
		last = now
	}
}
