package redlock

import (
	"context"
	"fmt"
	"time"

	"github.com/quorumlock/quorumlock/internal/fault"
	"github.com/quorumlock/quorumlock/internal/protocol"
)

// MaxPermits is the largest number of permits of a [Semaphore]. A try that is refused asks
// each node about every slot, so both the request and the time it takes a node grow with them.
const MaxPermits = protocol.MaxPermits

// A Semaphore lets up to a number of holders work under one key, in all processes together. It has
// as many slots as permits, from 0 on, and each slot is a lock of its own: whoever has a [Permit]
// has one slot alone. Its methods are safe for concurrent use.
type Semaphore struct {
	locker *Locker
	key    string
	slots  *slots
}

// Semaphore returns the semaphore of the key with so many permits, 1 to [MaxPermits]. It sends
// nothing. All clients of the key name the same number: the nodes keep it for two TTLs behind the
// last permit, and until then another number is refused with [ErrPermits]. To change it, stop the
// clients, wait for two TTLs, and start them with the new number.
//
// A key can be that of a semaphore and that of a lock at once, and these do not know of each other.
// The nodes call the slots ql:slot:{KEY}0, ql:slot:{KEY}1, … and the number ql:permits:{KEY}. Beside them is
// ql:wanted:{KEY} while somebody waits for several permits. Of a key with a hash tag they are ql:slot=KEY:0,
// ql:permits=KEY and ql:wanted=KEY.
//
// The error is an [OptionError] for the key or for "permits".
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
	return &Semaphore{l, key, l.slots.of(l, key, permits)}, nil
}

// Key returns the key, as it was given to [Locker.Semaphore].
func (s *Semaphore) Key() string { return s.key }

// Permits returns how many permits there are.
func (s *Semaphore) Permits() int { return len(s.slots.all) }

// A Permit is one slot of a [Semaphore] that this process holds alone, from [Semaphore.Acquire]
// until its lease ends, it is released, or the Locker is closed. All methods are safe for
// concurrent use.
type Permit struct{ handle }

// Slot returns which of the slots the permit has: from 0 up to the number of permits, that
// excluded. No other valid permit of the semaphore has the same one, so it can name what the
// permit is for: the third licence, or GPU 3. Fences ([WithFences]) are those of the slot: compare
// them with those of the same slot only.
func (p *Permit) Slot() int { return p.places[0].place }

// String shows the key, the slot and what is left of the lease. It does not show the token.
func (p *Permit) String() string {
	if left := p.left(); left > 0 {
		return fmt.Sprintf("slot %d of %q, valid for %v", p.Slot(), p.Key(), left.Round(time.Millisecond))
	}
	return fmt.Sprintf("slot %d of %q, over", p.Slot(), p.Key())
}

// GoString is String, so that no format shows the token.
func (p *Permit) GoString() string { return p.String() }

// Acquire takes a permit, and waits while all are taken: until ctx ends, or for as long as
// [WithMaxWait] and [WithRetryLimit] allow. Callers of one Locker wait in a line: a permit that is
// released here goes to the first of them, and now and then to another process.
//
// The errors are those of [Locker.Acquire], where [ErrTaken] says that all permits are taken, and
// [ErrDeadlock] that ctx carries all of them itself; and [ErrPermits], if others count another
// number of permits. An [OptionError] for "Token" refuses [WithToken]: a permit has a token of its
// own, because a retry could not know which slot it had. [WithReentry] has no effect. Whoever holds a permit and waits for
// another one may wait for a process that does the same: bound that with WithMaxWait, or give each
// permit more work.
func (s *Semaphore) Acquire(ctx context.Context, options ...AcquireOption) (*Permit, error) {
	return obtain(ctx, s.locker, AcquireStart{Key: s.key, Kind: KindPermit, Waits: true}, func(ctx context.Context) (*acquireOptions, error) {
		return s.prepare(ctx, &s.slots.kind, options)
	}, asPermit)
}

func asPermit(h handle) *Permit { return &Permit{h} }

// TryAcquire takes a permit if one is free, and does not wait for a holder. Its errors are those of
// [Semaphore.Acquire]. Of several that ask for the last permit at the same moment none may get it:
// see [Locker.TryAcquire].
func (s *Semaphore) TryAcquire(ctx context.Context, options ...AcquireOption) (*Permit, error) {
	return obtain(ctx, s.locker, AcquireStart{Key: s.key, Kind: KindPermit}, func(ctx context.Context) (*acquireOptions, error) {
		return s.prepare(ctx, &s.slots.kind, options)
	}, asPermit)
}

