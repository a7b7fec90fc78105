package redlock

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/quorumlock/quorumlock/internal/fault"
	"github.com/quorumlock/quorumlock/internal/protocol"
)

// ofKeys is the kind of a lock on several keys.
func ofKeys(m *protocol.Many) *kind {
	return &kind{Kind: protocol.Together(m)}
}

// maxKeys is the most keys of an AcquireAll.
const maxKeys = protocol.MaxKeys

// AcquireAll takes the locks on 1 to 128 keys, each named once, or on none of them, and waits as
// [Locker.Acquire] does. It holds none of them while it waits: the order of the keys does not matter, and
// callers that take keys only in this way never wait for each other in a circle. Each key is the same lock as
// for Acquire, and for other libraries.
//
// A waiter queues on all its keys (see [WithFairness]). It periodically yields, so that callers that hold one
// key and wait for another can finish. A key that other libraries always take may keep it waiting for ever.
//
// Every node must run scripts. A Redis Cluster takes only keys with a common hash tag, as {account}:1 and
// {account}:2. With [WithFences] all keys get one number. The errors are those of Acquire; Vote.Key is the key
// in the way at a node.
func (l *Locker) AcquireAll(ctx context.Context, keys []string, options ...AcquireOption) (*Lock, error) {
	return l.obtainAll(ctx, keys, true, options)
}

// TryAcquireAll is AcquireAll without waiting for a holder.
func (l *Locker) TryAcquireAll(ctx context.Context, keys []string, options ...AcquireOption) (*Lock, error) {
	return l.obtainAll(ctx, keys, false, options)
}

// obtainAll is obtain for several keys.
func (l *Locker) obtainAll(ctx context.Context, keys []string, waits bool, options []AcquireOption) (*Lock, error) {
	sorted := slices.Sorted(slices.Values(keys))
	return obtain(ctx, l, AcquireStart{Key: namesOf(sorted), Keys: keys, Kind: kindKeys, Waits: waits}, func(ctx context.Context) (request, error) {
		return l.prepareAll(ctx, sorted, options)
	})
}

// prepareAll is prepare for several keys, in order.
func (l *Locker) prepareAll(ctx context.Context, keys []string, options []AcquireOption) (request, error) {
	if len(keys) == 0 || len(keys) > maxKeys {
		return request{}, &OptionError{"keys", fmt.Sprintf("want 1 to %d, not %d", maxKeys, len(keys))}
	}
	r, err := l.configure(keys[0], exclusive, options)
	if err != nil {
		return request{}, err
	}
	for i, key := range keys {
		if i > 0 && key == keys[i-1] {
			return request{}, &OptionError{"keys", fmt.Sprintf("%q is there twice", key)}
		}
		if err := l.options.checkKey(key); err != nil {
			return request{}, err
		}
		if err := l.options.checkNames(key, "locks on several keys"); err != nil {
			return request{}, err
		}
		if held := l.holder(ctx, key); held != nil && (r.token == nil || *r.token != held.hold.Token) {
			return request{}, &fault.StateError{Op: "acquire", Key: key, Why: fmt.Errorf("%w: this context holds it already: work under the lock that it carries, or release that first", ErrDeadlock)}
		}
	}
	r.kind = ofKeys(protocol.NewMany(l.options.prefix, keys))
	l.heed(ctx, &r)
	return r, r.checkPriority()
}

// namesOf is how errors call several keys.
func namesOf(keys []string) string {
	const most = 3
	if more := len(keys) - most; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(keys[:most], ", "), more)
	}
	return strings.Join(keys, ", ")
}

// several reports whether several keys or permits are wanted as one lock.
func (r *request) several() bool { return r.kind.wants() > 0 }
