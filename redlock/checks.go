package redlock

import (
	"fmt"
	"math"
	"time"

	"github.com/quorumlock/quorumlock/internal/protocol"
)

// check finds the first setting that is not valid. It looks at what was given: rounding up comes
// after it, and makes no bad setting a good one.
func (o *lockerOptions) check() error {
	if err := o.acquire.check(); err != nil {
		return err
	}
	switch {
	case o.nodeTimeout != byTTL && (o.nodeTimeout <= 0 || o.nodeTimeout >= o.acquire.ttl):
		return &OptionError{"NodeTimeout", fmt.Sprintf("%v is not between 0 and the TTL of %v", o.nodeTimeout, o.acquire.ttl)}
	case !(o.drift >= 0 && o.drift <= maxDrift):
		return &OptionError{"DriftFactor", fmt.Sprintf("%v is not between 0 and %v", o.drift, maxDrift)}
	case len(o.prefix) > maxKey:
		return &OptionError{"KeyPrefix", fmt.Sprintf("%d bytes are more than %d", len(o.prefix), maxKey)}
	case protocol.IsReserved("", o.prefix):
		return &OptionError{"KeyPrefix", fmt.Sprintf("%.64q begins with %q, which is for what this library keeps beside locks: take another one", o.prefix, protocol.Reserved)}
	case o.cleanup < 0:
		return &OptionError{"CloseTimeout", fmt.Sprintf("%v is less than 0", o.cleanup)}
	case o.guards && (o.guard < o.acquire.ttl || o.guard > MaxTTL):
		return &OptionError{"RestartGuard", fmt.Sprintf("%v is not between the TTL of %v and %v", o.guard, o.acquire.ttl, MaxTTL)}
	case o.clockGuards && (o.clockGuard < o.acquire.ttl || o.clockGuard > MaxTTL):
		return &OptionError{"ClockGuard", fmt.Sprintf("%v is not between the TTL of %v and %v", o.clockGuard, o.acquire.ttl, MaxTTL)}
	case o.guards && o.clockGuards && o.guard != o.clockGuard:
		return &OptionError{"ClockGuard", fmt.Sprintf("%v is not the %v of RestartGuard: both are the longest TTL that any client uses", o.clockGuard, o.guard)}
	case o.nodeSet != 0 && o.guard == 0:
		return &OptionError{"NodeSet", "nobody looks at it without WithRestartGuard: give both"}
	case o.nodeSet > math.MaxInt64:
		return &OptionError{"NodeSet", fmt.Sprintf("%d is above %d", o.nodeSet, uint64(math.MaxInt64))}
	case o.detects && (o.deadlocks < minDetection || o.deadlocks > maxDetection):
		return &OptionError{"DeadlockDetection", fmt.Sprintf("%v is not between %v and %v", o.deadlocks, minDetection, maxDetection)}
	case o.noEvents:
		return &OptionError{"Events", "the function is nil"}
	}
	return o.checkDurability()
}

// roundUp makes whole milliseconds of what servers count.
func (o *lockerOptions) roundUp() {
	for _, d := range []*time.Duration{&o.acquire.ttl, &o.guard, &o.clockGuard} {
		*d = protocol.RoundUp(*d)
	}
}

// maxDrift is far beyond any real clock.
const maxDrift = 0.5

