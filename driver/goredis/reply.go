package goredis

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"strconv"

	"github.com/quorumlock/quorumlock/driver"
)

// receive reads one reply of RESP2 to its end, where go-redis's reader cannot be had.
// It takes memory only for what arrives, whatever lengths are announced.
func receive(in *bufio.Reader) (driver.Reply, error) {
	var raw bytes.Buffer
	for missing := int64(1); missing > 0; missing-- {
		line, err := in.ReadBytes('\n')
		if err != nil {
			return driver.Reply{}, err
		}
		raw.Write(line)
		switch n, _ := strconv.ParseInt(string(bytes.TrimSpace(line[1:])), 10, 64); line[0] {
		case '*':
			missing += max(n, 0)
		case '$':
			if n >= 0 {
				_, err = io.CopyN(&raw, in, n+2)
			}
		}
		if err != nil {
			return driver.Reply{}, err
		}
	}
	reply, _, err := decode(raw.Bytes())
	return reply, err
}

// decode reads the first reply in raw, of RESP2 or RESP3, and returns what is
// behind it. Replies are short and whole when they get here, so it works on the
// bytes and allocates only the strings and arrays that it returns.
func decode(raw []byte) (reply driver.Reply, rest []byte, err error) {
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
		return decode(rest)
	}
	return reply, nil, malformed(raw)
}

func decodeArray(raw []byte, n int64) (driver.Reply, []byte, error) {
	if n < 0 || n > int64(len(raw)) { // an element takes bytes: no length lies its way to a huge slice
		return driver.Reply{}, nil, malformed(raw)
	}
	array := driver.Reply{Kind: driver.Array, Elems: make([]driver.Reply, n)}
	for i := range array.Elems {
		var err error
		if array.Elems[i], raw, err = decode(raw); err != nil {
			return driver.Reply{}, nil, err
		}
	}
	return array, raw, nil
}

// text is string(line), for nothing in the case that most replies are.
func text(line []byte) string {
	if string(line) == "OK" {
		return "OK"
	}
	return string(line)
}

func malformed(raw []byte) error {
	return fmt.Errorf("malformed reply %.40q", raw)
}
