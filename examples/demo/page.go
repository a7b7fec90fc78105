package main

import (
	"errors"
	"fmt"
	"log"
	"strings"

	"github.com/quorumlock/quorumlock/redlock"
)

// width is what every terminal has.
const width = 79

// A page is printed in paragraphs.
type page struct{ log *log.Logger }

func (p page) say(format string, args ...any) {
	p.print("", "", fmt.Sprintf(format, args...))
}

// votes prints a line for each vote.
func (p page) votes(votes []redlock.Vote) {
	for _, vote := range votes {
		p.print("| ", "|   ", vote.String())
	}
}

// quote prints an error as it is, but for line breaks: one before each vote, and
// where a line is full.
func (p page) quote(err error) {
	text := err.Error()
	var quorum *redlock.QuorumError
	if errors.As(err, &quorum) {
		for _, vote := range quorum.Votes {
			text = strings.Replace(text, vote.String(), "\n"+vote.String(), 1)
		}
	}
	first := "| "
	for line := range strings.Lines(text) {
		p.print(first, "|     ", line)
		first = "|   "
	}
}

// print breaks the text between words. It puts first before the first line, and next
// before the others.
func (p page) print(first, next, text string) {
	line, words := first, 0
	for _, word := range strings.Fields(text) {
		switch {
		case words == 0:
			line += word
		case len(line)+1+len(word) <= width:
			line += " " + word
		default:
			p.log.Println(line)
			line, words = next+word, 0
		}
		words++
	}
	p.log.Println(line)
}
