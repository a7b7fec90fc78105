// Command run runs the tests of packages, as go test does with these flags: first it builds
// all, and then those that wait run beside those that compute. Every 20 seconds it says what
// it is at, and at its end which tests were not run, and why: go test passes over them.
//
//	go run ./test/run -race $(go list work)
package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"
)

// A lane is packages, and how they run.
type lane struct {
	packages *regexp.Regexp // that no lane before it has taken
	flags    []string
	alone    bool // after the others, and not beside them
	// twice: under the race detector with -short, and then in full without it. Their rules need many rounds, and
	// races do not; it is four times as slow.
	twice bool
}

var lanes = []lane{
	// Its judges blame the locks for what takes too long.
	{packages: regexp.MustCompile(`/integration/fault$`), flags: []string{"-p=1", "-count=1"}, alone: true},
	{packages: regexp.MustCompile(`/redlock$|/internal/lease$`), twice: true},
	// These keep a core busy each.
	{packages: regexp.MustCompile(`/fault/history$|/test/release$|/test/mutants$`), flags: []string{"-p=1"}},
	// These wait for servers and containers, which Go's cache of results does not see.
	{packages: regexp.MustCompile(`/test/integration`), flags: []string{"-p=3", "-parallel=5", "-count=1"}},
	// These wait for deadlines.
	{packages: regexp.MustCompile(``), flags: []string{"-p=4"}},
}

func main() {
	if err := run(os.Stdout, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "run:", err)
		os.Exit(1)
	}
}

func run(to io.Writer, args []string) error {
	first := slices.IndexFunc(args, func(arg string) bool { return !strings.HasPrefix(arg, "-") })
	if first < 0 {
		return errors.New("no packages: want those to test, behind the flags of go test")
	}
	flags, packages := args[:first], args[first:]
	r := newReport(to, len(packages))
	stop := r.beat(20 * time.Second)
	defer stop()

	// A test's deadlines should not meet the compiler. The tests' programs are not run yet.
	if err := test(r, flags, []string{"-exec=true"}, packages); err != nil {
		return err
	}
	r.built()
	errs := make([]error, len(lanes))
	for _, alone := range []bool{false, true} {
		var running sync.WaitGroup
		for i, own := range split(packages) {
			if len(own) > 0 && lanes[i].alone == alone {
				running.Go(func() { errs[i] = lanes[i].test(r, flags, own) })
			}
		}
		running.Wait()
	}
	r.end()
	return errors.Join(errs...)
}

// test runs the tests of the lane's packages.
func (l *lane) test(r *report, flags, packages []string) error {
	raced := slices.Index(flags, "-race")
	if !l.twice || raced < 0 {
		return test(r, flags, l.flags, packages)
	}
	plain := slices.Delete(slices.Clone(flags), raced, raced+1)
	return errors.Join(test(r, flags, append(l.flags, "-short"), packages), test(r, plain, l.flags, packages))
}

// split returns the packages of each lane.
func split(packages []string) [][]string {
	owns := make([][]string, len(lanes))
	for _, p := range packages {
		i := slices.IndexFunc(lanes, func(l lane) bool { return l.packages.MatchString(p) })
		owns[i] = append(owns[i], p)
	}
	return owns
}

// test runs go test.
func test(r *report, flags, more, packages []string) error {
	args := slices.Concat([]string{"test", "-json", "-timeout=20m"}, flags, more, packages)
	command := exec.Command("go", args...) //nolint:gosec,noctx // what this is for; it ends by its time-out
	command.Stderr = os.Stderr
	events, err := command.StdoutPipe()
	if err != nil {
		return err
	}
	if err := command.Start(); err != nil {
		return err
	}
	for lines := bufio.NewReader(events); ; {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			break // the command's end
		}
		r.hear(line)
	}
	if err := command.Wait(); err != nil {
		return fmt.Errorf("go test: %w", err)
	}
	return nil
}
