package main

import (
	"bufio"
	"io"
	"strings"
)

// A verdict is what came of a run of tests.
type verdict struct {
	test      string // the first that failed; "": none did
	complaint string // the first line of what it says
	hung      bool   // it was ended by the time-out
	passed    int    // so many before
}

func (v *verdict) failed() bool { return v.test != "" }

// listen reads what tests print with -test.v, up to the first failure and what it says.
func listen(output io.Reader) *verdict {
	v := &verdict{}
	running, said := "", make(map[string]string) // by test, its first line
	lines := bufio.NewScanner(output)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		line := lines.Text()
		switch verb, rest, _ := strings.Cut(line, " "); {
		case verb == "===": // RUN, NAME, CONT or PAUSE, and a name
			running = line[strings.LastIndexByte(line, ' ')+1:]
		case strings.HasPrefix(line, "--- PASS: "):
			v.passed++
		case strings.HasPrefix(line, "--- FAIL: "):
			v.test, _, _ = strings.Cut(line[len("--- FAIL: "):], " ")
			if v.complaint = said[v.test]; v.complaint != "" {
				return v
			}
			// It has panicked, which comes next.
		case verb == "panic:", verb == "fatal" && strings.HasPrefix(rest, "error:"):
			if v.test == "" {
				v.test, _, _ = strings.Cut(running, "/")
			}
			v.complaint, v.hung = line, strings.HasPrefix(rest, "test timed out")
			return v
		case strings.Contains(line, "_test.go:"):
			name, _, _ := strings.Cut(running, "/")
			if said[name] == "" {
				said[name] = strings.TrimSpace(line)
			}
		}
	}
	return v
}
