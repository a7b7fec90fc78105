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
	races    races
}

// races is what the race detector has to find in a lane. It makes tests four times as slow.
type races int

const (
	likely races = iota
	rare         // the rules need many rounds, and races do not: with -short and without examples, and beside that in full without the detector
	none         // no goroutine, or programs that are built without the detector
)

var lanes = []lane{
	// Its judges blame the locks for what takes too long.
	{packages: regexp.MustCompile(`/integration/fault$`), flags: []string{"-p=1", "-count=1"}, alone: true},
	{packages: regexp.MustCompile(`/redlock$`), races: rare},
	// These keep a core busy each.
	{packages: regexp.MustCompile(`/internal/(lease|memory|acquire|protocol)$|/fault/(history|schedule)$|/test/release$|/test/mutants$`), flags: []string{"-p=1"}, races: none},
	// These measure programs, or build and run them, and so does make release-check.
	{packages: regexp.MustCompile(`/test/(bench|pages)$`), flags: []string{"-p=1"}, races: none},
	// These wait for servers and containers, which Go's cache of results does not see.
	{packages: regexp.MustCompile(`/test/integration`), flags: []string{"-p=3", "-parallel=5", "-count=1"}},
	// These wait for deadlines.
	{packages: regexp.MustCompile(``), flags: []string{"-p=4"}},
}

// thirds are two parts of redlock's tests that take a third of the time each, as the rest does.
var thirds = []string{"^TestA[A-S]", "^Test[B-S]"}

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
	given, packages := args[:first], args[first:]
	plain := slices.DeleteFunc(slices.Clone(given), func(flag string) bool { return flag == "-race" })
	passes := plan(len(plain) < len(given), packages)
	r := newReport(to, count(passes))
	stop := r.beat(20 * time.Second)
	defer stop()

	// A test's deadlines should not meet the compiler. The tests' programs are not run yet.
	for _, raced := range []bool{true, false} {
		build := pass{flags: []string{"-exec=true"}, raced: raced}
		for _, p := range passes {
			if p.raced == raced {
				build.packages = append(build.packages, p.packages...)
			}
		}
		if len(build.packages) > 0 {
			if err := build.test(r, plain); err != nil {
				return err
			}
		}
	}
	r.built()
	errs := make([]error, len(passes))
	for _, alone := range []bool{false, true} {
		var running sync.WaitGroup
		for i, p := range passes {
			if p.alone == alone {
				running.Go(func() { errs[i] = p.test(r, plain) })
			}
		}
		running.Wait()
	}
	r.end()
	return errors.Join(errs...)
}

// A pass is packages, and how they run.
type pass struct {
	mark            string // what tells it from another one of the same packages
	flags, packages []string
	alone, raced    bool
}

// plan returns the passes of packages.
func plan(raced bool, packages []string) (passes []pass) {
	for i, own := range split(packages) {
		l := lanes[i]
		if len(own) == 0 {
			continue
		}
		if raced && l.races == rare { // in thirds, for most of its tests compute one after the other
			for _, which := range []string{"-run=" + thirds[0], "-run=" + thirds[1], "-skip=^Example|" + strings.Join(thirds, "|")} {
				passes = append(passes, pass{mark: " -race -short " + which, flags: append(slices.Clip(l.flags), "-short", which), packages: own, alone: l.alone, raced: true})
			}
		}
		passes = append(passes, pass{flags: l.flags, packages: own, alone: l.alone, raced: raced && l.races == likely})
	}
	return passes
}

func count(passes []pass) (packages int) {
	for _, p := range passes {
		packages += len(p.packages)
	}
	return packages
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

// test runs go test. What go vet finds, make check says.
func (p pass) test(r *report, given []string) error {
	args := slices.Concat([]string{"test", "-json", "-vet=off", "-timeout=20m"}, given, p.flags)
	if p.raced {
		args = append(args, "-race")
	}
	args = append(args, p.packages...)
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
		r.hear(line, p.mark)
	}
	if err := command.Wait(); err != nil {
		return fmt.Errorf("go test: %w", err)
	}
	return nil
}
