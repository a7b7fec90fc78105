package framing

import (
	"bytes"
	"errors"
)

// The limits of a reply. A lock's own replies are below 100 kB; the limits only keep a
// server's announcements from exhausting the client.
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

// Scanner cuts a stream of RESP2 or RESP3 into frames, whole commands or replies, in
// whatever pieces the stream comes. It refuses streamed types and attributes: no server
// sends them unasked, and clients differ about them.
type Scanner struct {
	maxString uint64
	onBegin   func(kind byte) error
	onEnd     func(frame) error

	part   part
	kind   byte // of the value that is being read
	value  uint64
	minus  bool
	length int    // bytes of the line so far
	cr     bool   // the last of them is a carriage return
	left   uint64 // bytes of the string to come, its line end included

	frame frame
	open  [maxDepth]int64 // elements to come of each array around the value
	depth int
	elems int64 // the sum of open
}

// NewScanner returns a Scanner of replies.
func NewScanner() *Scanner {
	return &Scanner{
		maxString: maxString,
		onBegin:   func(byte) error { return nil },
		onEnd:     func(frame) error { return nil },
	}
}

// frame describes a whole command or reply.
type frame struct {
	kind   byte
	elems  int64
	head   [16]byte // the beginning of the text, or of the first element's
	size   int      // of head
	second byte     // the first byte of the second element's text
	spaces int      // in the text
}

func (f *frame) text() string { return string(f.head[:f.size]) }

var space, carriageReturn = []byte(" "), []byte("\r")

// part is the part of a value that the next byte belongs to.
type part uint8

const (
	kind part = iota
	textLine
	numberLine
	body
)

// between reports whether the next byte begins a frame.
func (s *Scanner) between() bool { return s.part == kind && s.depth == 0 }

// scan returns how many of the bytes are right, and with fewer than all, what is wrong.
func (s *Scanner) scan(p []byte) (right int, err error) {
	for right < len(p) && err == nil {
		var n int
		n, _, err = s.Next(p[right:])
		right += n
	}
	return right, err
}

// Next passes over p, to the end of the first frame at most. It returns how many bytes are
// right and whether a frame ends with them; or else, what is wrong with the byte behind them.
func (s *Scanner) Next(p []byte) (right int, whole bool, err error) {
	for i := 0; i < len(p); {
		step := 1 // and with an error, to the byte that is wrong
		switch s.part {
		case kind:
			if step, err = s.wholeString(p[i:]); step == 0 {
				step, err = 1, s.begin(p[i])
			}
		case textLine:
			step, err = s.text(p[i:])
		case numberLine:
			step, err = s.number(p[i:])
		case body:
			step, err = s.string(p[i:])
		}
		if err != nil {
			return i + step - 1, false, err
		}
		if i += step; s.between() {
			return i, true, nil
		}
	}
	return len(p), false, nil
}

// wholeString passes over an element that is a string, if all of it is there and right:
// commands consist of those. It returns 0 for anything else.
func (s *Scanner) wholeString(p []byte) (int, error) {
	if s.depth == 0 || p[0] != '$' {
		return 0, nil
	}
	i, n := 1, 0
	for ; i < len(p) && i < 8 && '0' <= p[i] && p[i] <= '9'; i++ {
		n = n*10 + int(p[i]-'0')
	}
	begin, end := i+2, i+2+n
	if i == 1 || uint64(n) > s.maxString || len(p) < end+2 ||
		p[i] != '\r' || p[i+1] != '\n' || p[end] != '\r' || p[end+1] != '\n' {
		return 0, nil
	}
	s.note(p[begin:end])
	return end + 2, s.end()
}

func (s *Scanner) begin(first byte) error {
	switch first {
	case '+', '-', ':', '_', ',', '#', '(', '$', '!', '=', '*', '~', '%':
	case '>':
		if s.depth > 0 {
			return errSyntax
		}
	default:
		return errSyntax
	}
	if s.depth == 0 {
		if err := s.onBegin(first); err != nil {
			return err
		}
		s.frame = frame{kind: first}
	}
	s.part, s.kind = numberLine, first
	s.value, s.minus, s.length, s.cr = 0, false, 0, false
	switch first {
	case '+', '-', ',', '(':
		s.part = textLine
	}
	return nil
}

// note keeps of a text what describes the frame.
func (s *Scanner) note(text []byte) {
	f := &s.frame
	switch {
	case s.depth > 1 || len(text) == 0:
	case s.depth == 0:
		f.spaces += bytes.Count(text, space)
		f.size += copy(f.head[f.size:], text)
	case s.open[0] == f.elems:
		f.size += copy(f.head[f.size:], text)
	case s.open[0] == f.elems-1 && f.second == 0:
		f.second = text[0]
	}
}

// string passes over as much of a string as there is.
func (s *Scanner) string(p []byte) (int, error) {
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
	n := int(min(s.left-2, uint64(len(p)))) //nolint:gosec // at most len(p)
	s.note(p[:n])
	s.left -= uint64(n)
	return n, nil
}

// end ends a value, and the arrays that end with it.
func (s *Scanner) end() error {
	s.part = kind
	for s.depth > 0 {
		s.elems--
		if s.open[s.depth-1]--; s.open[s.depth-1] > 0 {
			return nil
		}
		s.depth--
	}
	return s.onEnd(s.frame)
}
