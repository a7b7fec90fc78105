package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/quorumlock/quorumlock/internal/inspect"
)

// nagiosWords are the words of monitors for verdicts.
var nagiosWords = map[inspect.Severity]string{
	inspect.Fit: "OK", inspect.Warning: "WARNING", inspect.Unfit: "CRITICAL", inspect.Unknown: "UNKNOWN",
}

// nagios shows a report as plugins of Nagios do: a line with figures behind a bar, and further
// lines with what was found.
func nagios(r *inspect.Report) string {
	var text strings.Builder
	fmt.Fprintf(&text, "QUORUMLOCK %s - %s | fit=%d;%d:;%d:;0;%d", nagiosWords[r.Verdict], r.Summary, r.Fit, len(r.Nodes), r.Quorum, len(r.Nodes))
	for i, n := range r.Nodes {
		if n.State == inspect.Down {
			continue
		}
		fmt.Fprintf(&text, " rtt_%d=%.6fs", i+1, n.RTT)
		if n.Acquire != nil {
			fmt.Fprintf(&text, " p99_%d=%.6fs", i+1, n.Acquire.P99)
		}
	}
	text.WriteString("\n")
	for _, f := range r.All() {
		if f.Severity != inspect.Info {
			fmt.Fprintf(&text, "%s %s%s: %s\n", strings.ToUpper(words3[f.Severity]), f.ID, of(f.Node), strings.ReplaceAll(told(&f), "|", "/"))
		}
	}
	return text.String()
}

func of(node string) string {
	if node == "" {
		return ""
	}
	return " of " + node
}

// prometheus shows a report as a text file that node_exporter collects.
func prometheus(r *inspect.Report) string {
	var text exposition
	family := func(name, help string, samples ...string) { text.family(name, "gauge", help, samples...) }
	family("quorumlock_doctor_verdict", "0 fit, 1 warnings, 2 unfit, 3 cannot tell.", fmt.Sprintf(" %d", slices.Index(verdicts, r.Verdict)))
	family("quorumlock_doctor_time_seconds", "When the nodes were examined.", fmt.Sprintf(" %d", r.Time.Unix()))
	family("quorumlock_doctor_nodes", "The nodes of the list.", fmt.Sprintf(" %d", len(r.Nodes)))
	family("quorumlock_doctor_nodes_fit", "The nodes that may vote.", fmt.Sprintf(" %d", r.Fit))
	family("quorumlock_doctor_nodes_needed", "The nodes that must agree.", fmt.Sprintf(" %d", r.Quorum))
	family("quorumlock_doctor_pause_seconds", "The longest time for which the examining process was not run.", fmt.Sprintf(" %g", r.Here.Pause))

	var up, rtt, p99, low, high []string
	for _, n := range r.Nodes {
		labels := fmt.Sprintf("{node=%s} ", label(n.Name))
		if n.State == inspect.Down {
			up = append(up, labels+"0")
			continue
		}
		up, rtt = append(up, labels+"1"), append(rtt, fmt.Sprintf("%s%g", labels, n.RTT))
		if n.Acquire != nil {
			p99 = append(p99, fmt.Sprintf("%s%g", labels, n.Acquire.P99))
		}
		if n.Offset != nil {
			low, high = append(low, fmt.Sprintf("%s%g", labels, n.Offset[0])), append(high, fmt.Sprintf("%s%g", labels, n.Offset[1]))
		}
	}
	family("quorumlock_doctor_node_up", "1 if the node answers.", up...)
	family("quorumlock_doctor_node_rtt_seconds", "The least round trip to the node.", rtt...)
	family("quorumlock_doctor_node_acquire_p99_seconds", "Of a key's acquire at the node.", p99...)
	family("quorumlock_doctor_node_clock_offset_low_seconds", "The least by which the node's clock is ahead of the median.", low...)
	family("quorumlock_doctor_node_clock_offset_high_seconds", "The most by which the node's clock is ahead of the median.", high...)

	var findings []string
	for _, f := range r.All() {
		findings = append(findings, fmt.Sprintf("{id=%s,node=%s,severity=%s} 1", label(f.ID), label(f.Node), label(string(f.Severity))))
	}
	slices.Sort(findings)
	family("quorumlock_doctor_finding", "What was found.", slices.Compact(findings)...)
	return text.String()
}

// An exposition is text that Prometheus reads.
type exposition struct{ strings.Builder }

// family adds a family of time series: a sample is labels, a space and a value.
func (e *exposition) family(name, kind, help string, samples ...string) {
	if len(samples) > 0 {
		_, _ = fmt.Fprintf(e, "# HELP %[1]s %[2]s\n# TYPE %[1]s %[3]s\n", name, help, kind)
	}
	for _, s := range samples {
		_, _ = e.WriteString(name + s + "\n") // a Builder takes everything
	}
}

// label quotes the value of a label. Prometheus drops a whole file for one that is not UTF-8, as keys
// may be: what is not is shown as U+FFFD.
func label(text string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(strings.ToValidUTF8(text, "\ufffd")) + `"`
}
