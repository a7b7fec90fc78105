package main

import (
	"errors"
	"fmt"
	"maps"

	"github.com/spf13/cobra"

	"github.com/quorumlock/quorumlock/internal/inspect"
	"github.com/quorumlock/quorumlock/redlock"
)

func settingsVerb(t *tool) *cobra.Command {
	var c inspect.Change
	var before []string
	verb := t.overNodes(&cobra.Command{
		Use:   "settings --from OLD --to NEW",
		Short: "Give nodes another longest lease, or another list of nodes, under the guard",
		Long: `settings changes what all clients of a prefix share under --guard: the longest lease, the node set, and the number
of nodes. OLD and NEW are written as errors and doctor have them: "60000 0:3" is a longest lease of 60,000 ms for
node set 0 of three nodes. Each list of nodes needs a node set of its own.

First all old nodes leave: from then on they refuse old clients by name, whose locks end at their deadlines. Only then
all new nodes enter. New clients have locks 9/8 of the longest lease later. If a node does not answer, the command
names it, and ends with 69: run the same once more. It may be broken off anywhere. While an old node has not left,
none enters, for old and new clients could both have a quorum. A node that is lost needs not leave: shut it off for
good, and give it as --gone.`,
		Example: `  quorumlock settings --profile prod --from "60000 0:3" --to "120000 0:3"
  quorumlock settings --profile prod --old-nodes @old-nodes --from "60000 0:3" --to "60000 1:5"`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			after, err := t.settings.open()
			if err != nil {
				return err
			}
			defer closeNodes(after)
			old := after
			if before != nil {
				s := t.settings
				s.urls, s.origins = before, maps.Clone(s.origins)
				s.origins["nodes"] = s.origins["old-nodes"]
				if old, err = s.open(); err != nil {
					return err
				}
				defer closeNodes(old)
			}
			c.Prefix = t.settings.Prefix
			err = inspect.ChangeSettings(cmd.Context(), old, after, c)
			switch {
			case errors.Is(err, redlock.ErrNoQuorum):
				return exit(exitUnavailable, err)
			case err != nil:
				return err
			}
			return t.print(fmt.Sprintf("%d nodes are for clients with %q from now on: start these, and see quorumlock doctor --wait\n", len(after), c.To))
		},
	})
	flags := verb.Flags()
	flags.StringVar(&c.From, "from", "", "the `settings` that the nodes have")
	flags.StringVar(&c.To, "to", "", "the `settings` that they get, those of --nodes")
	flags.StringArrayVar(&before, "old-nodes", nil, "URLs of the `nodes` that have the old settings, as --nodes takes them (default: --nodes)")
	flags.StringSliceVar(&c.Gone, "gone", nil, "the `addresses` of old nodes that are shut off for good: if one answers again, two can hold a lock")
	return verb
}
