package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/internal/inspect"
	"github.com/quorumlock/quorumlock/redlock"
)

// A statusRun is one run of status.
type statusRun struct {
	*tool
	inspect.StatusOptions
	nodes []driver.Node
	watch time.Duration // 0: once
	check bool
	free  bool // wait until the key is
}

// The times of status.
const (
	watchPause = 2 * time.Second
	leastWatch = 100 * time.Millisecond
	secondLook = time.Second // after which a fault is none if it has gone
)

func statusVerb(t *tool) *cobra.Command {
	r := &statusRun{tool: t}
	verb := t.overNodes(&cobra.Command{
		Use:   "status [KEY...]",
		Short: "Say who holds which keys, by the votes of every node",
		Long: `status shows who holds the keys that are named, or all keys under --prefix. A column for each node, in the order
of --nodes, has ● for the holder's token, ○ for another one or a vote that does not count (the node sits out, under
--guard), · for nothing, and ? where the node does not say. LEFT is when so many nodes have let go that those free
make a quorum, if nobody renews; of what is left over, when the last one has. FENCE is the greatest number that a
node has accepted. Of a token four digits are shown.

To list keys each node goes through its whole database (SCAN), whatever the prefix: at --rate, and with more than
1 million keys only with --full. Up to 1000 keys are in the order of their names; more are printed as they are found.
A Redis Cluster shows one of its masters only: name the keys.

It exits with 0; 1 if --check finds a fault; 64 if there are too many keys; 69 if too few nodes answer; 77 if too many
forbid it; 130 if --watch is interrupted. If nobody holds anything it prints nothing, and says so on stderr.
What each state means is in docs/operations.md.`,
		Example: `  quorumlock status --profile prod
  quorumlock status --profile prod orders:42 -o json
  quorumlock status --profile prod --watch
  quorumlock status --profile prod --check
  timeout 60 quorumlock status --profile prod --wait-free nightly && echo the report is done`,
		ValidArgsFunction: t.completeKeys,
		RunE: func(cmd *cobra.Command, args []string) error {
			r.Settings, r.Keys = t.settings.Settings, args
			flags := cmd.Flags()
			switch {
			case flags.Changed("watch") && r.watch < leastWatch:
				return exitf(exitUsage, "--watch: %v is less than %v", r.watch, leastWatch)
			case r.Rate <= 0:
				return exitf(exitUsage, "--rate: %d keys a second: want more than 0", r.Rate)
			case r.check && r.watch > 0:
				return exitf(exitUsage, "--check looks once: give it without --watch")
			case r.free && (r.check || r.watch > 0 || len(args) != 1):
				return exitf(exitUsage, "--wait-free waits for one KEY, and prints nothing: give it without --check and --watch")
			}
			if r.free {
				return r.waitFree(cmd.Context())
			}
			var err error
			if r.nodes, err = t.settings.open(); err != nil {
				return err
			}
			defer closeNodes(r.nodes)
			if r.watch > 0 {
				return r.watching(cmd.Context())
			}
			return r.once(cmd.Context())
		},
	})
	flags := verb.Flags()
	flags.BoolVar(&r.Full, "full", false, "list keys also where a node has more than 1 million")
	flags.IntVar(&r.Rate, "rate", 100_000, "go through so many `keys` a second at each node, at most")
	flags.DurationVar(&r.watch, "watch", 0, "look again after `each`, until it is interrupted; without a time after 2s (a key that is called like a time stands first)")
	flags.Lookup("watch").NoOptDefVal = watchPause.String()
	flags.BoolVar(&r.check, "check", false, "for monitors: show only keys that are split, held at exactly a quorum, unclear, or left over for longer than --ttl, twice within a second; exit with 1 if there are any")
	flags.BoolVar(&r.free, "wait-free", false, "wait until nobody has the KEY, and print nothing; it may be taken again at once")
	t.formats(verb)
	return verb
}

// waitFree waits until nobody has the key.
func (r *statusRun) waitFree(ctx context.Context) error {
	locker, err := r.settings.openLocker()
	if err != nil {
		return err
	}
	defer func() { _ = locker.Close() }() // it holds nothing
	for holder, err := range locker.Watch(ctx, r.Keys[0]) {
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err != nil && !r.goesOn(err):
			return err
		case err != nil:
		case !holder.Held:
			return nil
		}
	}
	return context.Cause(ctx)
}

// goesOn reports whether a watch goes on behind an error, and says it then.
func (t *tool) goesOn(err error) bool {
	goes := errors.Is(err, redlock.ErrNoQuorum) || errors.Is(err, redlock.ErrContended)
	if goes {
		t.say("%s", redlock.Summary(err))
	}
	return goes
}

// completeKeys are the keys that are held, for the shell's TAB.
func (t *tool) completeKeys(cmd *cobra.Command, _ []string, begun string) (keys []string, _ cobra.ShellCompDirective) {
	if t.settings.load(cmd.Flags(), t.getenv) != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	nodes, err := t.settings.open()
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	defer closeNodes(nodes)
	ctx, cancel := context.WithTimeout(cmd.Context(), patienceOfShells)
	defer cancel()
	report, _ := inspect.Status(ctx, nodes, inspect.StatusOptions{Settings: t.settings.Settings}) // what there is of it
	for _, k := range report.Keys {
		if strings.HasPrefix(k.Key, begun) && !slices.Contains(keys, k.Key) {
			keys = append(keys, k.Key)
		}
	}
	return keys, cobra.ShellCompDirectiveNoFileComp
}

