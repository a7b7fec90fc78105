package memory_test

import (
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/internal/memory"
)

// This is the part of the explorer about the command that changes settings: client 0 has the old ones, client 1 the new
// ones. Old nodes leave: they vote for nobody. When enough have left, nodes enter: they are young, for the new settings.
// The command may end anywhere, be run again, and run twice at once: each of its steps may come at any time, again and
// again. Clients are processes that have just started, so each may have heard any of its nodes, or all, and no others.

// nobodys is whose the record of a node is that has left.
const nobodys = 3

// freshBegins reports whether such a process of a client begins a record.
func (m *model) freshBegins(w *world, c int) bool {
	last := 2
	if !m.shrink {
		last += c
	}
	var all, agree []memory.View
	for _, n := range []int{0, 1, last} {
		heard, alone := memory.Differs, memory.Unheard
		switch w.spots[n].whose {
		case 0:
			heard = memory.Blank
		case token(c):
			heard, alone = memory.Agrees, memory.Agrees
		}
		all, agree = append(all, heard), append(agree, alone)
	}
	return m.begins(all) || m.begins(agree)
}

func (m *model) changeSteps(w *world, n int, do doing) {
	left := 0
	for _, s := range w.spots {
		if s.left {
			left++
		}
	}
	becomes := func(w *world, whose, age uint8) {
		s := &w.spots[n]
		s.whose, s.id, s.age, s.pend = whose, s.is, age, 0
	}
	if m.member(0, n) && !w.spots[n].replica {
		do("is told to leave", n, 0, func(w *world) {
			if w.spots[n].left = true; w.spots[n].whose <= 1 {
				becomes(w, nobodys, m.zero)
			}
		})
	}
	if m.member(1, n) && !w.spots[n].replica && (left >= m.leave || m.oneStep) {
		do("is told to enter", n, 1, func(w *world) {
			switch s := w.spots[n]; {
			case m.keepsAge && s.whose == nobodys:
				becomes(w, 2, m.need)
			case m.keepsZero:
				becomes(w, 2, m.zero)
			case s.whose == 0, s.whose == nobodys, s.whose == 1 && m.oneStep:
				becomes(w, 2, 0) // below 0, if the longest TTL shrinks
			}
		})
	}
}

func TestAChangeOfSettingsMakesNoTwoHolders(t *testing.T) {
	for _, tt := range []struct {
		model
		states int // 0: two hold
	}{
		{model{name: "two of three nodes have left, and none forgets", leave: 2}, 33856},
		{model{name: "all have left, and a node forgets", leave: 3, losses: 1, ways: "eo"}, 196298},
		{model{name: "the longest TTL shrinks, and a node forgets", leave: 3, losses: 1, ways: "e", shrink: true}, 499422},
		{model{name: "one of three has left", leave: 1}, 0},
		{model{name: "nodes enter without having left", oneStep: true}, 0},
		{model{name: "two of three have left, and a node forgets", leave: 2, losses: 1, ways: "e"}, 0},
		{model{name: "a node that enters keeps its age, and one forgets", leave: 3, losses: 1, ways: "o", keepsAge: true}, 0},
		{model{name: "the longest TTL shrinks, and nodes that enter are as young as new ones", leave: 3, losses: 1, ways: "e", shrink: true, keepsZero: true}, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			tt.ttl, tt.lists, tt.change, tt.grace = 1, true, true, tickLength+time.Millisecond
			if tt.shrink {
				tt.ttl = 2
			}
			switch states, _, wrong := tt.run(); {
			case tt.states == 0 && wrong == "":
				t.Errorf("%d worlds, and nothing is wrong in any", states)
			case tt.states != 0 && (states != tt.states || wrong != ""):
				t.Errorf("%d worlds: %s; want %d, and nothing wrong", states, wrong, tt.states)
			}
		})
	}
}
