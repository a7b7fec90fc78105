package inspect

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/quorumlock/quorumlock/clockdrift"
	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/internal/fault"
	"github.com/quorumlock/quorumlock/internal/lease"
	"github.com/quorumlock/quorumlock/internal/protocol"
	"github.com/quorumlock/quorumlock/internal/scripts"
)

// A revoker takes one key from its holder.
type revoker struct {
	burial
	clock  *clockdrift.Clock
	probe  string   // a token that nobody has
	rules  []string // that the nodes' user needs
	graves []*grave
}

// A grave is what is known of the key at one node.
type grave struct {
	*target
	there       bool               // the tombstone is
	taken       bool               // something else has the key
	left        time.Duration      // the key's greatest time left, from the last reply on; 0: no expiry, or no key
	from, until clockdrift.Instant // when the node lets go of the key, at the earliest and at the latest
	freed       bool               // the tombstone was deleted
	err         error              // why it does not take part any more
}

// each lets all nodes do a step that have not failed before.
func (v *revoker) each(ctx context.Context, step func(context.Context, *grave) error) {
	together(v.graves, func(_ int, g *grave) {
		if g.err == nil {
			g.err = step(ctx, g)
		}
	})
}

// meet finds out what the node does in place of scripts. It changes nothing.
func (v *revoker) meet(ctx context.Context, g *grave) error {
	replies, err := g.ask(ctx, patience, protocol.Probes(v.key, v.probe, v.probe)...)
	if err != nil {
		return fault.Advise(err)
	}
	if g.dialect = protocol.DecodeProbes(replies); g.dialect.Scriptless {
		if _, err := v.encode(g.dialect, 0); err != nil {
			return v.allowed(errors.Join(err, replies[1].Err()))
		}
	}
	return nil
}

// allowed adds to what a node forbids the rules that would allow it.
func (v *revoker) allowed(err error) error {
	var reply *driver.ServerError
	if errors.As(err, &reply) && reply.Code == "NOPERM" {
		return fault.With(reply, "the user's ACL forbids it: allow "+strings.Join(v.rules, " "))
	}
	return err
}

// run sends commands, with the source of a script that the node does not know.
func (v *revoker) run(ctx context.Context, g *grave, cmds []driver.Command) ([]driver.Reply, error) {
	replies, err := g.ask(ctx, patience, cmds...)
	if err == nil && protocol.LacksScript(replies) {
		for i, cmd := range cmds {
			cmds[i] = scripts.WithSource(cmd)
		}
		replies, err = g.ask(ctx, patience, cmds...)
	}
	return replies, fault.Advise(err)
}

// bury puts the tombstone there, or finds one, and lets it stay for the least time.
func (v *revoker) bury(ctx context.Context, g *grave, least time.Duration) error {
	cmds, err := v.encode(g.dialect, least)
	if err != nil {
		return err
	}
	sent := v.clock.Now()
	replies, err := v.run(ctx, g, cmds)
	if err != nil {
		return err
	}
	received := v.clock.Fresh()
	if err := v.decode(g, replies); err != nil {
		return v.allowed(err)
	}
	g.from, g.until = sent.Add(g.left-2*time.Millisecond), received.Add(g.left)
	return nil
}

// ends is when the lease of the holder ends at the latest.
func (v *revoker) ends(quorum int) clockdrift.Instant {
	var tombstones []clockdrift.Instant
	for _, g := range v.graves {
		if g.err == nil && g.there {
			tombstones = append(tombstones, g.until)
		}
	}
	return lease.RevokedUntil(tombstones, len(v.graves), quorum)
}

// keep lets the tombstone stay until all that were put are final. It counts only if it was there
// all the time: a renewal in between would have moved the end.
func (v *revoker) keep(ctx context.Context, g *grave, ends clockdrift.Instant) error {
	if !g.there {
		return nil
	}
	before := g.from
	err := v.bury(ctx, g, max(0, ends.Sub(v.clock.Now()))+time.Millisecond)
	if err == nil && g.there && v.clock.Fresh() >= before {
		err = errors.New("the key expired meanwhile")
	}
	return err
}

// free deletes the tombstone, and announces that the key is free.
func (v *revoker) free(ctx context.Context, g *grave) error {
	if !g.there {
		return nil
	}
	cmds, err := v.encodeFree(g.dialect)
	if err != nil {
		return err
	}
	replies, err := v.run(ctx, g, cmds)
	if err == nil {
		g.freed, err = v.decodeFree(g.dialect, replies)
	}
	return v.allowed(err)
}

// judge sums up what the nodes have.
func (v *revoker) judge(r *Revocation) {
	now := v.clock.Fresh()
	r.Took, r.Nodes, r.FreeAt = 0, nil, nil
	var frees []clockdrift.Instant
	for _, g := range v.graves {
		n := RevokedNode{Name: g.Name}
		switch {
		case g.err != nil:
			n.Error = Printable(strings.TrimPrefix(g.err.Error(), "redlock: "))
		case g.freed || !g.there && !g.taken:
			n.Took = g.freed
			frees = append(frees, now)
		default:
			n.Took = g.there
			if g.left > 0 {
				n.Left = max(0, g.until.Sub(now)).Seconds()
				frees = append(frees, max(now, g.until))
			}
		}
		if n.Took {
			r.Took++
		}
		r.Nodes = append(r.Nodes, n)
	}
	if slices.Sort(frees); len(frees) >= r.Quorum {
		at := time.Now().UTC().Add(frees[r.Quorum-1].Sub(now))
		r.FreeAt = &at
	}
}

// failure says why the key is not taken from its holder for certain. Took is how many nodes had a
// tombstone at first.
func (v *revoker) failure(r *Revocation, took int) error {
	var errs []error
	for _, g := range v.graves {
		if g.err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", g.Name, g.err))
		}
	}
	switch why := errors.Join(errs...); {
	case r.Final, r.Now && r.Took >= r.Quorum:
		return nil
	case took == 0 && len(v.graves)-len(errs) >= r.Quorum:
		return fmt.Errorf("revoke %q: %w: the holder that was seen has gone; nothing was changed", r.Key, fault.ErrLost)
	case why == nil:
		return fmt.Errorf("revoke %q: %w: %d of %d nodes took it, and %d must: the holder may go on: do it again", r.Key, fault.ErrNoQuorum, r.Took, len(v.graves), r.Need)
	default:
		return fmt.Errorf("revoke %q: %w: %d of %d nodes took it, and %d must: the holder may go on: fix these, and do it again: %w",
			r.Key, fault.ErrNoQuorum, r.Took, len(v.graves), r.Need, why)
	}
}
