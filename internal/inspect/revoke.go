package inspect

import (
	"context"
	"fmt"
	"time"

	"github.com/quorumlock/quorumlock/clockdrift"
	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/internal/acl"
	"github.com/quorumlock/quorumlock/internal/fault"
	"github.com/quorumlock/quorumlock/internal/lease"
	"github.com/quorumlock/quorumlock/internal/protocol"
)

// RevokeOptions say how a key is taken from its holder.
type RevokeOptions struct {
	Settings

	// Reason stands in the tombstone, for whoever looks at the key: printable characters, up to
	// 1 KiB.
	Reason string
	// Now frees the key at once: two may hold it then until the lease of the old holder is over.
	// An old holder that still renews takes the key back, unless somebody else is faster.
	Now bool
}

// A Revocation is what has come of taking a key from its holder.
type Revocation struct {
	Time    time.Time     `json:"time"`              // in UTC
	Key     string        `json:"key"`               // without the prefix
	Holder  string        `json:"holder,omitempty"`  // its owner's name, if it has one
	Quorum  int           `json:"quorum"`            // so many nodes must agree to a lock
	Need    int           `json:"need"`              // with so many tombstones no renewal gets a quorum
	Took    int           `json:"took"`              // so many nodes have one
	Final   bool          `json:"final"`             // no renewal that begins later succeeds
	Now     bool          `json:"now"`               // the tombstones were deleted at once
	FreeAt  *time.Time    `json:"free_at,omitempty"` // when a quorum of the nodes is free; nil: nobody can tell
	Overlap float64       `json:"overlap_s"`         // of Now: for so long two may hold the key, if it had an expiry
	Endless bool          `json:"endless"`           // it had none: nobody knows until when its holder relies on it
	Nodes   []RevokedNode `json:"nodes"`             // in the order in which they were given
}

// A RevokedNode is one node's part.
type RevokedNode struct {
	Name  string  `json:"name"`
	Took  bool    `json:"took"`
	Left  float64 `json:"left_s"`          // until the key is free there; 0: it is, or it has no expiry
	Error string  `json:"error,omitempty"` // why it did not take it; "": it did, or has something else
}

// Revoke takes a key from the holder that was seen, and from nobody else. Each node puts a
// tombstone in the place of the holder's token, which stays for as long as the lease may run. So
// the holder's renewals fail, its lock is lost at its deadline, and nobody else gets the key
// before: there are never two holders. Waiters see just another holder.
//
// It is Final with N−quorum+1 tombstones. With fewer the error matches redlock.ErrNoQuorum, and has
// those of the nodes: the holder may go on, so call it again with the same Holding. The error
// matches redlock.ErrLost if the holder that was seen is gone; then nothing was changed. It matches
// redlock.ErrOption if an argument is not valid; then nothing was sent.
//
// A key of [redlock.Locker.AcquireAll] is revoked alone, but the lock on all of its keys is lost
// with it; the others expire with their lease. A shared lock is taken from all of its readers,
// those that joined since they were seen included. A key of another library without an expiry gets
// one, of o.LongestTTL; whether its holder notices is a matter of that library.
//
// It takes up to 5s.
func Revoke(ctx context.Context, nodes []driver.Node, seen Holding, o RevokeOptions) (Revocation, error) {
	o.Settings = o.withDefaults()
	r := Revocation{
		Time: time.Now().UTC(), Key: seen.Key, Holder: protocol.Owner(seen.value), Now: o.Now, Endless: seen.endless,
		Quorum: len(nodes)/2 + 1,
	}
	r.Need = lease.Tombstones(len(nodes), r.Quorum)
	switch {
	case !seen.held:
		return r, fmt.Errorf("%w: nobody was seen to hold %q", fault.ErrOption, seen.Key)
	case o.Reason != "" && !protocol.IsName(o.Reason):
		return r, fmt.Errorf("%w: the reason is not up to %d bytes of printable characters", fault.ErrOption, protocol.MaxName)
	}
	v := &revoker{
		clock: clockdrift.New(), probe: random.Token(""), rules: acl.Rules(o.Prefix, acl.Revoke),
		burial: burial{
			key: seen.place, value: seen.value, readers: seen.readers, token: newToken(o.Reason), endless: seen.endless, longest: o.LongestTTL,
		},
	}
	if seen.Revoked {
		v.token = seen.value
	}
	for _, n := range nodes {
		v.graves = append(v.graves, &grave{target: &target{Node: n}})
	}
	v.each(ctx, v.meet)
	v.each(ctx, func(ctx context.Context, g *grave) error { return v.bury(ctx, g, 0) })
	v.judge(&r)
	ends, took := v.ends(r.Quorum), r.Took
	switch {
	case o.Now:
		r.Overlap = max(0, ends.Sub(v.clock.Now())).Seconds()
		v.each(ctx, v.free)
		v.judge(&r)
	case r.Took >= r.Need:
		v.each(ctx, func(ctx context.Context, g *grave) error { return v.keep(ctx, g, ends) })
		v.judge(&r)
		r.Final = r.Took == took
	}
	return r, v.failure(&r, took)
}
