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
		cmds = append(cmds, n.record("GET", key))
	}
	return n.aside(inquire, cmds...)
}

// prepare sets the epoch where it is missing, and asks for node set and marker. It does not
// wait. The nonce is fresh, and it is never sent twice: a copy that runs behind a FLUSHALL
// would bring an epoch back that may have been admitted.
func (n *node) prepare(nonce string, then func(*operation)) *operation {
	t := writes(then, recordKeys[:]...)
	t.once = true
	return n.aside(t, append([]driver.Command{
		n.record("SET", epochKey, formatEpoch(nonce), "NX", "GET"),
		n.record("GET", markerKey),
		n.record("GET", setKey),
	}, n.locker.look...)...)
}

// list sets the node set where it is missing, unless something else than a string is there, and
// then goes on. It does not wait.
func (n *node) list(then func()) {
	n.aside(writes(func(op *operation) {
		if wrote(op); op.requests[0].failure() == nil {
			then()
		}
	}, setKey), append([]driver.Command{n.listing()}, n.locker.look...)...)
}

// mark sets the marker. It does not wait.
func (n *node) mark(m marker, then func(*operation)) *operation {
	return n.aside(writes(then, markerKey), append([]driver.Command{n.marking(m)}, n.locker.look...)...)
}

// listing and marking set a record, and ask for what was there.
func (n *node) listing() driver.Command {
	return n.record("SET", setKey, formatSet(n.locker.options.nodeSet, len(n.locker.nodes)), "NX", "GET")
}

func (n *node) marking(m marker) driver.Command { return n.record("SET", markerKey, m.String(), "GET") }

// record is a command on one of the guard's records.
func (n *node) record(name, key string, args ...any) driver.Command {
	return driver.Command{Args: append([]any{name, n.locker.options.prefix + key}, args...), FirstKey: 1, Keys: 1}
}

// lookNow looks at the node, whatever else is asked of it, and hands on what it has shown. It
// does not wait.
func (n *node) lookNow(then func(*condition)) {
	n.aside(writes(func(op *operation) {
		if r := &op.requests[0]; r.failure() == nil {
			if shown, _ := n.judge(looked(r), n.locker.clock.Fresh()); shown != nil && then != nil {
				then(shown)
			}
		}
	}), n.locker.look...)
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
	err := r.failure()
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

// failure is why the request has failed, if it has.
func (r *request) failure() error {
	mu := &r.op.claim.mu
	mu.Lock()
	defer mu.Unlock()
	return r.err
}

// looked are the replies to the look at the end of an operation on records.
func looked(r *request) []driver.Reply { return r.reply[len(r.reply)-len(r.node.locker.look):] }
