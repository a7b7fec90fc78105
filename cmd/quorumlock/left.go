//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package main

import (
	"time"

	"github.com/spf13/cobra"

	"github.com/quorumlock/quorumlock/supervise"
)

// What tells a program its key, and where its lease file is.
const (
	keyVariable   = "QUORUMLOCK_KEY"
	leaseVariable = "QUORUMLOCK_LEASE"
)

func leftVerb(t *tool) *cobra.Command {
	var atLeast time.Duration
	verb := &cobra.Command{
		Use:   "left [--at-least DURATION]",
		Short: "Tell a program of run whether its lock lasts",
		Long: `left is for scripts that "quorumlock run" runs. It exits with 0 if the lock is held, for at least as long as
--at-least says, and with 1 if it is not: then somebody else may have the key. It prints nothing, and asks no node.

Renewals go on, so the time that is left is seldom more than --ttl, and less than half of it only if they fail.
Between this answer and what the script does next time passes: where a late write does harm, use --fences.`,
		Example: `  for order in orders/*; do
    quorumlock left --at-least 2s || exit 1
    settle "$order"
  done`,
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			file := t.getenv(leaseVariable)
			if file == "" {
				return exitf(exitUsage, "no %s in the environment: left is for what \"quorumlock run\" runs", leaseVariable)
			}
			left, err := supervise.Left(file)
			if err != nil {
				return exit(exitIO, err)
			}
			if left == 0 || left < atLeast {
				return &verdict{1}
			}
			return nil
		},
	}
	verb.Flags().DurationVar(&atLeast, "at-least", 0, "how `long` the lock has to last")
	return verb
}
