package gate

import (
	"errors"
	"fmt"
	"time"

	"github.com/quorumlock/quorumlock/clockdrift"
	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/internal/fault"
	"github.com/quorumlock/quorumlock/internal/protocol"
)

// The ops on records. Each but the first ends with a look.
var (
	opLook    = protocol.NewOp("admit", false, decodeRecords())
	opInquire = protocol.NewOp("admit", false, decodeInquiry)
	// The nonce is fresh, and it is never sent twice: a copy that runs behind a FLUSHALL would
	// bring an epoch back that may have been admitted.
	opPrepare = protocol.NewOp("admit", true, decodeRecords(RecordKeys[:]...))
	opList    = protocol.NewOp("admit", false, decodeRecords(SetKey))
	opMark    = protocol.NewOp("admit", false, decodeRecords(MarkerKey))
	opAdmit   = protocol.NewOp("admit", false, decodeRecords(SetKey, MarkerKey))
)

func decodeInquiry(replies []driver.Reply) error {
	if _, err := History(replies[0]); err != nil {
		return err
	}
	for i, record := range replies[1:] {
		if record.Kind != driver.String && record.Kind != driver.Nil && !protocol.Says(record, "WRONGTYPE") {
			return &writeError{RecordKeys[i], "read", refusedRecord(record)}
		}
	}
	return nil
}

// decodeRecords reads what was there before.
func decodeRecords(keys ...string) func([]driver.Reply) error {
	return func(replies []driver.Reply) error {
		for i, key := range keys {
			if record := replies[i]; record.Kind != driver.String && record.Kind != driver.Nil {
				return &writeError{key, "set", refusedRecord(record)}
			}
		}
		return nil
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
	case protocol.Says(reply, "NOPERM"):
		return fmt.Errorf("%w (the user's ACL forbids it: allow ~ql:* with +set +get +mget)", reply.Err())
	case protocol.Says(reply, "WRONGTYPE"):
		return ErrNotRecord
	}
	return protocol.Unexpected(reply)
}

// record is a command on one of the guard's records.
func (all *Restarts) record(name, key string, args ...any) driver.Command {
	return driver.Command{Args: append([]any{name, RecordKey(all.Prefix, key)}, args...), FirstKey: 1, Keys: 1}
}

// looking puts a look behind commands.
func (all *Restarts) looking(cmds ...driver.Command) []driver.Command {
	return append(cmds, all.look...)
}

// listing and marking set a record, and ask for what was there.
func (all *Restarts) listing() driver.Command {
	return all.record("SET", SetKey, FormatSet(all.NodeSet, all.Size), "NX", "GET")
}

func (all *Restarts) marking(m Marker) driver.Command {
	return all.record("SET", MarkerKey, m.String(), "GET")
}

// Inquire asks for history and records, of whatever type they are.
func (all *Restarts) Inquire() (*protocol.Op, []driver.Command) {
	cmds := []driver.Command{all.look[0]}
	for _, key := range RecordKeys {
		cmds = append(cmds, all.record("GET", key))
	}
	return opInquire, cmds
}

// Prepare sets the epoch where it is missing, and asks for marker and node set.
func (all *Restarts) Prepare(nonce string) (*protocol.Op, []driver.Command) {
	return opPrepare, all.looking(
		all.record("SET", EpochKey, FormatEpoch(nonce), "NX", "GET"),
		all.record("GET", MarkerKey),
		all.record("GET", SetKey))
}

// Admit sets the node set where it is missing, and the marker.
func (all *Restarts) Admit(m Marker) (*protocol.Op, []driver.Command) {
	return opAdmit, all.looking(all.listing(), all.marking(m))
}

// prepare sets the epoch where it is missing. It does not wait.
func (r *Restart) prepare() {
	op, cmds := r.all.Prepare(r.all.Random.Nonce())
	r.node.Ask(op, cmds, r.wrote)
}

// list sets the node set where it is missing, unless something else than a string is there, and
// then goes on. It does not wait.
func (r *Restart) list(then func()) {
	r.node.Ask(opList, r.all.looking(r.all.listing()), func(p *protocol.Part, err error) {
		if r.wrote(p, err); err == nil {
			then()
		}
	})
}

// mark sets the marker. It does not wait.
func (r *Restart) mark(m Marker) { r.node.Ask(opMark, r.all.looking(r.all.marking(m)), r.wrote) }

// lookNow looks at the node, whatever else is asked of it, and hands on what it has shown. It
// does not wait.
func (r *Restart) lookNow(then func(*Condition)) {
	r.node.Ask(opLook, r.all.look, func(p *protocol.Part, err error) {
		if err != nil {
			return
		}
		if v := r.behind(p); v.Shown != nil && then != nil {
			then(v.Shown)
		}
	})
}

// behind judges the look behind commands of the guard's own.
func (r *Restart) behind(p *protocol.Part) Verdict {
	return r.gates.Look(p.Reply[len(p.Reply)-len(r.all.look):], r.all.Clock.Fresh())
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

// mayWrite returns what is to be written, unless that was tried a moment ago. gates.mu is held.
func (r *Restart) mayWrite(now clockdrift.Instant, write func()) func() {
	w := &r.writing
	if now < w.next {
		return nil
	}
	w.pause = min(max(w.pause, firstWrite), lastWrite)
	w.next = now.Add(w.pause)
	return write
}

// wrote notes whether the node has let us write, and what it shows now. A refusal is reported.
func (r *Restart) wrote(p *protocol.Part, err error) {
	r.gates.mu.Lock()
	w := &r.writing
	var reply *driver.ServerError
	switch {
	case err == nil:
		w.refused, w.pause = nil, 0
	case errors.As(err, &reply), errors.Is(err, ErrNotRecord):
		if w.refused == nil || w.refused.Error() != err.Error() {
			r.node.Note(fault.NodeQuarantined, &quarantineError{why: "it cannot be admitted", cause: err})
		}
		w.refused, w.pause = err, 2*w.pause
	}
	r.gates.mu.Unlock()
	r.node.Emit()
	if err == nil {
		r.behind(p)
	}
}
