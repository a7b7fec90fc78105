package redlock

import (
	"context"
	"fmt"

	"github.com/quorumlock/quorumlock/driver"
)

// Held asks the nodes whether the key still holds this lock's token. It is true if a
// quorum says so, and false if that is out of reach. It says nothing about the lease,
// which may end the next moment: [Lock.Valid] does.
//
// The error matches [ErrNoQuorum] if too few nodes answered to say, [ErrClosed], or
// the context's error if ctx ended first.
func (l *Lock) Held(ctx context.Context) (bool, error) {
	c := &l.claim
	if c.locker.closed() {
		return false, &stateError{"held", c.key, ErrClosed}
	}
	op := &operation{task: look, claim: c, ttl: c.longest()}
	op.say(new(words), driver.Command{Args: []any{"GET", c.keyArg}, FirstKey: 1, Keys: 1})
	op.ask(c.locker.nodes, c.locker.quorum)
	op.await(ctx)
	c.mu.Lock()
	defer c.mu.Unlock()
	switch reason := op.blame(); {
	case op.outcome == carried:
		return true, nil
	case op.outcome == dropped:
		return false, fmt.Errorf("%w: %w", op.fail(reason), endOf(ctx))
	case reason == ErrTaken: //nolint:errorlint // blame returns the sentinel itself
		return false, nil
	default:
		return false, op.fail(reason)
	}
}
