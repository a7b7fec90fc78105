package protocol

import (
	"time"

	"github.com/quorumlock/quorumlock/driver"
)

// A Refusal is what a node that has not granted a try says of its reasons, for all kinds of locks. What is zero
// was not told.
type Refusal struct {
	Named  bool
	Holder string        // if Named: the other token at the key, or a ticket in the way, see [Kept]
	Left   time.Duration // the least time until the key, or a slot, may be free
	Clock  int64         // the node's time, in microseconds
	InLine bool          // the node tells of the line: the next two are known
	First  bool          // no ticket is before the try's; for permits, none is in line
	Stands bool          // the node has the try's ticket
	Slots  string        // "1" for each slot of the semaphore that is taken, and "0" for each that is free
	Keeps  time.Duration // for how long a slot is kept for a waiter for several permits
}

// Refusal reads a node's refusal. Of a grant nothing is told but of the line.
func (p *Part) Refusal() (r Refusal) {
	if p.Op.Tells() && len(p.Reply) > 0 {
		r = p.Op.refusal(p)
	}
	r.InLine = r.InLine || Kept(r.Holder)
	return r
}

// named begins a refusal with the reply that has the key's value, unless that is the part's own token.
func (p *Part) named(value driver.Reply) (r Refusal) {
	r.Holder, r.Named = p.other(value)
	return r
}
