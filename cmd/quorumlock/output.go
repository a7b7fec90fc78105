package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"golang.org/x/term"
)

// The formats of every verb that prints data.
const (
	formatTable = "table"
	formatJSON  = "json"  // one object, with the name of its schema
	formatJSONL = "jsonl" // one object a line
)

// formats gives a verb the flag for its output.
func (t *tool) formats(cmd *cobra.Command, further ...string) {
	all := append([]string{formatTable, formatJSON, formatJSONL}, further...)
	t.format = formatTable
	cmd.Flags().VarP(&formatFlag{&t.format, all}, "output", "o", "the `format`: "+strings.Join(all, ", "))
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(all, cobra.ShellCompDirectiveNoFileComp))
}

// A formatFlag is the value of the flag.
type formatFlag struct {
	to  *string
	all []string
}

func (f *formatFlag) String() string { return *f.to }
func (f *formatFlag) Type() string   { return "format" }
func (f *formatFlag) Set(text string) error {
	if !slices.Contains(f.all, text) {
		return fmt.Errorf("want one of %s", strings.Join(f.all, ", "))
	}
	*f.to = text
	return nil
}

// writeJSON prints one object.
func (t *tool) writeJSON(object any) error {
	text, err := json.MarshalIndent(object, "", "  ")
	if err != nil {
		return err
	}
	return t.print(string(text) + "\n")
}

// writeLines prints one object a line.
func writeLines[T any](t *tool, objects []T) error {
	var text strings.Builder
	lines := json.NewEncoder(&text)
	for _, object := range objects {
		if err := lines.Encode(object); err != nil {
			return err
		}
	}
	return t.print(text.String())
}

// say says something that is no data.
func (t *tool) say(format string, args ...any) {
	_, _ = fmt.Fprintf(t.talk, "quorumlock: "+format+"\n", args...)
}

func (t *tool) print(text string) error {
	_, err := io.WriteString(t.out, text)
	return err
}

// A table is rows of cells, the first of which are the names of the columns. Where one cell of a
// column is painted, all of them are (see [screen.paint]): each then has as many bytes that
// nobody sees.
type table [][]string

func (t table) String() string {
	var cells, text strings.Builder // which take everything
	columns := tabwriter.NewWriter(&cells, 0, 0, 2, ' ', 0)
	for _, row := range t {
		_, _ = fmt.Fprintln(columns, strings.Join(row, "\t"))
	}
	_ = columns.Flush()
	for line := range strings.Lines(cells.String()) { // whose last cells may be empty
		text.WriteString(strings.TrimRight(line, " \n") + "\n")
	}
	return text.String()
}

// A screen is what the output can show.
type screen struct {
	width  int // in columns; 0: no bound
	colour bool
}

// screen looks at the output: whether it is a terminal, and what the environment says of it.
func (t *tool) screen() (s screen) {
	file, ok := t.out.(*os.File)
	terminal := ok && term.IsTerminal(int(file.Fd()))
	if terminal {
		s.width, _, _ = term.GetSize(int(file.Fd())) // unknown: 0
	}
	if columns, err := strconv.Atoi(t.getenv("COLUMNS")); err == nil && columns > 0 {
		s.width = columns
	}
	s.colour = terminal && t.getenv("TERM") != "dumb"
	if force := t.getenv("CLICOLOR_FORCE"); force != "" && force != "0" {
		s.colour = true
	}
	if t.getenv("NO_COLOR") != "" {
		s.colour = false
	}
	return s
}

// A colour is a colour of the terminal's own palette, as the two digits of its escape sequence:
// all have the same length.
type colour string

const (
	plain  colour = "39"
	red    colour = "31"
	green  colour = "32"
	yellow colour = "33"
	cyan   colour = "36"
	grey   colour = "90"
)

// paint colours a text, if the screen has colours.
func (s screen) paint(c colour, text string) string {
	if !s.colour {
		return text
	}
	return "\x1b[" + string(c) + "m" + text + "\x1b[0m"
}

// wrap breaks a text into lines that fit behind an indent. Words are not broken.
func (s screen) wrap(text string, indent int) []string {
	if s.width == 0 {
		return []string{text}
	}
	var lines []string
	line, length := "", 0
	for word := range strings.FieldsSeq(text) {
		size := len([]rune(word))
		if length > 0 && indent+length+1+size > s.width {
			lines = append(lines, line)
			line, length = "", 0
		}
		if length > 0 {
			line, length = line+" ", length+1
		}
		line, length = line+word, length+size
	}
	return append(lines, line)
}
