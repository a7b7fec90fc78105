package redlock

import (
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/quorumlock/quorumlock/clockdrift"
	"github.com/quorumlock/quorumlock/driver"
)

// A guard keeps a node from voting that may have forgotten votes: see [WithRestartGuard].
//
// A server takes a new master_replid whenever its history may have forked: at every start,
// empty or from its file, and at every promotion. FLUSHALL leaves the master_replid, so a
// node also keeps an epoch, a random value that goes with the keys. A marker admits one
// pair of the two. A batch that may set keys ends with a look at all three, on the same
// connection, and its grants are votes only if they agree: see [tail]. A marker for a
// history that has ended admits nobody, so nothing races; for that an epoch is never sent
// twice.
//
// That goes for extensions and hand-overs, too, whose token is there: the vote that the
// node forgot may be part of a quorum that somebody else is about to complete (test/model
// shows how, with MUTANT_UNGUARDED_EXTENSION and MUTANT_UNGUARDED_HANDOVER). Only releases
// need no look.
//
// Whoever has watched one history for the longest TTL knows that every lease has run out
// that an earlier history could have granted, and sets the marker to it: see [node.admit].
type guard struct {
	closed  bool       // the user was told that the node does not vote
	told    *condition // what was shown then, or since
	shown   *condition // by the last look
	looked  clockdrift.Instant
	known   bool   // the node was seen admitted
	watch   *watch // of a history that is not admitted
	writing writing
	seen    atomic.Int64 // the ms of its marker; 0: none. Not guarded by node.mu
}

// A watch is of one history.
type watch struct {
	replid, nonce string
	listed        bool // there is a node set
	since         clockdrift.Instant
	timer         *time.Timer // admits the history
}

// tick is what a server's clock may be behind by when it tells the age of a key.
const tick = time.Millisecond

// sitOut is how long a node sits out by our clock, so that leases of at most the longest
// TTL have ended by their holders'.
func (l *Locker) sitOut(longest time.Duration) time.Duration {
	return longest + clockdrift.Allowance(longest, l.options.drift) + tick
}

// noteMarker notes the marker that the node has shown.
func (l *Locker) noteMarker(n *node, m marker) {
	n.guard.seen.Store(m.ms)
	for {
		greatest := l.greatest.Load()
		if m.ms <= greatest || l.greatest.CompareAndSwap(greatest, m.ms) {
			return
		}
	}
}

// longest is the ms that a marker must have at least: the longest TTL that this client may
// take, and the greatest that it has seen in any marker.
func (l *Locker) longest() int64 { return max(l.options.guard.Milliseconds(), l.greatest.Load()) }

// judge says why the grants of a batch are no votes, or nil if they are: by what the node
// said to the commands of [lookAt], which it returns.
func (n *node) judge(said []driver.Reply, now clockdrift.Instant) (shown *condition, doubt error) {
	n.mu.Lock()
	shown, write, doubt := n.doubt(said, now)
	switch {
	case doubt == nil && n.guard.closed:
		n.news = append(n.news, Event{NodeAdmitted, n.name, nil})
	case doubt != nil && (!n.guard.closed || shown != nil && shown.fault != nil && shown != n.guard.told):
		n.news = append(n.news, Event{NodeQuarantined, n.name, doubt})
	}
	n.guard.told = shown
	n.guard.closed = doubt != nil
	n.mu.Unlock()
	n.announce()
	if write != nil {
		write()
	}
	return shown, doubt
}

