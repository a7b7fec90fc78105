//go:build !linux && !windows

package clockdrift

import "time"

// systemSleep asks the wall clock: see the package's documentation.
func systemSleep() func() time.Duration {
	return new(witness).slept
}

// SinceBoot is only on Linux.
func SinceBoot() (since time.Duration, ok bool) { return 0, false }
