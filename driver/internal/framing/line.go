package framing

import (
	"bytes"
	"math"
)

// text passes over as much of a line as there is. The line may hold anything.
func (s *Scanner) text(p []byte) (int, error) {
	end := bytes.IndexByte(p, '\n')
	line := p
	if end >= 0 {
		line = p[:end]
	}
	if room := maxLine - s.length; len(line) > room && line[room] != '\r' {
		return room + 1, errSize
	} else if len(line) > room+1 {
		return room + 2, errSize
	}
	s.length += len(line)
	if len(line) > 0 {
		if s.cr {
			s.note(carriageReturn) // it did not end the line
		}
		line, s.cr = bytes.CutSuffix(line, carriageReturn)
		s.note(line)
	}
	switch {
	case end < 0:
		return len(p), nil
	case !s.cr:
		return end + 1, errSyntax
	}
	return end + 1, s.end()
}

// number passes over as much of a line as there is. The line holds a number, a boolean or
// nothing.
func (s *Scanner) number(p []byte) (n int, err error) {
	for i, b := range p {
		switch {
		case s.cr && b == '\n':
			return i + 1, s.endNumber()
		case s.cr || s.length == maxLine:
			err = errSyntax
		case b == '\r':
			s.cr = true
			continue
		case b == '-' && s.length == 0 && s.kind != '_' && s.kind != '#':
			s.minus = true
		default:
			err = s.digit(b)
		}
		if s.length++; err != nil {
			return i + 1, err
		}
	}
	return len(p), nil
}

func (s *Scanner) digit(b byte) error {
	limit, nilLength := uint64(maxElems), b == '1' && s.length == 1 // -1
	switch s.kind {
	case '_':
		return errSyntax
	case '#':
		if s.length > 0 || b != 't' && b != 'f' {
			return errSyntax
		}
		return nil
	case ':':
		if limit = math.MaxInt64; s.minus {
			limit++
		}
		nilLength = true
	case '$':
		limit = s.maxString
	case '!', '=':
		limit, nilLength = s.maxString, false
	case '*':
	default:
		nilLength = false
	}
	digit := uint64(b - '0')
	if digit > 9 || s.minus && !nilLength {
		return errSyntax
	}
	if s.value > (limit-digit)/10 {
		return errSize
	}
	s.value = s.value*10 + digit
	return nil
}

func (s *Scanner) endNumber() error {
	switch {
	case s.kind == '_':
		return s.end()
	case s.length == 0 || s.minus && s.length == 1:
		return errSyntax
	case s.kind == ':', s.kind == '#', s.minus: // -1 is a nil of RESP2
		return s.end()
	case s.kind == '$', s.kind == '!', s.kind == '=':
		s.part, s.left = body, s.value+2
		return nil
	}
	return s.enter()
}

// enter begins the elements of an array.
func (s *Scanner) enter() error {
	n := int64(s.value) //nolint:gosec // at most maxElems
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
	s.part = kind
	return nil
}
