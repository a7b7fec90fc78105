package redlock

import (
	"context"
	"fmt"

	"github.com/quorumlock/quorumlock/internal/protocol"
)

// A SharedLock is a key that this process holds together with other readers, from
// [Locker.AcquireShared] until its own lease ends, it is released, or the Locker is closed. No
// writer (see [Lock]) has the key meanwhile. All methods are safe for concurrent use. Their
// promises are those of Lock.
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

// AcquireShared takes the lock on key together with other readers, and waits as [Locker.Acquire]
// does while a writer has it: a [Lock], or whoever holds the key by another library that sets it
// with NX. Readers and writers that wait for each other stand in the key's line, so nobody starves;
// a reader under the context of its own shared lock on the key passes it. Under the context of a
// Lock on the key the error matches [ErrDeadlock]: see [Lock.Downgrade].
//
// The fence is at least the number of every writer before, and less than that of every writer
// after; readers may share one. Nodes need scripts for it (+eval +evalsha), and the keys
// ql:readers:{KEY} and ql:line:{KEY}, or are refused with [ErrNode]. The key needs a hash tag, or
// no closing brace. The other errors are those of Acquire.
func (l *Locker) AcquireShared(ctx context.Context, key string, options ...AcquireOption) (*SharedLock, error) {
	return obtain(ctx, l, AcquireStart{Key: key, Kind: KindShared, Waits: true}, func(ctx context.Context) (request, error) {
		return l.prepareShared(ctx, key, options)
	}, asSharedLock)
}

func asSharedLock(h handle) *SharedLock { return &SharedLock{h} }

// TryAcquireShared is [Locker.AcquireShared] that waits for nobody, as [Locker.TryAcquire]. It
// fails with [ErrTaken] also while a writer waits.
func (l *Locker) TryAcquireShared(ctx context.Context, key string, options ...AcquireOption) (*SharedLock, error) {
	return obtain(ctx, l, AcquireStart{Key: key, Kind: KindShared}, func(ctx context.Context) (request, error) {
		return l.prepareShared(ctx, key, options)
	}, asSharedLock)
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

// String shows the key and what is left of the lease, not the token.
func (l *SharedLock) String() string { return fmt.Sprintf("shared %v", l.lease) }

// GoString is String, so that no format shows the token.
func (l *SharedLock) GoString() string { return l.String() }
