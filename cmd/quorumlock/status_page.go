package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/quorumlock/quorumlock/internal/inspect"
)

// A statusPage is who holds what as a terminal shows it: a row for each key, and below it one for
// each slot, reader or wait. Its columns are as wide as the first rows want them.
type statusPage struct {
	nodes  int
	now    time.Time
	screen screen
	widths *[columns]int // nil: nothing was written yet
	fences bool          // the column is shown
}

// A statusRow is one row. Its votes are as many as there are nodes, or none.
type statusRow struct {
	cells  [columns]string
	votes  []inspect.VoteStatus
	colour colour
	head   bool
}

// The columns of the page.
const (
	columnKey = iota
	columnHolder
	columnLeft
	columnFence
	columnVotes
	columnState
	columns
)

// mostReaders is how many readers of a key have a row.
const mostReaders = 8

var stateColours = map[inspect.KeyState]colour{
	inspect.KeyHeld: green, inspect.KeyShared: green, inspect.KeyPermits: green, inspect.KeyAtQuorum: yellow, inspect.KeyUnclear: yellow,
	inspect.KeySplit: red, inspect.KeyLeftOver: yellow, inspect.KeyForeign: cyan, inspect.KeyRevoked: cyan, inspect.KeyFree: grey,
}

// write adds the rows of keys. Without any the page is empty. If more may follow, columns whose
// cells grow with time have room for it.
func (p *statusPage) write(w *strings.Builder, keys []inspect.KeyStatus, more bool) {
	var rows []statusRow
	for i := range keys {
		if isHeld(keys[i]) {
			rows = p.add(rows, &keys[i])
		}
	}
	if len(rows) == 0 {
		return
	}
	if p.widths == nil {
		head := statusRow{cells: [columns]string{"KEY", "HOLDER", "LEFT", "FENCE", "", "STATE"}, colour: plain, head: true}
		rows = append([]statusRow{head}, rows...)
		p.fit(rows)
		if more {
			p.widths[columnLeft] = max(p.widths[columnLeft], len("1m40.5s"))
		}
	}
	for i := range rows {
		p.line(w, &rows[i])
	}
}

// line writes a row.
func (p *statusPage) line(w *strings.Builder, r *statusRow) {
	var line strings.Builder
	for j, cell := range r.cells {
		switch {
		case j == columnFence && !p.fences:
			continue
		case j == columnVotes:
			line.WriteString(p.marks(r) + "  ")
			continue
		case j == columnState:
			line.WriteString(p.screen.paint(r.colour, p.cut(j, cell)))
			continue
		}
		cell = p.cut(j, cell)
		line.WriteString(cell + strings.Repeat(" ", max(0, p.widths[j]-utf8.RuneCountInString(cell))+2))
	}
	w.WriteString(strings.TrimRight(line.String(), " ") + "\n")
}

// cut shortens a cell to its column, where the screen has a bound.
func (p *statusPage) cut(column int, cell string) string {
	if p.screen.width == 0 || least[column] == 0 {
		return cell
	}
	return shorten(cell, p.widths[column])
}

// add adds the rows of a key.
func (p *statusPage) add(rows []statusRow, k *inspect.KeyStatus) []statusRow {
	below := func(c colour, what, holder, state string) {
		rows = append(rows, statusRow{colour: c, cells: [columns]string{columnKey: "  " + what, columnHolder: holder, columnState: state}})
	}
	rows = append(rows, p.row(k))
	for i := range k.Slots {
		r := p.row(&k.Slots[i])
		r.cells[columnKey] = fmt.Sprintf("  slot %d", *k.Slots[i].Slot)
		rows = append(rows, r)
	}
	for i, reader := range k.Readers {
		if i == mostReaders {
			below(grey, fmt.Sprintf("%d more", len(k.Readers)-i), "", "")
			break
		}
		below(grey, "reader", holderName(&reader), fmt.Sprintf("at %d of %d nodes", reader.Nodes, p.nodes))
	}
	if k.InLine > 0 {
		below(grey, "in line", inspect.Plural(k.InLine, "waiter"), "")
	}
	for i, wait := range k.Waits {
		if i == mostReaders {
			below(yellow, fmt.Sprintf("%d more", len(k.Waits)-i), "", "")
			break
		}
		below(yellow, "waits", cmp.Or(inspect.Printable(wait.Owner), "unnamed"), fmt.Sprintf("for %s, %s", inspect.Printable(strings.Join(wait.For, ", ")), inspect.Short(wait.Since)))
	}
	return rows
}

