package redlock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/quorumlock/quorumlock/driver"
)

// AdmitOption is a setting of [Locker.AdmitNewNodes].
type AdmitOption interface{ admit(*admitOptions) }

type admitOptions struct{ force bool }

type admitOption func(*admitOptions)

func (set admitOption) admit(o *admitOptions) { set(o) }

// ForceAdmission lets [Locker.AdmitNewNodes] admit all nodes that answer, whatever they hold. This
// makes two holders possible: for a node that has forgotten a vote, and for a lock that is
// taken before AdmitNewNodes has returned. Use it only while every client of these nodes is
// stopped, and has been for the longest TTL.
func ForceAdmission() AdmitOption {
	return admitOption(func(o *admitOptions) { o.force = true })
}

// AdmitNewNodes lets new nodes vote at once that [WithRestartGuard] would keep out for the longest
// TTL. Call it at the first deployment, before any client takes a lock: a lock that is
// taken before AdmitNewNodes has returned may get a second holder. Without it nodes vote after one
// quarantine, if all nodes answer but at most one.
//
// It admits all nodes or none. The error matches [ErrAdmitted] if a node has been in use
// before, and names the node and what it holds; nothing was changed then, and nothing has
// to be done: those that do not vote will do so by themselves. It matches [ErrNoQuorum] if a
// node does not answer, with a [*QuorumError] for each such node: call it again when all
// are up, or let the quarantine pass.
func (l *Locker) AdmitNewNodes(ctx context.Context, options ...AdmitOption) error {
	var o admitOptions
	if err := apply(options, func(option AdmitOption) { option.admit(&o) }); err != nil {
		return err
	}
	if l.options.guard == 0 {
		return &OptionError{"AdmitNewNodes", "without WithRestartGuard every node votes"}
	}
	if l.closed() {
		return &stateError{"admit", markerKey, ErrClosed}
	}
	a := &admission{locker: l, ctx: ctx, force: o.force}
	a.nodes = make([]candidate, len(l.nodes))
	for i, n := range l.nodes {
		a.nodes[i].node = n
	}
	for _, step := range []func(){a.inquire, a.prepare, a.mark} {
		if step(); !a.force && len(a.failures) > 0 {
			break
		}
	}
	return errors.Join(a.failures...)
}

// An admission is one call of [Locker.AdmitNewNodes].
type admission struct {
	locker   *Locker
	ctx      context.Context //nolint:containedctx // it lives as long as the call
	force    bool
	nodes    []candidate
	failures []error
}

// A candidate is a node that is to be admitted.
type candidate struct {
	node   *node
	failed bool
	marker marker
}

// each asks all nodes that have not failed, and hands on the answers.
func (a *admission) each(ask func(*candidate) *operation, heed func(*candidate, []driver.Reply) error) {
	asked := make([]*operation, len(a.nodes))
	for i := range a.nodes {
		if n := &a.nodes[i]; !n.failed {
			asked[i] = ask(n)
		}
	}
	for i, op := range asked {
		if op == nil {
			continue
		}
		err := a.locker.hear(a.ctx, op)
		if err == nil && heed != nil {
			err = heed(&a.nodes[i], op.requests[0].reply)
		}
		if err != nil {
			a.nodes[i].failed = true
			a.failures = append(a.failures, err)
		}
	}
}

// inquire refuses if a node does not answer, or has been in use.
func (a *admission) inquire() {
	var used []string
	a.each(func(n *candidate) *operation { return n.node.inquire() }, func(n *candidate, said []driver.Reply) error {
		n.marker.replid, _ = history(said[0]) // it has been read
		for _, other := range a.nodes {
			if other.node != n.node && other.marker.replid == n.marker.replid {
				return a.refuse(n, sameServer(other.node))
			}
		}
		var held []string
		for i, record := range said[1:] {
			if record.Kind != driver.Nil {
				held = append(held, fmt.Sprintf("%q", a.locker.options.prefix+recordKeys[i]))
			}
		}
		if held != nil {
			used = append(used, fmt.Sprintf("%s holds %s", n.node.name, strings.Join(held, ", ")))
		}
		return nil
	})
	if used != nil && !a.force {
		a.failures = append(a.failures, &admittedError{used})
	}
}

// prepare sets the epochs where they are missing. Nobody else may have been faster.
func (a *admission) prepare() {
	a.each(func(n *candidate) *operation {
		n.marker.nonce = newNonce()
		return n.node.prepare(n.marker.nonce, nil)
	}, func(n *candidate, said []driver.Reply) error {
		s := &condition{}
		for i, reply := range said[:len(recordKeys)] {
			s.kinds[i], s.texts[i] = reply.Kind, reply.Str
			if reply.Kind != driver.Nil && !a.force {
				return &admittedError{[]string{fmt.Sprintf("%s was given %q meanwhile", n.node.name, a.locker.options.prefix+recordKeys[i])}}
			}
		}
		if s.read(&a.locker.options, len(a.nodes)); s.fault != nil {
			return a.refuse(n, s.fault)
		}
		n.marker.nonce = cmp.Or(s.nonce, n.marker.nonce)
		return nil
	})
}

// mark sets node sets and markers, and reports the nodes that have lost their history meanwhile.
func (a *admission) mark() {
	a.each(func(n *candidate) *operation {
		n.marker.ms = a.locker.longest()
		return n.node.aside(writes(nil, setKey, markerKey), append([]driver.Command{n.node.listing(), n.node.marking(n.marker)}, a.locker.look...)...)
	}, func(n *candidate, said []driver.Reply) error {
		if _, doubt := n.node.judge(said[2:], a.locker.clock.Fresh()); doubt != nil {
			return a.refuse(n, doubt)
		}
		return nil
	})
}

// refuse is an admission that one node prevents.
func (a *admission) refuse(n *candidate, why error) error {
	return fmt.Errorf("redlock: admit: node %s: %w", n.node.name, why)
}

// admittedError is an admission of nodes that have been in use.
type admittedError struct{ used []string }

func (e *admittedError) Error() string {
	return fmt.Sprintf("redlock: admit: %v, so nothing was changed: %s; nodes that do not vote yet will by themselves", ErrAdmitted, strings.Join(e.used, "; "))
}

func (e *admittedError) Is(target error) bool { return target == ErrAdmitted }
