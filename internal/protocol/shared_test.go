package protocol

import (
	"fmt"
	"testing"

	"github.com/quorumlock/quorumlock/driver"
)

// readers are asks of readers of a key, for the op.
func readers(op *Op, count int, number int64) (parts []*Part) {
	for i := range count {
		a := &Ask{Op: op, Key: "k", Token: fmt.Sprint("ql:", i), TTL: "1000", Sides: NewSides("k")}
		a.Fence.Set = FenceSet("k")
		if op == Upgrade {
			a.Old = "ql:old"
		}
		a.Encode(nil)
		if number != 0 {
			a.Carry(number)
		}
		parts = append(parts, &Part{Ask: a})
	}
	return parts
}

// sent puts the parts in one sending, and returns its commands and what decodes the replies.
func sent(parts []*Part) (cmds []driver.Command, decode func(...driver.Reply)) {
	b := NewBatch(NewManner(Dialect{}, false, false, true, false), new(Buffer))
	b.Begin()
	for _, p := range parts {
		b.Add(p)
	}
	cmds = b.Encode()
	return cmds, func(replies ...driver.Reply) { b.Decode(replies, false, func(*Part, bool) {}) }
}

func list(elems ...driver.Reply) driver.Reply { return driver.Reply{Kind: driver.Array, Elems: elems} }

func TestReadersOfOneKeyShareACall(t *testing.T) {
	longer := readers(Shared.Acquire, 2, 0)
	for _, p := range longer {
		p.TTL = "2000"
	}
	for _, tt := range []struct {
		what  string
		parts []*Part
		want  int
	}{
		{"32 that join", readers(Shared.Acquire, 32, 0), 1},
		{"33 that join", readers(Shared.Acquire, 33, 0), 2},
		{"with numbers of their own", append(readers(Shared.Acquire, 2, 5), readers(Shared.Acquire, 2, 6)...), 1},
		{"that raise the counter to one number", readers(Shared.Level, 3, 5), 1},
		{"to two numbers", append(readers(Shared.Level, 2, 5), readers(Shared.Level, 2, 6)...), 2},
		{"that join and that extend", append(readers(Shared.Acquire, 2, 0), readers(Shared.Extend, 2, 0)...), 2},
		{"that extend", readers(Shared.Extend, 4, 0), 1},
		{"for other leases", append(readers(Shared.Acquire, 2, 0), longer...), 2},
		{"that go", readers(Shared.Release, 3, 0), 1},
	} {
		if cmds, _ := sent(tt.parts); len(cmds) != tt.want {
			t.Errorf("readers %s take %d calls, want %d", tt.what, len(cmds), tt.want)
		}
	}
}

func TestEachReaderHasItsOwnAnswer(t *testing.T) {
	parts := readers(Shared.Acquire, 3, 0)
	_, decode := sent(parts)
	mark := driver.Reply{Kind: driver.String, Str: "ql:w"}
	decode(list(integer(0b101), driver.Reply{}, mark, integer(700), integer(700), integer(1)))
	for i, want := range []Answer{Granted, Taken, Granted} {
		if got, err := parts[i].Read(); got != want || err != nil {
			t.Errorf("reader %d of a call: %v, %v, want %v", i, got, err, want)
		}
	}
	if r := parts[1].Refusal(); r.Holder != "ql:w" || r.Left.Milliseconds() != 701 || !r.Named {
		t.Errorf("the one that was refused is kept out by %q for %v", r.Holder, r.Left)
	}
}

func TestRepliesThatNoScriptGivesAreNoAnswers(t *testing.T) {
	text := driver.Reply{Kind: driver.String, Str: "1"}
	odd := []driver.Reply{
		{},
		integer(1), integer(-1), text, list(), list(integer(1)), list(text, text, text, text),
		list(integer(2), text, text, text), list(integer(-1), text, text, text), list(integer(1<<40), text, text, integer(1)),
		{Kind: driver.Failure, Str: "ERR"},
		list(list(), list(), list(), list()),
		{Kind: 77},
	}
	for _, op := range []*Op{Shared.Acquire, Shared.Level, Shared.Extend, Downgrade, Upgrade} {
		for _, number := range []int64{0, 5} {
			for _, reply := range odd {
				parts := readers(op, 1, number)
				if op == Downgrade {
					parts[0].Old = "ql:old"
				}
				cmds, decode := sent(parts)
				replies := make([]driver.Reply, len(cmds))
				for i := range replies {
					replies[i] = reply
				}
				decode(replies...)
				got, err := parts[0].Read()
				if got == Granted {
					got, err = parts[0].ReadFence()
				}
				if granted := op == Upgrade && number == 0 && reply.Kind == driver.Array && len(reply.Elems) == 1; granted != (got == Granted) {
					t.Errorf("%s with the number %d: %+v is %v, %v", op.Name, number, reply, got, err)
				}
				_ = parts[0].Refusal()
			}
		}
	}
	for _, op := range []*Op{Shared.Release, Revert, ReleaseBoth} {
		for _, reply := range odd {
			parts := readers(op, 1, 0)
			if op != Shared.Release {
				parts[0].Old = "ql:old"
			}
			_, decode := sent(parts)
			decode(reply, reply)
			if got, err := parts[0].Read(); got == Granted && (reply.Kind != driver.Integer || op == Revert) {
				t.Errorf("release: %+v is %v, %v", reply, got, err)
			}
		}
	}
	for _, value := range odd {
		for _, expiry := range odd {
			p := readers(Shared.Look, 1, 0)[0]
			p.Reply = []driver.Reply{value, expiry, value}
			if got, _ := p.Read(); got == Granted {
				t.Errorf("held: %+v and %+v is %v", value, expiry, got)
			}
		}
	}
}
