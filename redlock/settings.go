package redlock

import (
	"crypto/rand"
	"fmt"
	"math"
	mathrand "math/rand/v2"
	"time"

	"github.com/quorumlock/quorumlock/clockdrift"
	"github.com/quorumlock/quorumlock/internal/protocol"
)

type lockerOptions struct {
	acquire      settings // the defaults of an acquire
	nodeTimeout  time.Duration
	drift        float64
	prefix       string
	cleanup      time.Duration
	evictingOK   bool
	most         int // acquires that may be under way
	fences       bool
	guards       bool          // against restarts
	clockGuards  bool          // against steps of a node's clock
	longest      time.Duration // the longest TTL of any client: how long a node that may have forgotten votes has none; 0: no guard
	clockLongest time.Duration // the same, for a node whose clock was set forward
	nodeSet      uint64        // the configuration's id
	deadlocks    time.Duration // how long a wait under a lock takes until a ring is looked for
	detects      bool          // deadlock detection is on
	durable      *Durability   // nil: votes wait for nothing
	hooks        []Hooks
	clock        *clockdrift.Clock
	random       protocol.Random                         // of tokens
	jitter       func(bound time.Duration) time.Duration // of pauses: a random time below the bound
}

// settings are the options of an acquire. They do not change once it has begun.
type settings struct {
	fair                   bool // waiters take turns
	priority               int
	ttl                    time.Duration
	maxWait                time.Duration
	backoffMin, backoffMax time.Duration
	maxOutage              time.Duration
	token                  *string
	owner                  string
	names                  bool // the owner was given
	renews                 bool
	endsWithCaller         bool // the lock's context ends with the call's
	maxHold                time.Duration
}

func defaults() lockerOptions {
	return lockerOptions{
		acquire: settings{
			ttl:        10 * time.Second,
			renews:     true,
			maxWait:    math.MaxInt64,
			backoffMin: 5 * time.Millisecond,
			backoffMax: 250 * time.Millisecond,
			maxOutage:  byTTL,
			maxHold:    math.MaxInt64,
		},
		nodeTimeout: byTTL,
		most:        16_384,
		drift:       clockdrift.DefaultFactor,
		cleanup:     2 * time.Second,
		random:      random,
		jitter:      jitter,
	}
}

// random returns 128 bits of crypto/rand.
var random protocol.Random = func() (bits [16]byte) {
	rand.Read(bits[:]) // since Go 1.24 Read never fails
	return bits
}

// jitter returns a random time below the bound. Nobody gains by guessing it.
func jitter(bound time.Duration) time.Duration { return mathrand.N(bound) } //nolint:gosec // see above

// check finds the first invalid setting. It looks at the given values: rounding up comes after it, and makes
// no bad setting a good one.
func (o *lockerOptions) check() error {
	if err := o.acquire.check(); err != nil {
		return err
	}
	switch {
	case o.nodeTimeout != byTTL && (o.nodeTimeout <= 0 || o.nodeTimeout >= o.acquire.ttl):
		return &OptionError{"NodeTimeout", fmt.Sprintf("%v is not between 0 and the TTL of %v", o.nodeTimeout, o.acquire.ttl)}
	case o.most < 1:
		return &OptionError{"MaxAcquires", fmt.Sprintf("%d is less than 1", o.most)}
	case !(o.drift >= 0 && o.drift <= maxDrift):
		return &OptionError{"DriftFactor", fmt.Sprintf("%v is not between 0 and %v", o.drift, maxDrift)}
	case len(o.prefix) > maxKey:
		return &OptionError{"KeyPrefix", fmt.Sprintf("%d bytes are more than %d", len(o.prefix), maxKey)}
	case protocol.IsReserved("", o.prefix):
		return &OptionError{"KeyPrefix", fmt.Sprintf("%.64q begins with %q, which is for what this library keeps beside locks: take another one", o.prefix, protocol.Reserved)}
	case o.cleanup < 0:
		return &OptionError{"CloseTimeout", fmt.Sprintf("%v is less than 0", o.cleanup)}
	case o.guards && (o.longest < o.acquire.ttl || o.longest > maxTTL):
		return &OptionError{"RestartGuard", fmt.Sprintf("%v is not between the TTL of %v and %v", o.longest, o.acquire.ttl, maxTTL)}
	case o.clockGuards && (o.clockLongest < o.acquire.ttl || o.clockLongest > maxTTL):
		return &OptionError{"ClockGuard", fmt.Sprintf("%v is not between the TTL of %v and %v", o.clockLongest, o.acquire.ttl, maxTTL)}
	case o.guards && o.clockGuards && o.longest != o.clockLongest:
		return &OptionError{"ClockGuard", fmt.Sprintf("%v is another longest TTL than the %v of WithRestartGuard: it is one of all clients", o.clockLongest, o.longest)}
	case o.nodeSet != 0 && !o.guards:
		return &OptionError{"NodeSet", "nobody looks at it without WithRestartGuard: give both"}
	case o.nodeSet > math.MaxInt64:
		return &OptionError{"NodeSet", fmt.Sprintf("%d is above %d", o.nodeSet, uint64(math.MaxInt64))}
	case o.detects && (o.deadlocks < minDetection || o.deadlocks > maxDetection):
		return &OptionError{"DeadlockDetection", fmt.Sprintf("%v is not between %v and %v", o.deadlocks, minDetection, maxDetection)}
	}
	return o.checkDurability()
}

