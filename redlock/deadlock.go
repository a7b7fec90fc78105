package redlock

import (
	"context"
	"time"

	"github.com/quorumlock/quorumlock/internal/deadlock"
)

// WithDeadlockDetection finds cycles of locks of several processes, each of whose work waits for the next: a
// wait that has taken longer than after, under the [Lock.Context] of another lock, is told to the nodes, and
// followed from lock to lock. The youngest wait of a cycle fails with a [DeadlockError], as a rule within
// twice the time. Cycles within one Locker are found at once, without the option.
//
// All Lockers whose locks may be part of a cycle need the option, with the same time: 100ms to a minute; one
// second is a good value. Cycles through permits, through contexts that carry no lock ([Detach]), or without a
// majority of the nodes are not found, and those of more than 64 locks perhaps later. The nodes must run
// scripts, and keep ql:waits:{KEY}; [NodeLimited] says which do not. The method is edge chasing (Chandy, Misra
// and Haas, Distributed deadlock detection, ACM TOCS 1983).
func WithDeadlockDetection(after time.Duration) Option {
	return option(func(o *lockerOptions) { o.deadlocks, o.detects = after, true })
}

// The bounds of its time.
const (
	minDetection = 100 * time.Millisecond
	maxDetection = time.Minute
)

// newDetector returns the Locker's detector.
func (l *Locker) newDetector() *deadlock.Detector {
	return deadlock.New(deadlock.Config{
		Board: l.board, After: l.options.deadlocks, Prefix: l.options.prefix, Name: l.name, Start: l.work.start,
		Words: func(ring []deadlock.Link) error {
			e := &DeadlockError{}
			for _, link := range ring {
				e.Cycle = append(e.Cycle, DeadlockWait(link))
			}
			return e
		},
	})
}

// detect looks for rings through a wait for keys, until it is stopped. End ends the wait.
func (l *Locker) detect(ctx context.Context, k *kind, keys []string, end func(error)) (stop func()) {
	if l.detector == nil || k.pool != nil || ctx.Done() == nil {
		return func() {}
	}
	var under []deadlock.Footing
	for _, held := range l.carries(ctx) {
		if held.slots != nil {
			continue
		}
		for _, key := range held.hold.Names() {
			under = append(under, deadlock.Footing{Hold: &held.hold, Key: l.options.prefix + key})
		}
	}
	if len(under) == 0 {
		return func() {}
	}
	names := make([]string, len(keys))
	for i, key := range keys {
		names[i] = l.options.prefix + key
	}
	return l.detector.Watch(ctx, under, names, k.joins(), end)
}
