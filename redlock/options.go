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

// Option is a setting of [New]. Of one that is given twice the last counts, but for hooks and
// events, of which all do.
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
// attempt, without queueing. By default only the context bounds the wait; but the lock's own
// context descends from it, so a time-out there would also cut the hold short.
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

// WithMaxOutage sets how long an Acquire goes on while no quorum answers. 0 means that it fails at
// the first such try. The default is the TTL. It also bounds the wait for nodes that refuse for a
// reason that passes: a replica that may become the master, a server that loads its data, runs a
// script or misses replicas, settings that evict keys. What does not pass (a wrong password, missing
// rights, a certificate for another name, a full memory, another node set) fails at once, and a
// quarantine is waited through, in any case.
func WithMaxOutage(d time.Duration) LeaseOption {
	return leaseOption(func(o *settings) { o.maxOutage = d })
}

// WithRenewal renews the lease until the lock is released or the context of the Acquire ends: first
// at a random moment between a sixth and a third of the TTL, and then between a quarter and a third
// of it after each renewal. Nodes that have lost the key get it again. By default a lease ends
// after its TTL unless it is extended.
//
// A renewal that fails changes nothing before the deadline. Until then it is repeated after pauses
// of an eighth to a quarter of what is left of the lease, and at least a quarter of the node
// time-out (or half of what is left, if that is less): some twenty attempts. Each asks nodes that
// were down before. A process that hangs goes on renewing, and keeps everybody else out: see
// [WithMaxHold].
func WithRenewal() LeaseOption {
	return leaseOption(func(o *settings) { o.renews = true })
}

// WithMaxHold bounds how long a lock is held, from its acquire: no renewal and no
// [Lock.Extend] prolongs the lease beyond that time. Then the lock is lost, with [ErrLost] and
// a cause that says so. It is at least the TTL. By default there is no bound.
func WithMaxHold(d time.Duration) LeaseOption {
	return leaseOption(func(o *settings) { o.maxHold = d })
}

// WithToken sets the token of this acquire, so that a request that is repeated after a crash or a
// lost answer finds the lock it already has: where the token holds the key, the acquire prolongs
// it. Whoever knows the token holds the lock, so it must be unguessable, and no two requests may
// share one. It is 1 to 4096 bytes, and does not begin with "ql:". It does not go with [WithOwner].
//
// Only [Lock.Release] and [Locker.Close] delete such a token, and only of a lock that is held:
// other keys belong to a retry, or expire by their TTL. After a release this Locker refuses the
// token for one TTL. So votes stay where several ask for a key at the same moment and none has a
// quorum: if all try again, one of them has the key within one TTL, and until then their errors
// match [ErrContended].
//
// The locks of one Locker on a key with one token are one lock: the end of one of them ends all,
// with the cause [ErrReleased]. A lock of another Locker, or process, with the token does not know
// of it, and its renewal or Extend sets the key again where it is free. Release no lock whose
// request another process may still work for.
func WithToken(token string) AcquireOption {
	return acquireOption(func(o *settings) { o.token = &token })
}

// WithOwner names who takes the lock: "orders@web-7/4211". The name stands in the key's value on
// the nodes, where anybody who may GET the key reads it. Others find it in their errors
// ([QuorumError.Owner]) and with [Locker.Inspect]. It is up to 1 KiB of printable characters. The
// default is none, as with "".
func WithOwner(name string) LeaseOption {
	return leaseOption(func(o *settings) { o.owner, o.names = name, name != "" })
}

// WithNodeTimeout sets how long one node may take for one operation. It should be far below the
// TTL, or one silent node uses the lease up. The default is 250ms, or a quarter of the TTL if that
// is less. In a process whose goroutines all compute it takes longer: a reply that is here is read.
func WithNodeTimeout(d time.Duration) Option {
	return option(func(o *lockerOptions) { o.nodeTimeout = d })
}

// WithMaxAcquires bounds how many acquires of all kinds may be under way in the Locker at a time,
// with those that wait. One more fails at once, with [ErrBusy]: so a process that is asked for more
// than the nodes can grant keeps its memory, of which such a call takes about 16 kB with its
// goroutine. The default is 16,384.
//
// Of those that are under way about 1,000 ask the nodes at once, and more where these are far away.
// The others have their turns in the order in which they came; while more is asked for than can be
// done, seven turns of eight go to the one that came last.
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

