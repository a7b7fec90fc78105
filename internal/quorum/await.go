package quorum

import (
	"context"
	"slices"
	"time"

	"github.com/quorumlock/quorumlock/internal/fault"
	"github.com/quorumlock/quorumlock/internal/lease"
	"github.com/quorumlock/quorumlock/internal/protocol"
)

// Await waits until the operation is decided. It drops the operation if ctx ends first, or closing is
// closed.
func (op *Operation) Await(ctx context.Context, closing <-chan struct{}) {
	var interrupt error
	select {
	case <-op.Done:
		return
	case <-ctx.Done():
		interrupt = fault.EndOf(ctx)
	case <-closing:
		interrupt = fault.ErrClosed
	}
	now := op.board().Clock.Fresh()
	op.Hold.mu.Lock()
	if op.Verdict == lease.Undecided {
		op.Interrupt = interrupt
		op.decide(lease.Dropped, now)
	}
	op.unlock()
}

// AwaitMore waits a moment for late answers after a failure: the next step depends on who holds the key.
func (op *Operation) AwaitMore(ctx context.Context) {
	if op.Full != nil {
		op.AwaitAll(ctx, op.Late())
		op.Dismiss()
	}
}

// AwaitAll waits until all nodes have answered, and at most for most.
func (op *Operation) AwaitAll(ctx context.Context, most time.Duration) {
	if most <= 0 {
		return
	}
	timer := time.NewTimer(most)
	defer timer.Stop()
	select {
	case <-op.Full:
	case <-timer.C:
	case <-ctx.Done():
	case <-op.board().Closing:
	}
}

// Rest waits for the pause, and reports false if the context or the Locker ends first.
func (b *Board) Rest(ctx context.Context, pause time.Duration) bool {
	if pause <= 0 && ctx.Err() == nil {
		return true
	}
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
	case <-b.Closing:
	}
	return false
}

// RoundTrip is how long a round of the operation takes: until a quorum of the nodes has answered,
// and at least the nodes' distance.
func (op *Operation) RoundTrip() time.Duration {
	op.Hold.mu.Lock()
	var took []time.Duration
	for i := range op.votes {
		if v := &op.votes[i]; v.Answer == protocol.Granted || v.Answer == protocol.Taken || v.Answer == protocol.Absent {
			took = append(took, v.answered.Sub(op.Asked))
		}
	}
	op.Hold.mu.Unlock()
	trip := max(op.board().Trip(), MinTrip)
	if len(took) == 0 {
		return trip
	}
	slices.Sort(took)
	return max(trip, min(took[min(op.Need, len(took))-1], op.Patience()/16))
}

// MinTrip is the least round trip for computed pauses: goroutines need time to run.
const MinTrip = 100 * time.Microsecond
