package framing

import (
	"bytes"
	"errors"
	"math"
)

// What a reply may be at most. A lock's own are below 100 kB; these only keep the
// client from believing whatever it is told.
const (
	maxString = 4 << 20  // bytes of a string, which clients allocate before the first has come
	maxLine   = 64 << 10 // bytes of a line, which clients keep until its end comes
	maxElems  = 1 << 16  // elements of all arrays that are open, which they allocate as well
	maxDepth  = 32       // arrays in arrays, which they read by recursion
)

var (
	errSyntax = errors.New("it is not RESP")
	errSize   = errors.New("it is larger than a reply may be")
)

// scanner cuts a stream of RESP2 or RESP3 into frames, in whatever pieces it comes. It
// knows no streamed types and no attributes: no server sends them unasked, and clients
// differ about them.
type scanner struct {
	maxString int64
	first     func(kind byte) error // is told that a frame begins
	whole     func(frame) error     // and that it has ended

	part   part
	kind   byte // of the value that is being read
	number int64
	minus  bool
	length int   // of the line so far
	last   byte  // of the line so far
	left   int64 // bytes of the string to come, its line end included

	frame frame
	open  [maxDepth]int64 // elements to come of each array around the value
	depth int
	elems int64 // the sum of open
}

// frame is a whole command or reply: what it is, and how it begins.
type frame struct {
	kind  byte
	elems int64
	head  [16]byte // the text of the value, or of its first element
	size  int      // of head
	next  byte     // the first byte of the second element's text
	words int      // of a value that is no array, less one
}

func (f *frame) text() string { return string(f.head[:f.size]) }

var space = []byte(" ")

// part is the part of a value that the next byte belongs to.
type part uint8

const (
	mark part = iota
	line
	body
)

// between reports whether no frame has begun and not ended.
func (s *scanner) between() bool { return s.part == mark && s.depth == 0 }

// scan returns how many of the bytes are right, and with fewer than all, what is wrong.
func (s *scanner) scan(p []byte) (int, error) {
	for i := 0; i < len(p); {
		var err error
		step := 1 // and with an error, to the byte that is wrong
		switch s.part {
		case mark:
			if step, err = s.leap(p[i:]); step == 0 {
				step, err = 1, s.begin(p[i])
			}
		case line:
			err = s.read(p[i : i+1])
		case body:
			step, err = s.skip(p[i:])
		}
		if err != nil {
			return i + step - 1, err
		}
		i += step
	}
	return len(p), nil
}

// leap passes over an element that is a string, if all of it is there and right: what is
// written consists of those. It returns 0 where it is not so easy.
func (s *scanner) leap(p []byte) (int, error) {
	if s.depth == 0 || p[0] != '$' {
		return 0, nil
	}
	i, n := 1, 0
	for ; i < len(p) && i < 8 && '0' <= p[i] && p[i] <= '9'; i++ {
		n = n*10 + int(p[i]-'0')
	}
	begin, end := i+2, i+2+n
	if i == 1 || int64(n) > s.maxString || len(p) < end+2 ||
		p[i] != '\r' || p[i+1] != '\n' || p[end] != '\r' || p[end+1] != '\n' {
		return 0, nil
	}
	s.note(p[begin:end])
	return end + 2, s.end()
}

func (s *scanner) begin(kind byte) error {
	switch kind {
	case '+', '-', ':', '_', ',', '#', '(', '$', '!', '=', '*', '~', '%':
	case '>':
		if s.depth > 0 {
			return errSyntax
		}
	default:
		return errSyntax
	}
	if s.depth == 0 {
		if err := s.first(kind); err != nil {
			return err
		}
		s.frame = frame{kind: kind}
	}
	s.part, s.kind = line, kind
	s.number, s.minus, s.length, s.last = 0, false, 0, 0
	return nil
}

// note keeps what a frame is told by.
func (s *scanner) note(text []byte) {
	f := &s.frame
	switch {
	case s.depth > 1 || len(text) == 0:
	case s.depth == 0:
		f.words += bytes.Count(text, space)
		f.size += copy(f.head[f.size:], text)
	case s.open[0] == f.elems:
		f.size += copy(f.head[f.size:], text)
	case s.open[0] == f.elems-1 && f.next == 0:
		f.next = text[0]
	}
}

// read takes a byte of a line.
func (s *scanner) read(p []byte) error {
	b := p[0]
	if b == '\n' {
		if s.last != '\r' {
			return errSyntax
		}
		return s.endLine()
	}
	if s.last == '\r' && s.kind != '+' && s.kind != '-' && s.kind != ',' && s.kind != '(' {
		return errSyntax
	}
	s.last = b
	if b == '\r' {
		return nil
	}
	if s.length++; s.length > maxLine {
		return errSize
	}
	switch s.kind {
	case '+', '-', ',', '(':
		s.note(p)
		return nil
	case '_':
		return errSyntax
	case '#':
		if s.length > 1 || b != 't' && b != 'f' {
			return errSyntax
		}
		return nil
	}
	if b == '-' && s.length == 1 {
		s.minus = true
		return nil
	}
	return s.digit(b)
}

func (s *scanner) digit(b byte) error {
	most := int64(math.MaxInt64)
	switch {
	case b < '0' || b > '9':
		return errSyntax
	case s.kind == ':':
	case s.minus && (s.kind != '$' && s.kind != '*' || b != '1' || s.length != 2):
		return errSyntax // only -1 has a meaning, and not for all
	case s.kind == '$' || s.kind == '!' || s.kind == '=':
		most = s.maxString
	default:
		most = maxElems
	}
	if s.minus && most == math.MaxInt64 {
		if s.number < (math.MinInt64+int64(b-'0'))/10 {
			return errSize
		}
		s.number = s.number*10 - int64(b-'0')
		return nil
	}
	if s.number > (most-int64(b-'0'))/10 {
		return errSize
	}
	s.number = s.number*10 + int64(b-'0')
	return nil
}

func (s *scanner) endLine() error {
	switch s.kind {
	case '+', '-', ',', '(', '_':
		return s.end()
	}
	if s.length == 0 || s.minus && s.length == 1 {
		return errSyntax
	}
	switch s.kind {
	case ':', '#':
		return s.end()
	}
	if s.minus {
		return s.end() // a nil of RESP2
	}
	switch s.kind {
	case '$', '!', '=':
		s.part, s.left = body, s.number+2
		return nil
	}
	return s.enter()
}

// enter begins an array.
func (s *scanner) enter() error {
	n := s.number
	if s.kind == '%' {
		n *= 2
	}
	if s.depth == 0 {
		s.frame.elems = n
	}
	if n == 0 {
		return s.end()
	}
	if s.depth == maxDepth || s.elems+n > maxElems {
		return errSize
	}
	s.open[s.depth] = n
	s.depth++
	s.elems += n
	s.part = mark
	return nil
}

// skip passes over as much of a string as there is.
func (s *scanner) skip(p []byte) (int, error) {
	switch s.left {
	case 2:
		s.left--
		if p[0] != '\r' {
			return 1, errSyntax
		}
		return 1, nil
	case 1:
		if p[0] != '\n' {
			return 1, errSyntax
		}
		return 1, s.end()
	}
	n := int(min(s.left-2, int64(len(p))))
	s.note(p[:n])
	s.left -= int64(n)
	return n, nil
}

// end ends a value, and all around it that end with it.
func (s *scanner) end() error {
	s.part = mark
	for s.depth > 0 {
		s.elems--
		if s.open[s.depth-1]--; s.open[s.depth-1] > 0 {
			return nil
		}
		s.depth--
	}
	return s.whole(s.frame)
}
