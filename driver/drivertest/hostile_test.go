package drivertest

import (
	"testing"

	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/test/scripted"
)

// complaints is what hostile replies to a driver of the pool's make.
func complaints(mutate func(p *pool) driver.Driver, h scripted.Hostility) []string {
	return watch(func(r reporter) {
		on := newStage(r, func(addr string) driver.Driver {
			p := newPool(addr)
			r.Cleanup(func() { _ = p.Close() })
			return mutate(p)
		})
		on.survives(r, h)
	})
}

func TestHostileRepliesAreJudged(t *testing.T) {
	odd := scripted.Hostility{Raw: "+OK\r\n", Place: scripted.Instead, Ending: scripted.GoesOn}
	for _, tt := range []struct {
		name   string
		mutate func(p *pool) driver.Driver
		h      scripted.Hostility
		words  string // of a complaint; "" for none
	}{
		{"bears an odd reply", correct, scripted.Hostility{Raw: "*1\r\n_\r\n", Place: scripted.Instead, Ending: scripted.GoesOn}, ""},
		{"bears a cut", correct, scripted.Hostility{Raw: "$5\r\nab", Place: scripted.Instead, Ending: scripted.HangsUp}, ""},
		{"takes the reply behind one for the next", correct, scripted.Hostility{Raw: "+OK\r\n", Place: scripted.Behind, Ending: scripted.GoesOn}, "got the reply string \"OK\""},
		{"takes a reply to nobody for the next", correct, scripted.Hostility{Raw: "+OK\r\n", Place: scripted.Later, Ending: scripted.GoesOn}, "got the reply string \"OK\""},
		{"returns a kind that there is not", changing(func(got []driver.Reply) []driver.Reply {
			got[0] = driver.Reply{Kind: driver.Array, Elems: []driver.Reply{{Kind: 99}}}
			return got
		}), odd, "unknown kind 99"},
		{"returns a reply too many", changing(func(got []driver.Reply) []driver.Reply { return append(got, text("")) }), odd, "4 replies to 3 commands"},
		{"takes what is announced", changing(func(got []driver.Reply) []driver.Reply {
			announced = make([]byte, modest+1<<20)
			return got
		}), odd, "MB were allocated"},
	} {
		got := complaints(tt.mutate, tt.h)
		if tt.words == "" && len(got) > 0 || tt.words != "" && !anyHas(got, tt.words) {
			t.Errorf("a driver that %s: complaints %q, want one with %q", tt.name, got, tt.words)
		}
	}
}

// announced keeps memory from being left out by the compiler.
var announced []byte

func correct(p *pool) driver.Driver { return p }

// changing is a driver whose replies to several commands are changed.
func changing(change func([]driver.Reply) []driver.Reply) func(p *pool) driver.Driver {
	return changes(func(cmds []driver.Command, got []driver.Reply, err error) ([]driver.Reply, error) {
		if len(cmds) > 1 && len(got) > 0 {
			got = change(got)
		}
		return got, err
	})
}
