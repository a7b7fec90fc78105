// Command mutants takes one mechanism of the library out at a time, and shows the test
// that fails without it:
//
//	go run ./test/mutants [-run REGEXP] [-v] [-timeout DURATION]
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

The exit code is 1 unless all are killed.

  go run ./test/mutants [flags]

`

func main() {
	flag.Usage = func() {
		_, _ = io.WriteString(flag.CommandLine.Output(), usage)
		flag.PrintDefaults()
	}
	chosen := flag.String("run", "", "only mutants whose name matches this `regexp`")
	verbose := flag.Bool("v", false, "show what the tests print, up to the failure")
	timeout := flag.Duration("timeout", time.Minute, "how long a package's tests may run; one that hangs is killed by that")
	overlay := flag.String("overlay", "", "run no test, but write the one mutant that is chosen to this `folder`, with overlay.json for go build -overlay")
	flag.Parse()

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	var killed bool
	var err error
	if *overlay != "" {
		killed, err = true, write(ctx, *chosen, *overlay)
	} else {
		killed, err = start(ctx, *chosen, *verbose, *timeout)
	}
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
	}
	if err != nil || !killed {
		os.Exit(1)
	}
}

// start runs those of the table whose names match, and reports whether all were killed.
func start(ctx context.Context, chosen string, verbose bool, timeout time.Duration) (killed bool, err error) {
	mutants, err := matching(chosen)
	if err != nil {
		return false, err
	}
	lib, err := quorumlock(ctx)
	if err != nil {
		return false, err
	}
	work, err := os.MkdirTemp("", "quorumlock-mutants-")
	if err != nil {
		return false, err
	}
	defer func() { _ = os.RemoveAll(work) }()
	l := laboratory{library: lib, work: work, timeout: timeout, verbose: verbose, out: os.Stdout}
	return l.examine(ctx, mutants)
}

// write writes the one mutant whose name matches.
func write(ctx context.Context, chosen, folder string) error {
	mutants, err := matching(chosen)
	if err != nil {
		return err
	}
	if len(mutants) != 1 {
		return fmt.Errorf("%d mutants have a name like %q, want one", len(mutants), chosen)
	}
	lib, err := quorumlock(ctx)
	if err != nil {
		return err
	}
	_, err = mutants[0].overlay(lib, folder)
	return err
}

// matching returns the mutants whose names match.
func matching(chosen string) ([]mutant, error) {
	pattern, err := regexp.Compile(chosen)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(slices.Clone(table()), func(m mutant) bool { return !pattern.MatchString(m.name) }), nil
}

// quorumlock returns the library, by the packages that users import.
func quorumlock(ctx context.Context) (*library, error) {
	root, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", "github.com/quorumlock/quorumlock").Output()
	if err != nil {
		return nil, err
	}
	return load(ctx, strings.TrimSpace(string(root)), packages...)
}

// packages are those whose mechanisms are taken out, with what they import.
var packages = []string{"./redlock", "./fence", "./supervise", "./inspect"}
