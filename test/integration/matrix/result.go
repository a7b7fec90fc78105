package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
	"time"
)

// A result is what came out on one server.
type result struct {
	name    string
	reports string // what the suite's own nodes called themselves
	passed  int
	failed  int
	skipped []string // test and reason
	took    time.Duration

	groups map[string]bool // tests that have tests of their own: these count
	output map[string]string
}

// An event is one line of go test -json.
type event struct {
	Action, Package, Test, Output string
}

func newResult(name string) *result {
	return &result{name: name, groups: map[string]bool{}, output: map[string]string{}}
}

// read counts the tests, and prints what those that fail have said.
func (r *result) read(events io.Reader) error {
	for lines := json.NewDecoder(events); ; {
		var e event
		if err := lines.Decode(&e); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		r.count(e)
	}
}

var suiteRan = regexp.MustCompile(`^integration: .*processes \(([^)]+)\)`)

func (r *result) count(e event) {
	id := e.Package + " " + e.Test
	switch e.Action {
	case "run":
		for i, char := range e.Test {
			if char == '/' {
				r.groups[e.Package+" "+e.Test[:i]] = true
			}
		}
	case "output":
		if said := suiteRan.FindStringSubmatch(e.Output); said != nil && e.Test == "" {
			r.reports = said[1]
		}
		r.output[id] += e.Output
	case "pass":
		if e.Test != "" && !r.groups[id] {
			r.passed++
		}
	case "skip":
		if e.Test != "" {
			r.skipped = append(r.skipped, e.Test+": "+strings.Join(strings.Fields(r.output[id]), " "))
		}
	case "fail":
		// A group fails with its tests, and a package with its own; each may also fail by
		// itself.
		if !r.groups[id] && e.Test != "" || r.failed == 0 {
			r.failed++
		}
		fmt.Printf("%s: FAIL %s\n%s", r.name, id, r.output[id])
	}
}

// verdict returns why the matrix fails on this server, or nil.
func (r *result) verdict() error {
	switch {
	case r.failed > 0:
		return fmt.Errorf("%d tests failed", r.failed)
	case r.passed == 0:
		return errors.New("no test ran")
	case r.reports == "":
		return errors.New("the suite does not say which server it ran on")
	}
	return nil
}
