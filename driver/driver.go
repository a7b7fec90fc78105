// Package driver is the contract between the lock and a Redis client.
//
// A client library takes part by one method, [Driver.Do]. Everything else
// (script digests, NOSCRIPT, second tries, batching, time-outs) lives once, in
// the core: a driver is transport and nothing else.
//
// A new driver proves itself by running the suite of package drivertest.
package driver

import (
	"context"
	"errors"
)

// Driver sends commands to one node. It is safe for concurrent use.
type Driver interface {
	// Do sends cmds to the node in order, on one connection, in one round trip,
	// and returns a reply for each.
	//
	// The obligations of an implementation:
	//
	//   - Do sends the commands exactly once. It never tries again, whatever the
	//     reply or the failure: only the core knows when a second try is safe.
	//   - Do returns within 50ms of ctx's deadline (there always is a deadline), or of
	//     an earlier cancel, even when the server is silent. At most 8 calls stay
	//     behind, and end by the client's own time-outs.
	//   - An error reply of the server is a [Reply], not an error. An error means
	//     that the transport failed: the replies that had arrived come along, in
	//     order, and the outcome of the other commands is unknown. An error that
	//     wraps [ErrNotSent] says that nothing left for the server.
	//   - An error matches how the context ended, if it did: context.Canceled, or
	//     context.DeadlineExceeded or a socket's time-out.
	//   - Calls succeed again once the server is healthy again.
	//   - Where a reply is missing, the connection is not used again: later replies would
	//     go to the wrong calls.
	//   - It neither changes cmds nor keeps them after its return.
	//   - Other users of the same client notice nothing.
	//
	// For a node that is a Redis Cluster, Do routes each command by its keys; there, order
	// and the single connection hold for the commands of one key. Do follows neither MOVED nor
	// ASK, but returns them: else commands of one key would run at two servers, out of order.
	//
	// A Driver with a client of its own, or a connection taken out of the user's client,
	// implements io.Closer as well. The last Locker on the node calls Close, which never
	// closes the user's client. Afterwards Do fails with [ErrClosed], or connects again.
	Do(ctx context.Context, cmds []Command) ([]Reply, error)
}

// Command is one command with its arguments. It is built once and sent to all nodes, so it must not be
// changed.
type Command struct {
	// Args is the command's name and its arguments. Each is a string, which may hold any bytes. They are
	// []any because most clients take that, and boxing them once serves all nodes.
	Args []any

	// The keys are Args[FirstKey : FirstKey+Keys]. Keys is 0 for a command without keys.
	FirstKey, Keys int

	// Blocks says that the command may take its time (WAIT, WAITAOF), so it must not be put on a connection
	// that others share.
	Blocks bool
}

// Node is one independent master and the way to it.
type Node struct {
	// Name identifies the node in errors and events: its address, as a rule.
	// Two nodes of one Locker may not have the same name.
	Name string

	Driver Driver

	// Client is the client that the Driver uses. It is only compared: the same client twice would be one
	// server with two votes. It may be nil.
	Client any
}

// ErrClosed is matched by an error of [Driver.Do] after Close: nothing is sent any more.
var ErrClosed = errors.New("the driver is closed")

// ErrNotSent is matched by an error of [Driver.Do] when nothing has left for the server, so that nothing can
// have happened there. See [NotSent].
var ErrNotSent = errors.New("nothing was sent")

// NotSent returns err as an error that matches [ErrNotSent] as well. Its text stays err's, which says more:
// "connection refused".
func NotSent(err error) error { return &notSentError{err} }

type notSentError struct{ error }

func (e *notSentError) Unwrap() []error { return []error{e.error, ErrNotSent} }
