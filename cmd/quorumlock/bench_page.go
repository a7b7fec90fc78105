package main

import (
	"fmt"
	"io"
	"strings"
)

// write prints the report in the format that was asked for.
func (b *benching) write() error {
	switch b.format {
	case formatJSON:
		return b.writeJSON(&b.report)
	case formatJSONL:
		return writeLines(b.tool, b.report.Parts)
	}
	return benchPage{&b.report, b.screen()}.write(b.out)
}

// A benchPage is a report as a terminal shows it: the nodes, the loads, what follows, and the
// verdict.
type benchPage struct {
	*benchReport
	screen screen
}

func (p benchPage) write(w io.Writer) error {
	if err := p.nodes().write(w); err != nil {
		return err
	}
	var text strings.Builder
	text.WriteString("\n")
	_ = p.loads().write(&text) // a Builder takes everything
	if p.MaxRate > 0 {
		p.say(&text, fmt.Sprintf("No more than %d cycles/s: %s.", p.MaxRate, p.MaxRateWhy))
	}
	for _, n := range p.Nodes {
		if n.Error != "" {
			p.say(&text, fmt.Sprintf("%s has no vote: %s.", n.Name, n.Error))
		}
	}
	for _, part := range p.Parts {
		if part.Error != "" {
			p.say(&text, fmt.Sprintf("With %d goroutines %d cycles failed, the last with: %s.", part.Goroutines, part.Failed, part.Error))
		}
	}
	text.WriteString("\n")
	for _, why := range p.Advice.Why {
		p.say(&text, why)
	}
	fmt.Fprintf(&text, "paste:  %s\nor:     %s\n", p.Advice.Flags, p.Advice.Options)
	if p.Check != nil {
		text.WriteString("\n")
		_ = p.limits().write(&text) // as above
		verdict := p.screen.paint(green, "PASS")
		if !p.Check.Pass {
			verdict = p.screen.paint(red, "FAIL")
		}
		text.WriteString(verdict + "\n")
	}
	_, err := io.WriteString(w, text.String())
	return err
}

// say adds a sentence.
func (p benchPage) say(w *strings.Builder, text string) {
	w.WriteString(strings.Join(p.screen.wrap(text, 2), "\n  ") + "\n")
}

// nodes is the table of the nodes: idle, and under load.
func (p benchPage) nodes() table {
	rows := table{{"NODE", "ADDRESS", p.screen.paint(plain, "STATE"), "RTT P50", "P99", "LOADED P99.9", "MAX"}}
	for i, n := range p.Nodes {
		row := []string{fmt.Sprint(i + 1), n.Name, p.screen.paint(green, "up"), "", "", "", ""}
		switch {
		case n.Trips == nil:
			row[2] = p.screen.paint(red, "down")
		case n.Error != "":
			row[2] = p.screen.paint(red, "no vote")
		}
		if n.Trips != nil {
			row[3], row[4] = seconds(n.Trips.P50), seconds(n.Trips.P99)
		}
		if n.Load != nil {
			row[5], row[6] = seconds(n.Load.P999), seconds(n.Load.Max)
		}
		rows = append(rows, row)
	}
	return rows
}

// loads is the table of the parts.
func (p benchPage) loads() table {
	rows := table{{"LOAD", "CYCLES/S", "P50", "P90", "P99", "P99.9", "MAX", "FAILED"}}
	for _, part := range p.Parts {
		name := fmt.Sprintf("%d goroutines", part.Goroutines)
		switch {
		case part.Clients > 1:
			name = fmt.Sprintf("%d clients, 1 key", part.Clients)
		case part.Goroutines == 1:
			name = "1 goroutine"
		}
		row := []string{name, fmt.Sprintf("%.0f", part.Rate), "", "", "", "", ""}
		if t := part.Times; t != nil {
			row = append(row[:2], seconds(t.P50), seconds(t.P90), seconds(t.P99), seconds(t.P999), seconds(t.Max))
		}
		rows = append(rows, append(row, fmt.Sprint(part.Failed)))
	}
	return rows
}

// limitNames are the limits of --check in words.
var limitNames = map[string]string{
	"nodes": "nodes with a vote", "failed": "cycles that failed", "node_p999_s": "node under load, p99.9",
	"cycle_p999_s": "cycle, p99.9", "cycle_max_s": "longest cycle", "cycles_per_s": "cycles/s with 128 goroutines",
}

// limits is the table of what --check judges by.
func (p benchPage) limits() table {
	rows := table{{"LIMIT", "SEEN", "WANTED", ""}}
	for _, l := range p.Check.Limits {
		seen, limit := fmt.Sprintf("%.0f", l.Seen), fmt.Sprintf("%.0f", l.Limit)
		if strings.HasSuffix(l.ID, "_s") && !l.Least {
			seen, limit = seconds(l.Seen), seconds(l.Limit)
		}
		bound, mark := "at most ", "ok"
		if l.Least {
			bound = "at least "
		}
		if !l.Pass {
			mark = p.screen.paint(red, "missed")
		}
		rows = append(rows, []string{limitNames[l.ID], seen, bound + limit, mark})
	}
	return rows
}
