package redlock

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/quorumlock/quorumlock/clockdrift"
	"github.com/quorumlock/quorumlock/internal/fault"
	"github.com/quorumlock/quorumlock/internal/node"
	"github.com/quorumlock/quorumlock/internal/protocol"
	"github.com/quorumlock/quorumlock/internal/waiting"
)

// A KeysLock is several keys that this process holds alone, as one lock with one lease, from
// [Locker.AcquireAll] until that ends, it is released, or the Locker is closed. If one of the keys
// is lost at a majority of the nodes, no extension succeeds any more, and the whole lock is lost at
// its deadline; the error names the key. All methods are safe for concurrent use.
type KeysLock struct{ handle }

// ofKeys is the kind of a lock on several keys.
func ofKeys(m *protocol.Many) *kind {
	return &kind{Kind: protocol.Together(m), lease: func() *lease {
		l := new(struct {
			KeysLock
			body lease
		})
		return l.init(&l.body, &l.KeysLock)
	}}
}

// Keys returns the keys, in order.
func (l *KeysLock) Keys() []string { return slices.Clone(l.attempt.Many.Names) }

// MaxKeys is the most keys of one [KeysLock].
const MaxKeys = protocol.MaxKeys

// AcquireAll takes the locks on all keys or none, and waits while somebody else has one of them:
// until ctx ends, or for as long as [WithMaxWait] and [WithRetryLimit] allow. It holds none of
// the keys while it waits, so the order of the keys does not matter, and callers that take keys
// only in this way never wait for each other in a circle. Each key is the same lock as that of
// [Locker.Acquire], and of other libraries.
//
// Who waits for several keys is not overtaken for long by others who came later and want one of
// them, in any process, if they take several keys as well, under other locks or not: but those go before
// it whose context carries one of its keys. It keeps them off by marks on the nodes:
// for a second from a tenth of a second on, and after half a second in which they may try again for
// twice as long as before, and so on. So it is served once that time is longer than others hold the
// keys. Locks on single keys do not heed the marks: a key that is always taken by [Locker.Acquire]
// may keep a KeysLock waiting for ever.
//
// Every node must run scripts (+eval +evalsha), and may use ql:wanted:{KEY} for the marks. A node
// that is a Redis Cluster takes only keys that have one hash tag, as {account}:1 and {account}:2.
// With [WithFences] all keys get one number, which is greater than those of all earlier holders of
// each.
//
// It takes 1 to [MaxKeys] keys, none of them twice. The errors are those of [Locker.Acquire];
// [Vote.Key] is the key that was in the way at a node.
func (l *Locker) AcquireAll(ctx context.Context, keys []string, options ...AcquireOption) (*KeysLock, error) {
	return l.obtainAll(ctx, keys, true, options)
}

// TryAcquireAll takes the locks on all keys if they are free, and does not wait for a holder. Keys
// for which an [Locker.AcquireAll] has waited for some time are not free. Its errors are those of
// [Locker.AcquireAll], and those of contenders at the same moment as in [Locker.TryAcquire].
func (l *Locker) TryAcquireAll(ctx context.Context, keys []string, options ...AcquireOption) (*KeysLock, error) {
	return l.obtainAll(ctx, keys, false, options)
}

// obtainAll is obtain for several keys.
func (l *Locker) obtainAll(ctx context.Context, keys []string, waits bool, options []AcquireOption) (*KeysLock, error) {
	sorted := slices.Sorted(slices.Values(keys))
	return obtain(ctx, l, AcquireStart{Key: nameOf(sorted), Keys: keys, Kind: KindKeys, Waits: waits}, func(ctx context.Context) (*acquireOptions, error) {
		return l.prepareAll(ctx, sorted, options)
	}, asKeysLock)
}

func asKeysLock(h handle) *KeysLock { return &KeysLock{h} }

// prepareAll is prepare for several keys, in order.
func (l *Locker) prepareAll(ctx context.Context, keys []string, options []AcquireOption) (*acquireOptions, error) {
	if len(keys) == 0 || len(keys) > MaxKeys {
		return nil, &OptionError{"keys", fmt.Sprintf("want 1 to %d, not %d", MaxKeys, len(keys))}
	}
	chosen, err := l.configure(keys[0], options)
	if err != nil {
		return nil, err
	}
	for i, key := range keys {
		if i > 0 && key == keys[i-1] {
			return nil, &OptionError{"keys", fmt.Sprintf("%q is there twice", key)}
		}
		if err := l.options.checkKey(key); err != nil {
			return nil, err
		}
		if err := l.options.checkNames(key, "locks on several keys"); err != nil {
			return nil, err
		}
		if held := l.holder(ctx, key); held != nil && (chosen.token == nil || *chosen.token != held.attempt.Token) {
			return nil, &fault.StateError{Op: "acquire", Key: key, Why: fmt.Errorf("%w: this context holds it already: work under the lock that it carries, or release that first", ErrDeadlock)}
		}
	}
	o := *chosen
	names := protocol.NewKeys(l.options.prefix, keys)
	o.held = l.heldBy(ctx)
	o.kind = ofKeys(&protocol.Many{Keys: names, Turn: *newcomer, Carried: names.MarksOf(l.options.prefix, o.held)})
	return &o, o.checkPriority()
}

