package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/quorumlock/quorumlock/test/integration/fault/history"
	"github.com/quorumlock/quorumlock/test/integration/fault/note"
	"github.com/quorumlock/quorumlock/test/integration/fault/schedule"
	"github.com/quorumlock/quorumlock/test/integration/fault/worker"
)

// bound is how long, at most, a waiter may wait for its lock while a majority of the
// nodes is well: several leases of those before it, of which each may have crashed.
const bound = 10 * time.Second

// shown is how many violations a report shows the log around, and more if so many rules were
// violated.
const shown = 3

// remains is how much a report shows of what is left behind.
const remains = 10

// A Report is what came of a trial.
type Report struct {
	history.Verdict
	Log     *history.Log
	Began   history.Moment
	Took    time.Duration
	Remains []string // what is left that should not be

	Calmed time.Duration // how long it took until nobody asked the nodes for much any more
}

// Clean reports whether nothing is wrong.
func (r *Report) Clean() bool { return r.Kept() && len(r.Remains) == 0 }

// First is how long it took until the first thing went wrong.
func (r *Report) First() time.Duration {
	first := history.Never
	for _, v := range r.Violations {
		first = min(first, v.From)
	}
	return time.Duration(first - r.Began)
}

// page is where the figures of the proof stand, seen from the module's folder.
var page = filepath.Join("..", "..", "docs", "proof.md")

// rowOf returns a page, and what matches the row of its table whose first cell begins with the trial.
func rowOf(path, trial string) (text []byte, row *regexp.Regexp, err error) {
	text, err = os.ReadFile(path) //nolint:gosec // a page of ours
	if err != nil {
		return nil, nil, err
	}
	row = regexp.MustCompile(`(?m)^(\| ` + regexp.QuoteMeta(trial) + `[^|\n]*\|).*$`)
	if len(row.FindAll(text, -1)) != 1 {
		return nil, nil, fmt.Errorf("%s: want one row that begins with %q", path, trial)
	}
	return text, row, nil
}

// record puts the figures into the trial's row of a page.
func (r *Report) record(path, trial string) error {
	was, row, err := rowOf(path, trial)
	if err != nil {
		return err
	}
	faults := 0
	for _, count := range r.Faults {
		faults += count
	}
	cells := fmt.Sprintf(" %s | %s | %s (%s) | %s | %v | %s (%s) | %v |", grouped(r.Tenures), grouped(r.Shared), grouped(r.Rounds), grouped(r.Ownerless),
		grouped(faults), r.Took.Round(time.Second), grouped(r.Visits), grouped(r.Unknown), r.LongestWait.Round(100*time.Millisecond))
	return os.WriteFile(path, row.ReplaceAll(was, []byte("${1}"+cells)), 0o644) //nolint:gosec // everybody may read it
}

// grouped is n with commas.
func grouped(n int) string {
	text := strconv.Itoa(n)
	for at := len(text) - 3; at > 0; at -= 3 {
		text = text[:at] + "," + text[at:]
	}
	return text
}

func (r *Report) String() string {
	var text strings.Builder
	fmt.Fprintf(&text, "%v in %v, %.0f a second\n", r.Verdict, r.Took.Round(time.Second), float64(r.Tenures)/r.Took.Seconds())
	fmt.Fprintf(&text, "tries for a hot key: %d; clients at rest were calm after %v\n", r.Log.Tries, r.Calmed.Round(time.Millisecond))
	if len(r.Remains) == 0 {
		fmt.Fprintln(&text, "left behind: nothing")
	}
	for _, what := range r.Remains[:min(len(r.Remains), remains)] {
		fmt.Fprintf(&text, "left behind: %s\n", what)
	}
	if more := len(r.Remains) - remains; more > 0 {
		fmt.Fprintf(&text, "left behind: and %d more\n", more)
	}
	if !r.Kept() {
		fmt.Fprintf(&text, "the first violation came %v after the start\n", r.First().Round(time.Millisecond))
	}
	for _, v := range r.Samples(shown) {
		fmt.Fprintf(&text, "\n%s", r.Log.Around(v))
	}
	return text.String()
}

func (r *running) note(f schedule.Fault, what string, span history.Span) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.faults = append(r.faults, history.Fault{Span: span, What: what, Whom: whom(f)})
	for _, i := range f.Unwell() {
		r.unwell[i] = append(r.unwell[i], history.Span{From: span.From, To: span.To + history.Moment(f.Kind.Recovery(r.Job.Pace()))})
	}
	if f.Step() > 0 {
		r.broken = append(r.broken, history.Span{From: span.From, To: span.To + history.Moment(r.Job.Lease)})
	}
}

// whom says in short what is harmed.
func whom(f schedule.Fault) string {
	what, victims := "node ", f.Nodes
	if f.Nodes == nil {
		what, victims = "client ", f.Clients
	}
	numbers := make([]int, len(victims))
	for i, n := range victims {
		numbers[i] = n + 1
	}
	return fmt.Sprint(what, numbers)
}

func (r *running) log() *history.Log {
	log := &history.Log{
		Starved: r.starved, Deaf: long(r.starved), Lease: r.Job.Lease, Faults: r.faults, Hot: worker.Rushed, Crowd: worker.Crowd, Excused: r.excused(),
		Stopped: map[string][]history.Span{},
	}
	for _, m := range r.members {
		m.log(log)
	}
	for _, retry := range r.cluster.Retries() {
		from := note.At(retry.From)
		into := &log.Retries
		if retry.Vote {
			into = &log.Votes
		}
		*into = append(*into, history.Retry{
			Span: history.Span{From: from, To: note.At(retry.To)}, Client: r.members[retry.Client].at(from).name, Node: fmt.Sprint("node ", retry.Node+1),
		})
	}
	log.Healthy = history.Majority(history.Span{From: r.began, To: note.Now()}, r.unwell)
	return log
}

// starve notes that this process did not get to run, nor what it forwards for the clients.
func (r *running) starve(when history.Span) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.starved = append(r.starved, when)
	for i := range r.unwell {
		r.unwell[i] = append(r.unwell[i], long([]history.Span{when})...)
	}
}

// excused returns when a clock went forward that a process could not have seen: one that had
// not been there for long enough to have reached all nodes before.
func (r *running) excused() []history.Span {
	reach := history.Moment(2 * r.Job.Lease)
	return slices.DeleteFunc(slices.Clone(r.broken), func(s history.Span) bool {
		return !slices.ContainsFunc(r.members, func(m *member) bool {
			return slices.ContainsFunc(m.all, func(l *life) bool { return l.began < s.To && l.began+reach > s.From })
		})
	})
}
