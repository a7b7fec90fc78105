package redlock

import (
	"math"
	"time"

	"github.com/quorumlock/quorumlock/clockdrift"
)

// The bounds of a TTL.
const (
	// MinTTL is the shortest lease. Below it the drift allowance and one slow
	// reply leave nothing.
	MinTTL = 10 * time.Millisecond
	// MaxTTL is the longest lease: ten years, far below what servers can count.
	MaxTTL = 10 * 365 * 24 * time.Hour
)

// The bounds of keys and tokens, in bytes.
const (
	maxKey   = 64 << 10
	maxToken = 4 << 10
)

// defaultNodeTimeout is the node time-out where a quarter of the TTL is no less.
const defaultNodeTimeout = 250 * time.Millisecond

// byTTL is a duration that follows the TTL because nobody has set it.
const byTTL = time.Duration(math.MinInt64)

// Option is a setting of [New].
type Option interface{ locker(*lockerOptions) }

// AcquireOption is a setting of one [Locker.Acquire] or [Locker.TryAcquire].
type AcquireOption interface{ acquire(*acquireOptions) }

// LeaseOption is both: given to [New], it is the default of every acquire.
type LeaseOption interface {
	Option
	AcquireOption
}

type lockerOptions struct {
	acquire     acquireOptions // the defaults of an acquire
	nodeTimeout time.Duration
	drift       float64
	prefix      string
	cleanup     time.Duration
	evictingOK  bool
	fences      bool
	fenceIdle   time.Duration
	guard       time.Duration // the longest TTL; 0: none
	clockGuard  time.Duration // the same for steps of a node's clock
	replicated  *int          // replicas that must have a vote; nil: none
	synced      *int          // replicas that must have it on disk; nil: nor need the node

	durableTimeout time.Duration
	events         func(Event)
	clock          *clockdrift.Clock
}

type acquireOptions struct {
	ttl                    time.Duration
	maxWait                time.Duration
	retries                int
	backoffMin, backoffMax time.Duration
	maxOutage              time.Duration
	token                  *string
	renews                 bool
	maxHold                time.Duration
	renewals               func(Renewal)
}

func defaults() lockerOptions {
	return lockerOptions{
		acquire: acquireOptions{
			ttl:        10 * time.Second,
			maxWait:    math.MaxInt64,
			retries:    math.MaxInt,
			backoffMin: 5 * time.Millisecond,
			backoffMax: 250 * time.Millisecond,
			maxOutage:  byTTL,
			maxHold:    math.MaxInt64,
		},
		nodeTimeout: byTTL,
		drift:       clockdrift.DefaultFactor,
		cleanup:     2 * time.Second,
		fenceIdle:   24 * time.Hour,
		events:      func(Event) {},

		durableTimeout: byTTL,
	}
}

type (
	option        func(*lockerOptions)
	leaseOption   func(*acquireOptions)
	acquireOption func(*acquireOptions)
)

func (set option) locker(o *lockerOptions)          { set(o) }
func (set leaseOption) locker(o *lockerOptions)     { set(&o.acquire) }
func (set leaseOption) acquire(o *acquireOptions)   { set(o) }
func (set acquireOption) acquire(o *acquireOptions) { set(o) }

// WithTTL sets the lease: how long nodes keep the key when its holder neither
// extends nor releases it. Work that may take longer has to extend it. It is a whole number
// of milliseconds from [MinTTL] to [MaxTTL]. The default is 10s.
func WithTTL(d time.Duration) LeaseOption {
	return leaseOption(func(o *acquireOptions) { o.ttl = d })
}

// WithMaxWait bounds how long Acquire waits for the key; its error is then that of
// the last try, such as [ErrHeld]. A try under way is not cut short; 0 means one try,
// past all who wait. By default only the context bounds the wait; but the lock's own
// context descends from that one, so a time-out there would also cut the hold short.
func WithMaxWait(d time.Duration) LeaseOption {
	return leaseOption(func(o *acquireOptions) { o.maxWait = d })
}

// WithRetryLimit bounds how often Acquire tries again after the first try. A waiter tries
// when it has a reason to, which may take as long as the holder holds the key; to bound
// the time, use [WithMaxWait]. By default there is no limit.
func WithRetryLimit(n int) LeaseOption {
	return leaseOption(func(o *acquireOptions) { o.retries = n })
}

// WithBackoff sets the pauses between the tries of one Acquire where nothing tells it
// of a release: the holder uses another library, or nodes do not answer or do not let
// it listen. It also sets those between the tries of a renewal that fails. Each is drawn at
// random from 0 to a bound that begins at least and doubles up to most. Random from
// 0, because contenders that pause alike split the votes again and again
// (https://aws.amazon.com/blogs/architecture/exponential-backoff-and-jitter/).
// The defaults are 5ms and 250ms.
func WithBackoff(least, most time.Duration) LeaseOption {
	return leaseOption(func(o *acquireOptions) { o.backoffMin, o.backoffMax = least, most })
}

// WithMaxOutage sets how long an Acquire goes on while no quorum can be reached at
// all. 0 means that it fails at the first such try. The default is the TTL. What
// waiting cannot mend (a wrong password, a replica among the nodes, a full memory)
// fails at once, whatever this says.
func WithMaxOutage(d time.Duration) LeaseOption {
	return leaseOption(func(o *acquireOptions) { o.maxOutage = d })
}

// WithRenewal keeps the lock alive until it is released or the context of the Acquire
// ends: the lease is renewed when a third of the TTL has passed, and again after short
// pauses if that fails. A renewal that fails changes nothing before the deadline; at
// the deadline the lock is lost, and its context ends. Nodes that have lost the key get
// it again. By default a lease ends after its TTL unless it is extended.
//
// A process that hangs while its renewal goes on keeps the lock from everybody else:
// see [WithMaxHold].
func WithRenewal() LeaseOption {
	return leaseOption(func(o *acquireOptions) { o.renews = true })
}

