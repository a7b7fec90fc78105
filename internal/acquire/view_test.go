package acquire

import (
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/clockdrift"
	"github.com/quorumlock/quorumlock/internal/lease"
)

// seen makes what nodes have said of letters: a vote (m), no answer (.), a failure (!), a token of this library's making
// (a to l), of a user or another library (A to Z), and one at a node without a vote (0 to 9).
func seen(said string) (nodes []Seen) {
	for _, letter := range said {
		s := Seen{Answer: lease.Taken, Named: true, Holder: string(letter)}
		switch {
		case letter == 'm':
			s = Seen{Answer: lease.Granted}
		case letter == '.':
			s = Seen{}
		case letter == '!':
			s = Seen{Answer: lease.Failed}
		case letter <= '9':
			s.Marked, s.Void = true, true
		default:
			s.Marked = letter >= 'a'
		}
		nodes = append(nodes, s)
	}
	return nodes
}

func TestTheOneWithTheMostVotesLeadsAndAmongEqualsTheGreatestToken(t *testing.T) {
	for _, tt := range []struct {
		said    string
		durable bool
		mine    int
		leads   bool
	}{
		{said: "mab", mine: 1, leads: true},
		{said: "maa", mine: 1},
		{said: "mmaa!", mine: 2, leads: true},
		{said: "mma..", mine: 2, leads: true},
		{said: "ma!", mine: 1, leads: true},
		{said: "ab.", mine: 0},
		{said: "mA.", mine: 1, leads: true},   // A stays, and the third node may be free
		{said: "mAB", mine: 1},                // both stay
		{said: "mA!", mine: 1},                // likewise
		{said: "m0.", mine: 1, leads: true},   // a node without a vote does not let go for it
		{said: "m00", mine: 1},                // likewise
		{said: "mab", durable: true, mine: 1}, // asking again would prove nothing
	} {
		v := View{Nodes: seen(tt.said), Need: len(tt.said)/2 + 1, Token: "m", Marked: true, Durable: tt.durable}
		if mine, leads := v.Rank(); mine != tt.mine || leads != tt.leads {
			t.Errorf("%+v: %d votes, and leads: %t", tt, mine, leads)
		}
	}
}

func TestASplitIsOneInWhichNoTokenHasAQuorum(t *testing.T) {
	for _, tt := range []struct {
		said                string
		contested, disputed bool
		rival               string
		mayHold             bool
	}{
		{"m..", false, true, "", false},
		{"ma.", true, true, "a", true},
		{"mab", true, true, "a", false},
		{"maa", true, false, "a", true},
		{"ma!", true, true, "a", true},
		{"m!!", false, false, "", false},
		{"a!!", false, false, "a", true},
		{"mabb.", true, true, "b", true},
		{"m0b", true, true, "0", false},
	} {
		v := View{Nodes: seen(tt.said), Need: len(tt.said)/2 + 1, Token: "m", Marked: true}
		rival, mayHold := v.Rival()
		if v.Contested() != tt.contested || v.Disputed() != tt.disputed || rival != tt.rival || mayHold != tt.mayHold {
			t.Errorf("%+v: contested %t, disputed %t, rival %q may hold %t", tt, v.Contested(), v.Disputed(), rival, mayHold)
		}
	}
	if v := (View{Nodes: seen("mab"), Need: 2, Own: true}); v.Disputed() {
		t.Error("a token of one's own is settled by rank, and does not let go")
	}
}

func TestNodesThatAreFartherAwayThanTheOthersAreNotWaitedFor(t *testing.T) {
	const ms = time.Millisecond
	for _, tt := range []struct {
		near   time.Duration    // the distance of a quorum
		trips  [3]time.Duration // the first two have answered: m and a
		stayed time.Duration    // a has been in the way for so long; 0: it has not
		want   time.Duration
	}{
		{ms, [3]time.Duration{ms, ms, ms}, 0, 5 * ms},
		{2 * ms, [3]time.Duration{ms, ms, ms}, 0, 8 * ms},
		{ms, [3]time.Duration{ms, 3 * ms, 11 * ms}, 0, 12 * ms},
		{ms, [3]time.Duration{ms, 3 * ms, 11*ms + 1}, 0, 0},
		{ms, [3]time.Duration{ms, ms, 50 * ms}, 49 * ms, 0},
		{ms, [3]time.Duration{ms, ms, 50 * ms}, 50 * ms, 200 * ms},
		{ms, [3]time.Duration{ms, ms, 50 * ms}, 300 * ms, 300 * ms},
		{ms, [3]time.Duration{ms, ms, ms}, 4 * ms, 5 * ms},
		{ms, [3]time.Duration{ms, ms, ms}, 5 * ms, 20 * ms},
	} {
		v := View{Nodes: seen("ma."), Need: 2, Token: "m", Marked: true, Near: tt.near}
		for n := range v.Nodes {
			v.Nodes[n].Trip = tt.trips[n]
		}
		token := "a"
		if tt.stayed == 0 {
			token = ""
		}
		if got := v.Hurry(token, tt.stayed); got != tt.want {
			t.Errorf("%+v: they are waited for for %v", tt, got)
		}
		if wait, _ := v.Late(); tt.stayed > 0 && v.Hurry("b", tt.stayed) != wait {
			t.Errorf("%+v: a token that is not in the way is waited for", tt)
		}
	}
}

func TestALeaderThatGainsNoVoteLetsGo(t *testing.T) {
	const trip = 4 * time.Millisecond
	bound := clockdrift.Instant(time.Hour)
	lead, more, behind := View{Nodes: seen("mab.."), Need: 3, Token: "m", Marked: true}, View{Nodes: seen("mmab."), Need: 3, Token: "m", Marked: true}, View{Nodes: seen("maab."), Need: 3, Token: "m", Marked: true}
	var c Contest
	for i, tt := range []struct {
		view  *View
		rest  time.Duration
		again bool
	}{{&lead, 1, true}, {&lead, 2, true}, {&more, 1, true}, {&lead, 2, true}, {&more, 4, true}, {&more, 8, false}} {
		if rest, again := c.Next(tt.view, trip, 0, bound); again != tt.again || rest != tt.rest*time.Millisecond {
			t.Errorf("round %d: rests for %v, and asks again: %t", i, rest, again)
		}
	}
	if _, again := new(Contest).Next(&behind, trip, 0, bound); again {
		t.Error("who does not lead asks again")
	}
	for late, want := range map[time.Duration]bool{0: true, 1: false} {
		decided := bound.Add(-trip - trip/4 + late)
		if _, again := new(Contest).Next(&lead, trip, decided, bound); again != want {
			t.Errorf("asks again %v too late: %t", late, again)
		}
	}
}
