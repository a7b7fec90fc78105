package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync/atomic"

	"github.com/spf13/cobra"
)

// A tool is one run of the command: where it reads and writes, and what it was told.
type tool struct {
	in        io.Reader
	out, talk io.Writer // data; everything else
	getenv    func(string) string

	settings settings
	format   string      // of the output: see [tool.formats]
	started  bool        // a verb was found, with flags and arguments that it takes
	forwards atomic.Bool // signals are for a program that the verb runs
}

// run runs the verb that args name, and returns the exit code.
func (t *tool) run(ctx context.Context, args []string) int {
	root := t.root() //nolint:contextcheck // the verbs get it below
	root.SetArgs(joined(root, args))
	verb, err := root.ExecuteContextC(ctx)
	if err == nil {
		return exitOK
	}
	if !t.started && codeOf(err) == exitSoftware {
		err = exit(exitUsage, err)
	}
	var end interrupted
	if errors.As(context.Cause(ctx), &end) {
		err = exit(128+int(end), end)
	}
	var quiet *verdict
	if !errors.As(err, &quiet) {
		t.say("%s", spoken(err))
		if codeOf(err) == exitUsage {
			_, _ = fmt.Fprintf(t.talk, "See %q.\n", verb.CommandPath()+" --help")
		}
	}
	return codeOf(err)
}

// root is the command itself with all its verbs.
func (t *tool) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "quorumlock",
		Short: "Look after locks over N independent Redis-compatible masters",
		Long: `quorumlock looks after locks that many machines share, over N independent Redis-compatible masters.

Nodes are given by --nodes, by QUORUMLOCK_NODES, or by a profile: see "quorumlock help environment".`,
		SilenceErrors: true,
		SilenceUsage:  true,
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error {
			t.started = true
			return t.settings.load(cmd.Flags(), t.getenv)
		},
	}
	root.SetIn(t.in)
	root.SetOut(t.out)
	root.SetErr(t.talk)
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return exit(exitUsage, err) })
	root.AddCommand(programVerbs(t)...)
	root.AddCommand(
		doctorVerb(t),
		statusVerb(t),
		releaseVerb(t),
		settingsVerb(t),
		profileVerb(t),
		versionVerb(t),
		manVerb(),
		exitCodesTopic(),
		environmentTopic(),
	)
	versioned(root)
	root.InitDefaultCompletionCmd()
	const windows = "powershell" // run and elect are for Unix
	if c, _, err := root.Find([]string{completionVerb, windows}); err == nil && c.Name() == windows {
		shells := c.Parent()
		shells.RemoveCommand(c)
		shells.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() } // which refuses what it does not know
	}
	return root
}

// overNodes gives a verb the settings of the clients and the nodes.
func (t *tool) overNodes(cmd *cobra.Command) *cobra.Command {
	t.settings.flags(cmd.Flags())
	return cmd
}
