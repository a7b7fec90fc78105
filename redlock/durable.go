package redlock

import (
	"fmt"
	"time"

	"github.com/quorumlock/quorumlock/internal/gate"
	"github.com/quorumlock/quorumlock/internal/protocol"
)

// A Durability makes a node's vote wait, so that the vote outlives the node's memory. A vote that is not safe
// in time is no vote, and its key is deleted.
//
// For Disk set appendonly yes and appendfsync always on the nodes, which are Redis 7.2, Valkey 8.0 or later:
// others are refused with [ErrNode]; under everysec some answer before the sync has ended. Replicas also keep an old master from voting after it was cut off and
// replaced while some clients still talk to it (Sentinel's split brain).
type Durability struct {
	Disk     bool // the vote is in the append-only file on the node's disk, and on those of the Replicas (WAITAOF)
	Replicas int  // replicas that have the vote, without Disk in memory (WAIT): ask for all that can be promoted

	// Timeout is how long a vote may wait, beside the node time-out, rounded up to milliseconds. Every TTL
	// must have room for both. 0 stands for 2s, or half of the default TTL's rest beside the node time-out
	// if that is less.
	Timeout time.Duration
}

// WithDurability lets a node's vote count only when disks or replicas have it: acquires, extensions and
// hand-overs wait. A Redis Cluster is refused with [ErrNode]. By default memory is enough.
func WithDurability(d Durability) Option { return option(func(o *lockerOptions) { o.durable = &d }) }

// checkDurability finds invalid settings of durable votes.
func (o *lockerOptions) checkDurability() error {
	wants := o.durable
	switch {
	case wants == nil:
		return nil
	case wants.Replicas < 0:
		return &OptionError{"Durability", fmt.Sprintf("%d replicas are fewer than 0", wants.Replicas)}
	case !wants.Disk && wants.Replicas == 0:
		return &OptionError{"Durability", "it asks for nothing: set Disk, Replicas or both, or leave WithDurability out"}
	case wants.Timeout < 0 || wants.Timeout > maxTTL:
		return &OptionError{"Durability", fmt.Sprintf("the Timeout of %v is not between 0 and %v", wants.Timeout, maxTTL)}
	}
	if d := o.durability(); !d.Fits(o.acquire.ttl, o.timeout(o.acquire.ttl), o.drift) {
		return &OptionError{"Durability", fmt.Sprintf("the Timeout of %v and the node time-out of %v leave nothing of the TTL of %v: take a longer TTL or a shorter time-out",
			d.Timeout, o.timeout(o.acquire.ttl), o.acquire.ttl)}
	}
	return nil
}

// defaultDurableTimeout has room for the 2s by which a busy disk may delay the sync of everysec.
const defaultDurableTimeout = 2 * time.Second

// durability is what a vote needs besides a node's grant, or nil.
func (o *lockerOptions) durability() *gate.Durability {
	if o.durable == nil {
		return nil
	}
	d := &gate.Durability{Command: "WAIT", Replicas: o.durable.Replicas, Timeout: protocol.RoundUp(o.durable.Timeout)}
	if o.durable.Disk {
		d.Command = "WAITAOF"
	}
	if d.Timeout == 0 {
		ttl := o.acquire.ttl
		half := (ttl - o.timeout(ttl)) / 2
		d.Timeout = max(min(defaultDurableTimeout, half).Truncate(time.Millisecond), time.Millisecond)
	}
	return d
}
