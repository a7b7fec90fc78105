package proxy

import (
	"bytes"
	"strconv"
)

// commands returns the commands of a batch of requests, word by word, and the boundaries
// between them: ends[n] is the length of the first n commands. It leaves out what follows the
// last whole command. A batch that does not begin with a command has none.
func commands(batch []byte) (words [][]string, ends []int) {
	ends = []int{0}
	for rest := batch; ; {
		command, after, ok := command(rest)
		if !ok {
			return words, ends
		}
		words, rest = append(words, command), after
		ends = append(ends, len(batch)-len(rest))
	}
}

// command reads one command: an array of bulk strings.
func command(from []byte) (words []string, rest []byte, ok bool) {
	n, rest, ok := length('*', from)
	for ; ok && n > 0; n-- {
		var size int
		if size, rest, ok = length('$', rest); !ok || len(rest)-len("\r\n") < size {
			return nil, nil, false
		}
		words, rest = append(words, string(rest[:size])), rest[size+len("\r\n"):]
	}
	return words, rest, ok && len(words) > 0
}

// length reads a line that has a kind and a number.
func length(kind byte, from []byte) (n int, rest []byte, ok bool) {
	line, rest, whole := bytes.Cut(from, []byte("\r\n"))
	if !whole || len(line) == 0 || line[0] != kind {
		return 0, nil, false
	}
	n, err := strconv.Atoi(string(line[1:]))
	return n, rest, err == nil && n >= 0
}
