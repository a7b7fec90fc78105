package redlock

import (
	"crypto/rand"
	"math"
	mathrand "math/rand/v2"
	"time"

	"github.com/quorumlock/quorumlock/clockdrift"
	"github.com/quorumlock/quorumlock/internal/protocol"
)

// The bounds of a TTL.
const (
	// MinTTL is the shortest lease. Below it the drift allowance and one slow
	// reply leave nothing.
	MinTTL = protocol.MinTTL
	// MaxTTL is the longest lease: ten years, far below what servers can count.
	MaxTTL = protocol.MaxTTL
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
	nodeSet     uint64        // the configuration's id
	clockGuard  time.Duration // the same for steps of a node's clock
	replicated  *int          // replicas that must have a vote; nil: none
	synced      *int          // replicas that must have it on disk; nil: nor need the node

	durableTimeout time.Duration
	events         func(Event)
	clock          *clockdrift.Clock
	random         protocol.Random                         // of tokens
	jitter         func(bound time.Duration) time.Duration // of pauses: a random time below the bound
}

type acquireOptions struct {
	kind                   *protocol.Kind
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
			kind:       protocol.Exclusive,
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
		random:      random,
		jitter:      jitter,

		durableTimeout: byTTL,
	}
}

// random returns 128 bits of crypto/rand.
var random protocol.Random = func() (bits [16]byte) {
	rand.Read(bits[:]) // since Go 1.24 it never fails
	return bits
}

// jitter returns a random time below the bound. Nobody gains by guessing it.
func jitter(bound time.Duration) time.Duration { return mathrand.N(bound) } //nolint:gosec // see above

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
// the last try, such as [ErrTaken]. A try under way is not cut short; 0 means one try,
// past all who wait. By default only the context bounds the wait; but the lock's own
// context descends from that one, so a time-out there would also cut the hold short.
func WithMaxWait(d time.Duration) LeaseOption {
	return leaseOption(func(o *acquireOptions) { o.maxWait = d })
}

// WithRetryLimit bounds how often Acquire tries again after the first try. A waiter tries
// when it has a reason to, which may take as long as the holder holds the key; to bound
// the time, use [WithMaxWait]. To look every few seconds whether the announcement of a release
// was lost is no such try. By default there is no limit.
func WithRetryLimit(n int) LeaseOption {
	return leaseOption(func(o *acquireOptions) { o.retries = n })
}

// WithBackoff sets the pauses between the tries of one Acquire where nothing tells it
// of a release: the holder uses another library, or nodes do not answer or do not let
// it listen. Each is drawn at random from 0 to a bound that begins at least and doubles
// up to most. Random from 0, because contenders that pause alike split the votes again and again
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
// ends. The lease is renewed at a random moment: between a sixth and a third of the TTL
// after the acquire, and between a quarter and a third of it after each renewal, so that
// locks which were acquired together are not renewed together. A lock that is held for less
// than a sixth of its TTL is never renewed. Nodes that have lost the key get it again.
//
// A renewal that fails changes nothing before the deadline; at the deadline the lock is
// lost, and its context ends. Until then it is repeated after pauses of an eighth to a
// quarter of what is left of the lease, and of a quarter of the node time-out at the least:
// some twenty attempts. By default a lease ends after its TTL unless it is extended.
//
// A Locker renews a hundred thousand locks: they share commands, and what ends first goes
// first. Locks with fences share no commands.
//
// A process that hangs while its renewal goes on keeps the lock from everybody else:
// see [WithMaxHold].
func WithRenewal() LeaseOption {
	return leaseOption(func(o *acquireOptions) { o.renews = true })
}

// WithMaxHold bounds how long a lock is held, from its acquire, with renewal and without: no
// renewal and no [Lock.Extend] carries the lease beyond that time. Then the lock is lost, with
// [ErrLost] and a cause that says so. It is at least the TTL. By default there is no bound.
func WithMaxHold(d time.Duration) LeaseOption {
	return leaseOption(func(o *acquireOptions) { o.maxHold = d })
}

// OnRenewal sets a function that is told what came of each renewal, so that it is
// known that only 4 or 3 of 5 nodes hold the lock, before it is lost. It is called from
// the library's own goroutines and must not block. By default nobody is told.
func OnRenewal(tell func(Renewal)) LeaseOption {
	return leaseOption(func(o *acquireOptions) { o.renewals = tell })
}

// WithToken sets the token of this acquire, so that a request that is repeated after
// a crash or a lost answer finds the lock it already has: where the token holds the
// key, the acquire prolongs it. Whoever knows the token holds the lock, so it must be
// unguessable, and no two requests may share one. It is 1 to 4096 bytes.
//
// Only [Lock.Release] and [Locker.Close] delete such a token, and only of a lock that is
// held: locks with one token are one lock, and are released together. What a failed
// acquire or a lost lock has left belongs to a retry, or goes away by its TTL; to delete
// it, acquire the lock again with the token, and release it. Once the lock was released,
// this Locker refuses the token for one TTL.
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
// show keys without it. Locks under different prefixes know nothing of each other, and
// nothing reports it: all clients of a key need the same. The default is none.
func WithKeyPrefix(prefix string) Option {
	return option(func(o *lockerOptions) { o.prefix = prefix })
}