func (o *acquireOptions) check() error {
	if err := checkTTL(o.ttl); err != nil {
		return err
	}
	switch {
	case o.maxWait < 0:
		return &OptionError{"MaxWait", fmt.Sprintf("%v is less than 0", o.maxWait)}
	case o.retries < 0:
		return &OptionError{"RetryLimit", fmt.Sprintf("%d is less than 0", o.retries)}
	case o.backoffMin <= 0 || o.backoffMax < o.backoffMin:
		return &OptionError{"Backoff", fmt.Sprintf("%v and %v are not two durations above 0, the lesser one first", o.backoffMin, o.backoffMax)}
	case o.maxOutage < 0 && o.maxOutage != byTTL:
		return &OptionError{"MaxOutage", fmt.Sprintf("%v is less than 0", o.maxOutage)}
	case o.maxHold < o.ttl:
		return &OptionError{"MaxHold", fmt.Sprintf("%v is less than the TTL of %v", o.maxHold, o.ttl)}
	case o.token != nil && (*o.token == "" || len(*o.token) > maxToken):
		return &OptionError{"Token", fmt.Sprintf("want 1 to %d bytes, not %d", maxToken, len(*o.token))}
	case o.token != nil && o.names:
		return &OptionError{"Token", "a token of one's own carries no name, and WithOwner (or an election) gives one: leave one of them out"}
	case o.token != nil && protocol.Marked(*o.token):
		return &OptionError{"Token", fmt.Sprintf("it begins with %q, as the tokens do that this library makes: take another one", protocol.TokenMark)}
	case o.owner != "" && !protocol.IsName(o.owner):
		return &OptionError{"Owner", fmt.Sprintf("%.100q is not up to %d bytes of printable characters in UTF-8: others print it", o.owner, protocol.MaxName)}
	}
	return o.checkPriority()
}

// checkLease refuses a TTL that is not valid, or that one slow node would use up.
func (l *Locker) checkLease(ttl time.Duration) error {
	if err := checkTTL(ttl); err != nil {
		return err
	}
	timeout := l.options.timeout(ttl)
	if timeout >= ttl {
		return &OptionError{"TTL", fmt.Sprintf("%v is not above the node time-out of %v: one silent node would eat the lease", ttl, timeout)}
	}
	for _, guard := range []time.Duration{l.options.guard, l.options.clockGuard} {
		if guard != 0 && ttl > guard {
			return &OptionError{"TTL", fmt.Sprintf("%v is longer than %v, the longest lease that the guard knows of: give all clients a longer one, or take a shorter TTL", ttl, guard)}
		}
	}
	if d := l.board.Durability; !d.Fits(ttl, timeout, l.options.drift) {
		return &OptionError{"TTL", fmt.Sprintf("%v has no room for the node time-out and %v that a durable vote may take: take a longer TTL or a shorter DurableTimeout", ttl, d.Timeout)}
	}
	return nil
}

func checkTTL(ttl time.Duration) error {
	if ttl < MinTTL || ttl > MaxTTL {
		return &OptionError{"TTL", fmt.Sprintf("%v is not between %v and %v", ttl, MinTTL, MaxTTL)}
	}
	return nil
}

func (o *lockerOptions) checkKey(key string) error {
	switch {
	case key == "" || len(o.prefix)+len(key) > maxKey:
		return &OptionError{"key", fmt.Sprintf("want 1 to %d bytes, the prefix included, not %d", maxKey, len(o.prefix)+len(key))}
	case protocol.IsReserved(o.prefix, key):
		return &OptionError{"key", fmt.Sprintf("%.64q begins with %q, which is for what this library keeps beside locks: take another one", o.prefix+key, protocol.Reserved)}
	}
	return nil
}

// checkNames refuses a key that cannot have keys beside it, for what needs them.
func (o *lockerOptions) checkNames(key, what string) error {
	if protocol.HasNames(o.prefix + key) {
		return nil
	}
	return &OptionError{"key", fmt.Sprintf("%s keep other keys beside %.64q, which no Redis Cluster would have on the same server: take a key without a closing brace, or with a hash tag as {orders}:42 has", what, o.prefix+key)}
}

// outage is how long an acquire goes on without a quorum.
func (o *acquireOptions) outage() time.Duration {
	if o.maxOutage == byTTL {
		return o.ttl
	}
	return o.maxOutage
}

// timeout is how long a node may take for an operation with a lease of ttl.
func (o *lockerOptions) timeout(ttl time.Duration) time.Duration {
	if o.nodeTimeout == byTTL {
		return min(defaultNodeTimeout, ttl/4)
	}
	return o.nodeTimeout
}

// apply applies the options of one call. None may be nil.
func apply[T any](options []T, set func(T)) error {
	for i, option := range options {
		if any(option) == nil {
			return &OptionError{"options", fmt.Sprintf("option %d is nil", i+1)}
		}
		set(option)
	}
	return nil
}
