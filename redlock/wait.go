package redlock

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/quorumlock/quorumlock/clockdrift"
	"github.com/quorumlock/quorumlock/internal/fault"
	"github.com/quorumlock/quorumlock/internal/protocol"
	"github.com/quorumlock/quorumlock/internal/quorum"
	"github.com/quorumlock/quorumlock/internal/waiting"
)

// waiter makes the waiter of an Acquire that began at began.
func (l *Locker) waiter(ctx context.Context, key string, o *acquireOptions, began clockdrift.Instant) *waiting.Waiter {
	return &waiting.Waiter{
		Host: l.host(o.kind), Lines: l.linesOf(o.kind), Context: ctx, Key: key, Began: began, Rank: o.rank(began), Call: o, Joins: o.kind.joins(),
		Options: waiting.Options{
			Several: o.kind.slots != nil, Name: l.nameInLine(o.kind), Stands: o.kind.stands(),
			MaxWait: o.maxWait, Retries: o.retries,
			BackoffMin: o.backoffMin, BackoffMax: o.backoffMax, Outage: o.outage(),
		},
	}
}

// linesOf are the lines of those who wait for keys of the kind.
func (l *Locker) linesOf(k *kind) *waiting.Lines {
	if k.slots != nil {
		return &k.slots.lines
	}
	return &l.lines
}

// host is the Locker as those who wait for keys of the kind see it.
func (l *Locker) host(k *kind) waiting.Host {
	if k.slots != nil {
		return slotsHost{host{l}, k.slots}
	}
	return host{l}
}

// lines are those in which others wait for the place that l has.
func (l *lease) lines() *waiting.Lines {
	if l.places != nil {
		return &l.places[0].of.lines
	}
	return &l.locker.lines
}

// wait waits for the lock, after a failed attempt, or nil.
func (l *Locker) wait(w *waiting.Waiter, tried *lease) (*lease, error) {
	var before waiting.Attempt
	if tried != nil {
		before = attempt{tried}
	}
	stop := l.detect(w.Context, w.Call.(*acquireOptions), []string{w.Key}, func(end error) { w.Lines.Condemn(w, end) })
	had, err := w.Wait(before)
	stop()
	if o := w.Call.(*acquireOptions); o.kind.slots != nil {
		l.unmark(o)
	}
	if m, marked := w.Mark.(*mark); marked {
		l.withdraw(w.Key, m, err != nil)
	}
	if err != nil {
		return nil, err
	}
	return had.(attempt).lease, nil
}

// host is the Locker as its waiters see it.
type host struct{ *Locker }

func (h host) Now() clockdrift.Instant                  { return h.clock.Now() }
func (h host) Jitter(bound time.Duration) time.Duration { return h.board.Jitter(bound) }
func (h host) Closing() <-chan struct{}                 { return h.closing }
func (h host) Size() (nodes, quorum int)                { return len(h.board.Nodes), h.board.Quorum }
func (h host) Trip() time.Duration                      { return h.board.Trip() }

// Others reports whether another Locker was subscribed at any node at its last announcement.
func (h host) Others() bool {
	for _, n := range h.board.Nodes {
		if n.Others() {
			return true
		}
	}
	return false
}

// Listen subscribes w to the announcements of a key.
func (h host) Listen(key string, w waiting.Listener) {
	for _, n := range h.board.Nodes {
		n.Listen(h.channel(key), w)
	}
}

// Unlisten ends that.
func (h host) Unlisten(key string, w waiting.Listener) {
	for _, n := range h.board.Nodes {
		n.Unlisten(h.channel(key), w)
	}
}

func (h host) channel(key string) string { return protocol.WakeChannel + h.options.prefix + key }

// HolderOf returns the lock with a generated token, if it is held.
func (h host) HolderOf(token string) waiting.Holder {
	if lock := h.holds.with(token); lock != nil && (attempt{lock}).Left() > 0 {
		return attempt{lock}
	}
	return nil
}

// Carries returns the locks that ctx works for. One that never ends outlives them.
func (h host) Carries(ctx context.Context) (all []waiting.Holder) {
	if ctx.Done() == nil {
		return nil
	}
	for _, l := range h.carries(ctx) {
		all = append(all, attempt{l})
	}
	return all
}

// GaveUp words the end of a wait.
func (host) GaveUp(last error, tries int, waited time.Duration, end error) error {
	return &WaitError{tries, waited, last, end}
}

// Deadlock words a ring of waits.
func (h host) Deadlock(ring []waiting.Block) error {
	e := &DeadlockError{}
	before := ring[len(ring)-1]
	for _, block := range ring {
		e.Cycle = append(e.Cycle, Wait{Holds: before.Key, WaitsFor: block.Key, Owner: protocol.Owner(before.By.(attempt).Token())})
		before = block
	}
	return e
}

// Places are those from which waiters try.
func (h host) Places() chan struct{} { return h.tries }

