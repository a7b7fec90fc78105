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
	now := Now() // before the other clock: rather too early than too late
	return now + history.Moment(time.Until(t))
}
