package main

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"path/filepath"
	"slices"
	"strings"
)

// Release is one line of the history: what was measured when a version was made.
type Release struct {
	Version   string             `json:"version"`
	Date      string             `json:"date"`
	Processor string             `json:"processor"`
	Cores     int                `json:"cores"`
	Figures   map[string]float64 `json:"figures"` // the headlines, by their names
}

// headline is a figure that is followed from release to release.
type headline struct {
	name  string
	value float64
	form  func(float64) string
}

// headlines are our cycles, their shares of the floor, and what the floors are held against.
func headlines(r *Report) (all []headline) {
	for _, row := range ours(r.Table(throughput.Name)) {
		name := row.Contender + ", " + row.title()
		all = append(all,
			headline{name + ": cycles/s", row.Median("cycles"), whole},
			headline{name + ": of the floor", row.Median("share"), percent},
			headline{name + ": client CPU a cycle", row.Median("client cpu"), duration})
	}
	for _, f := range floors() {
		value, _ := f.Measure(r)
		all = append(all, headline{f.Text, value, f.Form})
	}
	return slices.DeleteFunc(all, func(h headline) bool { return math.IsNaN(h.value) || math.IsInf(h.value, 0) })
}

// remember puts the history of the results in a folder before a report, which is compared with its
// last line. If version is not "", the report becomes a line of it.
func (r *Report) remember(folder, version string) error {
	before, err := readReport(filepath.Join(folder, "bench.json"))
	if errors.Is(err, fs.ErrNotExist) {
		before, err = new(Report), nil
	}
	if err != nil {
		return err
	}
	r.History = slices.DeleteFunc(before.History, func(line Release) bool { return line.Version == version })
	if len(r.History) > 0 {
		r.since = &r.History[len(r.History)-1]
	}
	if version == "" {
		return nil
	}
	line := Release{version, r.Machine.Date, r.Machine.Processor, r.Machine.Cores, make(map[string]float64)}
	for _, h := range headlines(r) {
		line.Figures[h.name] = h.value
	}
	r.History = append(slices.Clip(r.History), line)
	return nil
}

// changes writes how the headlines have changed since the last release.
func (r *Report) changes(text *strings.Builder) {
	if r.since == nil {
		return
	}
	lines := [][]string{{"", r.since.Version, "now", "change"}}
	for _, h := range headlines(r) {
		if then, was := r.since.Figures[h.name]; was {
			lines = append(lines, []string{h.name, h.form(then), h.form(h.value), change(then, h.value)})
		}
	}
	if len(lines) == 1 {
		return
	}
	fmt.Fprintf(text, "\n\nsince %s (%s)", r.since.Version, r.since.Date)
	if m := r.Machine; m.Processor != r.since.Processor || m.Cores != r.since.Cores {
		fmt.Fprintf(text, ", which was measured on %s, %d cores: only shares and ratios can be compared", r.since.Processor, r.since.Cores)
	}
	text.WriteString("\n\n")
	align(text, lines, "<>>>")
}

// change is by how much a figure is more than it was.
func change(then, now float64) string {
	if then == 0 {
		return ""
	}
	return fmt.Sprintf("%+.0f %%", 100*(now/then-1))
}
