package redlock

import (
	"fmt"
	"time"

	"github.com/quorumlock/quorumlock/clockdrift"
	"github.com/quorumlock/quorumlock/internal/protocol"
)

// fair is the exclusive lock of Lockers with the option.
var fair = &kind{Kind: protocol.Fair}

// WithFairness serves those who wait in [Locker.Acquire] in the order in which they came, over all processes
// whose Lockers have the option. By default the order is kept within a process.
//
// A waiter stands in a line that the nodes keep beside the key, ql:line:{KEY}, by a script in place of one SET.
// The order is by the median of the nodes' clocks, to within a round trip. A waiter that dies is passed over
// within 2s. Waiters of other kinds, and of Lockers without the option, heed the line, and a released key is
// kept from other libraries until the first waiter has taken it. Acquires with [WithToken] see no line. A
// [Locker.TryAcquire] fails with [ErrTaken] while somebody waits.
func WithFairness() Option {
	return option(func(o *lockerOptions) { o.acquire.fair = true })
}

// priorityStep is what a level of WithPriority is worth, and maxPriority bounds the levels.
const (
	priorityStep = time.Second
	maxPriority  = 1000
)

// WithPriority lets an acquire wait, in the line of [WithFairness], as if it had begun so many
// seconds earlier, or later if levels is negative: nobody is overtaken by those who come more than
// the difference of their levels after it. It is from -1000 to 1000; the default is 0. Where nobody stands in
// that line (with [WithToken]; shared locks, several keys, permits) it is an [OptionError].
func WithPriority(levels int) AcquireOption {
	return acquireOption(func(o *settings) { o.priority = levels })
}

// checkPriority refuses levels that mean nothing.
func (r *request) checkPriority() error {
	switch {
	case r.priority < -maxPriority || r.priority > maxPriority:
		return &OptionError{"priority", fmt.Sprintf("want -%d to %[1]d, not %d", maxPriority, r.priority)}
	case r.priority != 0 && r.kind != fair:
		return &OptionError{"priority", "is for the line of a Locker WithFairness, in which an Acquire without WithToken waits: shared locks, several keys and permits have none, so leave it out there"}
	}
	return nil
}

// turns reports whether those who wait for the kind take turns, as the nodes say.
func (k *kind) fair() bool { return k.pool == nil && k.HeedsLine && k.Many == nil }

// rank is when an acquire would have begun to wait, had it no priority.
func (r *request) rank(began clockdrift.Instant) clockdrift.Instant {
	return began.Add(-time.Duration(r.priority) * priorityStep)
}
