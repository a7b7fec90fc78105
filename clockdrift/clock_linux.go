package clockdrift

import (
	"math"
	"syscall"
	"time"
	"unsafe"
)

// The clocks' numbers, from linux/time.h.
const (
	clockMonotonic = 1
	clockBoottime  = 7
)

// systemSleep returns a function that says how long the machine has slept since it
// was started. The two clocks differ by that and by nothing else, and the kernel
// changes the difference only when the machine wakes up.
func systemSleep() func() time.Duration {
	if _, ok := readClock(clockBoottime); !ok {
		return new(witness).slept
	}
	return bootMinusMonotonic
}

func bootMinusMonotonic() time.Duration {
	// In this order a preemption in between makes the difference too small, and
	// such an answer is ignored. A difference that is too large would stick.
	boot, ok := readClock(clockBoottime)
	monotonic, ok2 := readClock(clockMonotonic)
	if !ok || !ok2 {
		return math.MinInt64 // no answer: below every other, so ignored
	}
	return boot - monotonic
}

// readClock asks the kernel and not the vDSO, which cannot be called without
// assembly, and not Go's own clock, which in a synctest bubble is another one.
func readClock(clock uintptr) (time.Duration, bool) {
	var ts syscall.Timespec
	// Raw: the call never blocks, so the scheduler need not hear of it.
	_, _, errno := syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, clock, uintptr(unsafe.Pointer(&ts)), 0) //nolint:gosec // this is how the system call takes its result's place
	return time.Duration(ts.Nano()), errno == 0
}

// SinceBoot is the time since the machine was started, with all its sleep. It is the same for
// all processes of the machine, so that one can tell another a deadline. ok is false where the
// system has no such clock: all but Linux.
func SinceBoot() (since time.Duration, ok bool) { return readClock(clockBoottime) }
