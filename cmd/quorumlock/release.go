package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/user"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/internal/inspect"
	"github.com/quorumlock/quorumlock/redlock"
)

// A releaseReport is what release prints.
type releaseReport struct {
	Schema string `json:"schema"`
	Held   bool   `json:"held"` // somebody had the key
	inspect.Revocation
}

// A releasing is one run of release.
type releasing struct {
	*tool
	inspect.RevokeOptions
	force, yes bool
	slot       int
}

func releaseVerb(t *tool) *cobra.Command {
	r := &releasing{tool: t}
	verb := t.overNodes(&cobra.Command{
		Use:   "release KEY --force",
		Short: "Take a key from its holder, without two holders",
		Long: `release takes a key from the holder that has it now, and from nobody else: a holder that hangs, or whose program
cannot be stopped. The nodes put a tombstone in the place of its token, for as long as its lease may run. So its
renewals fail, its lock is lost at its deadline, and the next waiter gets the key then: there are never two holders.
(Deleting the key would make two, and the next renewal would set it again.)

Without --force it says who has the key and what would be done, and does nothing.

It exits with 0 if no renewal can undo it, or if nobody has the key; 69 if too few nodes took it: then the holder
may go on, and the same command completes it; 75 if the holder let go meanwhile; 77 if a node forbids it.
A line for audits goes to stderr.

Readers lose the key together. A key of AcquireAll takes the lock on the other keys with it. A permit of a semaphore
is named by --slot.`,
		Example: `  quorumlock release orders:42 --force --reason "pod-7 hangs, INC-1234"
  quorumlock release gpus --slot 2 --force
  quorumlock release orders:42 --force --now --yes`,
		Args: cobra.ExactArgs(1),
		ValidArgsFunction: func(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
			if len(args) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return t.completeKeys(cmd, args, begun)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			r.Settings = t.settings.Settings
			if cmd.Flags().Changed("slot") && r.slot < 0 {
				return exitf(exitUsage, "--slot: %d is less than 0", r.slot)
			}
			nodes, err := t.settings.open()
			if err != nil {
				return err
			}
			defer closeNodes(nodes)
			if err := r.release(cmd.Context(), nodes, args[0]); err != nil {
				return err
			}
			return context.Cause(cmd.Context())
		},
	})
	flags := verb.Flags()
	flags.BoolVar(&r.force, "force", false, "do it")
	flags.BoolVar(&r.Now, "now", false, "free the key at once: two may hold it until the lease of the old holder is over, and an old holder that renews takes it back unless somebody is faster")
	flags.BoolVar(&r.yes, "yes", false, "with --now: do not ask for the key to be typed")
	flags.StringVar(&r.Reason, "reason", "", "`why`, for the audit line and for whoever looks at the key")
	flags.IntVar(&r.slot, "slot", -1, "the `number` of a permit, if KEY is a semaphore")
	t.formats(verb)
	return verb
}

// release looks who has the key, and takes it from him.
func (r *releasing) release(ctx context.Context, nodes []driver.Node, key string) error {
	seen, err := inspect.Look(ctx, nodes, key, r.slot, r.Settings)
	if err != nil {
		return err
	}
	name := fmt.Sprintf("%q", key)
	if r.slot >= 0 {
		name = fmt.Sprintf("slot %d of %q", r.slot, key)
	}
	if !seen.Held() {
		r.report("%s: nobody has it", name)
		return r.write(&releaseReport{Revocation: inspect.Revocation{
			Time: time.Now().UTC(), Key: key, Quorum: seen.Quorum, Need: len(nodes) - len(nodes)/2, Nodes: []inspect.RevokedNode{},
		}})
	}
	r.report("%s: %s has it at %d of %d nodes%s%s", name, seen, seen.At, len(nodes), until(&seen), notes(&seen))
	if !r.force {
		return exitf(exitUsage, "nothing was done: --force takes %s from its holder, who keeps it until the lease is over", name)
	}
	if err := r.confirmed(key, &seen); err != nil {
		return err
	}
	done, err := inspect.Revoke(ctx, nodes, seen, r.RevokeOptions)
	r.audit(&seen, &done, err)
	if werr := r.write(&releaseReport{Held: true, Revocation: done}); err == nil {
		err = werr
	}
	if errors.Is(err, redlock.ErrLost) {
		err = exit(exitTaken, err)
	}
	return err
}