// doubt says why the node has no vote, and returns what is to be written there now. n.mu
// is held.
func (n *node) doubt(said []driver.Reply, now clockdrift.Instant) (shown *condition, write func(), doubt error) {
	if now < n.clock.out {
		return nil, nil, &quarantineError{why: n.clock.why, left: n.clock.out.Sub(now)}
	}
	if len(said) == 0 {
		return nil, nil, nil
	}
	s, err := n.condition(said)
	if err != nil {
		return nil, nil, err
	}
	n.guard.looked = now
	l := n.locker
	switch admitted, longest := s.admits(), l.longest(); {
	case s.fault != nil:
		n.endWatch()
		return s, nil, s.fault
	case admitted && s.marker.ms >= longest:
		n.endWatch()
		n.guard.known, n.guard.writing = true, writing{}
		return s, nil, nil
	case l.shorter() != nil:
		n.endWatch()
		return s, nil, tooLong(l.shorter(), l.options.guard)
	case admitted:
		n.endWatch()
		return s, nil, shorterLeases(s.marker.ms, longest, l.options.prefix)
	}
	write = n.quarantine(s, now)
	return s, write, n.sitsOut(s, now)
}

// shorter returns a node whose marker is for shorter leases than this client may take.
func (l *Locker) shorter() *node {
	for _, n := range l.nodes {
		if ms := n.guard.seen.Load(); ms != 0 && ms < l.options.guard.Milliseconds() {
			return n
		}
	}
	return nil
}

// quarantine watches the node's history, and returns what is to be done now: the epoch is
// set if it is missing, other nodes are looked at when a watch begins, and the marker is set
// when it is over. n.mu is held.
func (n *node) quarantine(s *condition, now clockdrift.Instant) (act func()) {
	if n.closed {
		return nil
	}
	if s.nonce == "" {
		n.endWatch()
		return n.mayWrite(now, func() { n.prepare(newNonce(), wrote) })
	}
	w := n.guard.watch
	if w == nil || w.replid != s.replid || w.nonce != s.nonce {
		n.endWatch()
		w = &watch{replid: s.replid, nonce: s.nonce, listed: s.listed, since: now}
		w.timer = time.AfterFunc(n.sits(w, now), func() { n.wake(w) })
		n.guard.watch = w
		return func() { n.locker.lookAround(n) }
	}
	w.listed = s.listed
	if n.sits(w, now) > 0 {
		return nil
	}
	return n.mayWrite(now, func() { n.admit(w) })
}

// sits is how long the watch has to go on. It is longer than at its beginning where a
// greater marker was seen since.
func (n *node) sits(w *watch, now clockdrift.Instant) time.Duration {
	return w.since.Add(n.locker.sitOut(ofMilliseconds(n.locker.longest()))).Sub(now)
}

// wake sets the marker when a watch is over, if nobody has looked since.
func (n *node) wake(w *watch) {
	now := n.locker.clock.Fresh()
	n.mu.Lock()
	var write func()
	switch left := n.sits(w, now); {
	case n.guard.watch != w || n.closed:
	case left > 0:
		w.timer.Reset(left)
	case n.locker.shorter() == nil:
		write = n.mayWrite(now, func() { n.admit(w) })
	}
	n.mu.Unlock()
	if write != nil {
		write()
	}
}

// admit sets the marker to the history that was watched, and the node set where it is missing,
// if this client may say what they are to be. Its own settings may differ from the others'. So
// it writes what it has read at another node that is admitted, or in this one's own old marker:
// then all markers name one longest TTL, and all nodes the sets that they were given. Its own it writes where no node is admitted,
// as at the first deployment: it has found so many nodes without admission since the watch began
// that it has missed one at most, and this one is found so behind them.
//
// test/model shows two holders without that rule: guard with MUTANT_NO_WITNESS, set with
// MUTANT_ANYBODY.
func (n *node) admit(w *watch) {
	mark := func() { n.mark(marker{w.replid, w.nonce, n.locker.longest()}, wrote) }
	n.mu.Lock()
	if !w.listed {
		behind := mark
		mark = func() { n.list(behind) }
	}
	n.mu.Unlock()
	switch witnessed, missed := n.locker.witness(n, w); {
	case witnessed:
		mark()
	case len(missed) <= n.locker.mayMiss():
		n.lookNow(func(s *condition) {
			if s.replid == w.replid && s.nonce == w.nonce && s.fault == nil && !s.admits() {
				mark()
			}
		})
	default:
		n.await(w, &unwitnessedError{missed})
		n.locker.lookAround(n)
	}
}

