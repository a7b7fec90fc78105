package redlock

import (
	"context"
	"errors"

	"github.com/quorumlock/quorumlock/internal/fault"
	"github.com/quorumlock/quorumlock/internal/gate"
	"github.com/quorumlock/quorumlock/internal/quorum"
)

// AdmitNewNodes lets new nodes vote at once, without the quarantine of [WithRestartGuard]. Call it
// at the first deployment, before any client takes a lock: one that is taken before it has returned
// may get a second holder.
//
// It admits all nodes or none. The error matches [ErrAdmitted] if a node has been in use before,
// and names what it holds: nothing has to be done, nodes in quarantine vote when it is over. It
// matches [ErrQuarantine] as well if none was admitted before: a client was faster. It
// matches [ErrNoQuorum] if a node does not answer, with a [*QuorumError] for each: call it again
// when all are up, or wait.
func (l *Locker) AdmitNewNodes(ctx context.Context) error {
	return l.admit(ctx, "AdmitNewNodes", false)
}

// ForceAdmission admits all nodes that answer, whatever they hold. It makes two holders possible:
// over a node that has forgotten a vote, and of a lock that is taken before it has returned. Call
// it only after all clients of these nodes have been stopped for the longest TTL. Its errors are
// those of [Locker.AdmitNewNodes], without [ErrAdmitted].
func (l *Locker) ForceAdmission(ctx context.Context) error {
	return l.admit(ctx, "ForceAdmission", true)
}

func (l *Locker) admit(ctx context.Context, what string, force bool) error {
	if !l.options.guards {
		return &OptionError{what, "without WithRestartGuard every node votes"}
	}
	if l.closed() {
		return &fault.StateError{Op: "admit", Key: gate.MarkerKey, Why: ErrClosed}
	}
	a := l.board.Restarts.Admission(force)
	done := make([]bool, len(a.Candidates)) // a node that fails a step takes no further part
	var failures []error
	for _, step := range a.Steps() {
		failures = append(failures, l.admissionStep(ctx, a, step, done)...)
		if used := a.InUse(); used != nil && failures == nil {
			failures = append(failures, used)
		}
		if !force && len(failures) > 0 {
			break
		}
	}
	return errors.Join(failures...)
}

// admissionStep asks one round of questions of the candidates that are not done.
func (l *Locker) admissionStep(ctx context.Context, a *gate.Admission, step gate.Step, done []bool) (failures []error) {
	asked := make([]*quorum.Operation, len(a.Candidates))
	for i := range a.Candidates {
		if !done[i] {
			asked[i] = l.aside(step.Ask(&a.Candidates[i]))
			asked[i].AskOf(l.board.Nodes[i:i+1], 1)
		}
	}
	for i, op := range asked {
		if op == nil {
			continue
		}
		op.Await(ctx, l.closing)
		err := fate(op)
		if err == nil {
			err = step.Read(&a.Candidates[i], op.Tally().Votes[0].Reply.Reply)
		}
		if err != nil {
			done[i] = true
			failures = append(failures, err)
		}
	}
	return failures
}
