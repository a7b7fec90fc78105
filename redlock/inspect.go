package redlock

import (
	"context"

	"github.com/quorumlock/quorumlock/internal/fault"
	"github.com/quorumlock/quorumlock/internal/protocol"
	"github.com/quorumlock/quorumlock/internal/quorum"
)

// inspect asks all nodes for the holder of the key, and waits until as many have answered or timed out as
// leave no quorum of others.
func (l *Locker) inspect(ctx context.Context, key string) (*quorum.Operation, error) {
	op := l.board.About(key, protocol.Inspect)
	op.Full = make(chan struct{})
	op.Encode(nil)
	if ctx.Err() != nil {
		return nil, &fault.StateError{Op: protocol.Inspect.Name, Key: key, Why: fault.EndOf(ctx)}
	}
	if l.closed() || !op.AskAll() {
		return nil, &fault.StateError{Op: protocol.Inspect.Name, Key: key, Why: ErrClosed}
	}
	return op, l.awaitClosed(ctx, protocol.Inspect.Name, key, op.Done)
}