// row is that of a key or a slot.
func (p *statusPage) row(k *inspect.KeyStatus) statusRow {
	r := statusRow{votes: k.Votes, colour: stateColours[k.State]}
	holder := "–"
	switch k.State {
	case inspect.KeyHeld, inspect.KeyAtQuorum, inspect.KeyLeftOver, inspect.KeyUnclear:
		if k.Holder != nil {
			holder = holderName(k.Holder)
		}
	case inspect.KeyShared:
		holder = inspect.Plural(len(k.Readers), "reader")
	case inspect.KeyForeign:
		holder = "unmarked"
	}
	left := k.Left
	if k.State == inspect.KeyLeftOver {
		left = k.Gone
	}
	r.cells = [columns]string{inspect.Printable(k.Key), holder, "–", "–", "", inspect.Printable(k.Text)}
	switch {
	case left == nil:
		r.cells[columnLeft] = "never"
		for _, vote := range k.Votes {
			if vote.Mark == inspect.MarkUnknown {
				r.cells[columnLeft] = "?"
			}
		}
	case *left > 0:
		r.cells[columnLeft] = inspect.Short(*left)
	}
	if k.State == inspect.KeyHeld && k.Holder.Since != nil && p.now.After(*k.Holder.Since) {
		r.cells[columnState] += ", for " + inspect.Short(p.now.Sub(*k.Holder.Since).Seconds())
	}
	if k.Fence > 0 {
		r.cells[columnFence] = fmt.Sprint(k.Fence)
	}
	return r
}

// holderName names a holder by its owner and the first digits of its token.
func holderName(h *inspect.HolderStatus) string {
	switch {
	case h.Owner == "" && h.Token == "":
		return "unnamed"
	case h.Owner == "":
		return h.Token + "…"
	case h.Token == "":
		return inspect.Printable(h.Owner)
	}
	return fmt.Sprintf("%s (%s…)", inspect.Printable(h.Owner), h.Token)
}

// marks are the votes of a row, or in the head the numbers of the nodes, each in a column.
func (p *statusPage) marks(r *statusRow) string {
	cells := make([]string, p.nodes)
	for i := range cells {
		number, mark, c := fmt.Sprint(i+1), " ", plain
		switch {
		case r.head:
			mark = number
		case len(r.votes) > 0:
			mark, c = vote(r.votes[i])
		}
		cells[i] = p.screen.paint(c, fmt.Sprintf("%-*s", len(number), mark))
	}
	return strings.Join(cells, " ")
}

// vote shows what one node has.
func vote(v inspect.VoteStatus) (mark string, c colour) {
	switch {
	case v.Mark == inspect.MarkNone:
		return "·", grey
	case v.Mark == inspect.MarkUnknown:
		return "?", red
	case v.Mark == inspect.MarkHolder && !v.Quarantined:
		return "●", green
	}
	return "○", yellow
}

// least are the widths to which the cells of some columns are cut at most.
var least = [columns]int{columnKey: 12, columnHolder: 9, columnState: 10}

// fit sets the widths so that the rows fit the screen: fences go first, then the widest of keys,
// holders and states lose characters.
func (p *statusPage) fit(rows []statusRow) {
	var widths [columns]int
	p.widths = &widths
	for i := range rows {
		for j, cell := range rows[i].cells {
			widths[j] = max(widths[j], utf8.RuneCountInString(cell))
		}
		p.fences = p.fences || i > 0 && rows[i].cells[columnFence] != "–" && rows[i].cells[columnFence] != ""
	}
	for i := range p.nodes {
		widths[columnVotes] += len(fmt.Sprint(i+1)) + 1
	}
	widths[columnVotes]--
	const gap = 2
	total := gap * (columns - 1)
	for _, width := range widths {
		total += width
	}
	if p.screen.width == 0 {
		return
	}
	if !p.fences || total > p.screen.width {
		total, p.fences = total-widths[columnFence]-gap, false
	}
	for ; total > p.screen.width; total-- {
		wide := slices.DeleteFunc([]int{columnState, columnKey, columnHolder}, func(j int) bool { return widths[j] <= least[j] })
		if len(wide) == 0 {
			break
		}
		widest := slices.MaxFunc(wide, func(a, b int) int { return cmp.Compare(widths[a], widths[b]) })
		widths[widest]--
	}
}

// shorten cuts a text in its middle: the end of a key tells it from others, and so does that of a
// holder's name.
func shorten(text string, width int) string {
	runes := []rune(text)
	if len(runes) <= width {
		return text
	}
	end := (width - 1) / 2
	return string(runes[:width-1-end]) + "…" + string(runes[len(runes)-end:])
}

// statusNotes are what is to be said beside the table.
func statusNotes(r *inspect.StatusReport, held bool) (notes []string) {
	for i, n := range r.Nodes {
		if n.Error != "" {
			notes = append(notes, fmt.Sprintf("node %d (%s): %s", i+1, n.Name, n.Error))
		}
		if n.Quarantined {
			notes = append(notes, fmt.Sprintf("node %d (%s) is in quarantine: its votes do not count", i+1, n.Name))
		}
	}
	if r.Others > 0 {
		notes = append(notes, fmt.Sprintf("keys that hold no lock, and are not shown: %d", r.Others))
	}
	if !held {
		notes = append(notes, "nothing is held")
	}
	return notes
}
