package framing

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// frames scans raw in pieces of a size, and tells the frames, how many bytes are right,
// and what is wrong with the next.
func frames(raw string, size int) (got []string, right int, err error) {
	s := NewScanner()
	s.onEnd = func(f frame) error {
		got = append(got, fmt.Sprintf("%c%d %s", f.kind, f.elems, f.text()))
		return nil
	}
	for piece := range slices.Chunk([]byte(raw), size) {
		n, err := s.scan(piece)
		right += n
		if err != nil {
			return got, right, err
		}
	}
	return got, right, nil
}

func TestScannerTellsFrames(t *testing.T) {
	for raw, want := range map[string][]string{
		"+OK\r\n":                                          {"+0 OK"},
		"+\r\n-\r\n":                                       {"+0 ", "-0 "},
		"+a\rb\r\r\n":                                      {"+0 a\rb\r"},
		":-9223372036854775808\r\n":                        {":0 "},
		":9223372036854775807\r\n:-0\r\n":                  {":0 ", ":0 "},
		"$-1\r\n*-1\r\n_\r\n":                              {"$0 ", "*0 ", "_0 "},
		"$0\r\n\r\n$2\r\n\r\n\r\n":                         {"$0 ", "$0 \r\n"},
		"#t\r\n#f\r\n,1.5\r\n(12\r\n":                      {"#0 ", "#0 ", ",0 1.5", "(0 12"},
		"=5\r\ntxt:a\r\n!3\r\nERR\r\n":                     {"=0 txt:a", "!0 ERR"},
		"*0\r\n%0\r\n~0\r\n>0\r\n":                         {"*0 ", "%0 ", "~0 ", ">0 "},
		"*3\r\n$7\r\nmessage\r\n+x\r\n*1\r\n:1\r\n+OK\r\n": {"*3 message", "+0 OK"},
		"%2\r\n+k\r\n*0\r\n+l\r\n%1\r\n_\r\n_\r\n+OK\r\n":  {"%4 k", "+0 OK"},
		">2\r\n*1\r\n+nested\r\n+x\r\n+OK\r\n":             {">2 ", "+0 OK"},
		"+a text that is longer than is kept\r\n":          {"+0 a text that is l"},
	} {
		for size := range len(raw) {
			got, right, err := frames(raw, size+1)
			if err != nil || right != len(raw) || !slices.Equal(got, want) {
				t.Errorf("%q in pieces of %d: frames %q, %d bytes right, %v, want %q", raw, size+1, got, right, err, want)
			}
		}
	}
}

func TestScannerStopsAtTheByteThatIsWrong(t *testing.T) {
	long := strings.Repeat("x", maxLine)
	for _, tt := range []struct {
		right, wrong string
		err          error
	}{
		{"", "OK\r\n", errSyntax},
		{"+OK\r\n", "\r\n", errSyntax},
		{"", "|1\r\n", errSyntax},
		{"$", "?\r\n", errSyntax},
		{"", ".\r\n", errSyntax},
		{"+OK", "\n", errSyntax},
		{"+" + long, "x", errSize},
		{"$-", "5\r\n", errSyntax},
		{"$-1", "0\r\n", errSyntax},
		{"$\r", "\n", errSyntax},
		{"$-\r", "\n", errSyntax},
		{"$", "+2\r\n", errSyntax},
		{"$2\r", "x", errSyntax},
		{"$2", "\n", errSyntax},
		{"$419430", "5\r\n", errSize},
		{"$999999", "99999", errSize},
		{"$2\r\nOK", "x", errSyntax},
		{"$2\r\nOK\r", "x", errSyntax},
		{"*-", "7\r\n", errSyntax},
		{"%-", "1\r\n", errSyntax},
		{">-", "1\r\n", errSyntax},
		{"*6553", "7\r\n", errSize},
		{"%40000\r", "\n", errSize},
		{"*60000\r\n*5537\r", "\n", errSize},
		{strings.Repeat("*1\r\n", maxDepth) + "*1\r", "\n", errSize},
		{"*2\r\n", ">1\r\n", errSyntax},
		{":922337203685477580", "8\r\n", errSize},
		{":-922337203685477580", "9\r\n", errSize},
		{":1", ".5\r\n", errSyntax},
		{":-\r", "\n", errSyntax},
		{"_", "x\r\n", errSyntax},
		{"#", "x\r\n", errSyntax},
		{"#t", "t\r\n", errSyntax},
		{"#\r", "\n", errSyntax},
	} {
		raw := tt.right + tt.wrong
		for _, size := range []int{1, 2, 3, len(raw)} {
			if _, right, err := frames(raw, size); right != len(tt.right) || !errors.Is(err, tt.err) {
				t.Errorf("%.40q in pieces of %d: %d bytes are right, %v, want %d, %v", raw, size, right, err, len(tt.right), tt.err)
			}
		}
	}
}

func FuzzScanner(f *testing.F) {
	for _, seed := range []string{"+OK\r\n$2\r\nab\r\n", "*2\r\n:1\r\n%1\r\n+k\r\n_\r\n", ">3\r\n+message\r\n", "*9\r\n*9\r\n", "$-1\r\n#t\r\n,1\r\n", "+a\rb\r\n"} {
		f.Add(seed, 1)
	}
	f.Fuzz(func(t *testing.T, raw string, size int) {
		size = max(size, 1)
		want, right, err := frames(raw, len(raw)+1)
		got, rightToo, errToo := frames(raw, size)
		if !slices.Equal(got, want) || rightToo != right || !errors.Is(errToo, err) {
			t.Errorf("%q in pieces of %d: %q, %d, %v, but in one: %q, %d, %v", raw, size, got, rightToo, errToo, want, right, err)
		}
		if again, all, err := frames(raw[:right], right+1); err != nil || all != right || !slices.Equal(again, want) {
			t.Errorf("%q is right by itself, but %q, %d, %v", raw[:right], again, all, err)
		}
	})
}
