package otelredlock

import (
	"cmp"
	"context"
	"errors"
	"io"
	"net"
	"strings"

	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/redlock"
)

// The outcomes of calls, but for success.
const (
	noQuorum = "no_quorum"
	canceled = "canceled"
	closed   = "closed"
)

// outcomes are the errors that say what came of a call, the first of them that matches.
var outcomes = []struct {
	err  error
	name string
}{
	{redlock.ErrOption, "invalid"},
	{redlock.ErrBusy, "busy"},
	{redlock.ErrPermits, "invalid"}, // other clients count others
	{redlock.ErrClosed, closed},
	{context.Canceled, canceled}, // no error of a node matches these two
	{context.DeadlineExceeded, canceled},
	{redlock.ErrDeadlock, "deadlock"},
	{redlock.ErrReleased, "released"},
	{redlock.ErrExpired, "expired"},
	{redlock.ErrFence, "no_fence"},
	{redlock.ErrLost, "lost"},
	{redlock.ErrNoQuorum, noQuorum},
	{redlock.ErrContended, "contended"},
	{redlock.ErrTaken, "held"},
}

// outcome says in a word what came of a call.
func outcome(err error, success string) string {
	if err == nil {
		return success
	}
	if _, silent := refused(err, silent); silent {
		return noQuorum // whatever ended the wait for them
	}
	for _, o := range outcomes {
		if errors.Is(err, o.err) {
			return o.name
		}
	}
	return other
}

// silent is a vote of a node that is missed. One that refuses for these reasons is there.
func silent(v redlock.Vote) bool {
	return v.Answer == "failed" && !errors.Is(v.Err, redlock.ErrFence) && !errors.Is(v.Err, redlock.ErrPermits)
}

// taken is a vote of a node at which somebody else has the key.
func taken(v redlock.Vote) bool { return v.Answer == "taken" }

// refused reports whether an error has votes, and whether those of a kind are so many that the
// others make no quorum.
func refused(err error, kind func(redlock.Vote) bool) (quorum, enough bool) {
	var votes *redlock.QuorumError
	if !errors.As(err, &votes) {
		return false, false
	}
	count := 0
	for _, v := range votes.Votes {
		if kind(v) {
			count++
		}
	}
	return true, count > len(votes.Votes)-votes.Need
}

// lossOf says why a lock was lost.
func lossOf(err error) string {
	votes, over := refused(err, taken)
	switch {
	case over:
		return "taken_over"
	case votes:
		return noQuorum
	case err == redlock.ErrLost: //nolint:errorlint // what wraps it says that the longest hold is over
		return "expired"
	}
	return "max_hold"
}

// path says how an acquire came to its last try.
func path(how string) string { return strings.ReplaceAll(cmp.Or(how, "direct"), " ", "_") }

// failureOf says why a batch has no replies, as error.type wants it.
func (t *Telemetry) failureOf(err error) string {
	var reply *driver.ServerError
	var late interface{ Timeout() bool }
	var network *net.OpError
	switch {
	case errors.As(err, &reply):
		return t.codes.of(text(reply.Code))
	case errors.Is(err, redlock.ErrClosed), errors.Is(err, driver.ErrClosed):
		return closed
	case errors.As(err, &late) && late.Timeout():
		return "timeout"
	case errors.Is(err, driver.ErrProtocol):
		return "protocol"
	case errors.Is(err, redlock.ErrNode):
		return "unfit"
	case errors.As(err, &network), errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return "connection"
	}
	return otherType
}
