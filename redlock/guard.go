package redlock

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/quorumlock/quorumlock/clockdrift"
	"github.com/quorumlock/quorumlock/driver"
)

// A guard keeps a node from voting that may have forgotten votes: see [WithRestartGuard].
//
// A server takes a new master_replid whenever its history may have forked: at every start,
// empty or from its file, and at every promotion. An admitted node keeps a marker with
// the master_replid that was admitted. A batch that may set keys begins with a look at
// both, on the same connection, and its grants are votes only if they agree. A marker for
// a history that has ended admits nobody, so nothing races.
//
// That goes for extensions and hand-overs, too, whose token is there: the vote that the
// node forgot may be part of a quorum that somebody else is about to complete (test/model
// shows how, with MUTANT_UNGUARDED_EXTENSION and MUTANT_UNGUARDED_HANDOVER). Only releases
// need no look.
//
// Whoever has seen one master_replid for the longest TTL knows that every lease has run
// out that an earlier history could have granted, and sets the marker to it.
type guard struct {
	history string             // the master_replid that is not admitted yet, or ""
	since   clockdrift.Instant // when it was first seen
	stepped clockdrift.Instant // until then a step of the clock keeps the node out
	closed  bool               // the user was told that the node is in quarantine
	timer   *time.Timer        // admits the history
	retries clockdrift.Instant // when that may be tried again
}

// markerKey is where an admitted node keeps its marker, behind the key prefix.
const markerKey = "ql:admitted"

// guardedBy returns the commands that a batch with grants begins with.
func guardedBy(o *lockerOptions) []driver.Command {
	if o.guard == 0 {
		return nil
	}
	return []driver.Command{
		{Args: []any{"INFO", "replication"}},
		{Args: []any{"GET", o.prefix + markerKey}, FirstKey: 1, Keys: 1},
	}
}

// marker is what admits a history.
func (l *Locker) marker(history string) string {
	return history + " " + strconv.FormatInt(l.options.guard.Milliseconds(), 10)
}

// sitOut is how long a node sits out by our clock, so that leases of at most the longest
// TTL have ended by their holders'.
func (l *Locker) sitOut(longest time.Duration) time.Duration {
	return longest + clockdrift.Allowance(longest, l.options.drift)
}

// guards reports whether a batch with these requests has to be judged.
func (l *Locker) guards(requests []*request) bool {
	return (l.options.guard > 0 || l.options.clockGuard > 0) &&
		slices.ContainsFunc(requests, func(r *request) bool { return r.op.task.votes })
}

// judge says why the grants of a batch are no votes, or nil if they are: by what the node
// said to the commands of [guardedBy].
func (n *node) judge(said []driver.Reply, now clockdrift.Instant) error {
	n.mu.Lock()
	doubt := n.doubt(said, now)
	switch {
	case doubt == nil && n.guard.closed:
		n.news = append(n.news, Event{NodeAdmitted, n.name, nil})
	case doubt != nil && !n.guard.closed:
		n.news = append(n.news, Event{NodeQuarantined, n.name, doubt})
	}
	n.guard.closed = doubt != nil
	n.mu.Unlock()
	n.announce()
	return doubt
}

func (n *node) doubt(said []driver.Reply, now clockdrift.Instant) error {
	l := n.locker
	if now < n.guard.stepped {
		return &quarantineError{"its clock was set forward", n.guard.stepped.Sub(now)}
	}
	if len(said) == 0 {
		return nil
	}
	history, err := history(said[0])
	if err != nil {
		return err
	}
	var admitted, longest string
	if said[1].Kind == driver.String {
		admitted, longest, _ = strings.Cut(said[1].Str, " ")
	}
	milliseconds, _ := strconv.ParseInt(longest, 10, 64)
	short := time.Duration(milliseconds) * time.Millisecond
	if admitted == history && short >= l.options.guard {
		n.admitted()
		return nil
	}
	if n.guard.history != history {
		n.admitted()
		n.guard.history, n.guard.since = history, now
		n.guard.timer = time.AfterFunc(l.sitOut(l.options.guard), func() { n.mark(history) })
	}
	why := "it was started anew, or promoted, and may have forgotten who holds what"
	switch {
	case admitted == history:
		why = fmt.Sprintf("it was admitted for leases up to %v and not %v: give all clients of these keys the same WithRestartGuard", short, l.options.guard)
	case said[1].Kind == driver.Nil:
		why = "nobody has admitted it: if no lock was ever held here, call Locker.Admit"
	case said[1].Kind == driver.Failure:
		why = unexpected(said[1]).Error()
	}
	left := n.guard.since.Add(l.sitOut(l.options.guard)).Sub(now)
	if left <= 0 && now >= n.guard.retries {
		n.guard.retries = now.Add(lastPause)
		n.guard.timer.Reset(0) // the marker was not set, or is gone
	}
	return &quarantineError{why, left}
}

// admitted notes that there is no history to admit. n.mu is held.
func (n *node) admitted() {
	if n.guard.timer != nil {
		n.guard.timer.Stop()
	}
	n.guard.history, n.guard.timer = "", nil
}

// quarantineError is a node that has to wait before its grants are votes.
type quarantineError struct {
	why  string
	left time.Duration
}

func (e *quarantineError) Error() string {
	return fmt.Sprintf("%v for %v: %s", ErrQuarantine, max(0, e.left).Round(time.Millisecond), e.why)
}

func (e *quarantineError) Is(target error) bool { return target == ErrQuarantine }

// history reads the master_replid of a master.
func history(info driver.Reply) (string, error) {
	if info.Kind != driver.String {
		return "", unexpected(info)
	}
	if value(info.Str, "role:") != "master" {
		return "", fmt.Errorf("%w: it is a replica: give the master's address", ErrNode)
	}
	id := value(info.Str, "master_replid:")
	if id == "" {
		return "", errNoHistory
	}
	return id, nil
}

var errNoHistory = fmt.Errorf("%w: INFO replication shows no master_replid, so nobody can tell whether it has forgotten anything: without WithRestartGuard it can be used", ErrNode)

// value returns the field of an INFO, which begins a line, that has this name and colon.
func value(info, name string) string {
	for from := 0; ; {
		at := strings.Index(info[from:], name)
		if at < 0 {
			return ""
		}
		at += from
		from = at + len(name)
		if at == 0 || info[at-1] == '\n' {
			field, _, _ := strings.Cut(info[from:], "\r\n")
			return field
		}
	}
}
