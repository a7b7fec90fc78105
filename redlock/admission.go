package redlock

import (
	"context"
	"errors"

	"github.com/quorumlock/quorumlock/driver"
)

// The tasks of admission. They are of no key of the user's.
var (
	inquire = &task{name: "admit", agrees: granted, read: readHistory}
	mark    = &task{name: "admit", agrees: granted, read: readMarked}
)

func readHistory(_ string, replies []driver.Reply) (Answer, error) {
	if _, err := history(replies[0]); err != nil {
		return Failed, err
	}
	return Granted, nil
}

func readMarked(_ string, replies []driver.Reply) (Answer, error) {
	if replies[0].Kind != driver.String {
		return Failed, unexpected(replies[0])
	}
	return Granted, nil
}

// mark sets the node's marker to a history. It does not wait.
func (n *node) mark(history string) *operation {
	return n.aside(mark, driver.Command{
		Args:     []any{"SET", n.locker.options.prefix + markerKey, n.locker.marker(history)},
		FirstKey: 1, Keys: 1,
	})
}

// aside asks the node something that is about no key of the user's. It does not wait.
func (n *node) aside(t *task, cmd driver.Command) *operation {
	c := newClaim(n.locker, markerKey, "", n.locker.options.acquire.ttl)
	op := &operation{task: t, claim: &c, ttl: c.ttl, cmds: []driver.Command{cmd}}
	op.ask([]*node{n}, 1)
	return op
}

// Admit lets all nodes vote at once that [WithRestartGuard] keeps out, without the
// quarantine. Call it at the first deployment, when no lock was ever held on these nodes,
// or when it is certain that none has been for the longest TTL: otherwise it undoes the
// guard, for one time. It may be called again.
//
// The error is a [*QuorumError] for each node that could not be admitted. Such a node sits
// out the quarantine, and then votes.
func (l *Locker) Admit(ctx context.Context) error {
	if l.options.guard == 0 {
		return &OptionError{"Admit", "without WithRestartGuard every node votes"}
	}
	if l.closed() {
		return &stateError{"admit", markerKey, ErrClosed}
	}
	looks := make([]*operation, len(l.nodes))
	for i, n := range l.nodes {
		looks[i] = n.aside(inquire, l.guarding[0])
	}
	var marks []*operation
	var failures []error
	for i, n := range l.nodes {
		if err := l.hear(ctx, looks[i]); err != nil {
			failures = append(failures, err)
			continue
		}
		history, _ := history(looks[i].requests[0].reply[0]) // it has answered
		marks = append(marks, n.mark(history))
	}
	for _, op := range marks {
		failures = append(failures, l.hear(ctx, op))
	}
	return errors.Join(failures...)
}
