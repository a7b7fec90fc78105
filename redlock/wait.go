package redlock

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/quorumlock/quorumlock/clockdrift"
	"github.com/quorumlock/quorumlock/internal/acquire"
	"github.com/quorumlock/quorumlock/internal/fault"
	"github.com/quorumlock/quorumlock/internal/protocol"
	"github.com/quorumlock/quorumlock/internal/quorum"
	"github.com/quorumlock/quorumlock/internal/waiting"
)

// waiter makes the waiter of an Acquire that began at began.
func (l *Locker) waiter(ctx context.Context, r request, began clockdrift.Instant) *waiting.Waiter {
	w := &waiting.Waiter{
		Lines: l.linesOf(r.kind), Context: ctx, Key: r.key, Keys: r.kind.keys(r.key), Held: r.held, Carries: l.works(ctx), RankedFrom: r.rank(began),
		Base: protocol.Ticket{Class: r.line.Class, Number: r.priority, Name: l.name}, Call: &r,
		Waiting: acquire.Waiting{Began: began, Manner: acquire.Manner{
			Several: r.kind.pool != nil, Name: l.nameOf(r), Fair: r.kind.fair(), Ages: r.ages(), Joins: r.kind.joins(), Wants: r.kind.wants(), Most: r.most(),
			MaxWait:    r.maxWait,
			BackoffMin: r.backoffMin, BackoffMax: r.backoffMax, Outage: r.outage(),
		}},
	}
	if r.several() {
		w.Base.Number = r.line.Number
		w.Base.Name += "." + strconv.FormatInt(l.waits.Add(1), 10)
	}
	return w
}

// works returns the locks that ctx works for. One that never ends outlives them.
func (l *Locker) works(ctx context.Context) (all []waiting.Holder) {
	if ctx.Done() == nil {
		return nil
	}
	for _, lock := range l.carries(ctx) {
		all = append(all, attempt{lock})
	}
	return all
}

// keys are those in whose lines its waiters are.
func (k *kind) keys(name string) []string {
	if k.Kind != nil && k.Many != nil {
		return k.Many.Names
	}
	return []string{name}
}

// wants is how many keys or permits are to be had as one lock; 0: one, alone.
func (k *kind) wants() int {
	if k.Kind != nil && k.Many != nil {
		return len(k.Many.Names)
	}
	return k.permits
}

// behind reports whether those who wait for the key in this process go before an acquire.
func (l *Locker) behind(r request) bool {
	lines := l.linesOf(r.kind)
	if r.several() {
		return lines.HasSet(r.kind.keys(r.key), r.held, r.most())
	}
	return lines.Has(r.key) && !r.kind.passes()
}

// linesOf are the lines of those who wait for keys of the kind.
func (l *Locker) linesOf(k *kind) *waiting.Lines {
	if k.pool != nil {
		return &k.pool.lines
	}
	return &l.lines
}

// lines are those in which others wait for what l has.
func (l *lease) lines() *waiting.Lines {
	if l.slots != nil {
		return &l.slots[0].pool.lines
	}
	return &l.locker.lines
}

// wait waits for the lock, after a failed attempt, or nil.
func (l *Locker) wait(w *waiting.Waiter, tried *lease) (*lease, error) {
	var before waiting.Attempt
	if tried != nil {
		before = attempt{tried}
	}
	stop := l.detect(w.Context, w.Call.(*request).kind, w.Keys, func(end error) { w.Lines.Condemn(w, end) })
	l.waiting.Add(1)
	l.board.Keys.Await(1) // Close lets it give its ticket back
	had, err := w.Wait(before)
	l.board.Keys.Await(-1)
	l.waiting.Add(-1)
	stop()
	if err != nil {
		return nil, err
	}
	return had.(attempt).lease, nil
}

// host is the Locker as its waiters see it.
type host struct{ *Locker }

func (h host) Channels(key string) []string {
	return []string{protocol.WakeChannel + h.options.prefix + key}
}
func (h host) Heard(int) {}

// HolderOf returns the lock with a generated token, if it is held.
func (h host) HolderOf(token string) waiting.Holder {
	if lock := h.holds.with(token); lock != nil && (attempt{lock}).Left() > 0 {
		return attempt{lock}
	}
	return nil
}

// GaveUp words the end of a wait.
func (host) GaveUp(last error, tries int, waited time.Duration, end error) error {
	return &waitError{tries, waited, last, end}
}

// Deadlock words a ring of waits.
func (h host) Deadlock(ring []waiting.Block) error {
	e := &DeadlockError{}
	before := ring[len(ring)-1]
	for _, block := range ring {
		e.Cycle = append(e.Cycle, DeadlockWait{Holds: before.Key, WaitsFor: block.Key, Owner: protocol.Owner(before.By.(attempt).hold.Token)})
		before = block
	}
	return e
}

// Try asks the nodes for the lock.
func (h host) Try(w *waiting.Waiter) (waiting.Attempt, error) {
	r := *w.Call.(*request)
	r.bound = new(clockdrift.Instant)
	if r.heeds() || w.Stays {
		addTicket(w, &r)
	}
	if r.acquisition != nil {
		r.acquisition.how = pathOf(w.How)
	}
	r.seen = w.Seen
	r.ticket, _ = w.Ticket.(*quorum.Ticket)
	lock, err := h.try(w.Context, r, true)
	if lock == nil {
		return nil, err
	}
	if err != nil {
		if lock.hold.Last().AwaitMore(w.Context); lock.hold.Kind.HeedsLine && errors.Is(err, ErrContended) {
			err = h.cut(w.Context, failed(lock.hold.Last())) // by now who has the key may be known
		}
	}
	found := lock.hold.Last().Found()
	if err != nil {
		h.site.Dates.Learn(found.Clock)
	}
	if w.Seen.Stays(&found, h.clock.Now(), h.options.timeout(r.ttl)) && errors.Is(err, ErrContended) {
		err = failure(lock.hold.Last(), ErrTaken)
	}
	return attempt{lock}, err
}

// Await waits for the result of an attempt that was handed over.
func (h host) Await(w *waiting.Waiter, a waiting.Attempt) error {
	l := a.(attempt).lease
	if l.acquisition != nil {
		l.acquisition.how = pathOf(w.How)
		l.acquisition.tries++
	}
	return h.await(w.Context, l)
}

// Outlook says what a failed try means for waiters.
func (h host) Outlook(err error) acquire.Outlook {
	return acquire.Outlook{Taken: taken(err), Quorum: taken(err) || waitsForQuarantine(err), Waiting: worthWaiting(err)}
}

// attempt is a Lock as waiters see it.
type attempt struct{ *lease }

// Left ends no hold, even if its deadline has passed: the caller may have the mutex of the lines,
// and an end takes others.
func (a attempt) Left() time.Duration { return a.hold.Rest() }

func (a attempt) Found() acquire.Found { return a.hold.Last().Found() }
func (a attempt) Joins() bool          { return a.hold.Kind.Joins }

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
	if !errors.As(err, &quorum) {
		return false
	}
	others := len(quorum.Votes)
	for _, vote := range quorum.Votes {
		if fault.Lasting(vote.Err) {
			others--
		}
	}
	return others >= quorum.Need
}

// waitsForQuarantine reports whether a quorum answers, and will vote after the quarantine of some.
func waitsForQuarantine(err error) bool {
	var quorum *QuorumError
	if !errors.As(err, &quorum) {
		return false
	}
	there := 0
	for _, vote := range quorum.Votes {
		if vote.Err == nil && vote.Answer != pendingVote || errors.Is(vote.Err, ErrQuarantine) {
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
