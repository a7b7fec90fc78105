package clockdrift

import (
	"math"
	"sync/atomic"
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
	return newVigil(bootMinusMonotonic).slept
}

const (
	// vigilance is for how long an answer is kept.
	vigilance = time.Millisecond

	// jitter is how far apart two readings may be of clocks that have not moved against each
	// other: they are read one behind the other.
	jitter = grain / 2
)

// A vigil knows without a system call that the machine has not slept since it last asked. The
// kernel puts a sleep on CLOCK_BOOTTIME and on the wall clock in one step (see
// timekeeping_inject_sleeptime in kernel/time/timekeeping.c), and Go reads the wall clock and its
// own without a call. As long as those two have not moved against each other, the machine was
// awake; where they have, by sleep or by a step of the wall clock, the system is asked.
type vigil struct {
	origin time.Time
	ask    func() time.Duration
	last   atomic.Pointer[answer]
}

// An answer is how long the machine had slept, and how the clocks stood before that was asked.
type answer struct {
	awake, lead, slept time.Duration
}

func newVigil(ask func() time.Duration) *vigil { return &vigil{origin: time.Now(), ask: ask} }

func (v *vigil) slept() time.Duration {
	now := time.Now()
	awake := now.Sub(v.origin)
	return v.at(awake, time.Duration(now.UnixNano())-awake)
}

// at is slept at a moment of Go's clock, which the wall clock is ahead of by lead.
func (v *vigil) at(awake, lead time.Duration) time.Duration {
	if a := v.last.Load(); a != nil && awake-a.awake < vigilance && (lead-a.lead).Abs() < jitter {
		return a.slept
	}
	a := &answer{awake: awake, lead: lead, slept: v.ask()}
	if time.Since(v.origin)-awake < jitter { // or it was interrupted, and may be too small by as much
		v.last.Store(a)
	}
	return a.slept
}

// uninterrupted is how often two readings are tried, until nothing has come in between.
const uninterrupted = 4

func bootMinusMonotonic() (difference time.Duration) {
	for range uninterrupted {
		// In this order a preemption in between makes the difference too small, and
		// such an answer is ignored. A difference that is too large would stick.
		boot, ok := readClock(clockBoottime)
		monotonic, ok2 := readClock(clockMonotonic)
		after, ok3 := readClock(clockBoottime)
		if !ok || !ok2 || !ok3 {
			return math.MinInt64 // no answer: below every other, so ignored
		}
		if difference = boot - monotonic; after-boot < jitter {
			break
		}
	}
	return difference
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
