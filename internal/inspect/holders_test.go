package inspect

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/internal/protocol"
)

// tokenOf is a whole token that begins with a letter of its own.
func tokenOf(letter string) string {
	return protocol.TokenMark + strings.Repeat(letter, 32) + ":pod-" + letter
}

// sightsOf reads what nodes have: a b tokens of ours, F G values of others, O another type, R S
// tombstones, . nothing, ? silence. Behind it stand q (it sits out), e (no expiry), or the seconds
// that are left.
func sightsOf(text string) (sights []sight, quarantined []bool) {
	for word := range strings.FieldsSeq(text) {
		s := sight{left: 10 * time.Second}
		out := false
		switch rest := word[1:]; {
		case rest == "q":
			out = true
		case rest == "e":
			s.left, s.endless = 0, true
		case rest != "":
			_, _ = fmt.Sscanf(rest, "%d", &s.left)
			s.left *= time.Second
		}
		switch word[0] {
		case '.':
			s = sight{}
		case '?':
			s = sight{err: errors.New("silent")}
		case 'O':
			s.odd = true
		case 'R', 'S':
			s.value = protocol.RevokedPrefix + word[:1] + ":stuck"
		case 'F', 'G':
			s.value = "foreign-" + word[:1]
		default:
			s.value = tokenOf(word[:1])
		}
		sights, quarantined = append(sights, s), append(quarantined, out)
	}
	return sights, quarantined
}

// surveyOf is a survey of nodes of which some sit out.
func surveyOf(quarantined []bool) *survey {
	v := newSurvey(make([]driver.Node, len(quarantined)), StatusOptions{})
	for i, out := range quarantined {
		v.states[i].Quarantined = out
	}
	return v
}

func TestAKeysStateFollowsFromTheVotes(t *testing.T) {
	const never = -1
	for _, tt := range []struct {
		votes string
		state KeyState
		text  string
		fault string
		left  float64
		gone  float64
		marks string
	}{
		{". . . . .", KeyFree, "free", "", 0, 0, "....."},
		{"a a a a a", KeyHeld, "held", "", 10, 10, "●●●●●"},
		{"a a a a .", KeyHeld, "held, 1 node short", "", 10, 10, "●●●●."},
		{"a5 a6 a7 a8 a9", KeyHeld, "held", "", 7, 9, "●●●●●"},
		{"a a a . b", KeyAtQuorum, "held at exactly a quorum", "held at exactly a quorum", 10, 10, "●●●.○"},
		{"a a a ? ?", KeyAtQuorum, "held at exactly a quorum", "held at exactly a quorum", 10, 10, "●●●??"},
		{"a a aq . .", KeyUnclear, "cannot tell: a node sits out", "unclear", 10, 10, "●●◌.."},
		{"a a a aq .", KeyAtQuorum, "held at exactly a quorum", "held at exactly a quorum", 10, 10, "●●●◌."},
		{"a", KeyHeld, "held", "", 10, 10, "●"},
		{"a .", KeySplit, "split: nobody has it", "split", 10, 10, "●."},
		{"a a", KeyHeld, "held", "", 10, 10, "●●"},
		{"a a b . .", KeySplit, "split: nobody has it", "split", 10, 10, "●●○.."},
		{"b a a . .", KeySplit, "split: nobody has it", "split", 10, 10, "○●●.."},
		{"a . b . .", KeySplit, "split: nobody has it", "split", 0, 10, "●.○.."},
		{"a a . .", KeySplit, "split: nobody has it", "split", 10, 10, "●●.."},
		{". . . a4 .", KeyLeftOver, "left over at node 4", "", 0, 4, "...●."},
		{"a3 . . a4 .", KeyLeftOver, "left over at nodes 1 4", "", 0, 4, "●..●."},
		{". . . a11 .", KeyLeftOver, "left over at node 4", "left over for longer than one TTL", 0, 11, "...●."},
		{". . . ae .", KeyLeftOver, "left over at node 4", "left over for longer than one TTL", 0, never, "...●."},
		{"F F F F F", KeyForeign, "another library", "", 10, 10, "●●●●●"},
		{". . . Fe .", KeyForeign, "another library, at node 4", "", 0, never, "...●."},
		{"Fe Fe Fe Fe Fe", KeyForeign, "another library", "", never, never, "●●●●●"},
		{"O O O . .", KeyForeign, "no lock: other data has the key", "", 10, 10, "●●●.."},
		{"F G . . .", KeySplit, "split: nobody has it", "split", 0, 10, "●○..."},
		{"a a a F F", KeyAtQuorum, "held at exactly a quorum", "held at exactly a quorum", 10, 10, "●●●○○"},
		{"R R R R R", KeyRevoked, "revoked: stuck", "", 10, 10, "●●●●●"},
		{"R R R a a", KeyRevoked, "revoked: stuck", "", 10, 10, "●●●○○"},
		{"R S R a a", KeyRevoked, "revoked: stuck", "", 10, 10, "●●●○○"},
		{"R R a a", KeyRevoked, "revoked: stuck", "", 10, 10, "●●○○"},
		{"a a a R R", KeyAtQuorum, "held at exactly a quorum, revoked at 2 nodes", "held at exactly a quorum", 10, 10, "●●●○○"},
		{"a a R . .", KeySplit, "split: nobody has it, revoked at 1 node", "split", 10, 10, "●●○.."},
		{"R . . . .", KeyRevoked, "revoked: stuck", "", 0, 10, "●...."},
		{"a a . ? ?", KeyUnclear, "cannot tell: 2 nodes silent", "unclear", 10, 10, "●●.??"},
		{". . ? ? ?", KeyUnclear, "cannot tell: 3 nodes silent", "", never, 0, "..???"},
		{"a . . . ?", KeyLeftOver, "left over at node 1", "", 0, 10, "●...?"},
	} {
		sights, quarantined := sightsOf(tt.votes)
		k := surveyOf(quarantined).judge("key", sights)
		var marks strings.Builder
		for _, vote := range k.Votes {
			mark := map[Mark]string{MarkHolder: "●", MarkOther: "○", MarkNone: ".", MarkUnknown: "?"}[vote.Mark]
			if vote.Quarantined && vote.Mark == MarkHolder {
				mark = "◌"
			}
			marks.WriteString(mark)
		}
		seconds := func(s *float64) float64 {
			if s == nil {
				return never
			}
			return *s
		}
		if k.State != tt.state || k.Text != tt.text || k.Fault != tt.fault || seconds(k.Left) != tt.left || seconds(k.Gone) != tt.gone || marks.String() != tt.marks {
			t.Errorf("%q is %s, %q, fault %q, left %v, gone %v, %s; want %s, %q, %q, %v, %v, %s",
				tt.votes, k.State, k.Text, k.Fault, seconds(k.Left), seconds(k.Gone), &marks, tt.state, tt.text, tt.fault, tt.left, tt.gone, tt.marks)
		}
		if k.State == KeyHeld && (k.Holder == nil || k.Holder.Owner != "pod-a" || k.Holder.Token != "aaaa") {
			t.Errorf("%q is held by %+v, want pod-a (aaaa)", tt.votes, k.Holder)
		}
	}
}

