//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package main

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/quorumlock/quorumlock/internal/supervise"
)

// What tells a program its key, and where its lease file is.
const (
	keyVariable   = "QUORUMLOCK_KEY"
	slotVariable  = "QUORUMLOCK_SLOT"
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
		Args: noArguments,
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

// leaseFile makes the place of a lease file.
func (r *running) leaseFile(fence int64) (*supervise.LeaseFile, error) {
	file, err := supervise.NewLeaseFile(r.locks(r.settings.Prefix), fence, r.getenv(leaseVariable))
	if err != nil {
		return nil, noRoom(err)
	}
	return file, nil
}

// room finds out whether there will be a lease file, before anybody waits for a lock.
func (r *running) room() error {
	file, err := r.leaseFile(0)
	file.Remove()
	return err
}

func noRoom(err error) error {
	return exit(exitIO, fmt.Errorf("lease file: %w: set XDG_RUNTIME_DIR or TMPDIR to a folder of yours that is there and has room", err))
}

// environment is what the program gets, which has nothing of a lock around this one, nor the URLs of
// the nodes, which may have passwords.
func (r *running) environment(lock held, file string) []string {
	const fence, token = "QUORUMLOCK_FENCE", "QUORUMLOCK_TOKEN" //nolint:gosec // the name of a variable
	own := []string{keyVariable, slotVariable, fence, token, leaseVariable, socketVariable, "WATCHDOG_USEC", "WATCHDOG_PID"}
	for _, flag := range []string{"shared", "permits", "take", "at-least", "status-fd", nodesFlag} {
		if flag != nodesFlag || !r.exposeNodes {
			own = append(own, variable(flag))
		}
	}
	env := slices.DeleteFunc(os.Environ(), func(entry string) bool {
		name, _, _ := strings.Cut(entry, "=")
		return slices.Contains(own, name)
	})
	env = append(env, keyVariable+"="+strings.Join(r.keys, "\n"), leaseVariable+"="+file)
	if slots := slots(lock); slots != nil {
		env = append(env, slotVariable+"="+strings.Trim(fmt.Sprint(slots), "[]"))
	}
	if r.settings.Fences {
		env = append(env, fmt.Sprintf("%s=%d", fence, lock.Fence()))
	}
	if r.exposeToken {
		env = append(env, token+"="+lock.Token())
	}
	return env
}
