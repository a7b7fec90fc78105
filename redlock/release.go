package redlock

import (
	"fmt"
	"slices"

	"github.com/quorumlock/quorumlock/clockdrift"
	"github.com/quorumlock/quorumlock/internal/fault"
	kernel "github.com/quorumlock/quorumlock/internal/lease"
	"github.com/quorumlock/quorumlock/internal/protocol"
	"github.com/quorumlock/quorumlock/internal/quorum"
	"github.com/quorumlock/quorumlock/internal/waiting"
)

// Release ends the lock's context, with the cause [ErrReleased], and then deletes the key at all nodes. It
// waits until a quorum has confirmed the deletion, for one node time-out at the most: defer it. The other
// nodes, and failures at a minority, are handled in the background, until [Locker.Close]. For the errors see
// the table of the package: [ErrLost] says that the work may not have been protected to its end.
func (l *Lock) Release() error {
	var began clockdrift.Instant
	if l.acquisition != nil {
		began = l.locker.clock.Now()
	}
	lost, err := l.hold.GiveUp(kernel.Released)
	if err != nil {
		return &fault.StateError{Op: "release", Key: l.hold.Key, Why: err}
	}
	handedOver, err := l.free(lost)
	if l.acquisition != nil {
		l.acquisition.releases(ReleaseEnd{
			Key: l.hold.Key, Kind: l.kind(), Latency: l.locker.clock.Now().Sub(began), Err: err, HandedOver: handedOver,
		})
	}
	return err
}

// free takes the token of an ended or lost hold away from the nodes.
func (l *lease) free(lost bool) (handedOver bool, err error) {
	a := &l.hold
	if lost && a.Own {
		l.locker.holds.remove(l)
		l.locker.board.Keys.Await(-1)
		return false, &fault.StateError{Op: "release", Key: l.hold.Key, Why: ErrLost}
	}
	op, others, handedOver := l.giveBack(kernel.Released)
	l.locker.board.Keys.Await(-1) // the release itself is awaited from now on
	<-op.Done
	for _, other := range others {
		if !other.Hold.Gone() || !op.Deleted() {
			<-other.Done
		}
	}
	if !handedOver { // or waiters would be hurried by the end of another one's turn
		l.lines().Hurry(a.Key)
	}
	deleted := slices.ContainsFunc(others, (*quorum.Operation).Deleted)
	switch {
	case op.Verdict != kernel.Carried && lost:
		return handedOver, failure(op, fmt.Errorf("%w, and %w to delete what is left of it", ErrLost, ErrNoQuorum))
	case op.Verdict != kernel.Carried:
		return handedOver, failure(op, ErrNoQuorum)
	case lost || !deleted && !op.Deleted():
		return handedOver, failure(op, ErrLost)
	}
	if key, ok := op.Undeleted(); ok {
		return handedOver, failure(op, fmt.Errorf("%w: no node had %q any more", ErrLost, key))
	}
	return handedOver, nil
}

// Abandon ends the hold, sends nothing, and leaves the key to its TTL: until then nobody else gets the key.
// Use it for a job that must not run again soon after it has succeeded. An extension under way may still
// prolong the key. A token of the user's own ([WithToken]) is spent for this Locker only. The error matches
// [ErrLost], [ErrReleased] or [ErrClosed] if the hold had ended before.
func (l *Lock) Abandon() error {
	lost, err := l.hold.GiveUp(kernel.Abandoned)
	if err != nil {
		return &fault.StateError{Op: "abandon", Key: l.hold.Key, Why: err}
	}
	l.locker.holds.remove(l.lease)
	l.locker.board.Keys.Await(-1)
	if lost {
		return &fault.StateError{Op: "abandon", Key: l.hold.Key, Why: ErrLost}
	}
	l.spend(kernel.Abandoned)
	return nil
}

// spend refuses a token of the user's own from now on, and ends the other locks of the Locker that hold the
// key with it: they lose the key, too. It returns them.
func (l *lease) spend(why kernel.Why) (twins []*lease) {
	a := &l.hold
	if !a.Own {
		return nil
	}
	a.Spend()
	twins = l.locker.holds.twins(l)
	for _, twin := range twins {
		twin.hold.Take(why, true)
		l.locker.holds.remove(twin)
	}
	return twins
}

// calls reports whether the release tells the next in line that the key is free, in place of all listeners.
func (l *lease) calls() bool {
	a := &l.hold
	return a.Many == nil && a.Kind.HeedsLine && (a.Line.Stays || l.hold.Last().Found().Crowded) && a.Board.KeepLines() && !l.lines().Yields(a.Key)
}

// quit ends the hold for [Locker.Close].
func (l *lease) quit() {
	if l.hold.Take(kernel.Closed, false) {
		l.giveBack(kernel.Closed)
	}
}

// giveBack hands the key over to the next waiter, if it may, or asks all nodes to delete the key, and the
// hold's other tokens where they may be left.
func (l *lease) giveBack(why kernel.Why) (op *quorum.Operation, others []*quorum.Operation, handedOver bool) {
	a := &l.hold
	l.locker.holds.remove(l)
	for _, twin := range l.spend(why) {
		defer twin.hold.Clear()
	}
	before := a.Others()
	a.Recall()
	var alone *waiting.Waiter
	if why == kernel.Released {
		if op, alone = l.handOver(); op != nil {
			return op, nil, true
		}
	}
	l.slots.free(surely)
	op = a.ToRelease(&l.hold.Release)
	if l.calls() {
		op.CallNext(nil)
	}
	op.AskAll()
	if alone != nil { // its try finds the release before it in the key's queue
		alone.Give(nil)
	}
	if l.kind() == kindKeys { // the same for waiters of other kinds
		l.lines().FreedAll(a.Many.Names)
	} else {
		l.lines().Freed(a.Key)
	}
	for _, other := range before {
		if cleared := other.Clear(); cleared != nil {
			others = append(others, cleared)
		}
	}
	return op, others, false
}

// handOver gives the lock's key to the next waiter, if a waiter can take it, and returns the release that
// the hand-over replaces, or nil; and the waiter, if it has to try by itself behind a release.
func (l *lease) handOver() (*quorum.Operation, *waiting.Waiter) {
	if l.hold.Kind.Inherit == nil {
		return nil, nil
	}
	w, row := l.lines().Next(l.hold.Key, l.row)
	if w == nil {
		return nil, nil
	}
	r := *w.Call.(*request)
	if l.slots != nil {
		r.kind = &l.slots[0].kind
	}
	if r.kind.Inherit == nil || !l.locker.board.HandsOver() {
		return nil, w
	}
	next, err := l.locker.newLock(w.Context, r, false)
	if err != nil { // the waiter's own token is spent, which its own try reports
		return nil, w
	}
	if r.kind.fair() {
		next.hold.Line = &protocol.Line{Stays: true} // its ticket was there
	}
	next.row = row
	op := &next.hold.Acquire
	op.Op, op.Old = next.hold.Kind.Inherit, l.hold.Acquire.Token
	op.Encode(&next.hold.Memory)
	op.Propose()
	release := l.hold.ToRelease(&l.hold.Release)
	if op.HandOver(release) {
		w.Give(attempt{next})
	} else { // the Locker is being closed
		w.Give(nil)
	}
	return release, nil
}
