package main

import (
	"fmt"
	"math"
	"strings"
	"time"
	"unicode/utf8"
)

// Column is one metric of a table.
type Column struct {
	Metric string
	Head   string
	Form   func(float64) string
}

// loadColumns are those of every case that measures a load.
var loadColumns = []Column{
	{"cycles", "cycles/s", whole},
	{"lock p50", "lock p50", duration},
	{"lock p90", "p90", duration},
	{"lock p99", "p99", duration},
	{"unlock p50", "unlock p50", duration},
	{"unlock p90", "p90", duration},
	{"unlock p99", "p99", duration},
}

// values are what a sample holds, by the names of the columns.
func (s *Sample) values() map[string]float64 {
	cycles := float64(s.Cycles)
	values := map[string]float64{
		"cycles":     cycles / s.Elapsed.Seconds(),
		"failed":     float64(s.Failed),
		"allocs":     float64(s.Mallocs) / cycles,
		"client cpu": s.CPU.Seconds() / cycles,
	}
	if s.Cycles > 0 {
		for name, q := range map[string]float64{"p50": 0.5, "p90": 0.9, "p99": 0.99} {
			values["lock "+name] = s.Lock.quantile(q).Seconds()
			values["unlock "+name] = s.Unlock.quantile(q).Seconds()
		}
	}
	return values
}

// text is the report as plain text.
func (r *Report) text() string {
	var text strings.Builder
	m := r.Machine
	fmt.Fprintf(&text, "%d nodes (%s) and all clients on one machine: %s, %d cores, %s, %s, %s.\n", m.Nodes, m.Server, m.Processor, m.Cores, m.System, m.Go, m.Date)
	fmt.Fprintf(&text, "A cycle is a lock and its unlock. Figures are medians over %d rounds at most, in which the contenders take turns of %s.\n", m.Rounds, m.Window)
	for _, c := range cases {
		if t := r.Table(c.Name); t != nil {
			fmt.Fprintf(&text, "\n\n%s: %s\n", c.Name, c.About)
			t.text(&text, c.Columns, Column.show)
		}
	}
	lines := [][]string{{"", "", "floor", "measured", ""}}
	for _, ruling := range r.Floors {
		if ruling.Verdict == unmeasured && len(r.Tables) < len(usual()) {
			continue // other cases tell
		}
		lines = append(lines, []string{ruling.Text, ruling.Verdict, ruling.Floor, ruling.Measured, ruling.At})
	}
	if len(lines) > 1 {
		fmt.Fprintf(&text, "\n\nfloors\n\n")
		align(&text, lines, "<<>><")
	}
	r.changes(&text)
	return text.String()
}

// text writes the rows under their titles. A cell is what a column shows of a row.
func (t *Table) text(text *strings.Builder, columns []Column, cell func(Column, *Row) string) {
	heads := []string{"contender"}
	sides := "<"
	for _, column := range columns {
		heads, sides = append(heads, column.Head), sides+">"
	}
	for rows := t.sorted(); len(rows) > 0; {
		title := rows[0].title()
		fmt.Fprintf(text, "\n%s\n\n", title)
		lines := [][]string{heads}
		for len(rows) > 0 && rows[0].title() == title {
			cells := []string{rows[0].Contender}
			for _, column := range columns {
				cells = append(cells, cell(column, rows[0]))
			}
			lines, rows = append(lines, cells), rows[1:]
		}
		align(text, lines, sides)
	}
}

// align writes lines of cells in columns that are flush left (<) or right (>).
func align(text *strings.Builder, lines [][]string, sides string) {
	widths := make([]int, len(sides))
	for _, cells := range lines {
		for i, cell := range cells {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	for _, cells := range lines {
		var line strings.Builder
		for i, cell := range cells {
			gap := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell))
			if sides[i] == '<' {
				line.WriteString("  " + cell + gap)
			} else {
				line.WriteString("  " + gap + cell)
			}
		}
		text.WriteString(strings.TrimRight(line.String(), " ") + "\n")
	}
}

// sorted are the rows by situation and goroutines, as they came first, and by
// contender within.
func (t *Table) sorted() []*Row {
	var titles []string
	groups := map[string]map[string]*Row{}
	for _, row := range t.Rows {
		title := row.title()
		if groups[title] == nil {
			groups[title] = map[string]*Row{}
			titles = append(titles, title)
		}
		groups[title][row.Contender] = row
	}
	var rows []*Row
	for _, title := range titles {
		for _, c := range everybody() {
			if row := groups[title][c.Name()]; row != nil {
				rows = append(rows, row)
			}
		}
	}
	return rows
}

func (k Key) title() string {
	var parts []string
	if k.Situation != "" {
		parts = append(parts, k.Situation)
	}
	switch {
	case k.Goroutines == 1:
		parts = append(parts, "1 goroutine")
	case k.Goroutines > 1:
		parts = append(parts, whole(float64(k.Goroutines))+" goroutines")
	}
	return strings.Join(parts, ", ")
}

// show is the median of the column's metric.
func (c Column) show(row *Row) string { return form(c.Form, row.Median(c.Metric)) }

func form(f func(float64) string, value float64) string {
	if math.IsNaN(value) || math.IsInf(value, 0) {
		return "–"
	}
	return f(value)
}

// whole shows a number without a fraction, in groups of three digits.
func whole(value float64) string {
	text := fmt.Sprintf("%.0f", value)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

func decimal(value float64) string { return fmt.Sprintf("%.1f", value) }
func twofold(value float64) string { return fmt.Sprintf("%.2f", value) }
func index(value float64) string   { return fmt.Sprintf("%.3f", value) }
func percent(value float64) string { return fmt.Sprintf("%.0f %%", 100*value) }
func memory(bytes float64) string  { return fmt.Sprintf("%.1f kB", bytes/1e3) }

// duration shows seconds in three digits.
func duration(seconds float64) string {
	switch d := time.Duration(seconds * float64(time.Second)); {
	case d >= time.Second:
		return fmt.Sprintf("%.3g s", seconds)
	case d >= time.Millisecond:
		return fmt.Sprintf("%.3g ms", seconds*1e3)
	default:
		return fmt.Sprintf("%.3g µs", seconds*1e6)
	}
}
