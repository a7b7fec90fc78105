//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package main

import (
	"errors"
	"io/fs"
	"math"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/quorumlock/quorumlock/internal/supervise"
)

// programVerbs are the verbs that need processes and signals of Unix.
func programVerbs(t *tool) []*cobra.Command {
	return []*cobra.Command{runVerb(t), leftVerb(t), electVerb(t)}
}

const forEver = time.Duration(math.MaxInt64)

func runVerb(t *tool) *cobra.Command {
	r := &running{tool: t, terms: make(chan os.Signal, 1)}
	verb := t.overNodes(&cobra.Command{
		Use:   "run [flags] KEY… -- PROGRAM [ARG…]",
		Short: "Run a program while a key is held, and stop it before the lock ends",
		Long: `run takes the lock on KEY, runs PROGRAM, and releases the lock when nothing of the program runs any more. The lease
is renewed all the while.

Of several KEYs it takes all or none, in any order. With --shared it is a reader of the key, beside other readers and no
writer. With --permits N it takes one of the N permits of the semaphore KEY, or --take M of them.

If renewals fail, the program is stopped before the lease ends: by --signal at deadline - grace - margin, and by
SIGKILL, with all its descendants, at deadline - margin (1 % of --ttl, at least 50ms). A second process does that
by its own clock, also when this one was killed or hangs. Then the exit code is 79.

There is no shell in between: "sh -c '…'" is a PROGRAM. Signals are passed on to it. TERM, and a second HUP or INT within
5s, is a stop: --signal, SIGKILL after --grace, and the key is released. A signal that ends programs and comes while run
waits for the key ends it at once, with 128+n.

The program finds in its environment:
  QUORUMLOCK_KEY    the key; several one a line, in the order of their names
  QUORUMLOCK_SLOT   with --permits: the number of its permit, from 0 on, which nobody else has; several with spaces between
  QUORUMLOCK_FENCE  the number of the lock, with --fences: a store can refuse writes that have a lower one
  QUORUMLOCK_LEASE  a file with the present deadline: "quorumlock left" reads it
  QUORUMLOCK_TOKEN  with --expose-token
  QUORUMLOCK_NODES  with --expose-nodes; otherwise it is taken out, for its URLs may have passwords

See "quorumlock help exit-codes".`,
		Example: `  quorumlock run --profile prod nightly -- /usr/local/bin/report --all
  quorumlock run -n -E 0 --at-least 40s tick -- ./tick       # from cron on many hosts: one runs it
  quorumlock run --shared config -- ./read                   # beside other readers, and no writer
  quorumlock run accounts:7 accounts:9 -- ./transfer         # both keys or none
  quorumlock run --permits 4 gpus -- sh -c 'CUDA_VISIBLE_DEVICES=$QUORUMLOCK_SLOT exec ./train'
  quorumlock run --restart --fences worker -- ./worker       # one worker at a time, for ever`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return r.run(cmd.Context(), cmd.Flags(), args)
		},
	})
	flags := verb.Flags()
	flags.DurationVarP(&r.wait, "wait", "w", forEver, "how `long` to wait for the key; 0: not for a holder")
	flags.Lookup("wait").DefValue = "for ever"
	flags.BoolVarP(&r.once, "no-wait", "n", false, "do not wait for a holder, as --wait 0")
	flags.IntVarP(&r.heldExit, "held-exit", "E", exitTaken, "the exit `code` if somebody else has the key; 0 says nothing, either")
	flags.DurationVar(&r.atLeast, "at-least", 0, "keep the key for so `long` even if the program ends sooner, so that a host whose clock is behind does not run it again")
	flags.BoolVar(&r.restart, "restart", false, "when the lock was lost and the program stopped, wait for the key and run it again")
	r.target.flags(flags)
	r.flags(flags)
	return verb
}

// What --on-renewal-failure takes.
const (
	onLostKill   = "kill"
	onLostReport = "report"
)

// flags adds those that run and elect share.
func (r *running) flags(flags *pflag.FlagSet) {
	flags.SetInterspersed(false)
	flags.BoolVarP(&r.quiet, "quiet", "q", false, "do not say at a terminal, and in the journal, who has the key meanwhile")
	flags.DurationVar(&r.grace, "grace", 5*time.Second, "the `time` between the signal that asks the program to end and SIGKILL")
	flags.Lookup("grace").DefValue = "5s, or a quarter of --ttl if that is less"
	flags.DurationVar(&r.maxHold, "max-hold", 0, "hold the lock no `longer`: then the program is stopped as if it was lost (default: no bound)")
	flags.StringVar(&r.onLost, "on-renewal-failure", onLostKill, "`what` to do when renewals fail: kill, or report for a program whose store refuses late writes by the fence")
	flags.StringVar(&r.signalName, "signal", "TERM", "the `signal` that asks the program to end, by name or number")
	flags.StringVar(&r.foreground, "foreground", "auto", "leave the program in this process group, that of a terminal: auto, yes or no")
	flags.IntVar(&r.statusFD, "status-fd", 0, "write what happens to this open `descriptor`, one JSON object a line")
	flags.StringVar(&r.listen, "listen", "", "serve /metrics, and what else there is, at this `address`, such as 127.0.0.1:4040")
	flags.StringVar(&r.textfile, "textfile", "", "at the end write the metrics to this `file`, for the textfile collector of node_exporter")
	flags.BoolVar(&r.exposeNodes, "expose-nodes", false, "leave QUORUMLOCK_NODES, and its passwords, in the program's environment")
	flags.BoolVar(&r.exposeToken, "expose-token", false, "tell the program the lock's token, by which it can be released: QUORUMLOCK_TOKEN")
}

