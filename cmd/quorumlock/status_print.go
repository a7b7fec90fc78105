package main

import (
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/quorumlock/quorumlock/internal/inspect"
)

// mostSorted is how many keys are put in order. Of more nobody waits for the last one.
const mostSorted = 1000

// A statusPrinter prints keys as they are found: the first of them together, in the order of their
// names, and further ones page by page.
type statusPrinter struct {
	*tool
	page  statusPage
	since time.Time
	kept  []inspect.KeyStatus // to be printed together
	begun bool                // something was printed
	held  bool                // anything
}

func (t *tool) printer() *statusPrinter {
	return &statusPrinter{tool: t, page: statusPage{screen: t.screen()}, since: time.Now()}
}

// add prints the keys of a part of a report, or keeps them.
func (p *statusPrinter) add(part *inspect.StatusReport) error {
	p.page.nodes, p.page.now = len(part.Nodes), part.Time
	p.held = p.held || slices.ContainsFunc(part.Keys, isHeld)
	p.kept = append(p.kept, part.Keys...)
	if !p.begun && len(p.kept) < mostSorted && time.Since(p.since) < time.Second {
		return nil
	}
	return p.flush(part, true)
}

func isHeld(k inspect.KeyStatus) bool { return k.State != inspect.KeyFree }

// end adds the last part, and prints what is kept and what stands behind all keys.
func (p *statusPrinter) end(last *inspect.StatusReport) error {
	if err := p.add(last); err != nil {
		return err
	}
	return p.flush(last, false)
}

// flush prints what is kept, at once: who reads it may be slow, or gone. More may follow.
func (p *statusPrinter) flush(report *inspect.StatusReport, more bool) error {
	if more && len(p.kept) == 0 {
		return nil
	}
	if !p.begun {
		slices.SortStableFunc(p.kept, func(a, b inspect.KeyStatus) int { return strings.Compare(a.Key, b.Key) })
	}
	var text strings.Builder
	switch p.format {
	case formatJSON:
		p.object(&text, report, more)
	case formatJSONL:
		_ = writeLines(&tool{out: &text}, p.kept) // a Builder takes everything
	default:
		p.page.write(&text, p.kept, more)
	}
	p.kept, p.begun = p.kept[:0], true
	if text.Len() == 0 {
		return nil
	}
	return p.print(text.String())
}

// object writes the next piece of a report as one JSON object: its keys, what stands in front of
// them, and at the end what stands behind them. There is nothing in these that JSON does not know.
func (p *statusPrinter) object(w *strings.Builder, report *inspect.StatusReport, more bool) {
	frame := *report
	frame.Keys = []inspect.KeyStatus{}
	text, _ := json.MarshalIndent(frame, "", "  ")
	before, behind, _ := strings.Cut(string(text), `"keys": []`)
	separator := ","
	if !p.begun {
		w.WriteString(before + `"keys": [`)
		separator = ""
	}
	for i := range p.kept {
		text, _ := json.MarshalIndent(&p.kept[i], "    ", "  ")
		w.WriteString(separator + "\n    " + string(text))
		separator = ","
	}
	if !more {
		if separator != "" {
			w.WriteString("\n  ")
		}
		w.WriteString("]" + behind + "\n")
	}
}
