package clockdrift

import "time"

// systemSleep has nothing to add. The runtime's nanotime1 reads InterruptTime of
// KUSER_SHARED_DATA on every architecture, and that is the biased interrupt time:
// it includes sleep and hibernation (what excludes them is
// QueryUnbiasedInterruptTime, which Go does not use for its clock).
func systemSleep() func() time.Duration {
	return func() time.Duration { return 0 }
}

// SinceBoot is only on Linux.
func SinceBoot() (since time.Duration, ok bool) { return 0, false }