func TestAReaderHoldsAKeyByAQuorumOfItsOwn(t *testing.T) {
	for _, tt := range []struct {
		nodes   string // the readers of each; -: nothing, ?: silence
		readers int
		state   KeyState
		text    string
		fault   string
	}{
		{"abc abc abc", 3, KeyShared, "shared by 3 readers", ""},
		{"abc abc ab", 3, KeyShared, "shared, 1 of 3 at exactly a quorum", "held at exactly a quorum"},
		{"ab ac a", 1, KeyShared, "shared by 1 reader", ""},
		{"a b c", 0, KeySplit, "split: no reader has a quorum", "split"},
		{"a - -", 0, KeyLeftOver, "left over at node 1", ""},
		{"a ? -", 0, KeyUnclear, "cannot tell: 1 node silent", "unclear"},
	} {
		var sights []sight
		for word := range strings.FieldsSeq(tt.nodes) {
			s := sight{value: protocol.SharedValue, left: 10 * time.Second}
			switch word {
			case "-":
				s = sight{}
			case "?":
				s = sight{err: errors.New("silent")}
			default:
				for letter := range strings.SplitSeq(word, "") {
					s.readers = append(s.readers, reader{tokenOf(letter), 10 * time.Second})
				}
			}
			sights = append(sights, s)
		}
		k := surveyOf(make([]bool, len(sights))).judge("key", sights)
		if k.State != tt.state || k.Text != tt.text || k.Fault != tt.fault || len(k.Readers) != tt.readers {
			t.Errorf("%q is %s, %q, fault %q, of %d readers; want %s, %q, %q, %d", tt.nodes, k.State, k.Text, k.Fault, len(k.Readers), tt.state, tt.text, tt.fault, tt.readers)
		}
		if i := slices.IndexFunc(k.Readers, func(r HolderStatus) bool { return len(r.Token) != 4 }); i >= 0 {
			t.Errorf("%q has the reader %+v, want four digits of its token", tt.nodes, k.Readers[i])
		}
	}
}