// roundUp makes whole milliseconds, the servers' unit.
func (o *lockerOptions) roundUp() {
	o.acquire.ttl = protocol.RoundUp(o.acquire.ttl)
	o.longest, o.clockLongest = protocol.RoundUp(o.longest), protocol.RoundUp(o.clockLongest)
}

// maxDrift is far beyond any real clock.
const maxDrift = 0.5

func (o *settings) check() error {
	if err := checkTTL(o.ttl); err != nil {
		return err
	}
	switch {
	case o.maxWait < 0:
		return &OptionError{"MaxWait", fmt.Sprintf("%v is less than 0", o.maxWait)}
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
	return nil
}

// checkLease refuses an invalid TTL, and one that a slow node would use up.
func (l *Locker) checkLease(ttl time.Duration) error {
	if err := checkTTL(ttl); err != nil {
		return err
	}
	timeout := l.options.timeout(ttl)
	if timeout >= ttl {
		return &OptionError{"TTL", fmt.Sprintf("%v is not above the node time-out of %v: one silent node would eat the lease", ttl, timeout)}
	}
	if longest := max(l.options.longest, l.options.clockLongest); longest > 0 && ttl > longest {
		return &OptionError{"TTL", fmt.Sprintf("%v is longer than %v, the longest lease of any client (WithRestartGuard, WithClockGuard): give all clients a longer one, or take a shorter TTL", ttl, longest)}
	}
	if d := l.board.Durability; !d.Fits(ttl, timeout, l.options.drift) {
		return &OptionError{"TTL", fmt.Sprintf("%v has no room for the node time-out and %v that a durable vote may take: take a longer TTL or a shorter Timeout of WithDurability", ttl, d.Timeout)}
	}
	return nil
}

func checkTTL(ttl time.Duration) error {
	if ttl < minTTL || ttl > maxTTL {
		return &OptionError{"TTL", fmt.Sprintf("%v is not between %v and %v", ttl, minTTL, maxTTL)}
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

// checkNames refuses a key that cannot have keys beside it, where these are needed.
func (o *lockerOptions) checkNames(key, what string) error {
	if protocol.HasNames(o.prefix + key) {
		return nil
	}
	return &OptionError{"key", fmt.Sprintf("%s keep other keys beside %.64q, which no Redis Cluster would have on the same server: take a key without a closing brace, or with a hash tag as {orders}:42 has", what, o.prefix+key)}
}

// outage is how long an acquire goes on without a quorum.
func (o *settings) outage() time.Duration {
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

// apply applies the options of a call. None may be nil.
func apply[T any](options []T, set func(T)) error {
	for i, option := range options {
		if any(option) == nil {
			return &OptionError{"options", fmt.Sprintf("option %d is nil", i+1)}
		}
		set(option)
	}
	return nil
}
