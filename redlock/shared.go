package redlock

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/quorumlock/quorumlock/clockdrift"
	"github.com/quorumlock/quorumlock/internal/fault"
	"github.com/quorumlock/quorumlock/internal/node"
	"github.com/quorumlock/quorumlock/internal/protocol"
	"github.com/quorumlock/quorumlock/internal/quorum"
	"github.com/quorumlock/quorumlock/internal/waiting"
)

// A SharedLock is a key that this process holds together with other readers, from
// [Locker.AcquireShared] until its lease ends, it is released, or the Locker is closed. Each reader
// has a lease of its own. No writer (see [Lock]) has the key meanwhile. All methods are safe for
// concurrent use.
type SharedLock struct{ handle }

var shared = &kind{Kind: protocol.Shared, lease: newShared}

// sharedAgain is for a caller who has the key so already.
var sharedAgain = &kind{Kind: protocol.SharedAgain, lease: newShared}

func newShared() *lease {
	l := new(struct {
		SharedLock
		body lease
	})
	return l.init(&l.body, &l.SharedLock)
}

// AcquireShared takes the lock on key together with other readers, and waits while a writer has
// it: until ctx ends, or for as long as [WithMaxWait] and [WithRetryLimit] allow. A writer is a
// [Lock], or whoever holds the key by another library that sets it with NX.
//
// A writer that waits for readers keeps new ones out until it had its turn: they wait, and
// those that have the key keep it. So writers do not starve. A reader whose ctx is, or descends
// from, the context of its own shared lock on the key is let in all the same. Under the context
// of a [Lock] on the key the error matches [ErrDeadlock]: see [Lock.Downgrade].
//
// [SharedLock.Fence] is at least the number of every writer before, and less than that of every
// writer after. Readers may share one.
//
// Nodes need scripts for it (+eval +evalsha), and the keys ql:readers:{KEY} and ql:writer:{KEY}. A node
// without is refused with [ErrNode]. The key needs a hash tag, or no closing brace. The other errors are those of [Locker.Acquire].
func (l *Locker) AcquireShared(ctx context.Context, key string, options ...AcquireOption) (*SharedLock, error) {
	return obtain(ctx, l, AcquireStart{Key: key, Kind: KindShared, Waits: true}, func(ctx context.Context) (*acquireOptions, error) {
		return l.prepareShared(ctx, key, options)
	}, asSharedLock)
}

func asSharedLock(h handle) *SharedLock { return &SharedLock{h} }

// TryAcquireShared takes the lock on key together with other readers, if no writer has it or waits
// for it, and does not wait. Its errors are those of [Locker.AcquireShared] and
// [Locker.TryAcquire].
func (l *Locker) TryAcquireShared(ctx context.Context, key string, options ...AcquireOption) (*SharedLock, error) {
	return obtain(ctx, l, AcquireStart{Key: key, Kind: KindShared}, func(ctx context.Context) (*acquireOptions, error) {
		return l.prepareShared(ctx, key, options)
	}, asSharedLock)
}

// prepareShared is prepare for a reader.
func (l *Locker) prepareShared(ctx context.Context, key string, options []AcquireOption) (*acquireOptions, error) {
	as := shared
	if held := l.holder(ctx, key); held != nil && held.attempt.Kind.Joins {
		as = sharedAgain
	}
	return l.prepare(ctx, key, append(slices.Clip(options), acquireOption(func(o *acquireOptions) { o.kind = as })))
}

// joins reports whether the acquire may have the key beside a lock that holds it.
func (o *acquireOptions) joins(held *lease) bool { return o.kind.joins() && held.attempt.Kind.Joins }

// joins reports whether others may have a key of the kind at the same time.
func (k *kind) joins() bool { return k.Kind != nil && k.Joins }

// passes reports whether an acquire goes ahead of those who wait.
func (k *kind) passes() bool { return k.Kind != nil && k.Passes }

// maxLevels bounds the rounds in which a reader's number is brought to a quorum. More than one takes
// somebody who raises the counters in between: a writer, or other readers of a key that was idle.
const maxLevels = 8

// level brings the number that the votes of a reader are for to a quorum: some had a smaller one,
// so a later writer might get a smaller one as well. It costs one round trip, inside the lease.
func (l *Locker) level(ctx context.Context, lock *lease) error {
	a, number := &lock.attempt, lock.last().Greatest()
	var err error
	for range maxLevels {
		if lock.told != nil {
			lock.told.rounds++
		}
		op := &quorum.Operation{Owner: lock, Decided: leveled}
		op.Prepare(a, a.Kind.Level, lock.acquire.Lease)
		op.Carry(number)
		if !op.AskAll() {
			err = &fault.StateError{Op: "acquire", Key: a.Key, Why: ErrClosed}
			break
		}
		if err = l.result(ctx, op); err == nil {
			return nil
		}
		if op.Outcome != quorum.Outbid { // a writer came in between
			break
		}
		number = op.Greatest()
	}
	a.Clear()
	return err
}

// leveled takes the deciding vote of that. The lease counts from the acquire's first round.
// attempt.Mu is held.
func leveled(op *quorum.Operation, now clockdrift.Instant) {
	lock := op.Owner.(*lease)
	if op.Outcome != quorum.Carried {
		return
	}
	op.Start = lock.acquire.First()
	if lock.acquire.Outlived(now) {
		lock.ended, op.Outcome = ErrExpired, quorum.Failed
		return
	}
	lock.hold(op, now)
}

// mark keeps readers out, if it was readers that have refused the attempt of a writer that waits.
// It returns how soon the next try has to renew that; 0: there is nothing to renew.
func (l *Locker) mark(w *waiting.Waiter, lock *lease) time.Duration {
	if !lock.attempt.Kind.Marks || !lock.last().Sees(protocol.SharedValue) {
		return 0
	}
	m, marked := w.Mark.(*mark)
	if !marked {
		m = &mark{name: l.board.Random.Token(w.Call.(*acquireOptions).owner), left: make(map[*node.Node]bool)}
		w.Mark = m
	}
	op := new(quorum.Operation)
	op.Prepare(&lock.attempt, protocol.Mark, protocol.MarkTTL)
	op.Cmds = protocol.SetMark(protocol.NewSides(op.Key.(string)), m.name)
	m.renew(op)
	op.AskAll()
	return protocol.MarkTTL / 2
}

// A mark keeps readers out that do not share the key yet, while a writer waits for it.
type mark struct {
	name string
	last *quorum.Operation   // by which it was set or renewed
	left map[*node.Node]bool // the nodes to which it was sent
}

// renew takes what has not left of the last setting back: the next one does the same.
func (m *mark) renew(next *quorum.Operation) {
	if m.last != nil {
		for _, n := range m.last.Retract() {
			m.left[n] = true
		}
	}
	m.last = next
}

// withdraw ends the mark of a writer that has the key now or has given up.
func (l *Locker) withdraw(key string, m *mark, gaveUp bool) {
	m.renew(nil)
	op := l.about(key, protocol.Unmark)
	name := op.Key.(string)
	op.Cmds = protocol.WithdrawMark(protocol.NewSides(name), name, m.name, gaveUp)
	if nodes := slices.Collect(maps.Keys(m.left)); len(nodes) > 0 {
		op.AskOf(nodes, len(nodes))
	}
}

// String shows the key and what is left of the lease. It does not show the token.
func (l *SharedLock) String() string { return fmt.Sprintf("shared %v", l.lease) }

// GoString is String, so that no format shows the token.
func (l *SharedLock) GoString() string { return l.String() }
