package redlock

import (
	"context"
	"fmt"

	"github.com/quorumlock/quorumlock/clockdrift"
	"github.com/quorumlock/quorumlock/internal/fault"
	"github.com/quorumlock/quorumlock/internal/quorum"
	"github.com/quorumlock/quorumlock/internal/waiting"
)

// Release ends the hold: see handle.Release.
func (l *lease) Release(ctx context.Context) error {
	var began clockdrift.Instant
	if l.told != nil {
		began = l.locker.clock.Now()
	}
	lost, err := l.giveUp("release", WhyReleased)
	if err != nil {
		return err
	}
	handedOver, err := l.free(ctx, lost)
	if l.told != nil {
		l.told.releases(ReleaseEnd{
			Key: l.attempt.Key, Kind: l.kind(), Latency: l.locker.clock.Now().Sub(began), Err: err, HandedOver: handedOver,
		})
	}
	return err
}

// free takes the token of a hold that is over, or was lost, away from the nodes.
func (l *lease) free(ctx context.Context, lost bool) (handedOver bool, err error) {
	a := &l.attempt
	if lost && a.Own {
		l.locker.holds.remove(l)
		return false, &fault.StateError{Op: "release", Key: a.Key, Why: ErrLost}
	}
	op, other, handedOver := l.giveBack(true)
	select {
	case <-op.Done:
		if other != nil {
			other.Await(ctx)
		}
	case <-ctx.Done():
		end := fault.EndOf(ctx)
		if lost {
			end = fmt.Errorf("%w: %w", ErrLost, end)
		}
		return handedOver, fmt.Errorf("redlock: release %q goes on in the background: %w", a.Key, end)
	}
	l.lines().Hurry(a.Key)
	deleted := other != nil && other.HasDeleted()
	a.Mu.Lock()
	defer a.Mu.Unlock()
	switch {
	case op.Outcome != quorum.Carried && lost:
		return handedOver, failure(op, fmt.Errorf("%w, and %w to delete what is left of it", ErrLost, ErrNoQuorum))
	case op.Outcome != quorum.Carried:
		return handedOver, failure(op, ErrNoQuorum)
	case lost || !deleted && !op.Deleted():
		return handedOver, failure(op, ErrLost)
	}
	if key, ok := op.Undeleted(); ok {
		return handedOver, failure(op, fmt.Errorf("%w: no node had %q any more", ErrLost, key))
	}
	return handedOver, nil
}

// Abandon ends the hold and sends nothing: see handle.Abandon.
func (l *lease) Abandon() error {
	a := &l.attempt
	lost, err := l.giveUp("abandon", WhyAbandoned)
	if err != nil {
		return err
	}
	l.locker.holds.remove(l)
	if lost {
		return &fault.StateError{Op: "abandon", Key: a.Key, Why: ErrLost}
	}
	a.Spend()
	return nil
}

// giveUp ends the hold for its user, once.
func (l *lease) giveUp(what string, why Why) (lost bool, err error) {
	now := l.observe()
	defer l.attempt.Unlock()
	switch {
	case l.given:
		return false, &fault.StateError{Op: what, Key: l.attempt.Key, Why: ErrReleased}
	case l.ended == ErrClosed: //nolint:errorlint // ended holds the sentinel itself
		return false, &fault.StateError{Op: what, Key: l.attempt.Key, Why: ErrClosed}
	}
	l.given = true
	lost = l.ended != nil
	l.end(why, now)
	return lost, nil
}

// quit ends the hold for [Locker.Close].
func (l *lease) quit() {
	now := l.observe()
	over := l.ended != nil
	l.end(WhyClosed, now)
	l.attempt.Unlock()
	if !over {
		l.giveBack(false)
	}
}

// giveBack hands the key over to the next waiter, if it may, or asks all nodes to delete it. If the
// hold has another token that may be left, it asks them to delete that as well.
func (l *lease) giveBack(handOver bool) (op, other *quorum.Operation, handedOver bool) {
	a := &l.attempt
	l.locker.holds.remove(l)
	a.Spend()
	var alone *waiting.Waiter
	if handOver {
		if op, alone = l.handOver(); op != nil {
			return op, nil, true
		}
	}
	l.places.free(surely)
	op = a.ToRelease(&l.release)
	calls := a.Stand != nil || a.Kind.Stands && l.last().Crowded()
	if calls { // the next in line, in place of all who listen
		op.Loud = false
	}
	op.AskAll()
	if calls {
		l.locker.advance(a.Key, "", nil)
	}
	if alone != nil { // its try finds the release before it in the key's queue
		alone.Give(nil)
	}
	if keys, ok := l.public.(*KeysLock); ok { // so does that of others who wait
		keys.freed()
	} else {
		l.lines().Freed(a.Key)
	}
	a.Mu.Lock()
	converted := l.other
	a.Mu.Unlock()
	if converted != nil && !converted.Clean() {
		other = converted.ToRelease(new(quorum.Operation))
		other.AskAll()
	}
	return op, other, false
}
