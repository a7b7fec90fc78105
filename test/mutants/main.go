// Command mutants takes one mechanism of the library out at a time, and shows the test
// that fails without it:
//
//	go run ./test/mutants [-run REGEXP] [-timeout DURATION]
//	go run ./test/mutants -run REGEXP -overlay FOLDER
//
// The files themselves are not touched: the compiler is told to read others in their
// place. The exit code is 1 if a mutant survives, for then a test is missing, or if the
// table does not fit the library any more.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

const usage = `mutants takes one mechanism of the library out at a time, and shows the test that fails
without it. Nothing is changed in the tree. The tests pass unchanged first, or nothing
would be shown. A line for each mutant says

  killed    and by which test, with the first line of its complaint
  SURVIVED  no test fails: one is missing
  BROKEN    the mutant does not fit the library, or does not compile: mend the table

The exit code is 1 unless all are killed. A run of all puts its counts into docs/proof.md.

  go run ./test/mutants [flags]

`

func main() {
	flag.Usage = func() {
		_, _ = io.WriteString(flag.CommandLine.Output(), usage)
		flag.PrintDefaults()
	}
	chosen := flag.String("run", "", "only mutants whose name matches this `regexp`")
	timeout := flag.Duration("timeout", time.Minute, "how long a package's tests may run at least, or four times as long as on the library as it is; a mutant that hangs is killed by that")
	overlay := flag.String("overlay", "", "run no test, but write the one mutant that is chosen to this `folder`, with overlay.json for go build -overlay")
	flag.Parse()

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	killed, err := run(ctx, *chosen, *overlay, &laboratory{timeout: *timeout, out: os.Stdout})
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
	}
	if err != nil || !killed {
		os.Exit(1)
	}
}

// run has the laboratory examine those of the table whose names match, and reports whether all were
// killed; or it writes the one of them to a folder.
func run(ctx context.Context, chosen, folder string, l *laboratory) (killed bool, err error) {
	pattern, err := regexp.Compile(chosen)
	if err != nil {
		return false, err
	}
	mutants := slices.DeleteFunc(table(), func(m mutant) bool { return !pattern.MatchString(m.name) })
	if l.library, err = quorumlock(ctx); err != nil {
		return false, err
	}
	if folder != "" {
		if len(mutants) != 1 {
			return false, fmt.Errorf("%d mutants have a name like %q, want one", len(mutants), chosen)
		}
		_, err = mutants[0].overlay(l.library, folder)
		return true, err
	}
	if chosen == "" {
		l.page = filepath.Join(l.library.root, "docs", "proof.md")
	}
	return l.examine(ctx, mutants)
}

// quorumlock returns the library, by the folders that have what mutants change.
func quorumlock(ctx context.Context) (*library, error) {
	root, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", "github.com/quorumlock/quorumlock").Output()
	if err != nil {
		return nil, err
	}
	return load(strings.TrimSpace(string(root)), "redlock", "internal")
}

// table returns all mutants.
func table() []mutant {
	return slices.Concat(scripts, replies, holders, votes, nodes, waiters, programs)
}
