package redlock

import (
	"crypto/rand"
	"math"
	mathrand "math/rand/v2"
	"time"

	"github.com/quorumlock/quorumlock/clockdrift"
	"github.com/quorumlock/quorumlock/internal/protocol"
	"github.com/quorumlock/quorumlock/internal/waiting"
)

// The bounds of a TTL.
const (
	// MinTTL is the shortest lease. Below it the drift allowance and one slow reply use it up.
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

// byTTL is an unset duration, whose default depends on the TTL.
const byTTL = time.Duration(math.MinInt64)

// Option is a setting of [New]. Of one that is given twice the last counts, but for hooks and events,
// of which all do.
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
	guard       time.Duration // the longest TTL; 0: none
	guards      bool          // it was given
	nodeSet     uint64        // the configuration's id
	deadlocks   time.Duration // how long a wait under a lock takes until a ring is looked for
	detects     bool          // it is
	clockGuard  time.Duration // the same for steps of a node's clock
	clockGuards bool
	replicated  *int // replicas that must have a vote; nil: none
	synced      *int // replicas whose disks must have it, beside the node's; nil: none

	durableTimeout time.Duration
	hooks          []Hooks
	noEvents       bool // OnEvent was given no function
	clock          *clockdrift.Clock
	random         protocol.Random                         // of tokens
	jitter         func(bound time.Duration) time.Duration // of pauses: a random time below the bound
}

type acquireOptions struct {
	kind                   *kind
	stand                  *protocol.Stand // where it stands in the key's line; nil: nowhere
	turn                   *protocol.Turn  // of one who asks for permits; nil: he heeds nobody who waits for several
	held                   []string        // of one who asks for several keys: what its context carries, in order
	priority               int
	ttl                    time.Duration
	maxWait                time.Duration
	retries                int
	backoffMin, backoffMax time.Duration
	maxOutage              time.Duration
	token                  *string
	owner                  string
	names                  bool             // the owner was given
	seen                   waiting.Sighting // by the tries before
	reenters               bool
	within                 *lease // the hold that it enters; nil: none
	renews                 bool
	maxHold                time.Duration
	renewals               func(ExtendEnd)
	told                   *acquisition // whom the hooks are told of; nil: nobody wants to be told
}

// as returns the options of an acquire of the kind.
func (o *acquireOptions) as(k *kind) *acquireOptions {
	own := *o
	own.kind = k
	return &own
}

