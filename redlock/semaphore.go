package redlock

import (
	"context"
	"fmt"

	"github.com/quorumlock/quorumlock/internal/fault"
	"github.com/quorumlock/quorumlock/internal/protocol"
)

// MaxPermits is the largest number of permits of a [Semaphore].
const MaxPermits = 128

// A Semaphore lets up to a number of holders work under one key, in all processes together. It has
// as many slots as permits, and each slot is a lock of its own, which one permit has (see
// [Lock.Slots]). Its methods are safe for concurrent use.
type Semaphore struct {
	locker *Locker
	key    string
	pool   *pool
}

// Semaphore returns the semaphore of the key with so many permits, 1 to [MaxPermits]. It sends nothing. All
// clients of the key name the same number: the nodes keep it for two TTLs behind the last permit,
// and until then another number is refused with [ErrPermits]. A try that is refused asks each node
// about every slot, so its cost grows with the number.
//
// A lock on the key is another thing. The nodes call the slots ql:slot:{KEY}0, ql:slot:{KEY}1, …,
// the number ql:permits:{KEY}, and the line of those who wait ql:pool:{KEY}; of a key with a hash
// tag ql:slot=KEY:0, ql:permits=KEY and ql:pool=KEY. The error is an [OptionError] for the key or
// for "permits".
func (l *Locker) Semaphore(key string, permits int) (*Semaphore, error) {
	if err := l.options.checkKey(key); err != nil {
		return nil, err
	}
	if err := l.options.checkNames(key, "permits"); err != nil {
		return nil, err
	}
	if permits < 1 || permits > MaxPermits {
		return nil, &OptionError{"permits", fmt.Sprintf("%d is not between 1 and %d", permits, MaxPermits)}
	}
	return &Semaphore{l, key, l.pools.of(l, key, permits)}, nil
}

// Key returns the key, as it was given to [Locker.Semaphore].
func (s *Semaphore) Key() string { return s.key }

// Permits returns how many permits there are.
func (s *Semaphore) Permits() int { return len(s.pool.all) }

// Acquire takes a permit, and waits as [Locker.Acquire] does while all are taken. Callers of one
// Locker wait in a line: a permit that is released here goes to the first of them, and now and then
// to another process.
//
// The errors are those of Locker.Acquire, where [ErrTaken] says that all permits are taken, and
// [ErrDeadlock] that ctx carries all of them itself; and [ErrPermits]. [WithToken] is an
// [OptionError], for a retry could not know which slot it had, and [WithReentry] has no effect.
// Whoever holds a permit and waits for another one may wait for a process that does the same: take
// all at once.
func (s *Semaphore) Acquire(ctx context.Context, options ...AcquireOption) (*Lock, error) {
	return obtain(ctx, s.locker, AcquireStart{Key: s.key, Kind: KindPermit, Waits: true}, func(ctx context.Context) (request, error) {
		return s.prepare(ctx, &s.pool.kind, options)
	}, asLock)
}

// TryAcquire is [Semaphore.Acquire] that does not wait for a holder, as [Locker.TryAcquire].
func (s *Semaphore) TryAcquire(ctx context.Context, options ...AcquireOption) (*Lock, error) {
	return obtain(ctx, s.locker, AcquireStart{Key: s.key, Kind: KindPermit}, func(ctx context.Context) (request, error) {
		return s.prepare(ctx, &s.pool.kind, options)
	}, asLock)
}

// AcquireN takes n permits or none, and waits as [Semaphore.Acquire] does while fewer are free.
// They are one lock, and it holds none of them while it waits.
//
// A waiter for several stands in a line at the nodes, as in [Locker.AcquireAll]: a later one gets no
// permit, in any process, but while it rests, or under the context of permits that it waits for. Permits that are free stay idle meanwhile, and releases in this process go to the nodes.
//
// An [OptionError] for "n" says that it is not between 1 and the number of permits; [ErrDeadlock]
// that ctx carries so many that fewer than n are left. The others are those of Acquire.
func (s *Semaphore) AcquireN(ctx context.Context, n int, options ...AcquireOption) (*Lock, error) {
	return s.obtainN(ctx, n, true, options)
}

// TryAcquireN is [Semaphore.AcquireN] that does not wait for a holder, as [Locker.TryAcquire].
// Permits are not free while a waiter for several keeps others off.
func (s *Semaphore) TryAcquireN(ctx context.Context, n int, options ...AcquireOption) (*Lock, error) {
	return s.obtainN(ctx, n, false, options)
}

// obtainN is obtain for several permits.
func (s *Semaphore) obtainN(ctx context.Context, n int, waits bool, options []AcquireOption) (*Lock, error) {
	return obtain(ctx, s.locker, AcquireStart{Key: s.key, Kind: KindPermit, Waits: waits}, func(ctx context.Context) (request, error) {
		if n < 1 || n > s.Permits() {
			return request{}, &OptionError{"n", fmt.Sprintf("%d is not between 1 and %d, the number of permits", n, s.Permits())}
		}
		return s.prepare(ctx, s.pool.several(n), options)
	}, asLock)
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
	if of.permits > 1 {
		r.line.Class, r.line.Number = protocol.WantsSeveral, of.permits
	}
	return r, r.checkPriority()
}

// carried counts the valid permits of s that ctx carries.
func (s *Semaphore) carried(ctx context.Context) (count int) {
	for _, l := range s.locker.carries(ctx) {
		if l.slots != nil && l.hold.Key == s.key && l.Valid() {
			count += len(l.slots)
		}
	}
	return count
}
