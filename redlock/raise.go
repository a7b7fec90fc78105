package redlock

import (
	"context"
	"fmt"
	"strconv"

	"github.com/quorumlock/quorumlock/clockdrift"
	"github.com/quorumlock/quorumlock/driver"
)

// maxRaises bounds the proposals behind the first. Each is above all that a quorum had
// accepted a moment before, so a second one fails only if somebody else was there in
// between, who has then failed to get the key.
const maxRaises = 4

// counters asks the nodes for the greatest fence that they have accepted.
var counters = &task{name: "acquire", agrees: granted, read: readCounter}

// raise proposes a greater fence for a key that a quorum has granted.
var raise = &task{name: "acquire", votes: true, agrees: granted, read: readFence, decided: raised}

// raise finds a greater fence for an attempt that has the key at a quorum, where too many
// nodes have accepted the same or a greater one before: by a client whose clock reads
// more, or before a node forgot. It costs two round trips more, inside the lease.
func (l *Locker) raise(ctx context.Context, lock *Lock) error {
	var err error
	again := true
	for i := 0; again && i < maxRaises; i++ {
		if again, err = l.raiseOnce(ctx, lock); err == nil {
			return nil
		}
	}
	lock.claim.clear()
	return err
}

// raiseOnce reads the counters and proposes more. Again says that somebody else has done so
// in between.
func (l *Locker) raiseOnce(ctx context.Context, lock *Lock) (again bool, err error) {
	c := &lock.claim
	look := &operation{task: counters, claim: c, lock: lock, ttl: lock.acquire.ttl}
	look.say(new(words), driver.Command{Args: []any{"ZSCORE", c.fenceArg, "f"}, FirstKey: 1, Keys: 1})
	look.ask(l.nodes, l.quorum) // it sets nothing, and is let in even while the Locker is closed
	if err := l.hear(ctx, look); err != nil {
		return false, err
	}
	p := max(l.propose(), look.greatest()+1)
	if p >= maxFence {
		return false, &stateError{"acquire", c.key, fmt.Errorf("%w: its counter %q has come to its end: delete it at all nodes while nobody works under the key", ErrFence, c.fenceArg)}
	}
	op := &operation{task: raise, claim: c, lock: lock, ttl: look.ttl}
	op.carries(p)
	op.ask(l.nodes, l.quorum)
	err = l.hear(ctx, op)
	return op.outcome == outbid, err
}

// raised takes the deciding vote of a raise. The lease runs since the acquire, of which any
// part may have set the key. claim.mu is held.
func raised(op *operation, now clockdrift.Instant) {
	if op.outcome == carried {
		op.start = op.lock.acquire.first()
		op.lock.hold(op, now)
	}
}

// first is when the first of the operation's requests left. claim.mu is held.
func (op *operation) first() (first clockdrift.Instant) {
	for i := range op.requests {
		if start := op.requests[i].start; start != 0 && (first == 0 || start < first) {
			first = start
		}
	}
	return first
}

// readCounter reads a node's counter. It may have none.
func readCounter(_ string, replies []driver.Reply) (Answer, error) {
	if reply := replies[0]; reply.Kind != driver.Nil && reply.Kind != driver.String {
		return Failed, fenceRefused(reply)
	}
	return Granted, nil
}

// greatest is the greatest counter that was read so far.
func (op *operation) greatest() (greatest int64) {
	op.claim.mu.Lock()
	defer op.claim.mu.Unlock()
	return op.counter
}

// count takes a counter in. Servers print it in any of the ways of a float. claim.mu is held.
func (op *operation) count(replies []driver.Reply) {
	if score, err := strconv.ParseFloat(replies[0].Str, 64); err == nil {
		op.counter = max(op.counter, int64(min(score, maxFence)))
	}
}