// Try asks the nodes for the lock.
func (h host) Try(w *waiting.Waiter) (waiting.Attempt, error) {
	var bound clockdrift.Instant
	o := w.Call.(*acquireOptions)
	if w.Options.Stands {
		o = h.standing(w, o)
	}
	if o.turn != nil && !o.several() {
		o = h.dated(w, o)
		w.Call = o
	}
	if o.told != nil {
		o.told.how = How(w.How)
	}
	lock, err := h.try(w.Context, w.Key, o.behind(&w.Seen), true, &bound)
	if lock == nil {
		return nil, err
	}
	if err != nil {
		h.awaitMore(w.Context, lock.last())
		h.told(lock.last().ClockOffset())
	}
	if w.Seen.Stays(lock.last(), lock.last().Asked, h.clock.Now(), h.options.timeout(o.ttl)) && errors.Is(err, ErrContended) {
		err = heldBy(lock)
	}
	return attempt{lock}, err
}

// Await waits for the result of an attempt that was handed over.
func (h host) Await(w *waiting.Waiter, a waiting.Attempt) error {
	var bound clockdrift.Instant
	l := a.(attempt).lease
	if l.told != nil {
		l.told.how = How(w.How)
		l.told.tries++
	}
	return h.await(w.Context, l, &bound)
}

// Refused keeps readers out, if it was they that have refused a writer.
func (h host) Refused(w *waiting.Waiter, a waiting.Attempt) (renews time.Duration) {
	return h.mark(w, a.(attempt).lease)
}

// Outlook says what a failed try means for waiters. Nodes that nobody has admitted yet are new, as
// a rule, and who has just set them up is told what to do. Before each of them was looked at, one that
// is admitted may be found, so that the others are waited for as for any that was started anew.
func (h host) Outlook(err error) waiting.Outlook {
	o := waiting.Outlook{Taken: taken(err), Quorum: taken(err) || waitsForQuarantine(err), Waiting: worthWaiting(err)}
	if !o.Taken && without(err, func(e error) bool { return errors.Is(e, fault.ErrUnadmitted) }) {
		o.Quorum, o.Waiting = false, o.Waiting && !h.board.Restarts.Unadmitted()
	}
	return o
}

// attempt is a Lock as waiters see it.
type attempt struct{ *lease }

// Left ends no hold, even if its deadline has passed: the caller may have the mutex of the lines, and
// an end takes others.
func (a attempt) Left() time.Duration {
	now := a.locker.clock.Fresh()
	a.attempt.Mu.Lock()
	defer a.attempt.Mu.Unlock()
	return a.rest(now)
}

func (a attempt) Last() waiting.Try { return a.last() }
func (a attempt) Joins() bool       { return a.attempt.Kind.Joins }

// handOver gives the lock's key to the next waiter, if one can take it, and returns the release
// that the hand-over replaces, or nil; and the waiter, if it has to try by itself behind a release.
func (l *lease) handOver() (*quorum.Operation, *waiting.Waiter) {
	if l.attempt.Kind.Inherit == nil || l.places.kept() {
		return nil, nil
	}
	w := l.lines().Next(l.attempt.Key)
	if w == nil {
		return nil, nil
	}
	o := w.Call.(*acquireOptions)
	if l.places != nil {
		o = o.as(&l.places[0].kind)
	}
	if o.kind.Inherit == nil || !l.locker.board.HandsOver() {
		return nil, w
	}
	next, err := l.locker.newLock(w.Context, l.attempt.Key, o, false)
	if err != nil { // the waiter's own token is spent, which its own try reports
		return nil, w
	}
	if o.kind.stands() {
		next.attempt.Stand = &protocol.Stand{} // it stood in line
	}
	op := &next.acquire
	op.Op, op.Old = next.attempt.Kind.Inherit, l.acquire.Token
	op.Encode(&next.memory)
	op.Propose()
	next.attempt.Loud = true
	release := l.attempt.ToRelease(&l.release)
	if op.HandOver(release) {
		w.Give(attempt{next})
	} else { // the Locker is being closed
		w.Give(nil)
	}
	return release, nil
}

// taken reports whether a try has failed because others have the key or some of the votes.
func taken(err error) bool { return errors.Is(err, ErrTaken) || errors.Is(err, ErrContended) }

// worthWaiting reports whether a later try may do better by itself: not if the nodes that refuse
// for a lasting reason leave no quorum.
func worthWaiting(err error) bool {
	switch {
	case errors.Is(err, ErrClosed):
		return false
	case taken(err), errors.Is(err, ErrExpired):
		return true
	}
	var quorum *QuorumError
	return errors.As(err, &quorum) && !without(err, fault.Lasting)
}

// without reports whether the nodes that refuse for such a reason leave no quorum.
func without(err error, such func(error) bool) bool {
	var quorum *QuorumError
	if !errors.As(err, &quorum) {
		return false
	}
	others := len(quorum.Votes)
	for _, vote := range quorum.Votes {
		if such(vote.Err) {
			others--
		}
	}
	return others < quorum.Need
}

// waitsForQuarantine reports whether a quorum answers, and will vote after the quarantine of some.
func waitsForQuarantine(err error) bool {
	var quorum *QuorumError
	if !errors.As(err, &quorum) {
		return false
	}
	there := 0
	for _, vote := range quorum.Votes {
		if vote.Err == nil && vote.Answer != Pending || errors.Is(vote.Err, ErrQuarantine) {
			there++
		}
	}
	return there >= quorum.Need
}

// cut adds to an attempt's error the end of its context or of the Locker.
func (l *Locker) cut(ctx context.Context, err error) error {
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("%w: %w", err, fault.EndOf(ctx))
	case l.closed():
		return fmt.Errorf("%w: %w", err, ErrClosed)
	}
	return err
}
