package clockdrift

import (
	"sync/atomic"
	"time"
)

const (
	// glance is how often Now asks how long the machine has slept.
	glance = time.Second

	// grain is the least growth that counts as sleep. Smaller ones are the time
	// between the readings of two clocks, and no machine wakes that fast.
	grain = 100 * time.Microsecond
)

// Clock measures leases: it goes on while the machine sleeps, as far as the system
// lets it be known (see the package's documentation), and ignores changes of the
// wall clock as far as the same allows. In a testing/synctest bubble it follows the
// bubble's time.
//
// [Clock.Now] is the cheap reading, and may be behind for a moment after the machine
// woke up; [Clock.Fresh] is never behind. The rule for leases: what starts a lease
// may be Now, for a start that is too early only ends the lease early; what decides
// whether one still holds is Fresh.
//
// A Clock is made by [New] or [NewWith] and is safe for concurrent use.
type Clock struct {
	origin  time.Time
	measure func() time.Duration
	base    time.Duration // what measure said at the origin

	slept  atomic.Int64 // since the origin
	looked atomic.Int64 // when measure was last asked, by the monotonic clock
}

// New returns a clock that starts at 0 and measures sleep as well as the system
// allows.
func New() *Clock {
	return NewWith(systemSleep())
}

// NewWith returns a clock that starts at 0 and is told by slept how long the
// machine has slept since any moment that stays the same. It is for tests, in
// which a machine sleeps by an assignment, and for programs that can measure sleep
// where [New] cannot.
//
// slept is called a few times at once, then by every Fresh and by one Now a
// second, from any goroutine. An answer below an earlier one is ignored, as is
// growth below 0.1ms.
func NewWith(slept func() time.Duration) *Clock {
	c := &Clock{origin: time.Now(), measure: slept, base: slept()}
	// A preemption in the middle of a measurement makes it too small, and at the
	// base that would be taken for sleep later on. All three are hardly ever hit.
	for range 2 {
		c.base = max(c.base, slept())
	}
	return c
}

// Now is the time since the clock was made. It asks about sleep at most once a
// second, so after the machine woke up it may be behind by the length of the sleep,
// for at most one second and until the next Fresh. It is never ahead of Fresh, and
// never goes back. It is meant for the start of leases, one call a batch.
func (c *Clock) Now() Instant {
	awake := time.Since(c.origin)
	if int64(awake)-c.looked.Load() >= int64(glance) {
		return c.Fresh()
	}
	return Instant(awake).Add(time.Duration(c.slept.Load()))
}

// Fresh is the time since the clock was made, with all sleep that ended before the
// call. It is meant for the decision whether a lease still holds, and for the
// moment at which a reply arrived. It costs a few times what Now does.
func (c *Clock) Fresh() Instant {
	c.look()
	// Go's clock is read after the other two. The other way round, a preemption
	// between the readings would make the result older than the call.
	return Instant(time.Since(c.origin)).Add(time.Duration(c.slept.Load()))
}

func (c *Clock) look() {
	awake := time.Since(c.origin)
	slept := sub(int64(c.measure()), int64(c.base))
	for {
		known := c.slept.Load()
		if slept < add(known, int64(grain)) || c.slept.CompareAndSwap(known, slept) {
			break
		}
	}
	c.looked.Store(int64(awake)) // last: whoever sees it also sees the sleep that was found
}
