package redlock

import (
	"context"
	"errors"

	"github.com/quorumlock/quorumlock/internal/fault"
	"github.com/quorumlock/quorumlock/internal/gate"
	"github.com/quorumlock/quorumlock/internal/quorum"
)

// AdmitOption is a setting of [Locker.AdmitNewNodes].
type AdmitOption interface{ admit(*admitOptions) }

type admitOptions struct{ force bool }

type admitOption func(*admitOptions)

func (set admitOption) admit(o *admitOptions) { set(o) }

// ForceAdmission lets [Locker.AdmitNewNodes] admit all nodes that answer, whatever they hold. It
// makes two holders possible: over a node that has forgotten a vote, and of a lock that is
// taken before AdmitNewNodes has returned. Use it only after all clients of these nodes have
// been stopped for the longest TTL.
func ForceAdmission() AdmitOption {
	return admitOption(func(o *admitOptions) { o.force = true })
}

// AdmitNewNodes lets new nodes vote at once, without the quarantine of [WithRestartGuard]. Call it
// at the first deployment, before any client takes a lock: a lock that is taken before
// AdmitNewNodes has returned may get a second holder. Without it nodes vote after one
// quarantine, if all nodes answer but at most one.
//
// It admits all nodes or none. The error matches [ErrAdmitted] if a node has been in use
// before, and names the node and what it holds; nothing was changed then, and nothing has to
// be done: nodes in quarantine vote when it is over. It matches [ErrNoQuorum] if a node does
// not answer, with a [*QuorumError] for each: call it again when all are up, or wait.
func (l *Locker) AdmitNewNodes(ctx context.Context, options ...AdmitOption) error {
	var o admitOptions
	if err := apply(options, func(option AdmitOption) { option.admit(&o) }); err != nil {
		return err
	}
	if l.options.guard == 0 {
		return &OptionError{"AdmitNewNodes", "without WithRestartGuard every node votes"}
	}
	if l.closed() {
		return &fault.StateError{Op: "admit", Key: gate.MarkerKey, Why: ErrClosed}
	}
	a := l.board.Restarts.Admission(o.force)
	done := make([]bool, len(a.Candidates)) // a node that fails a step takes no further part
	var failures []error
	for _, step := range a.Steps() {
		failures = append(failures, l.admissionStep(ctx, a, step, done)...)
		if used := a.InUse(); used != nil && failures == nil {
			failures = append(failures, used)
		}
		if !o.force && len(failures) > 0 {
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
		err := l.result(ctx, op)
		if err == nil {
			op.Attempt.Mu.Lock()
			part := op.Tally().Votes[0].Reply
			op.Attempt.Mu.Unlock()
			err = step.Read(&a.Candidates[i], part.Reply)
		}
		if err != nil {
			done[i] = true
			failures = append(failures, err)
		}
	}
	return failures
}
