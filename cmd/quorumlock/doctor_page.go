package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/quorumlock/quorumlock/internal/inspect"
)

// A reportPage is a report as a terminal shows it: the nodes, the findings with what mends them,
// and what it comes to.
type reportPage struct {
	*inspect.Report
	screen screen
}

// wide is the width from which on a finding begins on the line that names it.
const wide = 120

func (p reportPage) String() string {
	var text strings.Builder
	text.WriteString(p.nodes().String())
	for _, g := range p.groups() {
		text.WriteString("\n")
		p.finding(&text, g)
	}
	text.WriteString("\n" + p.screen.paint(colours[p.Verdict], strings.ToUpper(words3[p.Verdict])) + "  " +
		strings.Join(p.screen.wrap(p.Summary+".", 0), "\n") + "\n")
	return text.String()
}

// words3 are the severities in words.
var words3 = map[inspect.Severity]string{
	inspect.Fit: "fit", inspect.Info: "info", inspect.Unknown: "cannot tell", inspect.Warning: "warning", inspect.Unfit: "unfit", inspect.Down: "down",
}

var colours = map[inspect.Severity]colour{
	inspect.Fit: green, inspect.Info: grey, inspect.Unknown: cyan, inspect.Warning: yellow, inspect.Unfit: red, inspect.Down: red,
}

// nodes is the table of the nodes.
func (p reportPage) nodes() table {
	rows := table{{"NODE", "ADDRESS", p.screen.paint(plain, "STATE"), "SERVER", "RTT", "P99", "CLOCK"}}
	for i, n := range p.Nodes {
		row := []string{fmt.Sprint(i + 1), n.Name, p.screen.paint(colours[n.State], words3[n.State]), n.Server, "", "", ""}
		if n.State != inspect.Down {
			row[4] = inspect.Short(n.RTT)
			if n.Acquire != nil {
				row[5] = inspect.Short(n.Acquire.P99)
			}
			if n.Offset != nil {
				row[6] = offset(*n.Offset)
			}
		}
		rows = append(rows, row)
	}
	return rows
}

// offset shows the bounds of a clock's offset: how far it is off, or that it is not as far as can
// be told.
func offset(bounds [2]float64) string {
	if low, high := bounds[0], bounds[1]; low > 0 || high < 0 {
		return inspect.Short((low + high) / 2)
	}
	return "±" + inspect.Short(max(-bounds[0], bounds[1]))
}

// A findingGroup is one finding at several nodes.
type findingGroup struct {
	inspect.Finding
	where []string
	short string // the nodes by their numbers
}

// groups are the findings, the worst first; what is the same at several nodes is one.
func (p reportPage) groups() (all []*findingGroup) {
	number := make(map[string]string)
	for i, n := range p.Nodes {
		number[n.Name] = fmt.Sprint(i + 1)
	}
	for _, f := range p.All() {
		same := slices.IndexFunc(all, func(g *findingGroup) bool {
			return f.Node != "" && g.Node != "" && g.ID == f.ID && g.Severity == f.Severity && g.Why == f.Why && g.Seen.String() == f.Seen.String()
		})
		if same < 0 {
			f.Mend = slices.Clone(f.Mend)
			all = append(all, &findingGroup{Finding: f, where: []string{number[f.Node]}})
			continue
		}
		g := all[same]
		g.where = append(g.where, number[f.Node])
		for _, line := range f.Mend {
			if !slices.Contains(g.Mend, line) {
				g.Mend = append(g.Mend, line)
			}
		}
	}
	for _, g := range all {
		switch {
		case g.ID == "here":
			g.short = "this machine"
		case g.Node == "" || len(g.where) == len(p.Nodes) && len(p.Nodes) > 1:
			g.short = "all nodes"
		case len(g.where) == 1:
			g.short = "node " + g.where[0] + "  " + g.Node
		default:
			g.short = "nodes " + strings.Join(g.where, " ")
		}
	}
	order := []inspect.Severity{inspect.Unfit, inspect.Warning, inspect.Unknown, inspect.Info}
	slices.SortStableFunc(all, func(a, b *findingGroup) int {
		return cmp.Or(slices.Index(order, a.Severity)-slices.Index(order, b.Severity), slices.Index(inspect.IDs, a.ID)-slices.Index(inspect.IDs, b.ID))
	})
	return all
}

// finding shows one: what was seen and what it means, what mends it, and where to read on.
func (p reportPage) finding(w *strings.Builder, g *findingGroup) {
	severity := strings.ToUpper(words3[g.Severity])
	indent := 2
	if p.screen.width == 0 || p.screen.width >= wide {
		indent = 0
		for _, each := range p.groups() {
			indent = max(indent, len(each.short))
		}
		fmt.Fprintf(w, "%-*s  %s  %-11s  ", indent, g.short, p.screen.paint(colours[g.Severity], fmt.Sprintf("%-11s", severity)), g.ID)
		indent += 2 + 11 + 2 + 11 + 2
	} else {
		fmt.Fprintf(w, "%s  %s  %s\n%*s", p.screen.paint(colours[g.Severity], severity), g.ID, g.short, indent, "")
	}
	margin := "\n" + strings.Repeat(" ", indent)
	w.WriteString(strings.Join(p.screen.wrap(told(&g.Finding), indent), margin))
	for i, line := range g.Mend {
		label := "         "
		if i == 0 {
			label = "mend it: "
		}
		// What is to be pasted is not broken; what only says something is.
		lines := []string{line}
		if strings.HasPrefix(line, "#") {
			lines = p.screen.wrap(line, indent+len(label))
		}
		w.WriteString(margin + label + strings.Join(lines, margin+"         # "))
	}
	w.WriteString(margin + p.screen.paint(grey, "see      "+g.Doc) + "\n")
}

// told is what a finding means, and what was seen.
func told(f *inspect.Finding) string {
	return f.Why + " (" + f.Seen.String() + ")"
}