// mayMiss is how many nodes may not answer where a client ends a quarantine by itself.
func (l *Locker) mayMiss() int { return len(l.nodes) - max(l.quorum, len(l.nodes)-1) }

// witness reports whether a node tells what n is to be admitted for: another one that is
// admitted, by the last look, or n itself by its old marker. Otherwise it returns the others
// that were not seen without admission since the watch of n began.
func (l *Locker) witness(n *node, w *watch) (witnessed bool, missed []string) {
	for _, other := range l.nodes {
		other.mu.Lock()
		s, looked := other.guard.shown, other.guard.looked
		other.mu.Unlock()
		switch {
		case s != nil && s.fault == nil && s.listed && s.marker.ms >= l.longest() && (other == n || s.admits()):
			return true, nil
		case other == n:
		case s == nil || s.fault != nil || looked < w.since:
			missed = append(missed, other.name)
		}
	}
	return false, missed
}

// lookAround looks at all nodes but n. It does not wait.
func (l *Locker) lookAround(n *node) {
	for _, other := range l.nodes {
		if other != n {
			other.lookNow(nil)
		}
	}
}

// await tries again to end a watch that nobody vouches for.
func (n *node) await(w *watch, why error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.guard.watch != w {
		return
	}
	writing := &n.guard.writing
	writing.refused = why
	w.timer.Reset(writing.pause)
	writing.pause *= 2
}

// unwitnessedError is a quarantine that has to go on although its time is over.
type unwitnessedError struct{ missed []string }

func (e *unwitnessedError) Error() string {
	return fmt.Sprintf("it has sat out its time, but no node that is admitted confirms what it is to be admitted for, and %s did not answer since: bring one back; or stop all clients for the longest TTL, and call Locker.AdmitNewNodes(ForceAdmission())",
		strings.Join(e.missed, ", "))
}

// endWatch ends the watch, if there is one. n.mu is held.
func (n *node) endWatch() {
	if n.guard.watch != nil {
		n.guard.watch.timer.Stop()
		n.guard.watch = nil
	}
}

// sitsOut words a quarantine. n.mu is held.
func (n *node) sitsOut(s *condition, now clockdrift.Instant) error {
	w := n.guard.watch
	if w == nil {
		w = &watch{since: now} // it begins when what is missing is set
	}
	e := &quarantineError{left: n.sits(w, now), cause: n.guard.writing.refused}
	switch lost := s.marker == (marker{}); {
	case lost && n.guard.known:
		e.why, e.advice = "it came back empty and may have forgotten locks", "do not admit it"
	case lost && n.locker.greatest.Load() > 0:
		e.why, e.advice = "nobody has admitted it, as others are: it came back empty, or is new", "do not admit it"
	case lost:
		e.why, e.advice = "nobody has admitted it, or it came back empty", "only if all nodes are new, call Locker.AdmitNewNodes before the first lock"
	default:
		e.why = "it was started anew, promoted or flushed, and may have forgotten locks"
	}
	return e
}

// quarantineError is a node that has to wait before its grants are votes.
type quarantineError struct {
	why    string
	left   time.Duration
	advice string
	cause  error // what keeps the quarantine from ending
}

func (e *quarantineError) Error() string {
	text := fmt.Sprintf("%v: %s; ", ErrQuarantine, e.why)
	switch {
	case e.cause != nil:
		return text + e.cause.Error()
	case e.left > 0:
		text += fmt.Sprintf("it votes again in %v by itself", e.left.Round(time.Millisecond))
	default:
		text += "it votes again in a moment by itself"
	}
	if e.advice != "" {
		text += "; " + e.advice
	}
	return text
}

func (e *quarantineError) Is(target error) bool { return target == ErrQuarantine }
func (e *quarantineError) Unwrap() error        { return e.cause }
