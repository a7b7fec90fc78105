package main

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// show is a metric's value in words. Times are in seconds.
func show(metric string, value float64) string {
	if math.IsNaN(value) || math.IsInf(value, 0) {
		return "–"
	}
	switch metric {
	case "share", "in use", "clients busy", "servers busy":
		return fmt.Sprintf("%.0f %%", 100*value)
	case "allocs", "commands", "MiB more":
		return fmt.Sprintf("%.1f", value)
	case "times", "p99 ratio", "trips", "second rounds":
		return fmt.Sprintf("%.2f", value)
	case "jain":
		return fmt.Sprintf("%.3f", value)
	case "memory", "waiter memory", "server memory":
		return fmt.Sprintf("%.1f kB", value/1e3)
	case "median", "worst", "close", "recovery", "taken", "released", "normal", "done":
		return duration(value)
	}
	if regexp.MustCompile("(p50|p90|p99|max|cpu)$").MatchString(metric) {
		return duration(value)
	}
	return whole(value)
}

// where says on what, and when, the figures were measured.
func (r *Report) where() string {
	m := r.Machine
	return fmt.Sprintf("%d nodes (%s) and all clients on one machine: %s, %d cores, %s, %s, %s.\n", m.Nodes, m.Server, m.Processor, m.Cores, m.System, m.Go, m.Date)
}

func (r *Report) text() string {
	var text strings.Builder
	text.WriteString(r.where())
	m := r.Machine
	fmt.Fprintf(&text, "A cycle is a lock and its unlock; rates are a second, and what a node does is on average. Figures are medians over %d rounds at most, in which the contenders take turns of %s.\n", m.Rounds, m.Window)
	for _, c := range cases {
		if t := r.Table(c.Name); t != nil {
			fmt.Fprintf(&text, "\n\n%s: %s\n", c.Name, c.About)
			t.text(&text, c.Columns, func(metric string, row *Row) string { return show(metric, row.Median(metric)) })
		}
	}
	var judged [][]string
	for _, f := range r.Floors {
		if f.Verdict != unmeasured || len(r.Tables) >= len(chosen(nil)) { // or other cases tell
			judged = append(judged, []string{f.Verdict, f.Floor, f.Measured, strings.TrimSuffix(f.Text+" ("+f.At+")", " ()")})
		}
	}
	if len(judged) > 0 {
		align(&text, "floors", append([][]string{{"", "floor", "measured", ""}}, judged...))
	}
	return text.String()
}

// text writes the rows under their titles. A cell is what a metric shows of a row.
func (t *Table) text(text *strings.Builder, metrics []string, cell func(metric string, row *Row) string) {
	for rows := t.Rows; len(rows) > 0; {
		title, lines := rows[0].title(), [][]string{append(slices.Clone(metrics), "contender")}
		for len(rows) > 0 && rows[0].title() == title {
			var cells []string
			for _, metric := range metrics {
				cells = append(cells, cell(metric, rows[0]))
			}
			lines, rows = append(lines, append(cells, rows[0].Contender)), rows[1:]
		}
		align(text, title, lines)
	}
}

// align writes lines of cells in columns that are flush right, but for the last one.
func align(text *strings.Builder, title string, lines [][]string) {
	fmt.Fprintf(text, "\n%s\n\n", title)
	columns := tabwriter.NewWriter(text, 0, 0, 2, ' ', tabwriter.AlignRight)
	for _, cells := range lines {
		_, _ = fmt.Fprintln(columns, strings.Join(cells[:len(cells)-1], "\t")+"\t  "+cells[len(cells)-1])
	}
	_ = columns.Flush()
}

func (k Key) title() string {
	if k.Goroutines == 0 {
		return k.Situation
	}
	return join(k.Situation, plural(k.Goroutines, "goroutine"))
}

// join puts commas between those that are not empty.
func join(parts ...string) string {
	return strings.Join(slices.DeleteFunc(parts, func(part string) bool { return part == "" }), ", ")
}

// whole shows a number without a fraction, in groups of three digits.
func whole(value float64) string {
	text := fmt.Sprintf("%.0f", value)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

// duration shows seconds in three digits.
func duration(seconds float64) string {
	d, digit := time.Duration(seconds*float64(time.Second)), time.Duration(1)
	for d/digit >= 1000 {
		digit *= 10
	}
	return d.Round(digit).String()
}
