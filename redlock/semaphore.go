package redlock

import (
	"context"
	"fmt"

	"github.com/quorumlock/quorumlock/internal/fault"
	"github.com/quorumlock/quorumlock/internal/protocol"
)

// maxPermits is the largest number of permits of a Semaphore.
const maxPermits = protocol.MaxPermits

// A Semaphore lets up to a number of holders work under one key, in all processes together. It has
// as many slots as permits, and each slot is a lock of its own, which one permit has (see
// [Lock.Slots]). Its methods are safe for concurrent use.
type Semaphore struct {
	locker *Locker
	key    string
	pool   *pool
}

// Semaphore returns the semaphore of the key with so many permits, 1 to 128. It sends nothing. All clients of
// the key name the same number: the nodes keep it for two TTLs after the last permit, and until then another
// number is refused with [ErrPermits]. A try that is refused asks each node about every slot, so its cost
// grows with the number.
//
// A lock on the key is another thing: see docs/protocol.md for the names. The error is an [OptionError].
func (l *Locker) Semaphore(key string, permits int) (*Semaphore, error) {
	if err := l.options.checkKey(key); err != nil {
		return nil, err
	}
	if err := l.options.checkNames(key, "permits"); err != nil {
		return nil, err
	}
	if permits < 1 || permits > maxPermits {
		return nil, &OptionError{"permits", fmt.Sprintf("%d is not between 1 and %d", permits, maxPermits)}
	}
	return &Semaphore{l, key, l.pools.of(l, key, permits)}, nil
}

// Key returns the key, as it was given to [Locker.Semaphore].
func (s *Semaphore) Key() string { return s.key }

// Permits returns how many permits there are.
func (s *Semaphore) Permits() int { return len(s.pool.all) }

// Acquire takes a permit, and waits as [Locker.Acquire] does while all are taken. Callers of one Locker wait
// in a line: a permit that is released here goes to the first of them, and now and then to another process.
//
// The errors are those of Locker.Acquire, and [ErrPermits]. [ErrDeadlock] means that ctx carries all permits.
// [WithToken] is an [OptionError]. A caller that holds a permit and waits for a second one may wait for a
// process that does the same: take all at once.
func (s *Semaphore) Acquire(ctx context.Context, options ...AcquireOption) (*Lock, error) {
	return obtain(ctx, s.locker, AcquireStart{Key: s.key, Kind: kindPermit, Waits: true}, func(ctx context.Context) (request, error) {
		return s.prepare(ctx, &s.pool.kind, options)
	})
}

// TryAcquire is Acquire without waiting for a holder.
func (s *Semaphore) TryAcquire(ctx context.Context, options ...AcquireOption) (*Lock, error) {
	return obtain(ctx, s.locker, AcquireStart{Key: s.key, Kind: kindPermit}, func(ctx context.Context) (request, error) {
		return s.prepare(ctx, &s.pool.kind, options)
	})
}

// AcquireN takes n permits or none, and waits as [Semaphore.Acquire] does while fewer are free. The n permits
// are one lock. A waiter holds no permit. Freed permits stay idle for a waiter for several, so large requests
// never starve.
//
// An n that is not between 1 and the number of permits is an [OptionError]. [ErrDeadlock] means that ctx
// carries so many permits that fewer than n are left. The other errors are those of Acquire.
func (s *Semaphore) AcquireN(ctx context.Context, n int, options ...AcquireOption) (*Lock, error) {
	return s.obtainN(ctx, n, true, options)
}

// TryAcquireN is AcquireN without waiting for a holder.
func (s *Semaphore) TryAcquireN(ctx context.Context, n int, options ...AcquireOption) (*Lock, error) {
	return s.obtainN(ctx, n, false, options)
}

// obtainN is obtain for several permits.
func (s *Semaphore) obtainN(ctx context.Context, n int, waits bool, options []AcquireOption) (*Lock, error) {
	return obtain(ctx, s.locker, AcquireStart{Key: s.key, Kind: kindPermit, Waits: waits}, func(ctx context.Context) (request, error) {
		if n < 1 || n > s.Permits() {
			return request{}, &OptionError{"n", fmt.Sprintf("%d is not between 1 and %d, the number of permits", n, s.Permits())}
		}
		return s.prepare(ctx, s.pool.several(n), options)
	})
}

// prepare puts the options of one acquire together, and refuses an acquire that cannot succeed.
func (s *Semaphore) prepare(ctx context.Context, of *kind, options []AcquireOption) (request, error) {
	r, err := s.locker.configure(s.key, exclusive, options)
	if err != nil {
		return request{}, err
	}
	if r.token != nil {
		return request{}, &OptionError{"Token", "a permit has a token of its own: a retry with yours would not know which slot it had"}
	}
	held := s.carried(ctx)
	switch {
	case held >= s.Permits():
		return request{}, &fault.StateError{Op: "acquire", Key: s.key, Why: fmt.Errorf("%w: all %d permits: work under one of them, or release one first", ErrDeadlock, held)}
	case held+of.permits > s.Permits():
		return request{}, &fault.StateError{Op: "acquire", Key: s.key, Why: fmt.Errorf("%w: %d of %d permits, which leaves fewer than %d: acquire all that you want at once, or release some first", ErrDeadlock, held, s.Permits(), of.permits)}
	}
	r.kind = of
	r.line = &protocol.Line{Ticket: protocol.Ticket{Class: protocol.WantsOne}, Most: s.Permits() - held, Pool: s.pool.semaphore.Line()}
	if of.permits > 0 {
		r.line.Class, r.line.Number = protocol.WantsSeveral, of.permits
	}
	return r, r.checkPriority()
}

// carried counts the valid permits of s that ctx carries.
func (s *Semaphore) carried(ctx context.Context) (count int) {
	for _, l := range s.locker.carries(ctx) {
		if l.slots != nil && l.hold.Key == s.key && l.valid() {
			count += len(l.slots)
		}
	}
	return count
}
