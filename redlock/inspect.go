package redlock

import (
	"context"
	"fmt"
	"time"

	"github.com/quorumlock/quorumlock/internal/fault"
	"github.com/quorumlock/quorumlock/internal/protocol"
	"github.com/quorumlock/quorumlock/internal/quorum"
)

// A NodeState is what one node says of a key.
type NodeState struct {
	Node   string        // its name
	Held   bool          // somebody has the key there
	Owner  string        // who, by [WithOwner]; "": the holder has no name, or another library
	Since  time.Time     // when it was taken, by its holder's clock; zero: not known, as of one without an Owner
	Own    bool          // a lock of this Locker
	Shared bool          // readers share it: see [Locker.AcquireShared]; then neither Owner nor Own is known
	Left   time.Duration // until the node forgets the key; 0: nobody has it, or it has no expiry
	Err    error         // why the node does not say; nil: it does
}

func (s NodeState) String() string {
	switch {
	case s.Err != nil:
		return fmt.Sprintf("%s: %v", s.Node, s.Err)
	case !s.Held:
		return s.Node + ": free"
	}
	owner := s.Owner
	switch {
	case s.Shared:
		owner = "readers who share it"
	case owner == "":
		owner = "a holder without a name"
	}
	if !s.Since.IsZero() {
		owner += " since " + s.Since.Format(time.RFC3339)
	}
	if s.Left == 0 {
		return fmt.Sprintf("%s: held by %s, without an expiry", s.Node, owner)
	}
	return fmt.Sprintf("%s: held by %s for %v", s.Node, owner, s.Left)
}

// Inspect asks every node who has the key, and for how long, for operators and messages: no
// decision about the lock may rest on it. The result has one entry a node, in the order given to
// [New]; one that does not answer within the node time-out has an Err. The error matches
// [ErrOption] (the key), [ErrClosed], or the context's error.
func (l *Locker) Inspect(ctx context.Context, key string) ([]NodeState, error) {
	if err := l.options.checkKey(key); err != nil {
		return nil, err
	}
	op, err := l.inspect(ctx, key)
	if err == nil {
		err = l.awaitClosed(ctx, protocol.Inspect.Name, key, op.Full)
	}
	if err != nil {
		return nil, err
	}
	states := make([]NodeState, len(l.board.Nodes))
	for i, v := range op.Tally().Votes {
		states[i] = NodeState{Node: v.Node.Name(), Held: v.Answer == protocol.Taken, Err: v.Err}
		if states[i].Held {
			var token string
			token, states[i].Left = v.Reply.Inspected()
			states[i].Owner, states[i].Since, states[i].Own = protocol.Owner(token), protocol.Since(token), l.holds.with(token) != nil
			states[i].Shared = token == protocol.SharedValue
		}
	}
	return states, nil
}

// inspect asks all nodes who has the key, and waits until as many have answered or timed out as
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
