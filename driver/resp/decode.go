// Package resp reads and writes the Redis protocol, RESP2 and RESP3, for drivers whose client
// library does not, and for servers of tests.
package resp

import (
	"bytes"
	"fmt"
	"strconv"

	"github.com/quorumlock/quorumlock/driver"
)

// Decode returns the first reply in raw, and what is behind it. It allocates only the strings
// and arrays that it returns, and nothing for lengths that raw only announces.
func Decode(raw []byte) (reply driver.Reply, rest []byte, err error) {
	end := bytes.Index(raw, []byte("\r\n"))
	if end < 1 {
		return reply, nil, malformed(raw)
	}
	kind, line, rest := raw[0], raw[1:end], raw[end+2:]

	switch kind {
	case '+', ',', '(':
		return driver.Reply{Kind: driver.String, Str: text(line)}, rest, nil
	case '-':
		return driver.Reply{Kind: driver.Failure, Str: string(line)}, rest, nil
	case '#':
		truth := driver.Reply{Kind: driver.Integer}
		if string(line) == "t" {
			truth.Int = 1
		}
		return truth, rest, nil
	case '_':
		return reply, rest, nil
	}

	n, err := strconv.ParseInt(string(line), 10, 64)
	if err != nil {
		return reply, nil, malformed(raw)
	}
	if kind == ':' {
		return driver.Reply{Kind: driver.Integer, Int: n}, rest, nil
	}
	if n < 0 {
		return reply, rest, nil // a nil of RESP2
	}

	switch kind {
	case '$', '!', '=':
		if n > int64(len(rest))-2 {
			return reply, nil, malformed(raw)
		}
		body, rest := rest[:n], rest[n+2:]
		switch {
		case kind == '!':
			return driver.Reply{Kind: driver.Failure, Str: string(body)}, rest, nil
		case kind == '=' && n >= 4:
			body = body[4:] // "txt:"
		}
		return driver.Reply{Kind: driver.String, Str: string(body)}, rest, nil
	case '*', '~', '>':
		return decodeArray(rest, n)
	case '%':
		return decodeArray(rest, 2*n)
	case '|': // attributes, in front of the reply itself
		if _, rest, err = decodeArray(rest, 2*n); err != nil {
			return reply, nil, err
		}
		return Decode(rest)
	}
	return reply, nil, malformed(raw)
}

func decodeArray(raw []byte, n int64) (driver.Reply, []byte, error) {
	if n < 0 || n > int64(len(raw)) { // an element has at least a byte
		return driver.Reply{}, nil, malformed(raw)
	}
	array := driver.Reply{Kind: driver.Array, Elems: make([]driver.Reply, n)}
	for i := range array.Elems {
		var err error
		if array.Elems[i], raw, err = Decode(raw); err != nil {
			return driver.Reply{}, nil, err
		}
	}
	return array, raw, nil
}

// text is string(line), and allocates nothing for the most frequent reply.
func text(line []byte) string {
	if string(line) == "OK" {
		return "OK"
	}
	return string(line)
}

func malformed(raw []byte) error {
	return fmt.Errorf("%w: malformed reply %.40q", driver.ErrProtocol, raw)
}
