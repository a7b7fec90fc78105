package protocol

import (
	"errors"
	"strings"
	"testing"

	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/internal/fault"
)

// try is what an acquire of the last slot of three asks a node.
func try(key string) *Part {
	kind := NewSemaphore(key, 3).Slots[2]
	a := &Ask{Op: kind.Acquire, Key: kind.KeyName, Token: "ours", TTL: "1000"}
	a.Encode(nil)
	return &Part{Ask: a}
}

func TestASemaphoresKeysHaveItsHashTag(t *testing.T) {
	for key, want := range map[string]string{
		"gpu":       "ql:slot:{gpu}2 ql:permits:{gpu} ql:pool:{gpu} ql:slot:{gpu}0 ql:slot:{gpu}1 ql:slot:{gpu}2",
		"{app}:gpu": "ql:slot={app}:gpu:2 ql:permits={app}:gpu ql:pool={app}:gpu ql:slot={app}:gpu:0 ql:slot={app}:gpu:1 ql:slot={app}:gpu:2",
	} {
		cmd := try(key).Cmds[0]
		var keys []string
		for _, key := range cmd.Args[cmd.FirstKey : cmd.FirstKey+cmd.Keys] {
			keys = append(keys, key.(string))
		}
		if got := strings.Join(keys, " "); got != want {
			t.Errorf("the keys of %q are %s, want %s", key, got, want)
		}
	}
}

func TestANodeThatCannotCountPermitsSaysWhatItWants(t *testing.T) {
	for _, tt := range []struct {
		key    string
		manner Manner
		want   string // in the error; "": none
	}{
		{"gpu", Manner{}, ""},
		{"gpu", Manner{Cluster: true}, ""},
		{"{app}gpu", Manner{Cluster: true}, ""},
		{"gpu", Manner{Dialect: Dialect{Scriptless: true}}, "+eval"},
	} {
		err := tt.manner.Unfit(try(tt.key))
		if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("of %q a node with %+v says %v, want %q", tt.key, tt.manner, err, tt.want)
		}
	}
}

func TestTheRepliesToASlot(t *testing.T) {
	text := func(s string) driver.Reply { return driver.Reply{Kind: driver.String, Str: s} }
	array := func(elems ...driver.Reply) driver.Reply { return driver.Reply{Kind: driver.Array, Elems: elems} }
	for _, tt := range []struct {
		reply  driver.Reply
		want   Answer
		err    string
		holder string
		taken  string // by slot: 1, 0, or ? where the node says nothing
	}{
		{integer(2), Granted, "", "", "???"},
		{integer(1), Granted, "", "", "???"},
		{integer(3), Failed, "not an answer", "", "???"}, // nothing was given away
		{integer(0), Failed, "not an answer", "", "???"},
		{array(text("theirs"), integer(50), text("101"), integer(7), integer(0)), Taken, "", "theirs", "101"},
		{array(text(""), integer(-1), text("10"), integer(7), integer(0)), Taken, "", "", "10?"},
		{array(text("theirs"), integer(50), text("101"), integer(7)), Failed, "not an answer", "", "???"},
		{array(integer(1), integer(50), text("101"), integer(7), integer(0)), Failed, "not an answer", "", "???"},
		{text("7"), Failed, "counts 3, and others 7", "", "???"},
		{text("secret"), Failed, "others something that is no number", "", "???"},
		{driver.Reply{}, Failed, "not an answer", "", "???"},
		{driver.Reply{Kind: driver.Failure, Str: "NOPERM no"}, Failed, "allow ~ql:slot:{KEYS}* ~ql:slot=KEYS", "", "???"},
		{driver.Reply{Kind: driver.Failure, Str: "WRONGTYPE no"}, Failed, "WRONGTYPE", "", "???"},
	} {
		p := try("gpu")
		p.Reply = []driver.Reply{tt.reply}
		got, err := p.Read()
		if got != tt.want || (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) {
			t.Errorf("%+v means %v, %v; want %v, %q", tt.reply, got, err, tt.want, tt.err)
		}
		if errors.Is(err, fault.ErrPermits) != (tt.reply.Kind == driver.String) {
			t.Errorf("%+v means %v, which is another number of permits or is not", tt.reply, err)
		}
		if r := p.Refusal(); r.Holder != tt.holder || r.Slots != strings.Trim(tt.taken, "?") {
			t.Errorf("%+v: %q has the slot, and taken are %s; want %q, %s", tt.reply, r.Holder, r.Slots, tt.holder, tt.taken)
		}
	}
}

// Whatever a node says, it has given a slot only if it says so, and nothing panics.
func FuzzRepliesToASlot(f *testing.F) {
	f.Add(uint8(driver.Integer), int64(2), "", 0, "", int64(0), "")
	f.Add(uint8(driver.String), int64(0), "7", 0, "", int64(0), "")
	f.Add(uint8(driver.Array), int64(0), "", 5, "theirs", int64(50), "101")
	f.Add(uint8(driver.Array), int64(2), "", 5, "ours", int64(-2), "\xff")
	f.Fuzz(func(t *testing.T, kind uint8, n int64, text string, elems int, holder string, left int64, slots string) {
		reply := driver.Reply{Kind: driver.Kind(kind), Int: n, Str: text}
		all := []driver.Reply{{Kind: driver.String, Str: holder}, integer(left), {Kind: driver.String, Str: slots}, integer(n), integer(left), {}}
		reply.Elems = all[:max(0, min(elems, len(all)))]
		p := try("gpu")
		p.Reply = []driver.Reply{reply}
		answer, err := p.Read()
		switch given := reply.Kind == driver.Integer && (n == 1 || n == 2); {
		case (answer == Granted) != given:
			t.Errorf("%+v means %v", reply, answer)
		case (answer == Failed) != (err != nil):
			t.Errorf("%+v means %v, %v", reply, answer, err)
		}
		if r := p.Refusal(); r.Named && (answer != Taken || r.Holder == "ours" || r.Left < 0 || r.Left > MaxTTL+1e6) {
			t.Errorf("%+v: %+v, by an answer that is %v", reply, r, answer)
		} else if r.Slots != "" && answer != Taken {
			t.Errorf("%+v speaks of slots, and is %v", reply, answer)
		}
	})
}

// A batch asks it of each part.
func TestAskingWhetherANodeTakesAPartAllocatesNothing(t *testing.T) {
	p := &Part{Ask: &Ask{Op: Exclusive.Acquire}}
	if n := testing.AllocsPerRun(100, func() {
		m := NewManner(Dialect{}, false, false, false, false)
		if err := m.Unfit(p); err != nil {
			t.Error(err)
		}
	}); n != 0 {
		t.Errorf("it allocates %v times", n)
	}
}
