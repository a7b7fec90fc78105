package redlock

import (
	"math"
	"time"

	"github.com/quorumlock/quorumlock/internal/protocol"
)

// The bounds of a TTL. Below the shortest the drift allowance and one slow reply use it up; ten
// years are far below what servers can count.
const (
	minTTL = protocol.MinTTL
	maxTTL = protocol.MaxTTL
)

// The bounds of keys and tokens, in bytes.
const (
	maxKey   = 64 << 10
	maxToken = 4 << 10
)

// defaultNodeTimeout is the node time-out where a quarter of the TTL is no less.
const defaultNodeTimeout = 250 * time.Millisecond

// byTTL is an unset duration, whose default depends on the TTL.
const byTTL = time.Duration(math.MinInt64)

// Option is a setting of [New]. Of one that is given twice the last counts, but for hooks,
// of which all do.
type Option interface{ locker(*lockerOptions) }

// AcquireOption is a setting of one [Locker.Acquire] or [Locker.TryAcquire].
type AcquireOption interface{ acquire(*settings) }

// LeaseOption is both: given to [New], it is the default of every acquire.
type LeaseOption interface {
	Option
	AcquireOption
}

type (
	option        func(*lockerOptions)
	leaseOption   func(*settings)
	acquireOption func(*settings)
)

func (set option) locker(o *lockerOptions)      { set(o) }
func (set leaseOption) locker(o *lockerOptions) { set(&o.acquire) }
func (set leaseOption) acquire(o *settings)     { set(o) }
func (set acquireOption) acquire(o *settings)   { set(o) }

// WithTTL sets the lease: how long nodes keep a key that its holder neither extends nor releases.
// It is from 10ms to ten years, and rounded up to milliseconds. The default is 10s.
func WithTTL(d time.Duration) LeaseOption {
	return leaseOption(func(o *settings) { o.ttl = d })
}

// WithMaxWait bounds how long Acquire waits; then the error is that of the last try, such as
// [ErrTaken]. A try under way is not cut short, so it may take a node time-out more. 0 means one
// attempt, without queueing. By default only the context of the call bounds the wait.
func WithMaxWait(d time.Duration) LeaseOption {
	return leaseOption(func(o *settings) { o.maxWait = d })
}

// WithBackoff sets the pauses between the tries of one Acquire that no announcement of a release
// reaches: the holder uses another library, or nodes are silent or forbid channels. Each pause is
// random, from 0 to a bound that doubles from least up to most
// (https://aws.amazon.com/blogs/architecture/exponential-backoff-and-jitter/). The defaults are 5ms
// and 250ms.
func WithBackoff(least, most time.Duration) LeaseOption {
	return leaseOption(func(o *settings) { o.backoffMin, o.backoffMax = least, most })
}

// WithMaxOutage sets how long an Acquire goes on while no quorum answers, or while nodes refuse for a reason
// that passes, as a server that loads its data. 0 means that it fails at the first such try. The default is
// the TTL. What does not pass (a wrong password, missing rights, a full memory, another node set) fails at
// once, and a quarantine is waited through.
func WithMaxOutage(d time.Duration) LeaseOption {
	return leaseOption(func(o *settings) { o.maxOutage = d })
}

// WithoutRenewal gives the lock a fixed lease: it ends after its TTL, unless [Lock.Extend] prolongs it. By
// default a lock is renewed until it is released: first between a sixth and a third of the TTL, and then
// between a quarter and a third of it after each renewal. Nodes that have lost the key get it again.
//
// A renewal that fails is repeated until the deadline, some twenty times. A process that hangs goes on
// renewing, and keeps everybody else out: see [WithMaxHold].
func WithoutRenewal() LeaseOption {
	return leaseOption(func(o *settings) { o.renews = false })
}

// WithMaxHold bounds how long a lock is held, from its acquire: no renewal and no
// [Lock.Extend] prolongs the lease beyond that time. Then the lock is lost, with [ErrLost] and
// a cause that says so. It is at least the TTL. By default there is no bound.
func WithMaxHold(d time.Duration) LeaseOption {
	return leaseOption(func(o *settings) { o.maxHold = d })
}

// WithToken sets the token of this acquire, so that a request that is repeated after a crash or a lost answer
// finds the lock it already has: where the token holds the key, the acquire prolongs it. Whoever knows the
// token holds the lock, so it must be unguessable, and no two requests may share one. It is 1 to 4096 bytes,
// and does not begin with "ql:". It does not go with [WithOwner].
//
// Only [Lock.Release] and [Locker.Close] delete such a token, and only of a lock that is held: other keys
// belong to a retry, or expire. So the acquire takes two rounds: it reserves the key for eight round trips, or
// an eighth of the node time-out if that is more, and asks for the lease once a quorum has reserved it. After a
// release this Locker refuses the token for one TTL.
//
// The locks of one Locker on a key with one token are one lock: the end of one ends all, with the cause
// [ErrReleased]. The renewal of another process with the token sets the key again: release no lock whose
// request another process may still work for.
func WithToken(token string) AcquireOption {
	return acquireOption(func(o *settings) { o.token = &token })
}

