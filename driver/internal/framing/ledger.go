package framing

import (
	"errors"
	"strings"
)

// ErrUnasked is a reply to no command.
var ErrUnasked = errors.New("nobody has asked for it")

// ledger says which answers the server owes, in their order. Which frame answers which
// command is told as rueidis tells it, which panics where that does not come out.
type ledger struct {
	debts []debt
	paid  int // debts at the front that are settled

	resp3     bool // pushes may come: the last HELLO has asked for them
	listening bool // arrays may be messages: there was a SUBSCRIBE, in RESP2
}

// debt is a command that waits for its answer, or several of them.
type debt struct {
	kind  debtKind
	count int64 // commands; or channels, of a subscribing and an unsubscribing
}

type debtKind uint8

const (
	reply         debtKind = iota // whatever it is
	subscribing                   // a confirmation for each channel, or an error
	unsubscribing                 // the same, but a confirmation may be missing
	farewell                      // PONG, to a PING right behind an UNSUBSCRIBE
)

func (l *ledger) settled() bool { return l.paid == len(l.debts) }

// asked notes a command.
func (l *ledger) asked(f frame) error {
	name := strings.ToUpper(f.text())
	var last *debt
	if !l.settled() {
		last = &l.debts[len(l.debts)-1]
	}
	next := debt{kind: reply, count: 1}
	switch name {
	case "HELLO":
		l.resp3 = f.second == '3'
	case "SUBSCRIBE", "PSUBSCRIBE", "SSUBSCRIBE":
		l.listening = !l.resp3
		next = debt{subscribing, f.elems - 1}
	case "UNSUBSCRIBE", "PUNSUBSCRIBE", "SUNSUBSCRIBE":
		next = debt{unsubscribing, max(f.elems-1, 1)}
	case "PING":
		if last != nil && last.kind == unsubscribing {
			last.kind = farewell
			return nil
		}
	}
	if last != nil && next.kind == reply && last.kind == reply {
		last.count++
		return nil
	}
	if l.settled() {
		l.debts, l.paid = l.debts[:0], 0
	}
	l.debts = append(l.debts, next)
	return nil
}

// expects tells whether a frame of this kind may begin. One that may not must not wait for
// its end: what follows could be an answer.
func (l *ledger) expects(kind byte) error {
	switch {
	case kind == '>' && l.resp3, kind == '*' && l.listening:
		return nil
	case kind == '>', l.settled():
		return ErrUnasked
	}
	return nil
}

// answered settles a debt, where the frame is an answer.
func (l *ledger) answered(f frame) error {
	kind := reply
	if !l.settled() {
		kind = l.debts[l.paid].kind
	}
	if f.kind == '>' || f.kind == '*' && f.elems > 0 {
		switch f.text() {
		case "subscribe", "psubscribe", "ssubscribe":
			if l.settled() || kind != subscribing {
				return ErrUnasked
			}
			l.pay(1)
			return nil
		case "unsubscribe", "punsubscribe", "sunsubscribe":
			switch kind {
			case unsubscribing:
				l.pay(1)
				return nil
			case farewell: // which is to come
				return nil
			}
		}
		if f.kind == '>' || l.listening && f.text() != "pong" {
			return nil
		}
	}
	if l.settled() {
		return ErrUnasked
	}
	failed := f.kind == '-' || f.kind == '!'
	if failed && f.spaces < 2 && (strings.HasPrefix(f.text(), "MOVED") || strings.HasPrefix(f.text(), "ASK")) {
		return errSyntax // rueidis would look for an address there
	}
	switch kind {
	case reply:
		l.pay(1)
		return nil
	case subscribing:
		if failed && f.text() != "QUEUED" {
			l.pay(l.debts[l.paid].count)
			return nil
		}
	case unsubscribing:
		if failed {
			l.pay(l.debts[l.paid].count)
			return nil
		}
	case farewell:
		if pong := f.text(); pong == "pong" || pong == "PONG" && (f.kind == '+' || f.kind == '$') {
			l.pay(l.debts[l.paid].count)
			return nil
		}
	}
	return ErrUnasked
}

func (l *ledger) pay(count int64) {
	if l.debts[l.paid].count -= count; l.debts[l.paid].count <= 0 {
		l.paid++
	}
}
