package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"time"
)

// A laboratory examines mutants.
type laboratory struct {
	library *library
	work    string                   // an empty folder
	timeout time.Duration            // the least
	takes   map[string]time.Duration // a suite on the library as it is, by its name
	verbose bool
	out     io.Writer
	page    string // where the sentence stands that says what came of all; "": nowhere
}

// parallel is how many mutants are examined at once.
const parallel = 2

// An outcome is what came of a mutant, or of the suites without one.
type outcome struct {
	verdict *verdict // nil: err says why there is none
	err     error
	log     bytes.Buffer
	took    time.Duration
}

// examine reports whether all the mutants are killed. The error is why it could not begin.
func (l *laboratory) examine(ctx context.Context, mutants []mutant) (killed bool, err error) {
	if len(mutants) == 0 {
		return false, errors.New("there is no mutant of that name")
	}
	began := time.Now()
	if err := l.control(ctx, mutants); err != nil {
		return false, err
	}
	outcomes := l.tryAll(ctx, mutants)
	var all counts
	for i, m := range mutants {
		o := <-outcomes[i]
		l.say("%s (%.1fs)\n", all.take(m.name, o), o.took.Seconds())
		if l.verbose {
			l.say("%s", o.log.Bytes())
		}
	}
	l.say("%d mutants: %d killed, %d survived, %d broken (%v)\n",
		len(mutants), all.killed, all.survived, all.broken, time.Since(began).Round(time.Second))
	if err = ctx.Err(); err == nil && l.page != "" {
		err = all.record(l.page)
	}
	return all.killed == len(mutants), err
}

// say prints, and does not care whether anybody reads.
func (l *laboratory) say(format string, args ...any) { _, _ = fmt.Fprintf(l.out, format, args...) }

// counts are what came of all mutants.
type counts struct{ killed, survived, broken int }

// take counts an outcome, and returns it in words.
func (c *counts) take(name string, o *outcome) string {
	switch {
	case o.err != nil:
		c.broken++
		return fmt.Sprintf("BROKEN    %s: %v", name, o.err)
	case !o.verdict.failed():
		c.survived++
		return "SURVIVED  " + name
	}
	c.killed++
	if o.verdict.hung {
		return fmt.Sprintf("killed    %s  by %s, which hung", name, o.verdict.test)
	}
	return fmt.Sprintf("killed    %s  by %s: %s", name, o.verdict.test, o.verdict.complaint)
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

// tryAll examines the mutants in their order, a few at once.
func (l *laboratory) tryAll(ctx context.Context, mutants []mutant) []chan *outcome {
	outcomes := make([]chan *outcome, len(mutants))
	places := make(chan int, len(mutants))
	for i := range outcomes {
		outcomes[i] = make(chan *outcome, 1)
		places <- i
	}
	close(places)
	for range parallel {
		go func() {
			for i := range places {
				outcomes[i] <- l.try(ctx, strconv.Itoa(i), &mutants[i], mutants[i].tests(l.library))
			}
		}()
	}
	return outcomes
}

// control sees to it that the tests pass on the library as it is.
func (l *laboratory) control(ctx context.Context, mutants []mutant) error {
	l.takes = make(map[string]time.Duration)
	for _, m := range mutants {
		for _, s := range m.tests(l.library) {
			name := s.name()
			if l.takes[name] != 0 {
				continue
			}
			o := l.try(ctx, "control", nil, []suite{s})
			if l.verbose {
				l.say("%s", o.log.Bytes())
			}
			switch {
			case o.err != nil:
				return fmt.Errorf("without a mutant: %w", o.err)
			case o.verdict.failed():
				return fmt.Errorf("without a mutant %s of %s fails, so mutants would show nothing: %s", o.verdict.test, s.pkg, o.verdict.complaint)
			}
			l.takes[name] = o.took
			l.say("passes    %s as it is: %d tests (%.1fs)\n", name, o.verdict.passed, o.took.Seconds())
		}
	}
	return nil
}

// limit is how long a suite may run. One that takes a minute on a slow machine has not hung.
func (l *laboratory) limit(s *suite) time.Duration {
	if takes, known := l.takes[s.name()]; known {
		return max(l.timeout, 4*takes)
	}
	return 10 * l.timeout
}

// try runs the suites up to the first test that fails, on a mutant or on the library as it
// is (nil).
func (l *laboratory) try(ctx context.Context, name string, m *mutant, suites []suite) *outcome {
	began := time.Now()
	o := &outcome{}
	o.verdict, o.err = l.run(ctx, filepath.Join(l.work, name), m, suites, &o.log)
	o.took = time.Since(began)
	return o
}

func (l *laboratory) run(ctx context.Context, dir string, m *mutant, suites []suite, log io.Writer) (v *verdict, err error) {
	if err := os.Mkdir(dir, 0o700); err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }() // test binaries are large
	overlay := ""
	if m != nil {
		if overlay, err = m.overlay(l.library, dir); err != nil {
			return nil, err
		}
	}
	for _, s := range suites {
		binary := filepath.Join(dir, "tests")
		if err := s.build(ctx, l.library.root, overlay, binary); err != nil {
			return nil, err
		}
		if v, err = s.test(ctx, l.library.root, binary, l.limit(&s), log); err != nil || v.failed() {
			return v, err
		}
	}
	return v, nil
}
