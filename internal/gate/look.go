package gate

import (
	"fmt"
	"strings"
	"time"

	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/internal/fault"
	"github.com/quorumlock/quorumlock/internal/protocol"
)

// A Condition is what a look has shown of a node: its history and its records.
type Condition struct {
	replid string
	kinds  [len(RecordKeys)]driver.Kind // of the records: String, or Nil where there is none
	texts  [len(RecordKeys)]string

	nonce  string // of the epoch; "" if there is none
	marker Marker // zero if there is none
	listed bool   // there is a node set
	Fault  error  // why this client leaves the node alone
	name   string // the node's
}

// condition reads the replies to a look. What has not changed since the last look is not read
// again. gates.mu is held.
func (r *Restart) condition(replies []driver.Reply) (*Condition, error) {
	replid, err := History(replies[0])
	if err != nil {
		return nil, err
	}
	records := replies[1]
	switch {
	case protocol.Lacks(replies[1:]):
		return nil, fmt.Errorf("%w: it does not show the guard's keys: %s: %w", fault.ErrNode, fault.Without(records.Err(), "mget"), records.Err())
	case protocol.Says(records, "NOPERM"):
		return nil, fmt.Errorf("%w: its user may not read the guard's keys: allow +mget%s: %w", fault.ErrNode, r.all.patterns(), records.Err())
	case records.Kind != driver.Array || len(records.Elems) != len(RecordKeys):
		return nil, protocol.Unexpected(records)
	}
	if last := r.shown; last != nil && last.replid == replid && last.same(records.Elems) {
		return last, nil
	}
	c := &Condition{replid: replid, name: r.node.Name()}
	for _, record := range records.Elems {
		if record.Kind != driver.String && record.Kind != driver.Nil {
			return nil, protocol.Unexpected(record)
		}
	}
	c.read(r.all, records.Elems)
	r.shown = c
	r.noteMarker(c.marker)
	return c, nil
}

// same reports whether these are the records that were seen before.
func (c *Condition) same(records []driver.Reply) bool {
	for i, record := range records {
		if record.Kind != c.kinds[i] || record.Kind == driver.String && record.Str != c.texts[i] {
			return false
		}
	}
	return true
}

// read reads the records.
func (c *Condition) read(all *Restarts, records []driver.Reply) {
	for i, record := range records {
		c.kinds[i], c.texts[i] = record.Kind, record.Str
	}
	var entries []NodeEntry
	parse := [...]func(string) error{
		func(text string) (err error) { c.nonce, err = ParseEpoch(text); return err },
		func(text string) (err error) { c.marker, err = ParseMarker(text); return err },
		func(text string) (err error) { entries, err = ParseSet(text); return err },
	}
	for i, parse := range parse {
		if c.kinds[i] == driver.Nil {
			continue
		}
		if err := parse(c.texts[i]); err != nil {
			c.Fault = &RecordError{RecordKey(all.Prefix, RecordKeys[i]), err}
			return
		}
	}
	if c.listed = entries != nil; c.listed {
		c.Fault = all.fits(entries, c.texts[2])
	}
}

// fits says why a node that is listed so is none of this client's.
func (all *Restarts) fits(entries []NodeEntry, text string) error {
	switch listed, retired := lists(entries, all.NodeSet, all.Size); {
	case !listed:
		return fmt.Errorf("%w: the node is listed as %q, and this client's set is %q (WithNodeSet(%d) and %d nodes): give all clients the same nodes and id; to change them, stop all clients first",
			fault.ErrNodeSet, strings.TrimPrefix(text, recordVersion+" "), fmt.Sprintf("%d:%d", all.NodeSet, all.Size), all.NodeSet, all.Size)
	case retired:
		return fmt.Errorf("%w: the node is listed as %q, so it has left the set %q of this client: give the client today's nodes",
			fault.ErrNodeSet, strings.TrimPrefix(text, recordVersion+" "), fmt.Sprintf("%d:%d", all.NodeSet, all.Size))
	}
	return nil
}

// admits reports whether the marker is for the node's present history.
func (c *Condition) admits() bool {
	return c.nonce != "" && c.listed && c.marker.Replid == c.replid && c.marker.Nonce == c.nonce
}

// History reads the master_replid of a master from INFO replication.
func History(info driver.Reply) (string, error) {
	if info.Kind != driver.String {
		return "", protocol.Unexpected(info)
	}
	if protocol.Field(info.Str, "role:") != "master" {
		return "", fault.Passing(fmt.Errorf("%w: it is a replica: give the master's address", fault.ErrNode))
	}
	id := protocol.Field(info.Str, "master_replid:")
	if !isHex(id, 40) {
		return "", errNoHistory
	}
	return id, nil
}

var errNoHistory = fmt.Errorf("%w: INFO replication shows no master_replid of 40 hex digits, so nobody can tell whether it has forgotten anything: without WithRestartGuard it can be used", fault.ErrNode)

// Spoils says why a vote is none after all that its node was right to give: another node has the
// same history, so the two are one server; or this process has since seen a marker for longer
// leases. Other is nil, or what the look behind a vote that counts has shown.
func (all *Restarts) Spoils(own, other *Condition) error {
	least := all.greatest.Load()
	switch {
	case own.marker.Ms < least:
		return shorterLeases(own.marker.Ms, least, all.Prefix)
	case other != nil && least != 0 && other.replid == own.replid:
		return sameServer(other.name)
	}
	return nil
}

// sameServer is a node with another one's history.
func sameServer(other string) error {
	return fault.Passing(fmt.Errorf("%w: it has the master_replid of node %s, so it is the same server and would vote twice: give each node a server of its own", fault.ErrNode, other))
}

// tooLong is a client of longer leases than a node was admitted for. It does not raise them by
// waiting: who admitted the node does not know of its leases.
func (r *Restart) tooLong() error {
	return fmt.Errorf("%w: node %s is admitted for leases up to %v, and this client may take %v: give all clients of these keys the same WithRestartGuard, or this one a shorter time",
		fault.ErrNodeSet, r.node.Name(), ofMilliseconds(r.seen.Load()), r.all.Longest)
}

// shorterLeases is a marker for shorter leases than another node's.
func shorterLeases(ms, greatest int64, prefix string) error {
	return fmt.Errorf("%w: it is admitted for leases up to %v, and another node for up to %v: give all clients the same WithRestartGuard, and delete %q here",
		fault.ErrNodeSet, ofMilliseconds(ms), ofMilliseconds(greatest), RecordKey(prefix, MarkerKey))
}

// noteMarker notes the marker that the node has shown.
func (r *Restart) noteMarker(m Marker) {
	r.seen.Store(m.Ms)
	for {
		greatest := r.all.greatest.Load()
		if m.Ms <= greatest || r.all.greatest.CompareAndSwap(greatest, m.Ms) {
			return
		}
	}
}

// longest is the ms that a marker must have at least: the longest TTL that this client may take,
// and the greatest that it has seen in any marker.
func (all *Restarts) longest() int64 { return max(all.Longest.Milliseconds(), all.greatest.Load()) }

// sitOut is how long a node has to sit out.
func (all *Restarts) sitOut() time.Duration {
	return SitOut(ofMilliseconds(all.longest()), all.Drift)
}
