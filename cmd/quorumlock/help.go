package main

import (
	"fmt"
	"os"
	"runtime/debug"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
	"github.com/spf13/pflag"
)

func versionVerb(t *tool) *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the versions of this command and of the modules in it",
		Args:  noArguments,
		RunE: func(*cobra.Command, []string) error {
			info, ok := debug.ReadBuildInfo()
			if !ok {
				return exitf(exitSoftware, "this binary does not say what it was built of: build it with go build or go install")
			}
			return t.print(versions(info).String())
		},
	}
}

// versioned gives a verb, and all below it, the flag that asks for the version.
func versioned(verb *cobra.Command) {
	verb.Version = "of an unknown version"
	if info, ok := debug.ReadBuildInfo(); ok {
		verb.Version = info.Main.Version
	}
	verb.SetVersionTemplate("{{.Root.Name}} {{.Version}}\n")
	verb.Flags().Bool(versionFlag, false, "print the version of this command")
	for _, below := range verb.Commands() {
		versioned(below)
	}
}

const versionFlag = "version"

// versions are the command's own version, Go's, and those of the modules in it.
func versions(info *debug.BuildInfo) table {
	rows := table{{"quorumlock", info.Main.Version, info.GoVersion}}
	for _, m := range info.Deps {
		row := []string{m.Path, m.Version}
		if m.Replace != nil {
			row = append(row, "replaced by "+m.Replace.Path)
		}
		rows = append(rows, row)
	}
	return rows
}

func environmentTopic() *cobra.Command {
	rows := table{{"VARIABLE", "STANDS FOR"}}
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	new(settings).flags(flags)
	flags.VisitAll(func(f *pflag.Flag) {
		rows = append(rows, []string{variable(f.Name), "--" + f.Name})
	})
	rows = append(rows,
		[]string{"QUORUMLOCK_<FLAG>", "any other flag of a verb, in capitals and with _ for -; but --" + strings.Join(byHand, ", --") + " have none"},
		[]string{"NO_COLOR", "no colours (any value)"},
		[]string{"CLICOLOR_FORCE", "colours also where the output is no terminal (not 0)"},
		[]string{"TERM=dumb", "no colours"},
		[]string{"COLUMNS", "the width of the output, if not the terminal's own"},
		[]string{"XDG_CONFIG_HOME", "where quorumlock/NAME.conf is looked for (default: ~/.config)"},
	)
	const text = "A flag that is not given has the value of its variable, or else of the profile. An empty variable counts as none.\nQUORUMLOCK_NODES takes URLs with commas or white space between them, and @FILE.\n\n"
	return &cobra.Command{Use: "environment", Short: "Which variables are read", Long: text + strings.TrimSpace(rows.String())}
}

// completionVerb is what cobra calls the verb that prints what shells complete by.
const completionVerb = "completion"

// manVerb writes the man pages of packages, from the same text as the help. Packages have the
// completions themselves, so there is no page of how to make them.
func manVerb() *cobra.Command {
	return &cobra.Command{
		Use:    "man FOLDER",
		Short:  "Write the man pages into a folder",
		Hidden: true,
		Args:   cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := os.MkdirAll(args[0], 0o750); err != nil { //nolint:gosec // who runs the command says which
				return exit(exitUsage, err)
			}
			header := &doc.GenManHeader{Section: "1", Source: "quorumlock", Manual: "quorumlock"}
			date, err := time.Parse(time.DateOnly, os.Getenv("SOURCE_DATE"))
			if err == nil {
				header.Date = &date
			}
			for _, verb := range cmd.Root().Commands() {
				verb.Hidden = verb.Hidden || verb.Name() == completionVerb
			}
			cmd.Root().DisableAutoGenTag = true // it has the day of the build, and packages are to be reproducible
			if err := doc.GenManTree(cmd.Root(), header, args[0]); err != nil {
				return fmt.Errorf("man pages: %w", err)
			}
			return nil
		},
	}
}