func TestANameOnANodeIsALocksOrBesideOne(t *testing.T) {
	for _, tt := range []struct {
		prefix, name, key string
		slots             int
		ok                bool
	}{
		{"", "orders:42", "orders:42", 0, true},
		{"orders:", "orders:42", "orders:42", 0, true},
		{"orders:", "stock:42", "", 0, false},
		{"orders:", "x-orders:42", "", 0, false},
		{"orders:", "orders:", "", 0, false},
		{"orders:", "orders:ql:memory", "orders:ql:memory", 0, true},
		{"orders:", "ql:memory:orders:", "", 0, false},
		{"", "ql:memory", "", 0, false},
		{"orders:", "ql:slot:{orders:gpus}2", "orders:gpus", 3, true},
		{"", "ql:slot:{gpus}127", "gpus", 128, true},
		{"", "ql:slot:{gpus}128", "", 0, false},
		{"orders:", "ql:slot:{stock:gpus}2", "", 0, false},
		{"", "ql:slot:{gpus}02", "", 0, false},
		{"", "ql:slot:{gpus}-1", "", 0, false},
		{"", "ql:slot:gpus:2", "", 0, false},
		{"", "ql:slot=gpus:2", "", 0, false}, // it has no hash tag
		{"", "ql:slot:{{a}gpus}2", "", 0, false},
		{"", "gpus:slot:2", "gpus:slot:2", 0, true},
		{"", "ql:slot={a}gpus:2", "{a}gpus", 3, true},
		{"{app}:", "ql:slot={app}:gpus:2", "{app}:gpus", 3, true},
		{"orders:", "ql:fences:{42}", "", 0, false},
		{"", "ql:readers:{gpus}", "", 0, false},
		{"", "ql:permits:{gpus}", "", 0, false},
		{"", "ql:slot", "", 0, false},
		{"", "ql:slot:{", "", 0, false},
		{"", "{42}:fence", "{42}:fence", 0, true},
	} {
		key, slots, ok := lockOf(tt.prefix, tt.name)
		if ok != tt.ok || ok && (key != tt.key || slots != tt.slots) {
			t.Errorf("under %q the name %q is of %q with %d slots, %t; want %q, %d, %t", tt.prefix, tt.name, key, slots, ok, tt.key, tt.slots, tt.ok)
		}
	}
}

func TestPermitsAreThoseThatMostNodesCount(t *testing.T) {
	for _, tt := range []struct {
		said string
		want int
	}{
		{"5 5 3", 5}, {"- - -", 0}, {"- 4 -", 4}, {"3 5 -", 5}, {"0 -1 x", 0}, {"129 9999 2", 2},
	} {
		var sights []sight
		for word := range strings.FieldsSeq(tt.said) {
			sights = append(sights, sight{permits: strings.TrimSuffix(word, "-")})
		}
		if got := permits(sights); got != tt.want {
			t.Errorf("of %q the permits are %d, want %d", tt.said, got, tt.want)
		}
	}
}

func TestASightReadsWhatANodeSaysOfAKey(t *testing.T) {
	now := time.UnixMilli(1_000_000)
	str, num := text, number
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
		{
			"waiters in line, of which one's ticket counts no more",
			[]driver.Reply{str("ql:a"), num(5), list(), {}, {}, list(), list(str("-x0:a"), str("1000001"), str("-x0:b"), str("1000000"), str("-r0:c"), str("1001500")), list(list(str("-s2:d"), str("1001500")))},
			sight{value: "ql:a", left: 5 * time.Millisecond, inLine: 3},
			false,
		},
		{"no right to what is beside the key", []driver.Reply{str("ql:a"), num(5), failure, failure, failure, failure}, sight{value: "ql:a", left: 5 * time.Millisecond}, false},
		{"no right to the readers", []driver.Reply{str("ql:shared"), num(5), failure, {}, {}, list()}, sight{}, true},
		{"no right to the key", []driver.Reply{failure, num(5), list(), {}, {}, list()}, sight{}, true},
		{"no right to PTTL", []driver.Reply{str("ql:a"), failure, list(), {}, {}, list()}, sight{}, true},
		{"no Redis", []driver.Reply{num(1), num(1), num(1), num(1), num(1), list()}, sight{}, true},
	} {
		got := readSight(append(tt.replies, make([]driver.Reply, int(questions)-len(tt.replies))...), now)
		if (got.err != nil) != tt.fails {
			t.Errorf("%s: the error is %v, want one: %t", tt.name, got.err, tt.fails)
		}
		got.err, got.now = nil, time.Time{}
		if !reflect.DeepEqual(got, tt.want) {
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
			{Kind: driver.Array, Elems: []driver.Reply{{Kind: driver.String, Str: "-" + member}, part, part}},
			part,
		}
		s := readSight(replies, time.UnixMilli(1))
		if s.value != value || s.fence < 0 || s.fence > protocol.MaxFence || s.left < 0 {
			t.Errorf("the sight of %q is %+v", strings.ToValidUTF8(value, "?"), s)
		}
	})
}