// patienceOfShells is how long whoever presses TAB waits.
const patienceOfShells = 2 * time.Second

// once looks, and prints keys as they are found.
func (r *statusRun) once(ctx context.Context) error {
	var report inspect.StatusReport
	var err error
	var faults []inspect.KeyStatus
	out := r.printer()
	for report, err = range inspect.StatusParts(ctx, r.nodes, r.StatusOptions) {
		if r.check {
			faults = append(faults, slices.DeleteFunc(report.Keys, fine)...)
		} else if err := out.add(&report); err != nil {
			return err
		}
	}
	if report.Keys = nil; err == nil && faults != nil {
		report.Keys, err = r.lookAgain(ctx, faults)
	}
	if err != nil {
		return err
	}
	if !r.check || len(report.Keys) > 0 {
		err = out.end(&report)
	}
	for _, line := range statusNotes(&report, out.held || r.check) {
		_, _ = fmt.Fprintln(r.talk, line)
	}
	if err == nil && len(report.Keys) > 0 {
		return &verdict{1}
	}
	return err
}

// fine reports whether a key has no fault.
func fine(k inspect.KeyStatus) bool { return k.Fault == "" }

// lookAgain returns those of the keys with faults that still have one a second later: who contends
// for a key splits votes for a moment, and an acquire under way is a minority.
func (r *statusRun) lookAgain(ctx context.Context, faults []inspect.KeyStatus) ([]inspect.KeyStatus, error) {
	if !sleep(ctx, secondLook) {
		return nil, context.Cause(ctx)
	}
	again := r.StatusOptions
	again.Keys = nil
	for _, k := range faults {
		again.Keys = append(again.Keys, k.Key)
	}
	report, err := inspect.Status(ctx, r.nodes, again)
	return slices.DeleteFunc(report.Keys, fine), err
}

// sleep waits for so long. It reports whether it did, and ctx has not ended.
func sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}

// watching looks again and again. It ends with the context, or with what it prints to.
func (r *statusRun) watching(ctx context.Context) error {
	file, ok := r.out.(*os.File)
	if !ok || r.format != formatTable || r.getenv("TERM") == "dumb" || !term.IsTerminal(int(file.Fd())) { // one that has gone is none any more
		file = nil
	}
	for first := true; ; first = false {
		report, err := inspect.Status(ctx, r.nodes, r.StatusOptions)
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err != nil && !errors.Is(err, redlock.ErrNoQuorum):
			return err
		}
		if err := r.redraw(file, &report, err, first); err != nil {
			if errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.EIO) {
				return nil // nobody looks any more
			}
			return err
		}
		if sleep(ctx, r.watch) {
			continue
		}
		if file != nil {
			_ = r.print("\r\n") // behind the page; the terminal may have gone
		}
		return context.Cause(ctx)
	}
}

// redraw puts a report in the place of the last one, on a terminal; behind it, elsewhere.
func (r *statusRun) redraw(terminal *os.File, report *inspect.StatusReport, failed error, first bool) error {
	if terminal == nil {
		if failed != nil {
			r.say("%s", spoken(failed))
			return nil
		}
		if !first && r.format == formatTable && len(report.Keys) > 0 {
			if err := r.print("\n"); err != nil {
				return err
			}
		}
		return r.printer().end(report)
	}
	width, height, _ := term.GetSize(int(terminal.Fd())) // unknown: 0
	var page strings.Builder
	fmt.Fprintf(&page, "%s  every %v\n\n", report.Time.Format("15:04:05 MST"), r.watch)
	notes := statusNotes(report, slices.ContainsFunc(report.Keys, isHeld))
	if failed != nil {
		notes = strings.Split(failed.Error(), "\n")
	}
	for _, note := range notes { // above, where a long table leaves them
		page.WriteString(strings.Join(screen{width: width}.wrap(note, 0), "\n") + "\n")
	}
	if failed == nil {
		(&statusPage{nodes: len(report.Nodes), now: report.Time, screen: r.screen()}).write(&page, report.Keys, false)
	}
	return r.print(frame(page.String(), height, first))
}

// frame is a page as a terminal of so many lines shows it in the place of the last one: from home
// on, each line cleared to its end, and what is below.
func frame(page string, height int, first bool) string {
	lines := strings.Split(strings.TrimRight(page, "\n"), "\n")
	if height > 1 && len(lines) > height {
		more := fmt.Sprintf("… %d lines more: make the terminal higher, or name keys", len(lines)-height+1)
		lines = append(lines[:height-1], more)
	}
	begin := "\x1b[H"
	if first {
		begin = "\x1b[2J\x1b[H"
	}
	return begin + strings.Join(lines, "\x1b[K\r\n") + "\x1b[K\x1b[J"
}