// WithMaxHold bounds how long renewal keeps a lock: when that time has passed, the lock is
// lost, with [ErrLost]. It is at least the TTL. By default there is no bound.
func WithMaxHold(d time.Duration) LeaseOption {
	return leaseOption(func(o *acquireOptions) { o.maxHold = d })
}

// WithRenewals sets a function that is told what came of each renewal, so that it is
// known that only 4 or 3 of 5 nodes hold the lock, before it is lost. It is called from
// the library's own goroutines and must not block. By default nobody is told.
func WithRenewals(tell func(Renewal)) LeaseOption {
	return leaseOption(func(o *acquireOptions) { o.renewals = tell })
}

// WithToken sets the token of this acquire, so that a request that is repeated after
// a crash or a lost answer finds the lock it already has: where the token holds the
// key, the acquire prolongs it. Whoever knows the token holds the lock, so it must be
// unguessable, and no two requests may share one. It is 1 to 4096 bytes.
//
// A failed acquire with a token of your own leaves what it has set to the retry or
// to the TTL. Once the lock was released, this Locker refuses the token for one TTL.
func WithToken(token string) AcquireOption {
	return acquireOption(func(o *acquireOptions) { o.token = &token })
}

// WithNodeTimeout sets how long one node may take for one operation. It should be
// far below the TTL, or one silent node eats the lease. The default is 250ms, or a
// quarter of the TTL if that is less.
func WithNodeTimeout(d time.Duration) Option {
	return option(func(o *lockerOptions) { o.nodeTimeout = d })
}

// WithDriftFactor sets how far the clocks of this machine and a node may run apart,
// as a part of the time that passes. TTL × factor + 2ms is taken off every lease.
// The default is 0.01, ten times what a clock under NTP needs.
func WithDriftFactor(factor float64) Option {
	return option(func(o *lockerOptions) { o.drift = factor })
}

// WithKeyPrefix sets what is put before every key on the nodes. [Lock.Key] and errors
// show keys without it. The default is none.
func WithKeyPrefix(prefix string) Option {
	return option(func(o *lockerOptions) { o.prefix = prefix })
}

// WithCleanupBound sets how long [Locker.Close] goes on to release what it still has
// on the nodes. The default is 2s.
func WithCleanupBound(d time.Duration) Option {
	return option(func(o *lockerOptions) { o.cleanup = d })
}

// WithEvictingNodes lets nodes vote that may evict keys when their memory is full
// (maxmemory with a policy other than noeviction). Such a node can lose a live lock,
// and nothing notices: by default it is refused. With the option it is reported as
// [NodeEvicts].
func WithEvictingNodes() Option {
	return option(func(o *lockerOptions) { o.evictingOK = true })
}

// WithFences gives every lock a number that is greater than those of all holders of the
// key before: see [Lock.Fence]. All clients of a key need the option. It costs the nodes
// three small commands an acquire, in the same round trip; on nodes with an ACL allow
// +zadd +zscore +time and the keys ~{KEYS}:fence as well.
//
// The order holds whatever leases and clocks do, and with any minority of the nodes dead.
// It does not hold over nodes that forget what they had accepted, unless they are kept
// out for a while: see [WithRestartGuard].
func WithFences() Option {
	return option(func(o *lockerOptions) { o.fences = true })
}

// WithFenceIdle sets how long the nodes keep the counter of a key that nobody acquires or
// extends: so long, or twice the lock's TTL if that is more. The order survives that:
// numbers follow the nodes' clocks. It is a whole number of milliseconds up to [MaxTTL].
// The default is a day.
func WithFenceIdle(d time.Duration) Option {
	return option(func(o *lockerOptions) { o.fenceIdle = d })
}

// WithRestartGuard keeps a node from voting that may have forgotten votes: one that was
// started anew, empty or from its file, or a replica that was promoted, until so much time
// has passed as the longest lease that any client of its keys takes. Without it, two
// holders are possible when a node comes back empty within a lease, and fences lose their
// order. Such a node does not count for extensions either, so where a majority restarts at
// once, locks are lost at their deadline. All clients of a key need the option, with the
// same time. A longer lease is refused.
//
// Nodes have to be admitted before they vote: call [Locker.Admit] at the first deployment,
// or let the time pass once. A process that lives shorter than that cannot end a
// quarantine; any other does. It costs a node two small commands a batch. Nodes that do
// not tell their master_replid (INFO replication), and Redis Clusters, are refused.
//
// A node's master_replid also changes when its first replica attaches, and when no replica
// has been there for repl-backlog-ttl: set repl-backlog-ttl 0. That a machine was restored
// from a snapshot is not seen.
func WithRestartGuard(longest time.Duration) Option {
	return option(func(o *lockerOptions) { o.guard = longest })
}

// WithClockGuard keeps a node from voting whose clock was set forward, which may have
// ended leases early there, until so much time has passed as the longest lease that any
// client of its keys takes. A longer lease is refused. It costs a node one small command a
// batch. A process sees only what happens while it runs. By default a step is reported as
// [NodeClockStepped] and the node goes on to vote.
func WithClockGuard(longest time.Duration) Option {
	return option(func(o *lockerOptions) { o.clockGuard = longest })
}

// WithEvents sets a function that is told what happens to the nodes. It is called
// from the library's own goroutines, one call at a time for each node, and must not
// block. By default nobody is told.
func WithEvents(tell func(Event)) Option {
	return option(func(o *lockerOptions) { o.events = tell })
}
