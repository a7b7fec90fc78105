package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode"

	"github.com/quorumlock/quorumlock/inspect"
)

// A statusPage is who holds what as a terminal shows it: a row for each key, and below it one for
// each slot, reader or wait.
type statusPage struct {
	*inspect.StatusReport
	screen screen
}

// A statusRow is one row. Its votes are as many as there are nodes, or none.
type statusRow struct {
	cells  [columns]string
	votes  []inspect.VoteStatus
	colour colour
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

func (p statusPage) write(w io.Writer) error {
	head := statusRow{cells: [columns]string{"KEY", "HOLDER", "LEFT", "FENCE", "", "STATE"}, colour: plain}
	rows := []statusRow{head}
	for i := range p.Keys {
		if p.Keys[i].State != inspect.KeyFree {
			rows = p.add(rows, &p.Keys[i])
		}
	}
	if len(rows) == 1 {
		return nil
	}
	fences := p.fit(rows)
	var out table
	for i := range rows {
		r := &rows[i]
		line := append([]string{}, r.cells[:columnFence]...)
		if fences {
			line = append(line, r.cells[columnFence])
		}
		out = append(out, append(line, p.marks(r, i == 0), p.screen.paint(r.colour, r.cells[columnState])))
	}
	return out.write(w)
}

// add adds the rows of a key.
func (p statusPage) add(rows []statusRow, k *inspect.KeyStatus) []statusRow {
	rows = append(rows, p.row(k))
	for i := range k.Slots {
		r := p.row(&k.Slots[i])
		r.cells[columnKey] = fmt.Sprintf("  slot %d", *k.Slots[i].Slot)
		rows = append(rows, r)
	}
	for i, reader := range k.Readers {
		r := statusRow{colour: grey}
		if r.cells[columnKey] = "  reader"; i == mostReaders {
			r.cells[columnKey] = fmt.Sprintf("  %d more", len(k.Readers)-i)
			rows = append(rows, r)
			break
		}
		r.cells[columnHolder], r.cells[columnState] = holderName(&reader), fmt.Sprintf("at %d of %d nodes", reader.Nodes, len(p.Nodes))
		rows = append(rows, r)
	}
	for i, wait := range k.Waits {
		r := statusRow{colour: yellow}
		if r.cells[columnKey] = "  waits"; i == mostReaders {
			r.cells[columnKey] = fmt.Sprintf("  %d more", len(k.Waits)-i)
			return append(rows, r)
		}
		r.cells[columnHolder] = cmp.Or(visible(wait.Owner), "unnamed")
		r.cells[columnState] = fmt.Sprintf("for %s, %s", visible(strings.Join(wait.For, ", ")), seconds(wait.Since))
		rows = append(rows, r)
	}
	return rows
}

// row is that of a key or a slot.
func (p statusPage) row(k *inspect.KeyStatus) statusRow {
	r := statusRow{votes: k.Votes, colour: stateColours[k.State]}
	holder := "–"
	switch k.State {
	case inspect.KeyHeld, inspect.KeyAtQuorum, inspect.KeyLeftOver, inspect.KeyUnclear:
		if k.Holder != nil {
			holder = holderName(k.Holder)
		}
	case inspect.KeyShared:
		holder = fmt.Sprintf("%d readers", len(k.Readers))
		if len(k.Readers) == 1 {
			holder = "1 reader"
		}
	case inspect.KeyForeign:
		holder = "unmarked"
	}
	left := k.Left
	if k.State == inspect.KeyLeftOver {
		left = k.Gone
	}
	r.cells = [columns]string{visible(k.Key), holder, "–", "–", "", visible(k.Text)}
	switch {
	case left == nil:
		r.cells[columnLeft] = "never"
		for _, vote := range k.Votes {
			if vote.Mark == inspect.MarkUnknown {
				r.cells[columnLeft] = "?"
			}
		}
	case *left > 0:
		r.cells[columnLeft] = seconds(*left)
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
		return visible(h.Owner)
	}
	return fmt.Sprintf("%s (%s…)", visible(h.Owner), h.Token)
}

// visible is a text without what a terminal takes for a command.
func visible(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return '?'
	}, text)
}

// marks are the votes of a row, or in the first one the numbers of the nodes, each in a column.
func (p statusPage) marks(r *statusRow, head bool) string {
	cells := make([]string, len(p.Nodes))
	for i := range cells {
		number, mark, c := fmt.Sprint(i+1), " ", plain
		switch {
		case head:
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

// The least widths to which cells are cut.
const (
	leastKey    = 12
	leastHolder = 9
	leastState  = 10
)

// fit cuts cells so that the rows fit the screen: fences go first, then the widest of keys, holders
// and states lose characters. It reports whether fences are shown.
func (p statusPage) fit(rows []statusRow) (fences bool) {
	var widths [columns]int
	for i := range rows {
		for j, cell := range rows[i].cells {
			widths[j] = max(widths[j], len([]rune(cell)))
		}
		fences = fences || i > 0 && rows[i].cells[columnFence] != "–" && rows[i].cells[columnFence] != ""
	}
	for i := range p.Nodes {
		widths[columnVotes] += len(fmt.Sprint(i+1)) + 1
	}
	widths[columnVotes]--
	const gap = 2
	total := gap * (columns - 1)
	for _, width := range widths {
		total += width
	}
	if p.screen.width == 0 {
		return fences
	}
	if !fences || total > p.screen.width {
		total, fences = total-widths[columnFence]-gap, false
	}
	least := map[int]int{columnKey: leastKey, columnHolder: leastHolder, columnState: leastState}
	for ; total > p.screen.width; total-- {
		wide := slices.DeleteFunc([]int{columnState, columnKey, columnHolder}, func(j int) bool { return widths[j] <= least[j] })
		if len(wide) == 0 {
			break
		}
		widest := slices.MaxFunc(wide, func(a, b int) int { return cmp.Compare(widths[a], widths[b]) })
		widths[widest]--
	}
	for i := range rows {
		for j := range least {
			rows[i].cells[j] = shorten(rows[i].cells[j], widths[j])
		}
	}
	return fences
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
func statusNotes(r *inspect.StatusReport, check bool) (notes []string) {
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
	held := false
	for _, k := range r.Keys {
		held = held || k.State != inspect.KeyFree
	}
	if !held && !check {
		notes = append(notes, "nothing is held")
	}
	return notes
}
