package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Report is all that a run has found out: what the JSON file holds.
type Report struct {
	Machine Machine  `json:"machine"`
	Tables  []Table  `json:"cases"`
	Floors  []Ruling `json:"floors"`
}

// Machine says where and how the figures came about.
type Machine struct {
	Date      string `json:"date"`
	Processor string `json:"processor"`
	Cores     int    `json:"cores"`
	System    string `json:"system"`
	Go        string `json:"go"`
	Server    string `json:"server"`
	Nodes     int    `json:"nodes"`
	Rounds    int    `json:"rounds"`
	Window    string `json:"window"` // how long one measurement takes
}

func thisMachine(b *Bench) Machine {
	text, _ := os.ReadFile("/proc/cpuinfo") // none is none
	return Machine{
		Date:      time.Now().UTC().Format(time.DateOnly),
		Processor: cmp.Or(infoField(string(text), `model name\s*`), "unknown processor"),
		Cores:     runtime.GOMAXPROCS(0),
		System:    runtime.GOOS + "/" + runtime.GOARCH,
		Go:        runtime.Version(),
		Server:    b.Site.Version(),
		Nodes:     nodes,
		Rounds:    b.Rounds,
		Window:    b.Duration.String(),
	}
}

// replace takes the tables of another report in place of its own. Figures of two machines, or of two days, do not
// belong together.
func (r *Report) replace(other *Report) error {
	was, is := r.Machine, other.Machine
	is.Rounds, is.Window = was.Rounds, was.Window
	if was != is {
		return fmt.Errorf("the figures before are of %+v, and these of %+v: measure all anew", was, is)
	}
	for _, table := range other.Tables {
		if at := r.Table(table.Name); at != nil {
			*at = table
		} else {
			r.Tables = append(r.Tables, table)
		}
	}
	r.Floors = judge(r)
	return nil
}

// Table is the figures of one case.
type Table struct {
	Name string `json:"name"`
	Rows []*Row `json:"rows"`
}

// Row is the figures of one contender in one situation.
type Row struct {
	Key
	// Rounds has a value of each metric for each round. Times are in seconds, and
	// cycles a second.
	Rounds map[string][]float64 `json:"rounds"`
}

// Key says whose figures a row holds.
type Key struct {
	Contender  string `json:"contender"`
	Goroutines int    `json:"goroutines,omitempty"`
	Situation  string `json:"situation,omitempty"`
}

// Add adds one round's values to the row of key, but for those that are no numbers,
// such as allocations of no cycle at all. A new row goes behind those of its title.
func (t *Table) Add(key Key, values map[string]float64) {
	row := t.Row(key)
	if row == nil {
		row = &Row{key, map[string][]float64{}}
		at := len(t.Rows)
		for i, other := range t.Rows {
			if other.title() == row.title() {
				at = i + 1
			}
		}
		t.Rows = slices.Insert(t.Rows, at, row)
	}
	for metric, value := range values {
		if math.IsNaN(value) || math.IsInf(value, 0) {
			continue
		}
		row.Rounds[metric] = append(row.Rounds[metric], rounded(value))
	}
}

// rounded is a value in six digits: what comes after them is noise.
func rounded(value float64) float64 {
	return must(strconv.ParseFloat(strconv.FormatFloat(value, 'g', 6, 64), 64))
}

// Row finds the row of key, and nil where there is none.
func (t *Table) Row(key Key) *Row {
	if t == nil {
		return nil
	}
	i := slices.IndexFunc(t.Rows, func(row *Row) bool { return row.Key == key })
	if i < 0 {
		return nil
	}
	return t.Rows[i]
}

// Median is the metric's median over the rounds. It is not a number where nothing
// was measured.
func (r *Row) Median(metric string) float64 {
	if r == nil {
		return math.NaN()
	}
	return median(r.Rounds[metric])
}

// ratio is the median over the rounds of how many times b's value a has.
func ratio(metric string, a, b *Row) float64 {
	if a == nil || b == nil {
		return math.NaN()
	}
	var ratios []float64
	for i := range min(len(a.Rounds[metric]), len(b.Rounds[metric])) {
		ratios = append(ratios, a.Rounds[metric][i]/b.Rounds[metric][i])
	}
	return median(ratios)
}

func median(values []float64) float64 {
	if len(values) == 0 {
		return math.NaN()
	}
	sorted := slices.Sorted(slices.Values(values))
	middle := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[middle]
	}
	return (sorted[middle-1] + sorted[middle]) / 2
}

// Table finds the table of a case, and nil where the case did not run.
func (r *Report) Table(name string) *Table {
	i := slices.IndexFunc(r.Tables, func(t Table) bool { return t.Name == name })
	if i < 0 {
		return nil
	}
	return &r.Tables[i]
}