// heldBy returns the keys that ctx carries, in order.
func (l *Locker) heldBy(ctx context.Context) (keys []string) {
	for _, lock := range l.carries(ctx) {
		if lock.places != nil || !lock.Valid() {
			continue
		}
		keys = append(keys, lock.attempt.Names()...)
	}
	slices.Sort(keys)
	return keys
}

// nameOf is how errors call several keys.
func nameOf(keys []string) string {
	const most = 3
	if more := len(keys) - most; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(keys[:most], ", "), more)
	}
	return strings.Join(keys, ", ")
}

// told notes how far the nodes' clocks are ahead of ours, in microseconds, by what they have told with a
// refusal; 0: they have not. All waits of the Locker are dated by one such offset, so that they have
// the order in which they began: by that which was the least on its way.
func (l *Locker) told(offset int64) {
	known := l.waitClock.Load()
	if offset != 0 && (known == 0 || offset > known || known-offset > maxWaitDrift.Microseconds()) {
		l.waitClock.Store(offset)
	}
}

// maxWaitDrift is how far the nodes' time may be from what it was taken for.
const maxWaitDrift = time.Second

// since is a moment by the nodes' clocks, in microseconds; 0: they have not told.
func (l *Locker) since(began clockdrift.Instant) int64 {
	offset := l.waitClock.Load()
	if offset == 0 {
		return 0
	}
	return int64(began)/int64(time.Microsecond) + offset
}

// several reports whether several keys or permits are to be had as one lock.
func (o *acquireOptions) several() bool {
	return o.kind.permits > 0 || o.kind.Kind != nil && o.kind.Many != nil
}

// turned is when those began to wait who ask for several keys or permits; nil: they heed nobody.
func (o *acquireOptions) turned() *protocol.Turn {
	if o.kind.slots != nil {
		return o.turn
	}
	return &o.kind.Many.Turn
}

// at returns the options of one try for several keys or permits.
func (o *acquireOptions) at(turn protocol.Turn) *acquireOptions {
	own := *o
	if o.kind.slots != nil {
		own.turn = &turn
	} else {
		own.kind = ofKeys(&protocol.Many{Keys: o.kind.Many.Keys, Turn: turn, Carried: o.kind.Many.Carried})
	}
	return &own
}

// acquireAll takes several keys or permits, or waits for them.
func (l *Locker) acquireAll(ctx context.Context, name string, o *acquireOptions) (*lease, error) {
	passes, keys := o.turned() == nil, []string{name}
	if o.kind.slots == nil {
		keys = o.kind.Many.Names
	}
	w := &waiting.SetWaiter{Waiter: *l.waiter(ctx, name, o, l.clock.Now()), Keys: keys, Passes: passes, Held: o.held}
	turn := protocol.Turn{Name: l.board.Random.Nonce()}
	w.Ask = func(stays time.Duration) (waiting.Attempt, error) {
		if passes {
			return w.Host.Try(&w.Waiter)
		}
		if turn.Since, turn.Stays = l.since(w.Began), stays; turn.Since == 0 {
			turn.Stays = 0 // nobody has told the time yet
		}
		own := o.at(turn)
		w.Call = own
		if own.kind.slots != nil {
			own.kind.slots.keep(turn.Stays)
		}
		tried, err := w.Host.Try(&w.Waiter)
		if err == nil && own.kind.slots != nil { // others may have the rest
			l.unmark(own)
		}
		return tried, err
	}
	var tried waiting.Attempt
	if passes || !w.Lines.HasSet(keys, o.held) {
		var bound clockdrift.Instant
		lock, err := l.try(ctx, name, o, true, &bound)
		if err == nil || lock == nil {
			return lock, err
		}
		lock.last().Dismiss()
		if w.Over(err) {
			return nil, w.GiveUp(err)
		}
		l.told(lock.last().ClockOffset())
		tried = attempt{lock}
	}
	stop := l.detect(ctx, o, keys, func(end error) { w.Lines.Condemn(&w.Waiter, end) })
	had, err := w.Wait(tried)
	stop()
	if err != nil {
		l.unmark(w.Call.(*acquireOptions))
		return nil, err
	}
	return had.(attempt).lease, nil
}

// unmark takes away the marks that the last of a wait's tries may have left.
func (l *Locker) unmark(o *acquireOptions) {
	turn := o.turned()
	if turn == nil || turn.Stays == 0 {
		return
	}
	if o.kind.slots != nil {
		o.kind.slots.keep(0)
	}
	for _, n := range l.board.Nodes {
		if o.kind.slots != nil {
			op, cmds := o.kind.slots.semaphore.Unmark(turn)
			n.Ask(op, cmds, nil)
		} else {
			unmark(n, o.kind.Many)
		}
	}
}

// unmark takes the marks of a turn away from a node, if its last try may have left some.
func unmark(n *node.Node, m *protocol.Many) {
	if m.Stays > 0 {
		op, cmds := m.Unmark()
		n.Ask(op, cmds, nil)
	}
}

// freed takes the marks of the lock's wait away, and tells those of this Locker who wait that the
// keys are free.
func (l *KeysLock) freed() {
	m := l.attempt.Many
	for _, n := range l.locker.board.Nodes {
		unmark(n, m)
	}
	l.locker.lines.FreedAll(m.Names)
}