func defaults() lockerOptions {
	return lockerOptions{
		acquire: acquireOptions{
			kind:       exclusive,
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

// WithTTL sets the lease: how long nodes keep a key that its holder neither extends nor
// releases. Work that may take longer has to extend it. It is from [MinTTL] to [MaxTTL], and
// rounded up to milliseconds, which servers count in; the lock's deadline is that of the rounded
// time. The default is 10s.
func WithTTL(d time.Duration) LeaseOption {
	return leaseOption(func(o *acquireOptions) { o.ttl = d })
}

// WithMaxWait bounds how long Acquire waits for the key, and for its turn to ask the nodes where
// many ask; then the error is that of the last try, such as [ErrTaken]. A try under way is not cut
// short: one that several make at the same moment may take a node time-out, as [Locker.TryAcquire]
// does. 0 means one attempt, without queueing. By default only the context bounds the wait; but the lock's own context descends
// from it, so a time-out there would also cut the hold short.
func WithMaxWait(d time.Duration) LeaseOption {
	return leaseOption(func(o *acquireOptions) { o.maxWait = d })
}

// WithRetryLimit bounds how often Acquire tries again after the first try; 0 means one try. A waiter may have no
// reason to try before the holder releases the key; to bound the time, use [WithMaxWait]. The
// look every 4 to 6s whether an announcement was lost does not count. By default there is no
// limit.
func WithRetryLimit(n int) LeaseOption {
	return leaseOption(func(o *acquireOptions) { o.retries = n })
}

// WithBackoff sets the pauses between the tries of one Acquire that no announcement of a
// release reaches: the holder uses another library, or nodes are silent or forbid channels.
// Each pause is random, from 0 to a bound that begins at least and doubles up to most:
// contenders with equal pauses would split the votes again and again
// (https://aws.amazon.com/blogs/architecture/exponential-backoff-and-jitter/).
// The defaults are 5ms and 250ms.
func WithBackoff(least, most time.Duration) LeaseOption {
	return leaseOption(func(o *acquireOptions) { o.backoffMin, o.backoffMax = least, most })
}

// WithMaxOutage sets how long an Acquire goes on while no quorum answers. 0 means that it
// fails at the first such try. The default is the TTL. Errors that waiting cannot mend (a
// wrong password, a replica among the nodes, a full memory, nodes that nobody has ever admitted
// under [WithRestartGuard]) fail at once in any case. A quarantine of nodes that were admitted
// is waited through, however long it takes.
func WithMaxOutage(d time.Duration) LeaseOption {
	return leaseOption(func(o *acquireOptions) { o.maxOutage = d })
}

// WithRenewal renews the lease until the lock is released or the context of the Acquire
// ends: at a random moment between a sixth and a third of the TTL after the acquire, and
// between a quarter and a third of it after each renewal, so that locks which were acquired
// together are not renewed together. A lock that is held for less than a sixth of its TTL
// is never renewed. Nodes that have lost the key get it again.
//
// A renewal that fails changes nothing before the deadline; at the deadline the lock is
// lost, and its context ends. Until then it is repeated after pauses of an eighth to a
// quarter of what is left of the lease, and at least a quarter of the node time-out: some
// twenty attempts. By default a lease ends after its TTL unless it is extended.
//
// A Locker renews a hundred thousand locks: they share commands, the earliest deadline first.
// Locks with fences share no commands.
//
// A process that hangs goes on renewing, and keeps everybody else out: see [WithMaxHold].
func WithRenewal() LeaseOption {
	return leaseOption(func(o *acquireOptions) { o.renews = true })
}

// WithMaxHold bounds how long a lock is held, from its acquire: no renewal and no
// [Lock.Extend] prolongs the lease beyond that time. Then the lock is lost, with [ErrLost] and
// a cause that says so. It is at least the TTL. By default there is no bound.
func WithMaxHold(d time.Duration) LeaseOption {
	return leaseOption(func(o *acquireOptions) { o.maxHold = d })
}

// OnRenewal sets a function that receives the result of each renewal: it shows that only
// 4 or 3 of 5 nodes hold the lock before the lock is lost. It is called in turn with the other
// functions of [Hooks]; with a silent node it is called up to a node time-out late.
// It is short for [Hooks.ExtendEnd], and can be set for one lock; nil ends the Locker's default for
// it. By default results are dropped.
func OnRenewal(tell func(Renewal)) LeaseOption {
	return leaseOption(func(o *acquireOptions) {
		if o.renewals = nil; tell != nil {
			o.renewals = func(e ExtendEnd) { tell(e.renewal()) }
		}
	})
}

// WithToken sets the token of this acquire, so that a request that is repeated after a
// crash or a lost answer finds the lock it already has: where the token holds the key, the
// acquire prolongs it. Whoever knows the token holds the lock, so it must be unguessable,
// and no two requests may share one. It is 1 to 4096 bytes, and does not begin with "ql:". An
// acquire that is also given [WithOwner] is refused, for such a token carries no name.
//
// Only [Lock.Release] and [Locker.Close] delete such a token, and only of a lock that is
// held. Keys of a failed acquire or a lost lock belong to a retry, or expire by their TTL; to
// delete them, acquire the lock again with the token, and release it. After a release this
// Locker refuses the token for one TTL.
//
// So votes for such a token stay where several ask for a key at the same moment and none has a
// quorum. They are ranked as others are. Each try of the one that leads prolongs its votes; those of
// the others end by their TTL, and until then their tries take nothing. So if all try
// again, one of them has the key within one TTL; until then their errors match [ErrContended].
//
// The locks of one Locker on a key with one token are one lock: a release of one of them ends
// all, with the cause [ErrReleased]; so does Abandon, or a conversion. A lock of another Locker,
// or process, with the token does not know of it. The key is gone from under it, somebody else
// may have it, and its renewal or Extend sets the key again where it is free. Release no lock
// whose request another process may still work for.
func WithToken(token string) AcquireOption {
	return acquireOption(func(o *acquireOptions) { o.token = &token })
}

// WithOwner names who takes the lock: "orders@web-7/4211". The name stands in the key's value on
// the nodes, behind the token's random part, where anybody who may GET the key reads it. Others
// find it in their errors ([QuorumError.Owner]) and with [Locker.Inspect]. It is up to 1 KiB of
// printable characters. A token of [WithToken] carries no name. The default is none, as with "".
func WithOwner(name string) LeaseOption {
	return leaseOption(func(o *acquireOptions) { o.owner, o.names = name, name != "" })
}

// WithNodeTimeout sets how long one node may take for one operation. It should be far
// below the TTL, or one silent node uses the lease up. The default is 250ms, or a quarter
// of the TTL if that is less.
func WithNodeTimeout(d time.Duration) Option {
	return option(func(o *lockerOptions) { o.nodeTimeout = d })
}

// WithDriftFactor sets how far the clocks of this machine and a node may run apart,
// as a part of the time that passes. TTL × factor + 2ms is taken off every lease.
// The default is 0.01, ten times what a clock under NTP needs; 0 says that they do not.
func WithDriftFactor(factor float64) Option {
	return option(func(o *lockerOptions) { o.drift = factor })
}

// WithKeyPrefix sets the prefix of every key on the nodes. [Lock.Key] and errors show keys
// without it. Locks under different prefixes are independent, and nothing reports it: all
// clients of a key need the same. No key begins with "ql:", the prefix included: these are the keys
// of this library. The default is none.
func WithKeyPrefix(prefix string) Option {
	return option(func(o *lockerOptions) { o.prefix = prefix })
}

// WithCloseTimeout sets how long [Locker.Close] waits until a quorum has confirmed all
// releases, and until [Hooks] were told of all that has happened, for which they get at least 1s.
// Keys without confirmation are in its [*CloseError]. 0 means that it does not wait for releases.
// The default is 2s.
func WithCloseTimeout(d time.Duration) Option {
	return option(func(o *lockerOptions) { o.cleanup = d })
}

// WithEvictingNodes lets nodes vote that may evict keys when their memory is full
// (maxmemory with a policy other than noeviction). Such a node can lose a live lock
// unnoticed: by default it is refused, when it is first reached and within 1s of a change
// at run time. With the option it is reported as [NodeEvicts].
func WithEvictingNodes() Option {
	return option(func(o *lockerOptions) { o.evictingOK = true })
}

// WithFences gives every lock a number greater than those of all earlier holders of the key:
// see [Lock.Fence]. All clients of a key need the option. It costs the nodes three small
// commands an acquire, in the same round trip; on nodes with an ACL allow +time and what the table
// of the package names as well. Nodes keep the greatest number of each key that was in use during the
// last minute, and of some others: each set of numbers has a floor, and forgets only what is below it.
//
// The order holds whatever leases and clocks do, and with any minority of the nodes dead, but
// not over nodes that lose their counters (by a restart, a flush or a promotion):
// [WithRestartGuard] keeps such a node from voting for the longest TTL.
func WithFences() Option {
	return option(func(o *lockerOptions) { o.fences = true })
}

// WithRestartGuard keeps a node that may have forgotten votes from voting, for the longest TTL
// that any client uses: a node that was restarted, empty or from its file, or flushed, or a
// replica that was promoted. Without it, two holders are possible when a node comes back empty
// within a lease, and fences lose their order. Such a node does not count for extensions
// either: if a majority restarts at once, locks are lost at their deadline.
//
// All clients of a key need the option, with the same time, which is also that of a
// [WithClockGuard] beside it. It is from the TTL to [MaxTTL], and rounded up to milliseconds: 0 does not
// turn the guard off, but is an [OptionError]. A longer lease is refused. A client with a longer time than nodes were admitted for is refused there, with [ErrNodeSet].
// To raise it, stop all clients and delete "ql:admitted" on all nodes.
//
// Nodes have to be admitted before they vote: call [Locker.AdmitNewNodes] at the first
// deployment, or let the time pass once, with all nodes up but at most one. Until then an acquire
// fails at once, with [ErrQuarantine]. A process has to
// run for that time to end a quarantine, and to read another node that is admitted. The guard
// costs a node two small commands a batch, and keeps three small keys there: "ql:epoch",
// "ql:admitted" and "ql:set", with ":" and the key prefix at the end if there is one. Where an ACL forbids them, the error and
// [NodeQuarantined] say what to allow. Nodes that do not report their master_replid (INFO
// replication), and Redis Clusters, are refused.
//
// A node's master_replid also changes when its first replica attaches, and when no replica
// has been there for repl-backlog-ttl: set repl-backlog-ttl 0. The guard does not see that a
// machine was restored from a snapshot.
func WithRestartGuard(longest time.Duration) Option {
	return option(func(o *lockerOptions) { o.guard, o.guards = longest, true })
}

// WithNodeSet sets the id of this client's configuration of nodes: another id for each
// list of nodes. Under [WithRestartGuard] each node lists the configurations that it is
// part of, by id and number of nodes, and a client of another one takes no vote from it
// ([ErrNodeSet]). So clients of three nodes and of five cannot hold one key at once, nor can
// clients of as many other nodes with another id. Who ends the quarantine of a node that came back
// empty gives it the entry of its own configuration, and only if another node that is admitted lists
// it, too. The default is 0, for nodes that never change.
//
// To change the list, stop all clients for the longest TTL, delete "ql:set" (behind the key
// prefix) on all nodes, and start the clients with the new list and a new id.
func WithNodeSet(id uint64) Option {
	return option(func(o *lockerOptions) { o.nodeSet = id })
}

// WithClockGuard keeps a node whose clock was set forward, which may have ended leases early,
// from voting for the longest TTL that any client uses: from the TTL to [MaxTTL], the same as that of
// [WithRestartGuard] beside it, and rounded up to milliseconds. A longer lease is refused. A vote counts only if the clock cannot have gained more than leases of the default TTL allow for
// (see [WithDriftFactor]) within that time. So a node has no vote for that time after its clock
// was not read for much longer than the TTL, because it was down or this machine slept. Nor has
// one whose replies take longer than the drift allowance, which could hide a step of that
// size: 101ms for a TTL of 10s, 11ms for 1s.
//
// It costs a node one small command a batch, and one about every TTL (12.6s for 10s) while the
// Locker is idle, by a timer for each node. A process sees steps only while it runs, and none
// that is set back before the clock is read again. By default a step is reported as
// [NodeClockStepped] and the node goes on to vote.
func WithClockGuard(longest time.Duration) Option {
	return option(func(o *lockerOptions) { o.clockGuard, o.clockGuards = longest, true })
}

// OnEvent sets a function that receives the events of nodes, and of hooks. It is called by a goroutine
// of the Locker's own, one call at a time: see [Hooks]. It is short for [WithHooks] with
// [Hooks.Node]; [LogTo] logs them. By default events of nodes are dropped.
func OnEvent(tell func(Event)) Option {
	return option(func(o *lockerOptions) {
		o.noEvents = o.noEvents || tell == nil
		o.hooks = append(o.hooks, Hooks{Node: tell})
	})
}
