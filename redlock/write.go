package redlock

import (
	"errors"
	"fmt"
	"time"

	"github.com/quorumlock/quorumlock/clockdrift"
	"github.com/quorumlock/quorumlock/driver"
)

// inquire asks for a node's history and its records, of whatever type they are.
var inquire = &task{name: "admit", agrees: granted, read: readInquiry}

// writes is a task that sets records, unless something else than strings is there, and looks.
func writes(then func(*operation), keys ...string) *task {
	return &task{name: "admit", agrees: granted, read: readRecords(keys...), complete: then}
}

func readInquiry(_ string, replies []driver.Reply) (Answer, error) {
	if _, err := history(replies[0]); err != nil {
		return Failed, err
	}
	for i, record := range replies[1:] {
		if record.Kind != driver.String && record.Kind != driver.Nil && !says(record, "WRONGTYPE") {
			return Failed, &writeError{recordKeys[i], "read", refusedRecord(record)}
		}
	}
	return Granted, nil
}

// readRecords reads what was there before.
func readRecords(keys ...string) func(string, []driver.Reply) (Answer, error) {
	return func(_ string, replies []driver.Reply) (Answer, error) {
		for i, key := range keys {
			if record := replies[i]; record.Kind != driver.String && record.Kind != driver.Nil {
				return Failed, &writeError{key, "set", refusedRecord(record)}
			}
		}
		return Granted, nil
	}
}

// writeError is a record that the node does not let us write, or read.
type writeError struct {
	key, what string
	why       error
}

func (e *writeError) Error() string {
	return fmt.Sprintf("the guard's key %q cannot be %s: %v", e.key, e.what, e.why)
}
func (e *writeError) Unwrap() error { return e.why }

// refusedRecord says why, and what to do.
func refusedRecord(reply driver.Reply) error {
	switch {
	case says(reply, "NOPERM"):
		return fmt.Errorf("%w (the user's ACL forbids it: allow ~ql:*, behind the key prefix, with +set +get +mget)", reply.Err())
	case says(reply, "WRONGTYPE"):
		return errNotRecord
	}
	return unexpected(reply)
}

// inquire asks for history and records. It does not wait.
func (n *node) inquire() *operation {
	cmds := []driver.Command{n.locker.look[0]}
	for _, key := range recordKeys {
		cmds = append(cmds, driver.Command{Args: []any{"GET", n.locker.options.prefix + key}, FirstKey: 1, Keys: 1})
	}
	return n.aside(inquire, cmds...)
}

// prepare sets epoch and node set where they are missing, and asks for the marker. It does
// not wait. The nonce is fresh, and it is never sent twice: a copy that runs behind a
// FLUSHALL would bring an epoch back that may have been admitted.
func (n *node) prepare(nonce string, then func(*operation)) *operation {
	o := &n.locker.options
	set := func(key, text string) driver.Command {
		return driver.Command{Args: []any{"SET", o.prefix + key, text, "NX", "GET"}, FirstKey: 1, Keys: 1}
	}
	t := writes(then, epochKey, setKey, markerKey)
	t.once = true
	return n.aside(t, append([]driver.Command{
		set(epochKey, formatEpoch(nonce)),
		set(setKey, formatSet(o.nodeSet, len(n.locker.nodes))),
		{Args: []any{"GET", o.prefix + markerKey}, FirstKey: 1, Keys: 1},
	}, n.locker.look...)...)
}

// mark sets the marker. It does not wait.
func (n *node) mark(m marker, then func(*operation)) *operation {
	return n.aside(writes(then, markerKey), append([]driver.Command{
		{Args: []any{"SET", n.locker.options.prefix + markerKey, m.String(), "GET"}, FirstKey: 1, Keys: 1},
	}, n.locker.look...)...)
}

// aside asks the node something that is about no key of the user's. It does not wait.
func (n *node) aside(t *task, cmds ...driver.Command) *operation {
	c := newClaim(n.locker, markerKey, "", n.locker.options.acquire.ttl)
	op := &operation{task: t, claim: &c, ttl: c.ttl, cmds: cmds}
	op.ask([]*node{n}, 1)
	return op
}

// The pauses between tries to write to a node.
const (
	firstWrite = 500 * time.Millisecond
	lastWrite  = 10 * time.Second
)

// A writing is the state of what is written to a node.
type writing struct {
	next    clockdrift.Instant // not before
	pause   time.Duration      // before the next try
	refused error              // why the last one was refused
}

// mayWrite returns what is to be written, unless that was tried a moment ago. n.mu is held.
func (n *node) mayWrite(now clockdrift.Instant, write func()) func() {
	w := &n.guard.writing
	if now < w.next {
		return nil
	}
	w.pause = min(max(w.pause, firstWrite), lastWrite)
	w.next = now.Add(w.pause)
	return write
}

// wrote notes whether the node has let us write, and what it shows now. A refusal is
// reported.
func wrote(op *operation) {
	r := &op.requests[0]
	op.claim.mu.Lock()
	err := r.err
	op.claim.mu.Unlock()
	n := r.node
	n.mu.Lock()
	w := &n.guard.writing
	var reply *driver.ServerError
	switch {
	case err == nil:
		w.refused, w.pause = nil, 0
	case errors.As(err, &reply), errors.Is(err, errNotRecord):
		if w.refused == nil || w.refused.Error() != err.Error() {
			n.news = append(n.news, Event{NodeQuarantined, n.name, &quarantineError{why: "it cannot be admitted", cause: err}})
		}
		w.refused, w.pause = err, 2*w.pause
	}
	n.mu.Unlock()
	n.announce()
	if err == nil {
		_, _ = n.judge(looked(r), n.locker.clock.Fresh())
	}
}

// looked are the replies to the look at the end of an operation on records.
func looked(r *request) []driver.Reply { return r.reply[len(r.reply)-len(r.node.locker.look):] }