// WithOwner names who takes the lock: "orders@web-7/4211". The name stands in the key's value, for anybody who
// may GET the key, in others' errors ([QuorumError.Owner]) and in [Locker.Watch]. It is up to 1 KiB of
// printable characters. The default is none, as with "".
func WithOwner(name string) LeaseOption {
	return leaseOption(func(o *settings) { o.owner, o.names = name, name != "" })
}

// WithNodeTimeout sets how long one node may take for one operation. It should be far below the
// TTL, or one silent node uses the lease up. The default is 250ms, or a quarter of the TTL if that
// is less.
func WithNodeTimeout(d time.Duration) Option {
	return option(func(o *lockerOptions) { o.nodeTimeout = d })
}

// WithMaxAcquires bounds how many acquires of all kinds may be under way in the Locker at a time, with those
// that wait: one more fails at once, with [ErrBusy]. Each takes about 16 kB with its goroutine. The default is
// 16,384. About 1,000 of them ask the nodes at once; the others have their turns.
func WithMaxAcquires(n int) Option {
	return option(func(o *lockerOptions) { o.most = n })
}

// WithDriftFactor sets how far the clocks of this machine and a node may run apart,
// as a part of the time that passes. TTL × factor + 2ms is taken off every lease.
// The default is 0.01, ten times what a clock under NTP needs; 0 says that they do not.
func WithDriftFactor(factor float64) Option {
	return option(func(o *lockerOptions) { o.drift = factor })
}

// WithKeyPrefix sets the prefix of every key on the nodes; [Lock.Key] and errors show keys without
// it. No key begins with "ql:", the prefix included: these are the keys of this library. The
// default is none.
func WithKeyPrefix(prefix string) Option {
	return option(func(o *lockerOptions) { o.prefix = prefix })
}

// WithCloseTimeout sets how long [Locker.Close] waits until a quorum has confirmed all releases,
// and until [Hooks] were told of all, for which they get at least 1s. 0 means that it does not wait
// for releases. The default is 2s.
func WithCloseTimeout(d time.Duration) Option {
	return option(func(o *lockerOptions) { o.cleanup = d })
}

// WithEvictingNodes lets nodes vote that may evict keys when their memory is full (maxmemory with a
// policy other than noeviction), and so lose a live lock unnoticed. By default such a node is
// refused, within 1s of a change at run time. With the option it is reported as [NodeEvicts].
func WithEvictingNodes() Option {
	return option(func(o *lockerOptions) { o.evictingOK = true })
}

// WithFences gives every lock a number greater than those of all earlier holders of the key: see [Lock.Fence].
// All clients of a key need the option. It costs the nodes three small commands an acquire, in the same round
// trip. The order holds whatever leases and clocks do, and with any minority of the nodes dead, but not over
// nodes that lose their counters (by a restart, a flush or a promotion): [WithRestartGuard] keeps such a node
// from voting.
func WithFences() Option {
	return option(func(o *lockerOptions) { o.fences = true })
}

// WithRestartGuard keeps a node that may have forgotten votes from voting, for extensions either: a node that
// was restarted, empty or from its file, or flushed, or a replica that was promoted. Without the guard two
// holders are possible when a node comes back empty within a lease, and fences lose their order. Longest is
// the longest TTL that any client of these nodes uses, up to ten years. A longer lease is an [OptionError].
//
// Such a node sits out 9/8 of longest and 1ms (the eighth is at least 50ms), counted while somebody asks for
// locks. New nodes sit it out as well, once, with all nodes up. Until then [Locker.Acquire] waits, and a try
// fails with [ErrQuarantine], which says for how long.
//
// All clients of a key need the option, with the same longest TTL, nodes and [WithNodeSet]: others are
// refused, with [ErrNodeSet]. The command `quorumlock settings` changes these. Redis Clusters, and nodes that
// do not report their master_replid, are refused. The guard does not see that a machine was restored from a
// snapshot. It costs a node two small reads a batch.
func WithRestartGuard(longest time.Duration) Option {
	return option(func(o *lockerOptions) { o.longest, o.guards = longest, true })
}

// WithNodeSet sets the id of this client's configuration of nodes: another id for each list of
// nodes. Under [WithRestartGuard] each node keeps the id and the number of nodes of its clients, and a
// client of another list takes no vote from it ([ErrNodeSet]), so that they cannot hold one key at once.
// The default is 0, for nodes that never change.
func WithNodeSet(id uint64) Option {
	return option(func(o *lockerOptions) { o.nodeSet = id })
}

// WithClockGuard keeps a node whose clock was set forward, which may have ended leases early, from voting for
// the longest TTL that any client of these nodes uses: that of [WithRestartGuard], if both are given. A node
// that was not read for much longer than the TTL has no vote for that time either, nor has one whose replies
// take longer than the drift allowance: 101ms for a TTL of 10s. A process sees steps only while it runs. By
// default a step is reported as [NodeClockStepped] and the node goes on to vote.
func WithClockGuard(longest time.Duration) Option {
	return option(func(o *lockerOptions) { o.clockLongest, o.clockGuards = longest, true })
}
