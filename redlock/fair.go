package redlock

import (
	"fmt"
	"time"

	"github.com/quorumlock/quorumlock/clockdrift"
	"github.com/quorumlock/quorumlock/internal/protocol"
	"github.com/quorumlock/quorumlock/internal/waiting"
)

// inLine is the exclusive lock of Lockers whose waiters take turns.
var inLine = &kind{Kind: protocol.InLine, lease: exclusive.lease}

// WithFairness lets those who wait in [Locker.Acquire] be served in the order in which they came,
// over all processes whose Lockers have the option. Without it the order is kept within a process, and
// is a matter of pauses between processes.
//
// Who waits stands in a line that the nodes keep beside the key, as advice: whose key it is, a quorum
// says as ever. A waiter that dies is passed over after 1.5 s. The order is that of the moments in
// which the waits began, by the median of the nodes' clocks: those who begin within a round trip of
// each other, or at Lockers that take the nodes' clocks for up to a second apart, may be served in either
// order.
//
// It is for [Lock]. Clients that take no part (other libraries, Lockers without the option, and acquires
// with [WithToken]) see the same key and no line: whenever the key is free they may have it first, so
// give all Lockers of a key the option. Readers, sets and they are told of every ninth release of a
// process, whose own waiters pause then. A [Locker.TryAcquire] fails with [ErrTaken] while somebody waits.
//
// An acquire takes the nodes a script in place of one SET, also while nobody waits: they must run
// scripts (+eval +evalsha), and use ql:line:{KEY} and ql:live:{KEY}. The key needs a hash
// tag, or no closing brace.
func WithFairness() Option {
	return option(func(o *lockerOptions) { o.acquire.kind = inLine })
}

// PriorityStep is what a level of [WithPriority] is worth.
const PriorityStep = time.Second

// MaxPriority bounds the levels of [WithPriority].
const MaxPriority = 1000

// WithPriority lets an acquire wait, in the line of [WithFairness], as if it had begun so many times
// [PriorityStep] earlier, or later if levels is negative. So nobody is overtaken by those who come
// more than the difference of their levels after him, however urgent they are. It is from
// -[MaxPriority] to [MaxPriority]; the default is 0. Where nobody stands in that line it is an
// [OptionError]: without WithFairness, with [WithToken], and for shared locks, several keys and permits.
func WithPriority(levels int) AcquireOption {
	return acquireOption(func(o *acquireOptions) { o.priority = levels })
}

// checkPriority refuses levels that mean nothing.
func (o *acquireOptions) checkPriority() error {
	switch {
	case o.priority < -MaxPriority || o.priority > MaxPriority:
		return &OptionError{"priority", fmt.Sprintf("want -%d to %[1]d, not %d", MaxPriority, o.priority)}
	case o.priority != 0 && o.kind != inLine:
		return &OptionError{"priority", "is for the line of a Locker WithFairness, in which an Acquire without WithToken waits: shared locks, several keys and permits have none, so leave it out there"}
	}
	return nil
}

// stands reports whether those who wait for the kind stand in the key's line.
func (k *kind) stands() bool { return k.Kind != nil && k.Stands }

// nameInLine is the name of the Locker in the lines of keys that those of the kind wait for; "":
// nobody of it stands there.
func (l *Locker) nameInLine(k *kind) string {
	if k.slots != nil {
		return ""
	}
	return l.inLineAs
}

// standing returns the options of a try of the first of this process who waits for a key: where it
// stands in the key's line. Until the nodes have told their time it stands nowhere.
func (h host) standing(w *waiting.Waiter, o *acquireOptions) *acquireOptions {
	if h.Place(w) == 0 {
		return o
	}
	own := *o
	own.stand = &protocol.Stand{Name: w.Options.Name, Since: h.Place(w), Again: w.Stands()}
	w.Stood = true
	return &own
}

// Place is where a waiter stands in line, the same for all of its tries; 0: nowhere, or the nodes have
// not told their time.
func (h host) Place(w *waiting.Waiter) int64 {
	if place := w.Place.Load(); place != 0 || !w.Options.Stands {
		return place
	}
	if place := h.since(w.Rank); place != 0 {
		w.Place.CompareAndSwap(0, place)
	}
	return w.Place.Load()
}

// rank is when an acquire would have begun to wait, had it no priority.
func (o *acquireOptions) rank(began clockdrift.Instant) clockdrift.Instant {
	return began.Add(-time.Duration(o.priority) * PriorityStep)
}

// Leaves takes the Locker out of the line of a key, or lets it stand there for the next of its waiters.
func (h host) Leaves(w, next *waiting.Waiter) {
	var place *protocol.Stand
	if next != nil {
		place = &protocol.Stand{Since: h.Place(next)}
	}
	h.advance(w.Key, w.Options.Name, place)
}

// advance moves a name to its next place in the line of a key, or takes it out, and tells who is first
// there now.
func (l *Locker) advance(key, name string, place *protocol.Stand) {
	op := l.about(key, protocol.Leave)
	op.Cmds = protocol.LeaveLine(op.Key.(string), name, place)
	op.AskAll()
}
