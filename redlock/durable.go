package redlock

import (
	"fmt"
	"time"

	"github.com/quorumlock/quorumlock/internal/gate"
	"github.com/quorumlock/quorumlock/internal/protocol"
)

// WithReplicatedVotes lets a node's vote count only when the given number of its replicas have
// it (WAIT), so that a lock survives the node and the promotion of a replica. Ask for all
// replicas that can be promoted, or one without the vote may be. It is 1 or more. By default
// a vote counts when the node has it in memory.
//
// It also keeps an old master from voting that was cut off and replaced while some clients
// still talk to it (Sentinel's split brain): the old master has lost the promoted replica.
// Without this option such a node votes twice, also under [WithRestartGuard].
//
// A vote that too few replicas have within [WithDurableTimeout] is no vote, and its key is
// deleted. Acquire, Extend, renewal and hand-over wait; a release does not, unless it hands
// the lock over. A Redis Cluster is refused with [ErrNode].
func WithReplicatedVotes(replicas int) Option {
	return option(func(o *lockerOptions) { o.replicated = &replicas })
}

// WithDurableVotes lets a node's vote count only when it is synced in the append-only file on
// the node's own disk, and on the disks of the given number of its replicas (WAITAOF), so that
// a lock survives a loss of power. Ask for all replicas that can be promoted, or for 0 if none
// can. By default a vote counts when the node has it in memory.
//
// Set appendonly yes on the nodes and appendfsync always: under everysec a vote waits for
// the next second, and WAITAOF of Redict 7.3.6, Valkey 8.1.1 and 9.1.2 was seen to answer before
// the sync had ended, so that a power cut took votes that counted. (Under always, and on
// Redis 8.0 under both, it took none.) Measured with five servers on one busy machine of 2 cores, a
// lone acquire took 1.4ms under always and 1.0s under everysec (0.16ms without the option
// and the file), and 64 callers made 1900 and 46 acquires a second (13000).
//
// A vote that is not synced within [WithDurableTimeout] is no vote, and its key is deleted.
// Acquire, Extend, renewal and hand-over wait; a release does not, unless it hands the lock
// over. A node without WAITAOF (older than Redis 7.2 or Valkey 8.0) or without an append-only
// file, and a Redis Cluster, are refused with [ErrNode].
func WithDurableVotes(replicas int) Option {
	return option(func(o *lockerOptions) { o.synced = &replicas })
}

// WithDurableTimeout sets how long a vote may wait for replicas or disks ([WithReplicatedVotes],
// [WithDurableVotes]), beside the node time-out. It is above 0 and rounded up to milliseconds, and
// every TTL must have room for both. The default is 2s, or half of what the default TTL
// leaves beside the node time-out if that is less. Without one of the two options it is an
// [OptionError].
func WithDurableTimeout(d time.Duration) Option {
	return option(func(o *lockerOptions) { o.durableTimeout = d })
}

// checkDurability finds the first setting of durable votes that is not valid.
func (o *lockerOptions) checkDurability() error {
	switch {
	case o.replicated != nil && *o.replicated < 1:
		return &OptionError{"ReplicatedVotes", fmt.Sprintf("%d replicas are fewer than 1", *o.replicated)}
	case o.synced != nil && *o.synced < 0:
		return &OptionError{"DurableVotes", fmt.Sprintf("%d replicas are fewer than 0", *o.synced)}
	case o.replicated != nil && o.synced != nil:
		return &OptionError{"ReplicatedVotes", "it does not go with DurableVotes, which counts replicas too: give all of them there"}
	case o.durableTimeout != byTTL && (o.durableTimeout <= 0 || o.durableTimeout > MaxTTL):
		return &OptionError{"DurableTimeout", fmt.Sprintf("%v is not above 0 and up to %v", o.durableTimeout, MaxTTL)}
	case o.durableTimeout != byTTL && o.replicated == nil && o.synced == nil:
		return &OptionError{"DurableTimeout", "no vote waits without WithReplicatedVotes or WithDurableVotes: give one of them, too"}
	}
	if d := o.durability(); !d.Fits(o.acquire.ttl, o.timeout(o.acquire.ttl), o.drift) {
		return &OptionError{"DurableTimeout", fmt.Sprintf("%v and the node time-out of %v leave nothing of the TTL of %v: take a longer TTL or a shorter time-out",
			d.Timeout, o.timeout(o.acquire.ttl), o.acquire.ttl)}
	}
	return nil
}

// defaultDurableTimeout has room for the 2s by which a busy disk may delay the sync of everysec.
const defaultDurableTimeout = 2 * time.Second

// durability is the durability that the options ask for, or nil.
func (o *lockerOptions) durability() *gate.Durability {
	d := new(gate.Durability)
	switch {
	case o.replicated != nil:
		d.Command, d.Replicas = "WAIT", *o.replicated
	case o.synced != nil:
		d.Command, d.Replicas = "WAITAOF", *o.synced
	default:
		return nil
	}
	if o.durableTimeout != byTTL {
		d.Timeout = protocol.RoundUp(o.durableTimeout)
	} else {
		ttl := o.acquire.ttl
		half := (ttl - o.timeout(ttl)) / 2
		d.Timeout = max(min(defaultDurableTimeout, half).Truncate(time.Millisecond), time.Millisecond)
	}
	return d
}
