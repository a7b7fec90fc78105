package inspect

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode"
)

// Schema names the form of a [Report] in JSON. Within v1 fields are only added.
const Schema = "quorumlock.doctor/v1"

// A Severity is how bad a finding is, and what a report comes to.
type Severity string

// The severities.
const (
	Fit     Severity = "fit"     // of reports and nodes: nothing was found that matters
	Info    Severity = "info"    // of findings: worth knowing
	Unknown Severity = "unknown" // it cannot be told: the user may not ask
	Warning Severity = "warning" // locks work, and something is to be mended
	Unfit   Severity = "unfit"   // locks do not work, or are not safe
	Down    Severity = "down"    // of nodes: it does not answer
)

// severities are in order: the worst one is last.
var severities = []Severity{Fit, Info, Unknown, Warning, Unfit, Down}

// worse returns the worse one of two.
func worse(a, b Severity) Severity {
	if slices.Index(severities, a) < slices.Index(severities, b) {
		return b
	}
	return a
}

// A Report says whether a deployment is fit for locks.
type Report struct {
	Schema   string       `json:"schema"`
	Time     time.Time    `json:"time"`     // in UTC
	Verdict  Severity     `json:"verdict"`  // Fit, Unknown, Warning or Unfit: that of the worst finding, and Unfit where fewer than Quorum are fit
	Summary  string       `json:"summary"`  // what it means for locks, in a sentence
	Quorum   int          `json:"quorum"`   // so many nodes must agree
	Fit      int          `json:"fit"`      // so many may vote
	Findings []Finding    `json:"findings"` // those about no single node
	Nodes    []NodeReport `json:"nodes"`    // in the order in which they were given
	Here     HereReport   `json:"here"`
}

// A NodeReport is about one node.
type NodeReport struct {
	Name        string      `json:"name"`
	State       Severity    `json:"state"`                 // Fit, Unknown, Warning, Unfit or Down
	Quarantined bool        `json:"quarantined,omitempty"` // it has no vote for now: redlock.WithRestartGuard
	Server      string      `json:"server,omitempty"`      // "redis 8.0.1"; "" if it does not say
	RTT         float64     `json:"rtt_s,omitempty"`       // the least round trip, in seconds
	Offset      *[2]float64 `json:"offset_s,omitempty"`    // bounds of its clock's, to the median of the nodes
	Drift       *[2]float64 `json:"drift_ppm,omitempty"`   // bounds of its clock's speed, to that of this machine
	Acquire     *Latency    `json:"acquire,omitempty"`     // of a key and its release, if any was tried
	Wake        float64     `json:"wake_s,omitempty"`      // from an announcement to a listener, in seconds
	ACL         string      `json:"acl,omitempty"`         // what gives its user all that the settings need, and no more
	Findings    []Finding   `json:"findings"`
}

// A Latency is how long something took, in seconds.
type Latency struct {
	Samples int     `json:"samples"`
	P50     float64 `json:"p50_s"`
	P99     float64 `json:"p99_s"`
	Max     float64 `json:"max_s"`
}

// A HereReport is about this machine and process, where holders of locks are thought to run.
type HereReport struct {
	Pause    float64   `json:"pause_s"` // the longest time for which this process was not run
	Findings []Finding `json:"findings"`
}

// A Finding is one thing that is not as it should be.
type Finding struct {
	ID       string   `json:"id"`             // one of [IDs]: it stays the same for ever
	Node     string   `json:"node,omitempty"` // its name; "": it is about no single node
	Severity Severity `json:"severity"`
	Seen     Seen     `json:"seen"` // what was seen, by names; times are in seconds and end in _s
	Why      string   `json:"why"`  // what it means for locks
	Mend     []string `json:"mend"` // lines for a shell; what begins with # only says something
	Doc      string   `json:"doc"`

	lacks []string // the rules of an ACL without which it is there
}

// Seen is what was seen, by names.
type Seen map[string]any

// String shows it in the order of the names.
func (s Seen) String() string {
	names := slices.Sorted(maps.Keys(s))
	for i, name := range names {
		value := fmt.Sprint(s[name])
		if seconds, ok := s[name].(float64); ok && strings.HasSuffix(name, "_s") {
			value = Short(seconds)
		}
		names[i] = strings.ReplaceAll(strings.TrimSuffix(name, "_s"), "_", " ") + " " + value
	}
	return strings.Join(names, ", ")
}

