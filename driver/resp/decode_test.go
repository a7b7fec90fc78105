package resp

import (
	"io"
	"reflect"
	"strings"
	"testing"

	"github.com/quorumlock/quorumlock/driver"
)

func TestDecode(t *testing.T) {
	str := func(s string) driver.Reply { return driver.Reply{Kind: driver.String, Str: s} }
	number := func(n int64) driver.Reply { return driver.Reply{Kind: driver.Integer, Int: n} }
	failure := func(s string) driver.Reply { return driver.Reply{Kind: driver.Failure, Str: s} }
	array := func(elems ...driver.Reply) driver.Reply {
		return driver.Reply{Kind: driver.Array, Elems: append([]driver.Reply{}, elems...)}
	}
	for raw, want := range map[string]driver.Reply{
		"+OK\r\n":                              str("OK"),
		"+\r\n":                                str(""),
		"-ERR no such thing\r\n":               failure("ERR no such thing"),
		":-9223372036854775808\r\n":            number(-9223372036854775808),
		"$-1\r\n":                              {},
		"*-1\r\n":                              {},
		"_\r\n":                                {},
		"$0\r\n\r\n":                           str(""),
		"$4\r\n\r\n\x00$\r\n":                  str("\r\n\x00$"),
		"*0\r\n":                               array(),
		"*3\r\n:1\r\n*1\r\n+a\r\n$-1\r\n":      array(number(1), array(str("a")), driver.Reply{}),
		"*2\r\n-ERR x\r\n:2\r\n":               array(failure("ERR x"), number(2)),
		"#t\r\n":                               number(1),
		"#f\r\n":                               number(0),
		",3.25\r\n":                            str("3.25"),
		"(123456789012345678901234567\r\n":     str("123456789012345678901234567"),
		"!5\r\nERR x\r\n":                      failure("ERR x"),
		"=7\r\ntxt:abc\r\n":                    str("abc"),
		"=4\r\ntxt:\r\n":                       str(""),
		"%1\r\n+k\r\n:1\r\n":                   array(str("k"), number(1)),
		"~2\r\n:1\r\n:2\r\n":                   array(number(1), number(2)),
		"|1\r\n+ttl\r\n:9\r\n+value\r\n":       str("value"),
		"|2\r\n+a\r\n:1\r\n+b\r\n:2\r\n:3\r\n": number(3),
	} {
		got, rest, err := Decode([]byte(raw + "+next\r\n"))
		if err != nil || !reflect.DeepEqual(got, want) || string(rest) != "+next\r\n" {
			t.Errorf("Decode(%q) = %+v, rest %q, %v, want %+v", raw, got, rest, err, want)
		}
	}
}

func TestDecodeRefuses(t *testing.T) {
	for _, raw := range []string{
		"", "\r\n", "+OK", ":1", ":one\r\n", "$5\r\nabc\r\n", "$3\r\nabc", "$9223372036854775807\r\n", "=3\r\n",
		"*2\r\n:1\r\n", "*1000000000\r\n", "%4611686018427387904\r\n", "|1\r\n+a\r\n:1\r\n", "?1\r\n",
	} {
		if got, _, err := Decode([]byte(raw)); err == nil {
			t.Errorf("Decode(%q) = %+v, want an error", raw, got)
		}
	}
}

// pieces are what was written, and how often; the last write fails.
type pieces struct{ writes, last, bytes int }

func (p *pieces) Write(b []byte) (int, error) {
	if p.writes++; p.writes == p.last {
		return 1, io.ErrClosedPipe
	}
	p.bytes += len(b)
	return len(b), nil
}

func TestALargeBatchLeavesInPieces(t *testing.T) {
	large := driver.Command{Args: []any{strings.Repeat("x", chunk)}}
	for last, writes := range []int{3, 1, 2, 3, 3} {
		w := pieces{last: last}
		sent, err := WriteCommands(&w, []driver.Command{large, large, {Args: []any{"PING"}}, {Args: []any{"PING"}}})
		if failed := last > 0 && last <= writes && w.writes == last; w.writes != writes || (err != nil) != failed || failed != (sent == w.bytes+1) {
			t.Errorf("where write %d fails there were %d, want %d: %d bytes were sent, %v", last, w.writes, writes, sent, err)
		}
	}
}

// FuzzDecode looks for bytes that Decode does not survive, and for replies that
// depend on what comes behind them.
func FuzzDecode(f *testing.F) {
	for _, seed := range []string{"+OK\r\n", "$3\r\nabc\r\n", "*2\r\n:1\r\n$-1\r\n", "%1\r\n+k\r\n#t\r\n", "|1\r\n+a\r\n:1\r\n_\r\n", "!1\r\nx\r\n"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		got, rest, err := Decode(raw)
		if err != nil {
			return
		}
		again, none, err := Decode(raw[:len(raw)-len(rest)])
		if err != nil || len(none) != 0 || !reflect.DeepEqual(got, again) {
			t.Errorf("Decode(%q) = %+v, but alone %+v, %v", raw, got, again, err)
		}
	})
}
