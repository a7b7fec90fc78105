package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/internal/inspect"
	"github.com/quorumlock/quorumlock/redlock"
)

// The formats of doctor beside the usual ones.
const (
	formatNagios     = "nagios"
	formatPrometheus = "prometheus"
)

// allFindings is the value of --check without ids.
const allFindings = "all"

func doctorVerb(t *tool) *cobra.Command {
	var o inspect.Options
	var check []string
	var wait bool
	verb := t.overNodes(&cobra.Command{
		Use:   "doctor",
		Short: "Say whether the nodes are fit for locks, and how to fix what is not",
		Long: `doctor examines all nodes at once, within 3 s, and says for each finding what it means for locks and which
command fixes it. Lines that begin with # only say something. Give redis-cli the password of an administrator
in REDISCLI_AUTH, and --user if he is not the default user.

What the user of the nodes may not ask is "cannot tell", never fit. It exits with 0 if all is fit, 1 if there are
warnings, 2 if something is unfit, and 3 if something cannot be told. It writes nothing but scratch keys
PREFIXquorumlock:doctor:<random>, which live for 10 s at most.

With --wait it watches the nodes until all of them vote, says what they wait for, and exits with 0: new nodes under
--guard do after 9/8 of the longest lease. It fails at once where waiting does not help.`,
		Example: `  quorumlock doctor --nodes redis://10.0.0.1,redis://10.0.0.2,redis://10.0.0.3
  quorumlock doctor --profile prod --for 30s -o json
  quorumlock doctor --profile prod --accept same-host,scripts -o nagios`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			o.Settings = t.settings.Settings
			if o.Only = check; slices.Contains(check, allFindings) {
				o.Only = nil
			}
			if wait {
				return t.awaitVotes(cmd.Context())
			}
			if o.For < 0 {
				return exitf(exitUsage, "--for: %v is less than 0", o.For)
			}
			for _, id := range slices.Concat(o.Only, o.Accepted) {
				if !slices.Contains(inspect.IDs, id) {
					return exitf(exitUsage, "there is no finding %q: want some of %s", id, strings.Join(inspect.IDs, ", "))
				}
			}
			report, err := t.examine(cmd.Context(), o)
			if err != nil {
				return err
			}
			if check != nil && t.format == formatTable && report.Verdict == inspect.Fit {
				return nil
			}
			if err := t.writeReport(&report); err != nil {
				return err
			}
			if code := slices.Index(verdicts, report.Verdict); code != 0 {
				return &verdict{code}
			}
			return nil
		},
	})
	flags := verb.Flags()
	flags.DurationVar(&o.For, "for", 0, "watch the nodes and this machine for so `long`: bounds of drift get sharper, and rare pauses show (default: 2s)")
	flags.BoolVar(&wait, "wait", false, "wait until all nodes vote, for a script that deploys them: nothing else is examined")
	flags.BoolVar(&o.ReadOnly, "read-only", false, "write nothing: round trips are timed in place of acquires")
	flags.StringVar(&o.User, "acl-user", "", "the `name` of the user that locks have at the nodes, if the URLs are those of an administrator")
	flags.StringSliceVar(&o.Accepted, "accept", nil, "the `ids` of findings that are known: shown, but no reason for a warning (what is unfit stays so)")
	flags.StringSliceVar(&check, "check", nil, "for scripts: judge by the findings of these `ids` alone, without ids by all, and print nothing if all is fit")
	flags.Lookup("check").NoOptDefVal = allFindings
	for _, name := range []string{"accept", "check"} {
		_ = verb.RegisterFlagCompletionFunc(name, cobra.FixedCompletions(inspect.IDs, cobra.ShellCompDirectiveNoFileComp))
	}
	t.formats(verb, formatNagios, formatPrometheus)
	return verb
}

// awaitVotes watches the nodes until all of them vote, and says each second what has changed.
func (t *tool) awaitVotes(ctx context.Context) (err error) {
	locker, err := t.settings.openLocker()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, locker.Close()) }()
	nodes := len(locker.Stats().Nodes)
	for said := ""; ; {
		err := locker.Check(ctx)
		var unfit *redlock.QuorumError
		switch {
		case err == nil:
			return t.print(fmt.Sprintf("all %d nodes vote\n", nodes))
		case ctx.Err() != nil || !errors.As(err, &unfit):
			return err
		}
		silent := 0
		for _, v := range unfit.Votes {
			if v.Err != nil {
				silent++
			}
			if errors.Is(v.Err, redlock.ErrNode) || errors.Is(v.Err, redlock.ErrNodeSet) || forbids(v.Err) {
				return err
			}
		}
		waits, longest := sittingOut(locker.Stats())
		text := fmt.Sprintf("%d of %d nodes do not vote yet, %d of them sit out", silent, nodes, waits)
		if text != said {
			said = text
			t.say("%s: about %v left: %v", text, longest.Round(time.Second), spoken(err))
		}
		if !sleep(ctx, time.Second) {
			return context.Cause(ctx)
		}
	}
}

// sittingOut counts the nodes in quarantine, and says for how long the last of them is.
func sittingOut(s redlock.Stats) (nodes int, left time.Duration) {
	for _, n := range s.Nodes {
		if n.State == "quarantined" {
			nodes, left = nodes+1, max(left, n.QuarantineLeft)
		}
	}
	return nodes, left
}

// examine opens the nodes, looks at them, and closes them.
func (t *tool) examine(ctx context.Context, o inspect.Options) (report inspect.Report, err error) {
	urls, err := t.settings.nodes()
	if err != nil {
		return report, err
	}
	nodes, err := t.settings.open()
	if err != nil {
		return report, err
	}
	defer closeNodes(nodes)
	for _, url := range urls {
		end, err := inspect.ParseEndpoint(url)
		if err != nil {
			return report, err
		}
		o.Endpoints = append(o.Endpoints, end)
	}
	report = inspect.Doctor(ctx, nodes, o)
	return report, context.Cause(ctx)
}

// closeNodes closes what open has opened, all at once: with a silent node it may take a second.
func closeNodes(nodes []driver.Node) {
	var group sync.WaitGroup
	for _, n := range nodes {
		if c, ok := n.Driver.(io.Closer); ok {
			group.Go(func() { _ = c.Close() }) // nothing is to be done about it
		}
	}
	group.Wait()
}

// verdicts are those of reports, by their exit codes.
var verdicts = []inspect.Severity{inspect.Fit, inspect.Warning, inspect.Unfit, inspect.Unknown}

// writeReport prints a report in the format that was asked for.
func (t *tool) writeReport(r *inspect.Report) error {
	switch t.format {
	case formatJSON:
		return t.writeJSON(r)
	case formatJSONL:
		return writeLines(t, r.All())
	case formatNagios:
		return t.print(nagios(r))
	case formatPrometheus:
		return t.print(prometheus(r))
	}
	return t.print(reportPage{r, t.screen()}.String())
}