// Short shows a time in seconds with three digits.
func Short(seconds float64) string {
	d := time.Duration(seconds * float64(time.Second))
	unit := time.Duration(1)
	for d.Abs() >= 1000*unit {
		unit *= 10
	}
	return d.Round(unit).String()
}

func newFinding(id, node string, s Severity, seen Seen, why string, mend []string) Finding {
	for name, value := range seen {
		if text, ok := value.(string); ok {
			seen[name] = Printable(text)
		}
	}
	lines := make([]string, len(mend)) // without a cure it is empty, which in JSON is a list, too
	for i, line := range mend {
		lines[i] = Printable(line)
	}
	return Finding{ID: id, Node: node, Severity: s, Seen: seen, Why: Printable(why), Mend: lines, Doc: docs + id}
}

// Printable is a text without what a terminal takes for a command: servers and those who write to
// them have a say in it.
func Printable(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return '?'
	}, text)
}

// docs is where the findings are explained.
const docs = "https://github.com/quorumlock/quorumlock/blob/main/docs/operations.md#"

// All are all findings of a report.
func (r *Report) All() (all []Finding) {
	all = slices.Clone(r.Findings)
	for _, n := range r.Nodes {
		all = append(all, n.Findings...)
	}
	return append(all, r.Here.Findings...)
}

// conclude says what the findings come to.
func (r *Report) conclude() {
	r.Verdict, r.Fit = Fit, 0
	for i := range r.Nodes {
		n := &r.Nodes[i]
		state := Fit
		if n.State == Down {
			state = Down
		}
		for _, f := range n.Findings {
			state = worse(state, f.Severity)
		}
		if state == Info {
			state = Fit
		}
		if n.State = state; state != Down && state != Unfit && !n.Quarantined {
			r.Fit++
		}
	}
	for _, f := range r.All() {
		if f.Severity != Info {
			r.Verdict = worse(r.Verdict, f.Severity)
		}
	}
	if r.Fit < r.Quorum { // whatever single findings say: each may be no more than a warning, or not asked for
		r.Verdict = Unfit
	}
	r.Summary = r.summary()
}

func (r *Report) summary() string {
	fit := fmt.Sprintf("%d of %d nodes are fit", r.Fit, len(r.Nodes))
	switch spare := r.Fit - r.Quorum; {
	case spare < 0:
		return fmt.Sprintf("%s, and %d must be: locks do not work", fit, r.Quorum)
	case r.hasUnfit():
		return fit + ", and what concerns all of them makes locks unsafe or slow"
	case spare == 0:
		return fit + ": locks work, and one more loss ends that"
	case spare == 1:
		return fit + ": locks work, and survive the loss of one more"
	default:
		return fmt.Sprintf("%s: locks work, and survive the loss of %d more", fit, spare)
	}
}

// hasUnfit reports whether something about no single node is unfit.
func (r *Report) hasUnfit() bool {
	return slices.ContainsFunc(append(slices.Clone(r.Findings), r.Here.Findings...), func(f Finding) bool { return f.Severity == Unfit })
}

// judgeBy keeps the findings of some ids (nil: of all), and makes warnings that are accepted
// no more than worth knowing.
func (r *Report) judgeBy(only, accepted []string) {
	pass := func(findings []Finding) []Finding {
		kept := []Finding{} // which in JSON is a list, too
		for _, f := range findings {
			if only != nil && !slices.Contains(only, f.ID) {
				continue
			}
			if slices.Contains(accepted, f.ID) && f.Severity != Unfit {
				f.Severity = Info
			}
			kept = append(kept, f)
		}
		slices.SortStableFunc(kept, func(a, b Finding) int {
			return slices.Index(severities, b.Severity) - slices.Index(severities, a.Severity)
		})
		return kept
	}
	r.Findings, r.Here.Findings = pass(r.Findings), pass(r.Here.Findings)
	for i := range r.Nodes {
		r.Nodes[i].Findings = pass(r.Nodes[i].Findings)
	}
}
