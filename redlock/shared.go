package redlock

import (
	"context"

	"github.com/quorumlock/quorumlock/internal/protocol"
)

var shared = &kind{Kind: protocol.Shared}

// sharedAgain is for a caller who has the key so already.
var sharedAgain = &kind{Kind: protocol.SharedAgain}

// AcquireShared takes the lock on key together with other readers, and waits as [Locker.Acquire] does while a
// writer has it: a lock of Locker.Acquire, or of another library that sets the key with NX. Readers and
// writers that wait for each other stand in the key's line, so nobody starves. Under the context of a [Lock]
// on the key the error matches [ErrDeadlock]: see [Lock.Downgrade].
//
// The fence is at least the number of every writer before, and less than that of every writer after; readers
// may share one. Nodes must run scripts, or are refused with [ErrNode]. The key, as for all but plain locks,
// needs a hash tag, or no closing brace. The other errors are those of Acquire.
func (l *Locker) AcquireShared(ctx context.Context, key string, options ...AcquireOption) (*Lock, error) {
	return obtain(ctx, l, AcquireStart{Key: key, Kind: kindShared, Waits: true}, func(ctx context.Context) (request, error) {
		return l.prepareShared(ctx, key, options)
	})
}

// TryAcquireShared is AcquireShared without waiting. A writer that waits is [ErrTaken], too.
func (l *Locker) TryAcquireShared(ctx context.Context, key string, options ...AcquireOption) (*Lock, error) {
	return obtain(ctx, l, AcquireStart{Key: key, Kind: kindShared}, func(ctx context.Context) (request, error) {
		return l.prepareShared(ctx, key, options)
	})
}

// prepareShared is prepare for a reader.
func (l *Locker) prepareShared(ctx context.Context, key string, options []AcquireOption) (request, error) {
	as := shared
	if held := l.holder(ctx, key); held != nil && held.hold.Kind.Joins {
		as = sharedAgain
	}
	return l.prepare(ctx, key, as, options)
}

// joins reports whether the acquire may have the key beside a lock that holds it.
func (r *request) joins(held *lease) bool { return r.kind.joins() && held.hold.Kind.Joins }

// joins reports whether others may have a key of the kind at the same time.
func (k *kind) joins() bool { return k.Kind != nil && k.Joins }

// passes reports whether an acquire goes ahead of those who wait.
func (k *kind) passes() bool { return k.Kind != nil && k.Passes }