// WithFences gives every lock a number greater than those of all earlier holders of the key: see
// [Lock.Fence]. All clients of a key need the option. It costs the nodes three small commands an
// acquire, in the same round trip. Nodes keep the greatest number of each key that was in use
// during the last minute, and of some others: each set of numbers has a floor, and forgets only
// what is below it.
//
// The order holds whatever leases and clocks do, and with any minority of the nodes dead, but not
// over nodes that lose their counters (by a restart, a flush or a promotion): [WithRestartGuard]
// keeps such a node from voting.
func WithFences() Option {
	return option(func(o *lockerOptions) { o.fences = true })
}

// WithLongestTTL says which is the longest TTL that any client of these nodes uses: for so long a
// guard keeps a node from voting ([WithRestartGuard], [WithClockGuard]). It is from the TTL to ten
// years, and rounded up to milliseconds. A longer lease is an [OptionError], with or without a
// guard. By default any TTL goes.
func WithLongestTTL(d time.Duration) Option {
	return option(func(o *lockerOptions) { o.longest, o.bounded = d, true })
}

// WithRestartGuard keeps a node that may have forgotten votes from voting, for extensions either,
// for the time of [WithLongestTTL], which it needs: a node that was restarted, empty or from its
// file, or flushed, or a replica that was promoted. Without it, two holders are possible when a
// node comes back empty within a lease, and fences lose their order. If a majority restarts at
// once, locks are lost at their deadline.
//
// The time is 9/8 of the longest TTL and 1ms (the eighth is at least 50ms), in which somebody has a
// Locker open that has asked for a lock, or asks for one in each eighth; several processes may take
// turns. It also passes once at the first deployment, with all nodes up: new nodes need nothing else.
// Until then [Locker.Acquire] waits, and a try fails with [ErrQuarantine], which says for how long.
//
// All clients of a key need the option, with the same longest TTL, nodes and [WithNodeSet]: others are
// refused, with [ErrNodeSet]. The command `quorumlock settings` changes these.
//
// The guard costs a node two small reads a batch, and the key "ql:memory:PREFIX" ("ql:memory" without a
// prefix). Redis Clusters, and nodes that do not report their master_replid (INFO replication), are
// refused. That also changes when a node's first replica attaches, and when none has been there for
// repl-backlog-ttl: set that to 0. While a node sits out its clock may be set forward once. The guard
// does not see that a machine was restored from a snapshot.
func WithRestartGuard() Option { return option(func(o *lockerOptions) { o.guards = true }) }

// WithNodeSet sets the id of this client's configuration of nodes: another id for each list of
// nodes. Under [WithRestartGuard] each node keeps the id and the number of nodes of its clients, and a
// client of another list takes no vote from it ([ErrNodeSet]), so that they cannot hold one key at once.
// The default is 0, for nodes that never change.
func WithNodeSet(id uint64) Option {
	return option(func(o *lockerOptions) { o.nodeSet = id })
}

// WithClockGuard keeps a node whose clock was set forward, which may have ended leases early, from
// voting for the time of [WithLongestTTL], which it needs. A vote counts only if the clock cannot
// have gained more within that time than leases of the default TTL allow for (see
// [WithDriftFactor]). So a node has no vote for that time after its clock was not read for much
// longer than the TTL, because it was down or this machine slept, nor while its replies take longer
// than the drift allowance: 101ms for a TTL of 10s.
//
// It costs a node one small command a batch, and one about every TTL while the Locker is idle. A
// process sees steps only while it runs, and none that is set back before the clock is read again.
// By default a step is reported as [NodeClockStepped] and the node goes on to vote.
func WithClockGuard() Option { return option(func(o *lockerOptions) { o.clockGuards = true }) }

// OnEvent is short for [WithHooks] with [Hooks.Node]; [LogTo] logs events. By default they are
// dropped.
func OnEvent(tell func(Event)) Option {
	return option(func(o *lockerOptions) {
		o.noEvents = o.noEvents || tell == nil
		o.hooks = append(o.hooks, Hooks{Node: tell})
	})
}