// Permits are several slots of a [Semaphore] that this process holds alone, as one lock with one
// lease, from [Semaphore.AcquireN] until that ends, it is released, or the Locker is closed. If one of the
// slots is lost at a majority of the nodes, no extension succeeds any more, and all are lost at the deadline.
// All methods are safe for concurrent use.
type Permits struct{ handle }

// Slots returns which of the slots the permits have, in order: see [Permit.Slot]. With [WithFences]
// all have one number, which is greater than those of all earlier holders of each.
func (p *Permits) Slots() []int { return p.places.numbers() }

// String shows the key, the slots and what is left of the lease. It does not show the token.
func (p *Permits) String() string {
	if left := p.left(); left > 0 {
		return fmt.Sprintf("slots %v of %q, valid for %v", p.Slots(), p.Key(), left.Round(time.Millisecond))
	}
	return fmt.Sprintf("slots %v of %q, over", p.Slots(), p.Key())
}

// GoString is String, so that no format shows the token.
func (p *Permits) GoString() string { return p.String() }

// AcquireN takes n permits or none, and waits while fewer are free: until ctx ends, or for as long
// as [WithMaxWait] and [WithRetryLimit] allow. They are one lock: one lease, which Extend and renewal
// prolong for all of them, and one Release. It holds none of them while it waits.
//
// Who waits in AcquireN is not overtaken for long by others who came later and want one permit or
// several, in any process. It keeps them off by a mark at the nodes: for a second from a tenth of a
// second on, and after half a second in which they may try again for twice as long as before, and so on.
// So it is served once that time is longer than others hold their permits. Permits that are free stay idle
// meanwhile, and releases in this process go to the nodes. An acquire under the context of a permit of the
// same semaphore heeds no mark: who waits may wait for that permit.
//
// An [OptionError] for "n" says that it is not between 1 and the number of permits. The other errors
// are those of [Semaphore.Acquire]: [ErrDeadlock] says that ctx carries so many permits that fewer than n
// are left.
func (s *Semaphore) AcquireN(ctx context.Context, n int, options ...AcquireOption) (*Permits, error) {
	return s.obtainN(ctx, n, true, options)
}

// TryAcquireN takes n permits if so many are free, and does not wait for a holder. Permits are not
// free while an [Semaphore.AcquireN] keeps others off. Its errors are those of [Semaphore.AcquireN], and
// those of contenders at the same moment as in [Locker.TryAcquire].
func (s *Semaphore) TryAcquireN(ctx context.Context, n int, options ...AcquireOption) (*Permits, error) {
	return s.obtainN(ctx, n, false, options)
}

// obtainN is obtain for several permits.
func (s *Semaphore) obtainN(ctx context.Context, n int, waits bool, options []AcquireOption) (*Permits, error) {
	return obtain(ctx, s.locker, AcquireStart{Key: s.key, Kind: KindPermit, Waits: waits}, func(ctx context.Context) (*acquireOptions, error) {
		if n < 1 || n > s.Permits() {
			return nil, &OptionError{"n", fmt.Sprintf("%d is not between 1 and %d, the number of permits", n, s.Permits())}
		}
		return s.prepare(ctx, s.slots.several(n), options)
	}, asPermits)
}

func asPermits(h handle) *Permits { return &Permits{h} }

// newcomer is the turn of those who came later than all who wait for several permits.
var newcomer = &protocol.Turn{Name: "0"}

// prepare puts the options of one acquire together, and refuses an acquire that cannot succeed.
func (s *Semaphore) prepare(ctx context.Context, of *kind, options []AcquireOption) (*acquireOptions, error) {
	o, err := s.locker.configure(s.key, options)
	if err != nil {
		return nil, err
	}
	if o.token != nil {
		return nil, &OptionError{"Token", "a permit has a token of its own: a retry with yours would not know which slot it had"}
	}
	switch held := s.carried(ctx); {
	case held >= s.Permits():
		return nil, &fault.StateError{Op: "acquire", Key: s.key, Why: fmt.Errorf("%w: all %d permits: work under one of them, or release one first", ErrDeadlock, held)}
	case held+of.permits > s.Permits():
		return nil, &fault.StateError{Op: "acquire", Key: s.key, Why: fmt.Errorf("%w: %d of %d permits, which leaves fewer than %d: acquire all that you want at once, or release some first", ErrDeadlock, held, s.Permits(), of.permits)}
	}
	o = o.as(of)
	if s.carried(ctx) == 0 { // who waits before it waits for what its context has
		o.turn = newcomer
	}
	return o, o.checkPriority()
}

// carried counts the valid permits of s that ctx carries.
func (s *Semaphore) carried(ctx context.Context) (count int) {
	for _, l := range s.locker.carries(ctx) {
		if l.places != nil && l.attempt.Key == s.key && l.Valid() {
			count += len(l.places)
		}
	}
	return count
}
