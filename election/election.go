// Package election lets one of many processes lead: a leader holds the lock of the election, under its own
// name, and everybody can ask for the leader.
//
// Package redlock decides who leads, with its guarantee and its limits: a leader's [Term.Context] ends
// before anybody else can be elected, by a local timer whatever the network does, as far as clocks run at
// one rate. A leader's writes should carry its [Term.Fence], so that a store can refuse late writes of a
// former leader.
package election

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"time"

	"github.com/quorumlock/quorumlock/redlock"
)

// An Election is the choice of one leader. Its methods are safe for concurrent use.
type Election struct {
	locker *redlock.Locker
	key    string
}

// New returns the election by the lock on key, which nothing else should take. Candidates and observers need
// the same key and the same nodes. New sends nothing.
func New(locker *redlock.Locker, key string) *Election { return &Election{locker, key} }

// Campaign waits until this candidate is elected, and returns its term. The value tells observers who leads,
// say by an address: 1 to 1024 printable characters. Candidates are elected in no promised order.
//
// The term is renewed until it is resigned: ctx bounds the campaign alone. Options are those of an acquire,
// but for redlock.WithOwner, whose place the value takes, and redlock.WithToken, which leaves no room for
// the value: a redlock.OptionError refuses it. The TTL is the time after which another candidate is elected
// when a leader dies: see redlock.WithTTL.
//
// The errors are those of redlock.Locker.Acquire.
func (e *Election) Campaign(ctx context.Context, value string, options ...redlock.AcquireOption) (*Term, error) {
	options, err := candidate(value, options)
	if err != nil {
		return nil, err
	}
	lock, err := e.locker.Acquire(ctx, e.key, options...)
	if err != nil {
		return nil, fmt.Errorf("election: campaign: %w", err)
	}
	return &Term{lock, value}, nil
}

// candidate are the options of a campaign.
func candidate(value string, options []redlock.AcquireOption) ([]redlock.AcquireOption, error) {
	if value == "" {
		return nil, &redlock.OptionError{Option: "value", Reason: "a candidate needs a value that tells observers who it is, such as its address"}
	}
	return append(options[:len(options):len(options)], redlock.WithOwner(value)), nil
}

// A Term is the time for which a candidate leads. Its methods are safe for concurrent use.
type Term struct {
	lock  *redlock.Lock
	value string
}

// Context returns a context that ends with the term: when it is resigned, or at the latest when a lease ends
// that could not be renewed in time. context.Cause says why, as for redlock.Lock.Context. Give it to all
// work that only a leader may do.
func (t *Term) Context() context.Context { return t.lock.Context() }

// Fence returns the number of the term, which is greater than those of all terms before, or 0 without
// redlock.WithFences.
func (t *Term) Fence() int64 { return t.lock.Fence() }

// Value returns the value of the campaign.
func (t *Term) Value() string { return t.value }

// Leads reports whether the term still runs, by the local clock. Work that may outlast the term belongs
// under [Term.Context].
func (t *Term) Leads() bool { return t.lock.Valid() }

// Resign ends the term: first its context, and then the leadership at the nodes: another candidate is
// elected at once. The error is that of redlock.Lock.Release: it matches redlock.ErrLost if the term had
// ended before.
func (t *Term) Resign() error {
	if err := t.lock.Release(); err != nil {
		return fmt.Errorf("election: resign: %w", err)
	}
	return nil
}

// A Leader is the leader for an observer. The zero value is nobody.
type Leader struct {
	Value string // of the campaign
	Term  string // tells terms apart, also terms with one value
}

// Observe yields the leader: first now, and then at each change. It never goes back to a term that was
// followed by another, or was over. Between two terms it may yield the zero Leader: nobody.
//
// An observer may believe that each of a quorum of the nodes had granted the leader its term at some moment.
// It may not believe that the leader still leads, nor that the leader knows it: a campaign may give up a
// moment before its votes are a quorum, and nobody leads by them. Compare fences before acting on a leader's
// word. Errors are those of redlock.Locker.Watch: an error without a quorum, after which it goes on, and a
// last error when ctx ends or the Locker is closed.
func (e *Election) Observe(ctx context.Context) iter.Seq2[Leader, error] {
	return func(yield func(Leader, error) bool) {
		for holder, err := range e.locker.Watch(ctx, e.key) {
			if err != nil {
				err = fmt.Errorf("election: observe: %w", err)
			}
			if !yield(Leader{holder.Owner, holder.ID}, err) {
				return
			}
		}
	}
}

// Run campaigns, and calls lead when this candidate is elected, under a context that ends with the term and
// with ctx. When lead returns Run resigns. If lead returned because the term was lost, Run campaigns again,
// until ctx ends or lead returns while it still leads: then the error is lead's.
//
// While no quorum of the nodes answers Run goes on to campaign. It ends with the error of a campaign that no
// repetition helps: a bad option, a closed Locker, a deadlock. When ctx ends, the error matches ctx's, and
// lead's if it was running. A panic in lead goes on after the resignation.
func (e *Election) Run(ctx context.Context, value string, lead func(ctx context.Context, term *Term) error, options ...redlock.AcquireOption) error {
	options, err := candidate(value, options)
	if err != nil {
		return err
	}
	for {
		led, lost := false, false
		var said error
		err := e.locker.Do(ctx, e.key, func(held context.Context) error {
			led = true
			said = lead(held, &Term{redlock.FromContext(held), value})
			lost = errors.Is(context.Cause(held), redlock.ErrLost)
			return nil
		}, options...)
		switch {
		case led && ctx.Err() != nil:
			return errors.Join(end(ctx), said)
		case led && !lost:
			return said
		case led:
		case ctx.Err() != nil, errors.Is(err, redlock.ErrOption), errors.Is(err, redlock.ErrClosed), errors.Is(err, redlock.ErrDeadlock):
			return fmt.Errorf("election: campaign: %w", err)
		case !rest(ctx):
			return end(ctx)
		}
	}
}

// end words the end of a context.
func end(ctx context.Context) error { return fmt.Errorf("election: %w", context.Cause(ctx)) }

// rest waits between two failed campaigns, for half a second to a second. False: ctx ended first.
func rest(ctx context.Context) bool {
	timer := time.NewTimer(time.Second/2 + rand.N(time.Second/2)) //nolint:gosec // nobody gains by guessing it
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