// report tells the operator, who sees no JSON.
func (r *releasing) report(format string, args ...any) {
	_, _ = fmt.Fprintf(r.talk, format+"\n", args...)
}

// until words the time until a key is free.
func until(seen *inspect.Holding) string {
	left := seen.Left.Round(time.Millisecond)
	switch {
	case left == 0:
		return ", and nobody can tell until when"
	case seen.Revoked:
		return fmt.Sprintf(" for %v", left)
	}
	return fmt.Sprintf(" for %v, and longer if it renews", left)
}

// notes say what is special about a holder.
func notes(seen *inspect.Holding) string {
	switch {
	case seen.Revoked && seen.Reason != "":
		return "; it was taken from its holder before: " + seen.Reason
	case seen.Revoked:
		return "; it was taken from its holder before"
	case seen.Foreign:
		return "; whether that library notices a loss is for its documentation to say"
	}
	return ""
}

// confirmed makes sure that two holders are meant.
func (r *releasing) confirmed(key string, seen *inspect.Holding) error {
	if !r.Now || r.yes {
		return nil
	}
	in, ok := r.in.(*os.File)
	if !ok || !term.IsTerminal(int(in.Fd())) {
		return exitf(exitUsage, "--now makes two holders possible: nothing was done; give --yes as well")
	}
	_, _ = fmt.Fprintf(r.talk, "Two may hold %q%s. Type the key to go on: ", key, until(seen))
	line, _ := bufio.NewReader(in).ReadString('\n') // its end is an answer, too
	if strings.TrimRight(line, "\r\n") != key {
		return exitf(exitUsage, "that is not the key: nothing was done")
	}
	return nil
}

// audit writes one line of who has done what.
func (r *releasing) audit(seen *inspect.Holding, done *inspect.Revocation, err error) {
	who := "unknown"
	if u, err := user.Current(); err == nil {
		who = u.Username
	}
	host, _ := os.Hostname() // unknown: ""
	outcome := "final"
	switch {
	case err != nil:
		outcome = "not final"
	case done.Now:
		outcome = "freed at once"
	}
	r.report("audit: time=%s user=%q host=%q verb=release key=%q slot=%d holder=%q nodes=%d/%d outcome=%q reason=%q",
		done.Time.Format(time.RFC3339), who, host, done.Key, seen.Slot, seen, done.Took, len(done.Nodes), outcome, r.Reason)
}

// write prints what has come of it.
func (r *releasing) write(report *releaseReport) error {
	report.Schema = "quorumlock.release/v1"
	switch r.format {
	case formatJSON:
		return r.writeJSON(report)
	case formatJSONL:
		return writeLines(r.tool, []*releaseReport{report})
	}
	if !report.Held {
		return nil
	}
	rows := table{{"NODE", "TOOK IT", "LEFT", ""}}
	for _, n := range report.Nodes {
		row := []string{n.Name, "no", "–", n.Error}
		if n.Took {
			row[1] = "yes"
		}
		if n.Left > 0 {
			row[2] = inspect.Short(n.Left)
		}
		rows = append(rows, row)
	}
	return r.print(rows.String() + "\n" + summary(&report.Revocation) + "\n")
}

// summary says in a sentence what has come of a revocation.
func summary(v *inspect.Revocation) string {
	free := "Nobody can tell when it is free."
	if v.FreeAt != nil {
		free = fmt.Sprintf("Free in %s, at %s.", inspect.Short(max(0, time.Until(*v.FreeAt).Seconds())), v.FreeAt.Format("15:04:05 MST"))
	}
	if v.Endless {
		free += " It had no expiry: nobody knows until when its holder relies on it."
	}
	switch {
	case v.Now && v.Endless:
		return fmt.Sprintf("Freed at %d of %d nodes. Two may hold it: it had no expiry, so nobody knows for how long.", v.Took, len(v.Nodes))
	case v.Now:
		return fmt.Sprintf("Freed at %d of %d nodes. For up to %s two may hold it.", v.Took, len(v.Nodes), inspect.Short(v.Overlap))
	case v.Final:
		return fmt.Sprintf("Taken at %d of %d nodes: no renewal succeeds any more. %s", v.Took, len(v.Nodes), free)
	}
	return fmt.Sprintf("Taken at %d of %d nodes, and %d must: the holder may go on.", v.Took, len(v.Nodes), v.Need)
}
