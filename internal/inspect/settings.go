// Package inspect looks at the nodes of locks from outside: whether they are fit to be nodes, and who
// holds what. It closes no driver, and may be called at any time, beside locks that are in use.
package inspect

import (
	"cmp"
	"fmt"
	"time"

	"github.com/quorumlock/quorumlock/clockdrift"
	"github.com/quorumlock/quorumlock/internal/fault"
	"github.com/quorumlock/quorumlock/internal/protocol"
)

// Settings are those that all clients of the same keys must agree on. An inspection is right
// only if they are those of the clients' Lockers.
type Settings struct {
	Prefix      string        // of keys: redlock.WithKeyPrefix
	TTL         time.Duration // of a lock by default; 0: 10s
	LongestTTL  time.Duration // that any client takes, which the guards wait for; 0: the TTL
	NodeTimeout time.Duration // 0: 250ms, or a quarter of the TTL if that is less. Status waits so long for a node, and for 1s at least
	Drift       float64       // redlock.WithDriftFactor; 0: 0.01

	Fences       bool   // redlock.WithFences
	RestartGuard bool   // redlock.WithRestartGuard, of the longest TTL
	ClockGuard   bool   // redlock.WithClockGuard, of the longest TTL
	NodeSet      uint64 // redlock.WithNodeSet
	Replicated   int    // replicas that must have a vote: redlock.Durability.Replicas
	Durable      bool   // votes wait for the disks of the node and of these replicas: redlock.Durability.Disk
}

// withDefaults returns the settings as a Locker takes them.
func (s Settings) withDefaults() Settings {
	s.TTL = cmp.Or(s.TTL, 10*time.Second)
	s.TTL, s.LongestTTL = protocol.RoundUp(s.TTL), protocol.RoundUp(max(s.LongestTTL, s.TTL))
	s.NodeTimeout = cmp.Or(s.NodeTimeout, min(250*time.Millisecond, s.TTL/4))
	s.Drift = cmp.Or(s.Drift, clockdrift.DefaultFactor)
	return s
}

// within is how long a node has to answer: a second, or the node time-out if that is longer.
func (s *Settings) within() time.Duration { return max(patience, s.NodeTimeout) }

// checkKey refuses a name that no lock has.
func (s *Settings) checkKey(key string) error {
	if protocol.IsReserved(s.Prefix, key) {
		return fmt.Errorf("%w: key: %.64q begins with %q, which is for what stands beside locks: name the lock itself", fault.ErrOption, s.Prefix+key, protocol.Reserved)
	}
	return nil
}