// write writes the report as JSON, a row a line, so that a later run can be compared line by line.
func (r *Report) write(path string) {
	text := must(json.Marshal(r))
	for _, begin := range []string{`{"name":`, `{"contender":`, `"floors":`} {
		text = bytes.ReplaceAll(text, []byte(begin), []byte("\n"+begin))
	}
	check(os.WriteFile(path, append(text, '\n'), 0o644)) //nolint:gosec // everybody may read it
}

func readReport(path string) (report Report) {
	check(json.Unmarshal(must(os.ReadFile(path)), &report)) //nolint:gosec // a file of ours
	return report
}

// comparison runs the bench of another commit and this one by turns, and compares them. A
// round is one run of each, so that whatever else the machine does meets both alike.
type comparison struct {
	commit string
	least  float64 // the share of the other commit's cycles below which a figure is worse
	rounds int
	args   []string // of every run
}

// run builds both benches, lets them take turns, and prints the ratios. Its error names
// the figures that are worse.
func (c *comparison) run(ctx context.Context) {
	work := must(os.MkdirTemp("", "quorumlock-against-"))
	defer func() { check(os.RemoveAll(work)) }()
	tree := filepath.Join(work, "tree")
	command(ctx, "git", "worktree", "add", "--quiet", "--detach", tree, c.commit)
	defer command(context.WithoutCancel(ctx), "git", "worktree", "remove", "--force", tree)
	bench := func(i int) string { return filepath.Join(work, "bench"+strconv.Itoa(i)) }
	for i, folder := range []string{filepath.Join(tree, "test", "bench"), "."} {
		command(ctx, "go", "-C", folder, "build", "-o", bench(i), ".")
	}
	var sides [2]Report
	for round := range c.rounds {
		for turn := range sides {
			i := (round + turn) % len(sides)
			fmt.Fprintf(os.Stderr, "round %d of %d: %s\n", round+1, c.rounds, [...]string{c.commit, "this tree"}[i])
			command(ctx, bench(i), append(slices.Clone(c.args), "-rounds", "1", "-out", bench(i)+".out")...)
			sides[i].merge(readReport(filepath.Join(bench(i)+".out", "bench.json")))
		}
	}
	c.compare(&sides[0], &sides[1])
}

// command runs a program, and shows what it says only if it fails.
func command(ctx context.Context, name string, args ...string) {
	if said, err := exec.CommandContext(ctx, name, args...).CombinedOutput(); err != nil { //nolint:gosec // git, go, and what go has built
		check(fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, said))
	}
}

// merge adds the rounds of another report.
func (r *Report) merge(other Report) {
	for _, table := range other.Tables {
		if r.Table(table.Name) == nil {
			r.Tables = append(r.Tables, Table{Name: table.Name})
		}
		for _, row := range table.Rows {
			for metric, values := range row.Rounds {
				for _, value := range values {
					r.Table(table.Name).Add(row.Key, map[string]float64{metric: value})
				}
			}
		}
	}
}

// compare prints, for each row that both have, the medians of this tree's metrics and, in
// parentheses, of their ratios to the other commit's. Its error names the rows whose cycles
// are worse.
func (c *comparison) compare(other, this *Report) {
	var text strings.Builder
	fmt.Fprintf(&text, "This tree beside %s: medians over %d rounds; in parentheses the median of the rounds' ratios.\n", c.commit, c.rounds)
	var worse []string
	for _, k := range cases {
		table, before := this.Table(k.Name), other.Table(k.Name)
		if table == nil || before == nil {
			continue
		}
		fmt.Fprintf(&text, "\n\n%s: %s\n", k.Name, k.About)
		table.text(&text, k.Columns, func(metric string, row *Row) string {
			shown := show(metric, row.Median(metric))
			if share := ratio(metric, row, before.Row(row.Key)); !math.IsNaN(share) {
				shown += fmt.Sprintf(" (%.3f)", share)
			}
			return shown
		})
		for _, row := range table.Rows {
			if share := ratio("cycles", row, before.Row(row.Key)); share < c.least {
				worse = append(worse, fmt.Sprintf("%s, %s, %s: %.3f", k.Name, row.Contender, row.title(), share))
			}
		}
	}
	fmt.Print(text.String())
	if len(worse) > 0 {
		check(fmt.Errorf("below %.2f of the cycles of %s:\n\t%s", c.least, c.commit, strings.Join(worse, "\n\t")))
	}
}

// passOn are the flags of a run that each of the two is given.
func (o *options) passOn() []string {
	contenders := o.contenders
	if contenders == "" {
		contenders = "^redlock" // peers do not change
	}
	args := []string{"-contenders=" + contenders, "-only=" + o.only}
	flag.Visit(func(f *flag.Flag) {
		if slices.Contains([]string{"duration", "far", "crowd", "keys", "goroutines", "quick"}, f.Name) {
			args = append(args, "-"+f.Name+"="+f.Value.String())
		}
	})
	return args
}
