package redlock

// blame says why too few nodes agreed: somebody else has the key, or too many nodes
// cannot say. claim.mu is held.
func (op *operation) blame() error {
	silent := 0
	for i := range op.requests {
		if op.requests[i].answer == Failed {
			silent++
		}
	}
	if op.outcome == dropped || silent > len(op.requests)-op.need {
		return ErrNoQuorum
	}
	return ErrHeld
}

// alarming reports whether others may have taken a failed attempt for a holder, whose end
// has to be announced to them. claim.mu is held.
func (op *operation) alarming() bool {
	held := 0
	for i := range op.requests {
		if op.requests[i].answer == Held {
			held++
		}
	}
	return len(op.requests)-held >= op.need
}

// votes returns what every node has said. claim.mu is held.
func (op *operation) votes() []Vote {
	votes := make([]Vote, len(op.requests))
	for i := range op.requests {
		r := &op.requests[i]
		votes[i] = Vote{Node: r.node.name, Answer: r.answer, Err: r.err}
		if r.answer != Pending {
			votes[i].Latency = r.answered.Sub(op.asked)
		}
	}
	return votes
}

// fail returns the operation as an error. claim.mu is held.
func (op *operation) fail(reason error) error {
	return &QuorumError{Op: op.task.name, Key: op.claim.key, Need: op.need, Votes: op.votes(), Reason: reason}
}
