package main

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"
)

// An event is one line of go test -json.
type event struct {
	Action, Package, Test, Output string
}

// A report tells what the tests do, and what those that fail have said. Its methods are
// safe for concurrent use.
type report struct {
	began time.Time
	all   int // packages

	mu       sync.Mutex
	to       io.Writer
	testing  bool // and not building any more
	ready    int  // packages that are built
	running  map[string]time.Time
	said     map[string]map[string]string // by package and by test, of those that have not ended
	passed   int
	skipped  int
	packages map[string][]string // that have a test that was not run, by reason
	counts   map[string]int      // likewise, tests
}

func newReport(to io.Writer, packages int) *report {
	return &report{
		began: time.Now(), all: packages, to: to,
		running: map[string]time.Time{}, said: map[string]map[string]string{},
		packages: map[string][]string{}, counts: map[string]int{},
	}
}

// hear takes one line of go test -json. The mark tells apart runs of one package.
func (r *report) hear(line []byte, mark string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var e event
	if json.Unmarshal(line, &e) != nil {
		_, _ = r.to.Write(line) // not go test's own
		return
	}
	e.Package += mark
	switch e.Action {
	case "start":
		r.running[e.Package] = time.Now()
		r.said[e.Package] = map[string]string{}
	case "build-output":
		r.print("%s", e.Output)
	case "output":
		if said := r.said[e.Package]; said != nil {
			said[e.Test] += e.Output
		}
	case "pass", "skip", "fail":
		if e.Test == "" {
			r.ended(e)
		} else {
			r.tested(e)
		}
	}
}

// tested counts a test that has ended.
func (r *report) tested(e event) {
	said := r.said[e.Package][e.Test]
	delete(r.said[e.Package], e.Test)
	switch e.Action {
	case "pass":
		r.passed++
	case "skip":
		r.skipped++
		why := reason(said)
		r.counts[why]++
		if name := short(e.Package); !slices.Contains(r.packages[why], name) {
			r.packages[why] = append(r.packages[why], name)
		}
	case "fail":
		r.print("%s", said)
	}
}

// ended tells how a package has ended, and what it said beside its tests.
func (r *report) ended(e event) {
	said := r.said[e.Package]
	delete(r.said, e.Package)
	delete(r.running, e.Package)
	if e.Action == "fail" { // also what tests said that it broke off
		for _, test := range slices.Sorted(maps.Keys(said)) {
			r.print("%s", said[test])
		}
		return
	}
	if !r.testing {
		r.ready++
		return
	}
	for line := range strings.Lines(said[""]) {
		if line != "PASS\n" && !strings.HasPrefix(line, "? ") {
			r.print("%s", line)
		}
	}
}

// because is how a test says why it was not run.
var because = regexp.MustCompile(`(?m)^\s+\S+\.go:\d+: (.*)$`)

// reason returns the last thing that a test has said.
func reason(said string) string {
	if found := because.FindAllStringSubmatch(said, -1); found != nil {
		return found[len(found)-1][1]
	}
	return "it does not say why"
}

// short is a package's name in the project.
func short(name string) string { return strings.TrimPrefix(name, "github.com/quorumlock/quorumlock/") }

func (r *report) print(format string, args ...any) { _, _ = fmt.Fprintf(r.to, format, args...) }

// beat says again and again what is going on, until it is stopped.
func (r *report) beat(interval time.Duration) (stop func()) {
	var (
		beating sync.WaitGroup
		ends    = make(chan struct{})
	)
	beating.Go(func() {
		ticker := time.NewTicker(interval)
		defer ticker.Stop()
		for {
			select {
			case <-ticker.C:
				r.tell()
			case <-ends:
				return
			}
		}
	})
	return func() {
		close(ends)
		beating.Wait()
	}
}

// tell says what is going on.
func (r *report) tell() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.testing {
		r.print("run: %s: %d of %d packages are built\n", since(r.began), r.ready, r.all)
		return
	}
	var running []string
	for _, p := range slices.Sorted(maps.Keys(r.running)) {
		running = append(running, fmt.Sprintf("%s (%s)", short(p), since(r.running[p])))
	}
	r.print("run: %s: %s\n", since(r.began), strings.Join(running, ", "))
}

// built says that from now on tests run.
func (r *report) built() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.testing = true
	r.print("run: %s: %d packages are built\n", since(r.began), r.ready)
}

// end says how many tests ran, and which did not.
func (r *report) end() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.print("run: %s: %d tests passed, and %d were NOT RUN\n", since(r.began), r.passed, r.skipped)
	for _, why := range slices.Sorted(maps.Keys(r.counts)) {
		r.print("run: NOT RUN: %d of %s: %s\n", r.counts[why], strings.Join(r.packages[why], ", "), why)
	}
}

func since(t time.Time) string { return time.Since(t).Round(time.Second).String() }
