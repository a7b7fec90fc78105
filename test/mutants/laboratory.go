package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"time"
)

// A laboratory examines mutants.
type laboratory struct {
	library *library
	timeout time.Duration           // the least
	takes   map[suite]time.Duration // on the library as it is
	out     io.Writer
	page    string // where the sentence stands that says what came of all; "": nowhere
}

// A suite is the tests of a package.
type suite struct {
	pkg string // its folder, as ./redlock
	run string // a regexp of the tests' names; by default all but examples
}

// counts are what came of all mutants.
type counts struct{ killed, survived, broken int }

// examine reports whether all the mutants are killed. The error is why it could not go on.
func (l *laboratory) examine(ctx context.Context, mutants []mutant) (killed bool, err error) {
	if len(mutants) == 0 {
		return false, errors.New("there is no mutant of that name")
	}
	began := time.Now()
	if err := l.control(ctx, mutants); err != nil {
		return false, err
	}
	var all counts
	for _, m := range mutants {
		from := time.Now()
		said, err := l.try(ctx, &m)
		if ctx.Err() != nil {
			return false, ctx.Err()
		}
		l.say("%s (%.1fs)\n", all.take(m.name, said, err), time.Since(from).Seconds())
	}
	l.say("%d mutants: %d killed, %d survived, %d broken (%v)\n",
		len(mutants), all.killed, all.survived, all.broken, time.Since(began).Round(time.Second))
	if l.page != "" {
		err = all.record(l.page)
	}
	return all.killed == len(mutants), err
}

// say prints, and does not care whether anybody reads.
func (l *laboratory) say(format string, args ...any) { _, _ = fmt.Fprintf(l.out, format, args...) }

// take counts an outcome, and returns it in words.
func (c *counts) take(name, said string, err error) string {
	switch {
	case err != nil:
		c.broken++
		return fmt.Sprintf("BROKEN    %s: %v", name, err)
	case said == "":
		c.survived++
		return "SURVIVED  " + name
	}
	c.killed++
	return fmt.Sprintf("killed    %s  by %s", name, said)
}

// sentence is the line of a page that says what came of a run of all.
var sentence = regexp.MustCompile(`(?m)^A run of all \d+ killed \d+\..*$`)

// record puts the counts into the page's sentence.
func (c *counts) record(page string) error {
	was, err := os.ReadFile(page) //nolint:gosec // a page of ours
	if err != nil {
		return err
	}
	if len(sentence.FindAll(was, -1)) != 1 {
		return fmt.Errorf("%s: want one sentence like %q", page, sentence)
	}
	is := fmt.Sprintf("A run of all %d killed %d.", c.killed+c.survived+c.broken, c.killed)
	return os.WriteFile(page, sentence.ReplaceAll(was, []byte(is)), 0o644) //nolint:gosec // everybody may read it
}

// control sees to it that the tests pass on the library as it is.
func (l *laboratory) control(ctx context.Context, mutants []mutant) error {
	l.takes = make(map[suite]time.Duration)
	for _, m := range mutants {
		for _, s := range m.tests(l.library) {
			if l.takes[s] != 0 {
				continue
			}
			began := time.Now()
			failed, err := s.test(ctx, l.library.root, "", 10*l.timeout)
			if err != nil || failed != "" {
				return fmt.Errorf("without a mutant the tests of %s do not pass, so mutants would show nothing: %s%w", s.pkg, failed, cmp.Or(err, errors.New("")))
			}
			l.takes[s] = time.Since(began)
			l.say("passes    %s %s as it is (%.1fs)\n", s.pkg, s.run, l.takes[s].Seconds())
		}
	}
	return nil
}

// try runs the mutant's suites up to the first test that fails, and returns what it says; "": none fails.
func (l *laboratory) try(ctx context.Context, m *mutant) (failed string, err error) {
	dir, err := os.MkdirTemp("", "quorumlock-mutant-")
	if err != nil {
		return "", err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	overlay, err := m.overlay(l.library, dir)
	for _, s := range m.tests(l.library) {
		if err == nil && failed == "" { // a suite that takes a minute on a slow machine has not hung
			failed, err = s.test(ctx, l.library.root, overlay, max(l.timeout, 4*l.takes[s]))
		}
	}
	return failed, err
}

// test runs the suite's tests up to the first that fails, and returns what it says; "": none fails. Overlay may be "".
func (s suite) test(ctx context.Context, root, overlay string, timeout time.Duration) (failed string, err error) {
	cmd := exec.CommandContext(ctx, "go", "test", "-vet=off", "-count=1", "-failfast", "-overlay="+overlay, //nolint:gosec // no part is from outside
		"-timeout="+timeout.String(), "-run="+cmp.Or(s.run, "^(Test|Fuzz)"), s.pkg)
	cmd.Dir = root
	said, err := cmd.CombinedOutput()
	return verdict(string(said), err)
}

var (
	failure   = regexp.MustCompile(`(?m)^--- FAIL: (\S+)`)
	complaint = regexp.MustCompile(`(?m)^(?:panic: |fatal error: |\s+\S+_test\.go:\d+: ).*`)
)

// verdict reads what go test has printed.
func verdict(said string, ended error) (failed string, err error) {
	name := failure.FindStringSubmatchIndex(said)
	switch {
	case ended == nil && strings.Contains(said, "[no tests to run]"), ended == nil && strings.Contains(said, "[no test files]"):
		return "", errors.New("no test has run")
	case ended == nil:
		return "", nil
	case strings.Contains(said, "[build failed]"), strings.Contains(said, "[setup failed]"):
		return "", fmt.Errorf("it does not compile: %s", said)
	case name != nil:
		return said[name[2]:name[3]] + ": " + strings.TrimSpace(complaint.FindString(said[name[1]:])), nil
	}
	if failed = complaint.FindString(said); failed == "" { // a panic beside the tests, or a hang
		err = fmt.Errorf("the tests ended with %w, and no test has failed: %s", ended, said)
	}
	return failed, err
}