// check finds what cannot work, before anything is sent.
func (r *running) check(flags *pflag.FlagSet, args []string) (err error) {
	if args[0] == "--" {
		return exitf(exitUsage, "no key: want KEY -- PROGRAM")
	}
	keys, argv := args, []string(nil)
	if at := slices.Index(args, "--"); at >= 0 { // flags end at the first key, so -- is a word of its own
		keys, argv = args[:at], args[at+1:]
	}
	what := "key"
	if r.elects {
		what = "election"
	}
	for _, word := range keys[1:] {
		if strings.HasPrefix(word, "-") || r.elects {
			return exitf(exitUsage, "%q stands behind the %s: want flags before it, and -- and the program behind it", word, what)
		}
	}
	r.keys = slices.Sorted(slices.Values(keys))
	r.key = strings.Join(r.keys, ", ")
	if err := r.target.check(flags); err != nil {
		return err
	}
	switch {
	case len(argv) == 0 && !r.elects:
		return exitf(exitUsage, "no program to run behind %s: want KEY -- PROGRAM, with flags before the key", &r.target)
	case r.restart && (r.once || r.wait != forEver) && !r.elects:
		return exitf(exitUsage, "--restart waits for the key for ever: it does not go with --wait or --no-wait")
	case r.wait < 0 || r.atLeast < 0 || r.maxHold < 0:
		return exitf(exitUsage, "--wait, --at-least and --max-hold are not less than 0")
	case r.maxHold != 0 && r.atLeast > r.maxHold:
		return exitf(exitUsage, "--at-least %v is longer than --max-hold %v", r.atLeast, r.maxHold)
	case r.heldExit < 0 || r.heldExit > 255:
		return exitf(exitUsage, "--held-exit: %d is not between 0 and 255", r.heldExit)
	case r.onLost != onLostKill && r.onLost != onLostReport:
		return exitf(exitUsage, "--on-renewal-failure: %q is neither kill nor report", r.onLost)
	case r.foreground != "auto" && r.foreground != "yes" && r.foreground != "no":
		return exitf(exitUsage, "--foreground: %q is none of auto, yes and no", r.foreground)
	}
	if r.settings.origins["grace"] == "default" {
		r.grace = min(r.grace, r.settings.TTL/4)
	}
	if err := supervise.Fits(r.settings.TTL, r.grace); err != nil {
		return err
	}
	if r.signal, err = signalNamed(r.signalName); err != nil {
		return err
	}
	if pid := supervise.HolderOf(r.locks(r.settings.Prefix), r.getenv(leaseVariable)); pid != 0 {
		return exitf(exitUsage, "you hold %s already: process %d does, under which this one runs, and waiting would be for ever (with other nodes it is another lock: env -u %s)", &r.target, pid, leaseVariable)
	}
	if len(argv) > 0 {
		r.program, err = program(argv)
	}
	return err
}

// program looks a program up, so that no lock is taken for one that is not there.
func program(argv []string) (supervise.Program, error) {
	path, err := exec.LookPath(argv[0])
	if err != nil {
		return supervise.Program{}, exit(execCode(err), err)
	}
	return supervise.Program{Path: path, Args: argv}, nil
}

// execCode is POSIX's code of a program that was not found, or cannot be executed.
func execCode(err error) int {
	if errors.Is(err, exec.ErrNotFound) || errors.Is(err, fs.ErrNotExist) {
		return 127
	}
	return 126
}

// signals are those that ask programs to end, or that some take for it.
var signals = map[string]syscall.Signal{
	"HUP": syscall.SIGHUP, "INT": syscall.SIGINT, "QUIT": syscall.SIGQUIT, "KILL": syscall.SIGKILL, "USR1": syscall.SIGUSR1,
	"USR2": syscall.SIGUSR2, "ALRM": syscall.SIGALRM, "TERM": syscall.SIGTERM, "WINCH": syscall.SIGWINCH,
}

func signalNamed(name string) (syscall.Signal, error) {
	if s, ok := signals[strings.TrimPrefix(strings.ToUpper(name), "SIG")]; ok {
		return s, nil
	}
	if n, err := strconv.Atoi(name); err == nil && n >= 1 && n <= 64 {
		return syscall.Signal(n), nil
	}
	return 0, exitf(exitUsage, "--signal: %q is no signal: want a name such as TERM, or a number from 1 to 64", name)
}
