package redlock

import (
	"fmt"
	"strings"
	"time"

	"github.com/quorumlock/quorumlock/driver"
)

// A condition is what a look has shown of a node: its history and its records.
type condition struct {
	replid string
	kinds  [len(recordKeys)]driver.Kind // of the records: String, or Nil where there is none
	texts  [len(recordKeys)]string

	nonce  string // of the epoch; "" if there is none
	marker marker // zero if there is none
	listed bool   // there is a node set
	fault  error  // why this client leaves the node alone
}

// lookAt returns the commands of a look, or nil where nothing is guarded.
func lookAt(o *lockerOptions) []driver.Command {
	if o.guard == 0 {
		return nil
	}
	args := []any{"MGET"}
	for _, key := range recordKeys {
		args = append(args, o.prefix+key)
	}
	return []driver.Command{
		{Args: []any{"INFO", "replication"}},
		{Args: args, FirstKey: 1, Keys: len(recordKeys)},
	}
}

// condition reads the replies to a look. What has not changed since the last look is not
// read again. n.mu is held.
func (n *node) condition(said []driver.Reply) (*condition, error) {
	replid, err := history(said[0])
	if err != nil {
		return nil, err
	}
	records := said[1]
	switch {
	case says(records, "NOPERM"):
		return nil, fmt.Errorf("%w: its user may not read the guard's keys: allow +mget and ~%sql:*: %w", ErrNode, n.locker.options.prefix, records.Err())
	case records.Kind != driver.Array || len(records.Elems) != len(recordKeys):
		return nil, unexpected(records)
	}
	if last := n.guard.shown; last != nil && last.replid == replid && last.same(records.Elems) {
		return last, nil
	}
	s := &condition{replid: replid}
	for i, record := range records.Elems {
		if record.Kind != driver.String && record.Kind != driver.Nil {
			return nil, unexpected(record)
		}
		s.kinds[i], s.texts[i] = record.Kind, record.Str
	}
	s.read(&n.locker.options, len(n.locker.nodes))
	n.guard.shown = s
	n.locker.noteMarker(n, s.marker)
	return s, nil
}

// same reports whether these are the records that were seen before.
func (s *condition) same(records []driver.Reply) bool {
	for i, record := range records {
		if record.Kind != s.kinds[i] || record.Kind == driver.String && record.Str != s.texts[i] {
			return false
		}
	}
	return true
}

// read reads the records, for a client of so many nodes.
func (s *condition) read(o *lockerOptions, size int) {
	var entries []nodeEntry
	parse := [...]func(string) error{
		func(text string) (err error) { s.nonce, err = parseEpoch(text); return err },
		func(text string) (err error) { s.marker, err = parseMarker(text); return err },
		func(text string) (err error) { entries, err = parseSet(text); return err },
	}
	for i, parse := range parse {
		if s.kinds[i] == driver.Nil {
			continue
		}
		if err := parse(s.texts[i]); err != nil {
			s.fault = &recordError{o.prefix + recordKeys[i], err}
			return
		}
	}
	if s.listed = entries != nil; s.listed {
		s.fault = o.fits(entries, s.texts[2], size)
	}
}

// fits says why a node that is listed so is none of this client's.
func (o *lockerOptions) fits(entries []nodeEntry, text string, size int) error {
	switch listed, retired := lists(entries, o.nodeSet, size); {
	case !listed:
		return fmt.Errorf("%w: the node is listed as %q, and this client's set is %q (WithNodeSet(%d) and %d nodes): give all clients the same nodes, or change one node at a time",
			ErrNodeSet, strings.TrimPrefix(text, recordVersion+" "), fmt.Sprintf("%d:%d", o.nodeSet, size), o.nodeSet, size)
	case retired:
		return fmt.Errorf("%w: the node is listed as %q, so it has left the set %q of this client: give the client today's nodes",
			ErrNodeSet, strings.TrimPrefix(text, recordVersion+" "), fmt.Sprintf("%d:%d", o.nodeSet, size))
	}
	return nil
}

// admits reports whether the marker is for the node's present history.
func (s *condition) admits() bool {
	return s.nonce != "" && s.listed && s.marker.replid == s.replid && s.marker.nonce == s.nonce
}

// history reads the master_replid of a master.
func history(info driver.Reply) (string, error) {
	if info.Kind != driver.String {
		return "", unexpected(info)
	}
	if value(info.Str, "role:") != "master" {
		return "", fmt.Errorf("%w: it is a replica: give the master's address", ErrNode)
	}
	id := value(info.Str, "master_replid:")
	if !isHex(id, 40) {
		return "", errNoHistory
	}
	return id, nil
}

var errNoHistory = fmt.Errorf("%w: INFO replication shows no master_replid of 40 hex digits, so nobody can tell whether it has forgotten anything: without WithRestartGuard it can be used", ErrNode)

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

// stands takes back the votes that others of the operation have spoiled, and reports whether
// there are still enough: of two nodes with one history, which are one server, the second;
// and who was admitted for shorter leases than this process has seen since. claim.mu is held.
func (op *operation) stands() bool {
	least := op.claim.locker.greatest.Load()
	if least == 0 || !op.task.votes {
		return true
	}
	for i := range op.requests {
		r := &op.requests[i]
		if !op.counted(r) {
			continue
		}
		if r.shown.marker.ms < least {
			op.uncount(r, shorterLeases(r.shown.marker.ms, least, op.claim.locker.options.prefix))
			continue
		}
		for j := range op.requests[:i] {
			if other := &op.requests[j]; op.counted(other) && other.shown.replid == r.shown.replid {
				op.uncount(r, sameServer(other.node))
				break
			}
		}
	}
	return op.agreed >= op.need
}

// counted reports whether r is a vote that a guard has judged: only then nobody writes to
// what it has shown any more. claim.mu is held.
func (op *operation) counted(r *request) bool { return op.task.agrees(r.answer) && r.shown != nil }

// uncount makes a vote none. claim.mu is held.
func (op *operation) uncount(r *request, why error) {
	r.answer, r.err = Failed, why
	op.agreed--
}

// sameServer is a node with another one's history.
func sameServer(other *node) error {
	return fmt.Errorf("%w: it has the master_replid of node %s, so it is the same server and would vote twice: give each node a server of its own", ErrNode, other.name)
}

// tooLong is a client of longer leases than a node was admitted for. It does not raise them by
// waiting: who admitted the node does not know of its leases.
func tooLong(n *node, longest time.Duration) error {
	return fmt.Errorf("%w: node %s is admitted for leases up to %v, and this client may take %v: give all clients of these keys the same WithRestartGuard, or this one a shorter time",
		ErrNodeSet, n.name, ofMilliseconds(n.guard.seen.Load()), longest)
}

// shorterLeases is a marker for shorter leases than another node's.
func shorterLeases(ms, greatest int64, prefix string) error {
	return fmt.Errorf("%w: it is admitted for leases up to %v, and another node for up to %v: give all clients the same WithRestartGuard, and delete %q here",
		ErrNodeSet, ofMilliseconds(ms), ofMilliseconds(greatest), prefix+markerKey)
}
