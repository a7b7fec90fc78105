package redlock

// blame says why too few nodes agreed: too many nodes cannot say, or somebody else has the
// key. Of an acquire it is also said if several ask for the key and nobody has it: no token
// would have a quorum even with all nodes that have not said. claim.mu is held.
func (op *operation) blame() error {
	silent := op.answers(Failed)
	switch {
	case op.outcome == dropped, silent > len(op.requests)-op.need:
		return ErrNoQuorum
	case op.task.tells:
		if _, ok := op.has(op.need - silent - op.answers(Pending)); !ok {
			return ErrContended
		}
	}
	return ErrTaken
}

// answers counts the nodes that have said this. claim.mu is held.
func (op *operation) answers(what Answer) (count int) {
	for i := range op.requests {
		if op.requests[i].answer == what {
			count++
		}
	}
	return count
}

// alarming reports whether others may have taken a failed attempt for a holder, whose end
// has to be announced to them. claim.mu is held.
func (op *operation) alarming() bool {
	return len(op.requests)-op.answers(Taken) >= op.need
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

// failure says why the operation has failed.
func (op *operation) failure() error {
	op.claim.mu.Lock()
	defer op.claim.mu.Unlock()
	return op.fail(op.blame())
}

// fail returns the operation as an error. claim.mu is held.
func (op *operation) fail(reason error) error {
	return &QuorumError{Op: op.task.name, Key: op.claim.key, Need: op.need, Votes: op.votes(), Reason: reason}
}
