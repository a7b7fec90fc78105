package inspect

import (
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/internal/protocol"
)

func TestASightReadsWhatANodeSaysOfAKey(t *testing.T) {
	now := time.UnixMilli(1_000_000)
	str := func(s string) driver.Reply { return driver.Reply{Kind: driver.String, Str: s} }
	num := func(n int64) driver.Reply { return driver.Reply{Kind: driver.Integer, Int: n} }
	list := func(elems ...driver.Reply) driver.Reply { return driver.Reply{Kind: driver.Array, Elems: elems} }
	shared := sight{value: "ql:shared", left: 9 * time.Millisecond, readers: []reader{{"new", 9 * time.Millisecond}}}
	failure := driver.Reply{Kind: driver.Failure, Str: "NOPERM no key"}
	wrong := driver.Reply{Kind: driver.Failure, Str: "WRONGTYPE no string"}
	for _, tt := range []struct {
		name    string
		replies []driver.Reply
		want    sight
		fails   bool
	}{
		{"nothing", []driver.Reply{{}, num(-2), list(), {}, {}, list()}, sight{}, false},
		{"a holder with a fence", []driver.Reply{str("ql:a"), num(5000), list(), str("1.5e3"), {}, list()}, sight{value: "ql:a", left: 5 * time.Second, fence: 1500}, false},
		{"no expiry", []driver.Reply{str("x"), num(-1), list(), {}, {}, list()}, sight{value: "x", endless: true}, false},
		{"an empty value", []driver.Reply{str(""), num(-1), list(), {}, {}, list()}, sight{odd: true, endless: true}, false},
		{"a hash", []driver.Reply{wrong, num(7), list(), {}, {}, list()}, sight{odd: true, left: 7 * time.Millisecond}, false},
		{"readers, as a list", []driver.Reply{str("ql:shared"), num(9), list(str("old"), str("999999"), str("new"), str("1000009")), {}, {}, list()}, shared, false},
		{"readers, as pairs", []driver.Reply{str("ql:shared"), num(9), list(list(str("new"), str("1000009"))), {}, {}, list()}, shared, false},
		{"a semaphore", []driver.Reply{{}, num(-2), list(), {}, str("5"), list()}, sight{permits: "5"}, false},
		{
			"a wait for another key",
			[]driver.Reply{str("ql:a"), num(5), list(), {}, {}, list(str("wait:1"), str("1000009 echo=x\nwait=1&key=b&since=999000000"), str("wait:2"), str("999999 \nwait=2&key=c&since=1"), str("nonces"), str("1000009 nonce:3 x\n"))},
			sight{value: "ql:a", left: 5 * time.Millisecond, waits: []protocol.Edge{{Wait: "1", Keys: []string{"b"}, Since: 999_000_000, Echo: []string{"x"}}}},
			false,
		},
		{"no right to what is beside the key", []driver.Reply{str("ql:a"), num(5), failure, failure, failure, failure}, sight{value: "ql:a", left: 5 * time.Millisecond}, false},
		{"no right to the readers", []driver.Reply{str("ql:shared"), num(5), failure, {}, {}, list()}, sight{}, true},
		{"no right to the key", []driver.Reply{failure, num(5), list(), {}, {}, list()}, sight{}, true},
		{"no right to PTTL", []driver.Reply{str("ql:a"), failure, list(), {}, {}, list()}, sight{}, true},
		{"no Redis", []driver.Reply{num(1), num(1), num(1), num(1), num(1), list()}, sight{}, true},
	} {
		got := readSight(tt.replies, now)
		if (got.err != nil) != tt.fails {
			t.Errorf("%s: the error is %v, want one: %t", tt.name, got.err, tt.fails)
		}
		readers := slices.Equal(got.readers, tt.want.readers)
		if !reflect.DeepEqual(got.waits, tt.want.waits) {
			t.Errorf("%s: the waits are %+v, want %+v", tt.name, got.waits, tt.want.waits)
		}
		got.err, got.readers, tt.want.readers = nil, nil, nil
		if !readers || got.value != tt.want.value || got.odd != tt.want.odd || got.left != tt.want.left || got.endless != tt.want.endless || got.fence != tt.want.fence || got.permits != tt.want.permits {
			t.Errorf("%s: the sight is %+v, want %+v", tt.name, got, tt.want)
		}
	}
}

// The bytes of others are no reason to panic, whatever they are.
func FuzzReadSight(f *testing.F) {
	f.Add("ql:shared", "r", "1e9", int64(3), uint8(2))
	f.Fuzz(func(t *testing.T, value, member, score string, left int64, kind uint8) {
		part := driver.Reply{Kind: driver.Kind(kind % 5), Str: score}
		replies := []driver.Reply{
			{Kind: driver.String, Str: value},
			{Kind: driver.Integer, Int: left},
			{Kind: driver.Array, Elems: []driver.Reply{{Kind: driver.String, Str: member}, part, part}},
			part, part,
			{Kind: driver.Array, Elems: []driver.Reply{{Kind: driver.String, Str: "wait:" + member}, part, part}},
		}
		s := readSight(replies, time.UnixMilli(1))
		if s.value != value || s.fence < 0 || s.fence > protocol.MaxFence || s.left < 0 {
			t.Errorf("the sight of %q is %+v", strings.ToValidUTF8(value, "?"), s)
		}
	})
}
