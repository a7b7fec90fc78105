package framing

import (
	"errors"
	"strings"
)

// ErrUnasked is a reply to no command.
var ErrUnasked = errors.New("nobody has asked for it")

// pending is the queue of the commands that wait for replies. It matches frames to commands
// as rueidis does, which panics on a mismatch.
type pending struct {
	queue []expected
	done  int // at the front, that have their replies

	resp3      bool // pushes may come: the last HELLO has asked for them
	subscribed bool // arrays may be messages: there was a SUBSCRIBE, in RESP2
}

// expected is one command that waits for its reply, or several of them.
type expected struct {
	kind  expectedKind
	count int64 // of commands; of channels, where it is (un)subscribing
}

type expectedKind uint8

const (
	reply         expectedKind = iota // whatever it is
	subscribing                       // a confirmation for each channel, or an error
	unsubscribing                     // the same, but a confirmation may be missing
	pong                              // the reply to a PING right behind an UNSUBSCRIBE
)

func (l *pending) empty() bool { return l.done == len(l.queue) }

// onCommand adds a command to the queue.
func (l *pending) onCommand(f frame) error {
	name := strings.ToUpper(f.text())
	var last *expected
	if !l.empty() {
		last = &l.queue[len(l.queue)-1]
	}
	next := expected{kind: reply, count: 1}
	switch name {
	case "HELLO":
		l.resp3 = f.second == '3'
	case "SUBSCRIBE", "PSUBSCRIBE", "SSUBSCRIBE":
		l.subscribed = !l.resp3
		next = expected{subscribing, f.elems - 1}
	case "UNSUBSCRIBE", "PUNSUBSCRIBE", "SUNSUBSCRIBE":
		next = expected{unsubscribing, max(f.elems-1, 1)}
	case "PING":
		if last != nil && last.kind == unsubscribing {
			last.kind = pong
			return nil
		}
	}
	if last != nil && next.kind == reply && last.kind == reply {
		last.count++
		return nil
	}
	if l.empty() {
		l.queue, l.done = l.queue[:0], 0
	}
	l.queue = append(l.queue, next)
	return nil
}

// onReplyBegin reports whether a frame of this kind may begin. It fails at once and not at the
// frame's end, because what follows could be a reply.
func (l *pending) onReplyBegin(kind byte) error {
	switch {
	case kind == '>' && l.resp3, kind == '*' && l.subscribed:
		return nil
	case kind == '>', l.empty():
		return ErrUnasked
	}
	return nil
}

// onReply takes a command from the queue, if the frame is its reply.
func (l *pending) onReply(f frame) error {
	kind := reply
	if !l.empty() {
		kind = l.queue[l.done].kind
	}
	if f.kind == '>' || f.kind == '*' && f.elems > 0 {
		switch f.text() {
		case "subscribe", "psubscribe", "ssubscribe":
			if l.empty() || kind != subscribing {
				return ErrUnasked
			}
			l.answer(1)
			return nil
		case "unsubscribe", "punsubscribe", "sunsubscribe":
			switch kind {
			case unsubscribing:
				l.answer(1)
				return nil
			case pong: // which is to come
				return nil
			}
		}
		if f.kind == '>' || l.subscribed && f.text() != "pong" {
			return nil
		}
	}
	if l.empty() {
		return ErrUnasked
	}
	failed := f.kind == '-' || f.kind == '!'
	if failed && f.spaces < 2 && (strings.HasPrefix(f.text(), "MOVED") || strings.HasPrefix(f.text(), "ASK")) {
		return errSyntax // rueidis would look for an address there
	}
	switch kind {
	case reply:
		l.answer(1)
		return nil
	case subscribing:
		if failed && f.text() != "QUEUED" {
			l.answer(l.queue[l.done].count)
			return nil
		}
	case unsubscribing:
		if failed {
			l.answer(l.queue[l.done].count)
			return nil
		}
	case pong:
		if pong := f.text(); pong == "pong" || pong == "PONG" && (f.kind == '+' || f.kind == '$') {
			l.answer(l.queue[l.done].count)
			return nil
		}
	}
	return ErrUnasked
}

func (l *pending) answer(count int64) {
	if l.queue[l.done].count -= count; l.queue[l.done].count <= 0 {
		l.done++
	}
}