// WithCloseTimeout sets how long [Locker.Close] waits until a quorum has confirmed all
// releases. What is not confirmed by then is in its [*CloseError]. The default is 2s.
func WithCloseTimeout(d time.Duration) Option {
	return option(func(o *lockerOptions) { o.cleanup = d })
}

// WithEvictingNodes lets nodes vote that may evict keys when their memory is full
// (maxmemory with a policy other than noeviction). Such a node can lose a live lock,
// and nothing notices: by default it is refused, when it is first reached and within a
// second of a change at run time. With the option it is reported as [NodeEvicts].
func WithEvictingNodes() Option {
	return option(func(o *lockerOptions) { o.evictingOK = true })
}

// WithFences gives every lock a number that is greater than those of all holders of the
// key before: see [Lock.Fence]. All clients of a key need the option. It costs the nodes
// four small commands an acquire, in the same round trip; on nodes with an ACL allow
// +zadd +zscore +time and the keys ~{KEYS}:fence as well.
//
// The order holds whatever leases and clocks do, and with any minority of the nodes dead.
// It does not hold over nodes that forget what they had accepted, unless they are kept
// out for a while: see [WithRestartGuard].
func WithFences() Option {
	return option(func(o *lockerOptions) { o.fences = true })
}

// WithFenceIdle sets how long the nodes keep the counter of a key that nobody acquires or
// extends: at least d, and at least twice the lock's TTL. A number that is ahead of the
// nodes' clocks is kept for as much longer as it is ahead. The order survives a forgotten
// counter: numbers follow the nodes' clocks. Clients of a key may keep its counter for
// different times: the longest counts. It is a whole number of milliseconds up to
// [MaxTTL]. The default is a day.
func WithFenceIdle(d time.Duration) Option {
	return option(func(o *lockerOptions) { o.fenceIdle = d })
}

// WithRestartGuard keeps a node from voting that may have forgotten votes: one that was
// started anew, empty or from its file, or a replica that was promoted, until so much time
// has passed as the longest lease that any client of its keys takes, and one that was
// flushed. Without it, two holders are possible when a node comes back empty within a lease,
// and fences lose their order. Such a node does not count for extensions either, so where a
// majority restarts at once, locks are lost at their deadline.
//
// All clients of a key need the option, with the same time. A longer lease is refused; and
// a client whose time is longer than the one with which nodes were admitted is refused
// there, with [ErrNodeSet]. To raise it, stop all clients and delete "ql:admitted" on all
// nodes.
//
// Nodes have to be admitted before they vote: call [Locker.AdmitNewNodes] at the first deployment,
// or let the time pass once, with all nodes up but at most one. A process that lives shorter
// than that cannot end a quarantine; any other does, as soon as it has heard of another node
// that is admitted. It costs a node two small commands a batch, and keeps three
// small keys there: "ql:epoch", "ql:admitted" and "ql:set", behind the key prefix. Where an
// ACL forbids them, the error and [NodeQuarantined] say what to allow. Nodes that do not
// tell their master_replid (INFO replication), and Redis Clusters, are refused.
//
// A node's master_replid also changes when its first replica attaches, and when no replica
// has been there for repl-backlog-ttl: set repl-backlog-ttl 0. That a machine was restored
// from a snapshot is not seen.
func WithRestartGuard(longest time.Duration) Option {
	return option(func(o *lockerOptions) { o.guard = longest })
}

// WithNodeSet sets the id of this client's configuration of nodes: another id for each
// list of nodes. Under [WithRestartGuard] each node lists the configurations that it is
// part of, by id and number of nodes, and a client of another one takes no vote from it
// ([ErrNodeSet]). So clients of three nodes and of five, at once, do not make two holders;
// nor do those of other nodes that are as many, if their ids differ. A node that comes back
// empty is listed as the others are. The default is 0, for nodes that never change.
//
// To change the list, stop all clients for the longest TTL, delete "ql:set" (behind the key
// prefix) on all nodes, and start the clients with the new list and a new id.
func WithNodeSet(id uint64) Option {
	return option(func(o *lockerOptions) { o.nodeSet = id })
}

// WithClockGuard keeps a node from voting whose clock was set forward, which may have
// ended leases early there, until so much time has passed as the longest lease that any
// client of its keys takes. A longer lease is refused. A vote counts only if the clock cannot
// have gained more than leases of the default TTL allow for (see [WithDriftFactor]) within
// that time. So a node does not vote, either, whose clock was not read for much longer than
// the TTL, because it was down or this machine slept, until that time has passed again; nor
// one whose replies take longer than the drift allowance, of which a step could be hidden:
// 101ms for a TTL of 10s, 11ms for 1s.
//
// It costs a node one small command a batch, and one about every TTL (12.6s for 10s) while
// nothing else is asked of it: a Locker with this guard has a timer for each node, also when it
// is idle. A process sees only what happens while it runs, and not a clock that is set and set
// back before it is read again. By default a step is reported as [NodeClockStepped] and the
// node goes on to vote.
func WithClockGuard(longest time.Duration) Option {
	return option(func(o *lockerOptions) { o.clockGuard = longest })
}

// OnEvent sets a function that is told what happens to the nodes. It is called
// from the library's own goroutines, one call at a time for each node, and must not
// block. By default nobody is told.
func OnEvent(tell func(Event)) Option {
	return option(func(o *lockerOptions) { o.events = tell })
}
