package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/quorumlock/quorumlock/redlock"
)

func admitVerb(t *tool) *cobra.Command {
	var undo bool
	verb := t.overNodes(&cobra.Command{
		Use:   "admit",
		Short: "Let new nodes vote at once, without the guard's quarantine",
		Long: `admit lets all nodes vote at once that were never in use, at the first deployment under --guard and before any
client takes a lock. It admits all nodes or none: all have to answer, and none may hold a record of the guard. A
node that was replaced, restarted or flushed is not admitted by hand, for it may have forgotten a vote: it votes
by itself when a client has run for one longest lease.

It may stand in a script that runs at every deployment: then it exits with 78 and changes nothing, for nodes were
admitted before. 75 means that none was, and that a client has asked them for a lock before: they vote when a client
has run for one longest lease. 69 means that a node does not answer.`,
		Example: `  quorumlock admit --profile prod
  quorumlock admit --guard --longest-ttl 1m --nodes redis://10.0.0.1,redis://10.0.0.2,redis://10.0.0.3`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if !t.settings.RestartGuard {
				return exitf(t.settings.fault("guard"), "every node votes without --guard: there is nothing to admit")
			}
			locker, err := t.settings.openLocker()
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, locker.Close()) }()
			return t.admit(cmd.Context(), locker, undo)
		},
	})
	verb.Flags().BoolVar(&undo, "undo-guard", false, "admit whatever answers, whatever it holds: two holders are possible unless all clients have been stopped for the longest lease")
	return verb
}

// admit admits the nodes, and says why not.
func (t *tool) admit(ctx context.Context, locker *redlock.Locker, undo bool) error {
	do := locker.AdmitNewNodes
	if undo {
		do = locker.ForceAdmission
	}
	err := do(ctx)
	switch {
	case err == nil:
		return t.print(fmt.Sprintf("%d nodes are admitted: they vote from now on\n", len(locker.Stats().Nodes)))
	case errors.Is(err, redlock.ErrAdmitted):
		code := exitConfig
		if errors.Is(err, redlock.ErrQuarantine) {
			code = exitTaken // it passes
		}
		return exitf(code, "%w, %v. To admit them now can make two holders: stop all clients for %v first, and then use --undo-guard", err, t.settings.longest(), t.settings.longest())
	}
	return err
}
