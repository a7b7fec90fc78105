package note

import (
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
