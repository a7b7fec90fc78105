package redlock

import (
	"context"
	"fmt"
	"slices"

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
		l.locker.board.Keys.Await(-1)
		return false, &fault.StateError{Op: "release", Key: a.Key, Why: ErrLost}
	}
	op, others, handedOver := l.giveBack(WhyReleased)
	l.locker.board.Keys.Await(-1) // the release itself is awaited from now on
	select {
	case <-op.Done:
		for _, other := range others {
			if !other.Attempt.Gone() || !op.HasDeleted() {
				other.Await(ctx)
			}
		}
	case <-ctx.Done():
		end := fault.EndOf(ctx)
		if lost {
			end = fmt.Errorf("%w: %w", ErrLost, end)
		}
		return handedOver, fmt.Errorf("redlock: release %q goes on in the background: %w", a.Key, end)
	}
	if !handedOver { // or those who wait would be hurried by the end of another one's turn
		l.lines().Hurry(a.Key)
	}
	deleted := slices.ContainsFunc(others, (*quorum.Operation).HasDeleted)
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
	l.locker.board.Keys.Await(-1)
	if lost {
		return &fault.StateError{Op: "abandon", Key: a.Key, Why: ErrLost}
	}
	l.spend(WhyAbandoned)
	return nil
}

// spend refuses a token of the user's own from now on, and ends the other locks of the Locker that
// have the key with it: what becomes of the key becomes of them. It returns them.
func (l *lease) spend(why Why) (twins []*lease) {
	a := &l.attempt
	if !a.Own {
		return nil
	}
	a.Spend()
	twins = l.locker.holds.twins(l)
	for _, twin := range twins {
		now := twin.observe()
		twin.given = twin.given || twin.ended == nil
		twin.end(why, now)
		twin.attempt.Mu.Unlock()
		l.locker.holds.remove(twin)
	}
	return twins
}

// giveUp ends the hold for its user, once. Close waits from then on, until it is told not to: a release
// that it does not find among the holds any more may not be under way yet.
func (l *lease) giveUp(what string, why Why) (lost bool, err error) {
	now := l.observe()
	defer l.attempt.Mu.Unlock()
	switch {
	case l.given:
		return false, &fault.StateError{Op: what, Key: l.attempt.Key, Why: ErrReleased}
	case l.ended == ErrClosed: //nolint:errorlint // ended holds the sentinel itself
		return false, &fault.StateError{Op: what, Key: l.attempt.Key, Why: ErrClosed}
	}
	l.given = true
	l.locker.board.Keys.Await(+1)
	lost = l.ended != nil
	l.end(why, now)
	return lost, nil
}

// quit ends the hold for [Locker.Close].
func (l *lease) quit() {
	now := l.observe()
	over := l.ended != nil
	l.end(WhyClosed, now)
	l.attempt.Mu.Unlock()
	if !over {
		l.giveBack(WhyClosed)
	}
}

// giveBack hands the key over to the next waiter, if it may, or asks all nodes to delete it, and the
// hold's other tokens where they may be left.
func (l *lease) giveBack(why Why) (op *quorum.Operation, others []*quorum.Operation, handedOver bool) {
	a := &l.attempt
	l.locker.holds.remove(l)
	for _, twin := range l.spend(why) {
		defer twin.attempt.Clear()
	}
	before := a.Others()
	a.Recall()
	var alone *waiting.Waiter
	if why == WhyReleased {
		if op, alone = l.handOver(); op != nil {
			return op, nil, true
		}
	}
	l.places.free(surely)
	op = a.ToRelease(&l.release)
	calls := a.Stand != nil || a.Kind.Stands && l.last().Crowded()
	if calls && !l.lines().Yields(a.Key) { // the next in line, in place of all who listen
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
	for _, other := range before {
		if cleared := other.Clear(); cleared != nil {
			others = append(others, cleared)
		}
	}
	return op, others, false
}
