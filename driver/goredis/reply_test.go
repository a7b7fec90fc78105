package goredis

import (
	"bufio"
	"bytes"
	"reflect"
	"strings"
	"testing"
	"testing/iotest"

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
		"+OK\r\n":                          str("OK"),
		"+\r\n":                            str(""),
		"-ERR no such thing\r\n":           failure("ERR no such thing"),
		":-9223372036854775808\r\n":        number(-9223372036854775808),
		"$-1\r\n":                          {},
		"*-1\r\n":                          {},
		"_\r\n":                            {},
		"$0\r\n\r\n":                       str(""),
		"$4\r\n\r\n\x00$\r\n":              str("\r\n\x00$"),
		"*0\r\n":                           array(),
		"*3\r\n:1\r\n*1\r\n+a\r\n$-1\r\n":  array(number(1), array(str("a")), driver.Reply{}),
		"*2\r\n-ERR x\r\n:2\r\n":           array(failure("ERR x"), number(2)),
		"#t\r\n":                           number(1),
		"#f\r\n":                           number(0),
		",3.25\r\n":                        str("3.25"),
		"(123456789012345678901234567\r\n": str("123456789012345678901234567"),
		"!5\r\nERR x\r\n":                  failure("ERR x"),
		"=7\r\ntxt:abc\r\n":                str("abc"),
		"%1\r\n+k\r\n:1\r\n":               array(str("k"), number(1)),
		"~2\r\n:1\r\n:2\r\n":               array(number(1), number(2)),
		"|1\r\n+ttl\r\n:9\r\n+value\r\n":   str("value"),
	} {
		got, rest, err := decode([]byte(raw + "+next\r\n"))
		if err != nil || !reflect.DeepEqual(got, want) || string(rest) != "+next\r\n" {
			t.Errorf("decode(%q) = %+v, rest %q, %v, want %+v", raw, got, rest, err, want)
		}
	}
}

func TestDecodeRefuses(t *testing.T) {
	for _, raw := range []string{
		"", "\r\n", "+OK", ":1", ":one\r\n", "$5\r\nabc\r\n", "$3\r\nabc", "$9223372036854775807\r\n", "=3\r\n",
		"*2\r\n:1\r\n", "*1000000000\r\n", "%4611686018427387904\r\n", "|1\r\n+a\r\n:1\r\n", "?1\r\n",
	} {
		if got, _, err := decode([]byte(raw)); err == nil {
			t.Errorf("decode(%q) = %+v, want an error", raw, got)
		}
	}
}

func TestReceiveReadsOneReply(t *testing.T) {
	for _, raw := range []string{
		"*3\r\n$9\r\nsubscribe\r\n$1\r\na\r\n:1\r\n", "*3\r\n$7\r\nmessage\r\n$0\r\n\r\n$4\r\n\r\n$9\r\n",
		"*3\r\n$11\r\nunsubscribe\r\n$-1\r\n:0\r\n", "-NOPERM no\r\n", "*-1\r\n", "*0\r\n", "+PONG\r\n",
	} {
		want, _, err := decode([]byte(raw))
		if err != nil {
			t.Fatal(err)
		}
		in := bufio.NewReader(iotest.OneByteReader(strings.NewReader(raw + "+next\r\n")))
		got, err := receive(in)
		if next, _ := in.ReadString('\n'); err != nil || !reflect.DeepEqual(got, want) || next != "+next\r\n" {
			t.Errorf("receive(%q) = %+v, %v, and left %q, want %+v and the next reply", raw, got, err, next, want)
		}
		if got, err := receive(bufio.NewReader(strings.NewReader(raw[:len(raw)-1]))); err == nil {
			t.Errorf("receive(%q) without its end = %+v, want an error", raw, got)
		}
	}
}

// FuzzReceive looks for bytes that receive and notice do not survive.
func FuzzReceive(f *testing.F) {
	for _, seed := range []string{
		"*3\r\n$9\r\nsubscribe\r\n$1\r\na\r\n:1\r\n", "*3\r\n+message\r\n:1\r\n*0\r\n", "-\r\n", "\n", "*0\r\n",
		"$9223372036854775807\r\n", "*9223372036854775807\r\n", "*99999999999999999999\r\n",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		got, err := receive(bufio.NewReader(bytes.NewReader(raw)))
		if err != nil {
			return
		}
		if want, _, err := decode(raw); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("receive(%q) = %+v, but decode %+v, %v", raw, got, want, err)
		}
		_ = notice(got)
	})
}

// FuzzDecode looks for bytes that decode does not survive, and for replies that
// depend on what comes behind them.
func FuzzDecode(f *testing.F) {
	for _, seed := range []string{"+OK\r\n", "$3\r\nabc\r\n", "*2\r\n:1\r\n$-1\r\n", "%1\r\n+k\r\n#t\r\n", "|1\r\n+a\r\n:1\r\n_\r\n", "!1\r\nx\r\n"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		got, rest, err := decode(raw)
		if err != nil {
			return
		}
		again, none, err := decode(raw[:len(raw)-len(rest)])
		if err != nil || len(none) != 0 || !reflect.DeepEqual(got, again) {
			t.Errorf("decode(%q) = %+v, but alone %+v, %v", raw, got, again, err)
		}
	})
}
