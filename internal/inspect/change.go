package inspect

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/internal/fault"
	"github.com/quorumlock/quorumlock/internal/memory"
	"github.com/quorumlock/quorumlock/internal/scripts"
)

// A Change is one of what all clients of a key prefix share under redlock.WithRestartGuard: the longest TTL, the id
// of the nodes (redlock.WithNodeSet), and how many there are. Settings are written as errors and records have them:
// "60000 0:3" is a longest TTL of 60,000 ms for node set 0 of three nodes.
type Change struct {
	Prefix   string // of keys: redlock.WithKeyPrefix
	From, To string
	Gone     []string // the names of old nodes that are shut off for good
}

// ChangeSettings gives the nodes other settings. First all old nodes leave: they vote for nobody from then on, and old
// clients are refused (redlock.ErrNodeSet). Only then all new nodes enter, and new clients have locks when these have
// been watched for 9/8 of the longest TTL of both. It may be broken off anywhere, and run again with the same arguments.
// The error matches redlock.ErrOption, before anything is sent, if an argument is not valid; else redlock.ErrNoQuorum,
// or the context's error.
func ChangeSettings(ctx context.Context, before, after []driver.Node, c Change) error {
	from, ok := memory.Parse(c.From)
	if !ok || from.Size != len(before) {
		return fmt.Errorf("%w: From: %q does not name the settings of %d old nodes: want \"LONGEST-ms SET:%d\", as errors and doctor say it", fault.ErrOption, c.From, len(before), len(before))
	}
	to, ok := memory.Parse(c.To)
	if !ok || to.Size != len(after) || c.To == c.From {
		return fmt.Errorf("%w: To: %q does not name other settings, of %d new nodes: want \"LONGEST-ms SET:%d\"", fault.ErrOption, c.To, len(after), len(after))
	}
	for _, name := range c.Gone {
		if !slices.ContainsFunc(before, func(n driver.Node) bool { return n.Name == name }) {
			return fmt.Errorf("%w: Gone: %q is none of the old nodes", fault.ErrOption, name)
		}
	}
	if quorum := len(before)/2 + 1; len(c.Gone) >= quorum {
		return fmt.Errorf("%w: Gone: %d of %d old nodes: the others cannot refuse a quorum of old clients", fault.ErrOption, len(c.Gone), len(before))
	}
	old := slices.DeleteFunc(slices.Clone(before), func(n driver.Node) bool { return slices.Contains(c.Gone, n.Name) })
	if err := c.tell(ctx, old, c.From, to.Leaving(), c.To, 0); err != nil {
		return fmt.Errorf("settings: %w: no node has entered, because old nodes have not left: run the same once more when they can: %w", fault.ErrNoQuorum, err)
	}
	age := to.After(from).Microseconds()
	if err := c.tell(ctx, after, to.Leaving(), c.To, c.To, age); err != nil {
		return fmt.Errorf("settings: %w: all old nodes have left, and new nodes have not entered: run the same once more when they can: %w", fault.ErrNoQuorum, err)
	}
	return nil
}

// tell runs the script at nodes, all at once.
func (c *Change) tell(ctx context.Context, nodes []driver.Node, from, to, also string, age int64) error {
	errs := make([]error, len(nodes))
	script := scripts.WithSource(scripts.Change.One(nil, memory.Key(c.Prefix), from, to, also, strconv.FormatInt(age, 10)))
	together(nodes, func(i int, n driver.Node) {
		replies, err := (&target{Node: n}).ask(ctx, atFirst, script)
		switch {
		case err != nil:
		case replies[0].Str == "a replica":
			err = fmt.Errorf("%w: it is a replica: give the master's address", fault.ErrNode)
		case replies[0].Kind == driver.String:
			err = fmt.Errorf("%w: it is for %q", fault.ErrNodeSet, Printable(replies[0].Str))
		default:
			err = replies[0].Err()
		}
		if err != nil {
			errs[i] = fmt.Errorf("%s: %w", n.Name, fault.Advise(err))
		}
	})
	return errors.Join(errs...)
}
