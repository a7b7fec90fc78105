package lease

import (
	"math"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/clockdrift"
)

func init() { Strict = true } // the explorers ask for nothing that the table of Hold forbids

func TestWhatTheTableOfHoldForbidsPanics(t *testing.T) {
	voted := Round{Aim: ToExtend, Verdict: Carried}
	for what, act := range map[string]func(){
		"what is not held is extended": func() { new(Hold).Decided(&voted, tick, present, 0) },
		"a phase comes back": func() {
			(&Hold{phase: Held, until: present + 1, limit: present + 1}).GoOn(&Hold{until: present, limit: present})
		},
		"what is held is undone":                  func() { (&Hold{phase: Held}).Decided(&Round{Aim: ToHold, Verdict: Split}, tick, present, 0) },
		"a node votes once in a round":            func() { new(Round).Count(&Vote{Answer: Granted}, Granted, 0) },
		"a vote is spoiled that does not count":   func() { new(Round).Spoil(&Vote{Answer: Taken}) },
		"votes are counted that were not cast":    func() { new(Round).Count(new(Vote), Granted, 0) },
		"a hold is over for a reason":             func() { new(Hold).End(0, present) },
		"a lease ends by its limit":               func() { new(Hold).GoOn(&Hold{until: present + 1, limit: present}) },
		"what has not begun has no lease":         func() { (&Hold{fence: 1}).Decided(&Round{Aim: ToHold, Verdict: Split}, tick, present, 0) },
		"a vote is spoiled that has been decided": func() { (&Round{Verdict: Carried}).Spoil(&Vote{Answer: Granted}) },
	} {
		for _, Strict = range []bool{false, true} {
			panics := func() (panics bool) {
				defer func() { panics = recover() != nil }()
				act()
				return false
			}()
			if panics != Strict {
				t.Errorf("%s: it panics: %v, where the package is strict: %v", what, panics, Strict)
			}
		}
	}
}

// The machine may sleep between the reading of the number and that of the operation's start.
func TestAFenceIsAsOldAsItsNumber(t *testing.T) {
	const ttl, micros = 10 * time.Second, int64(1) << 50
	for age, want := range map[time.Duration]Phase{0: Held, 9 * time.Second: Held, 10 * time.Second: Over} {
		var h Hold
		h.Init(ttl, time.Hour, 0.01, false)
		var r Round
		r.Begin(ToHold, Sets, 1, 1, false)
		r.Propose(micros-age.Microseconds(), present, false)
		r.Count(&Vote{Sent: present}, Granted, 0)
		r.Verdict = r.Reached(0)
		if h.Decided(&r, ttl, present, micros); h.Phase() != want {
			t.Errorf("a lock of 10s whose number is %v old is in phase %d, want %d", age, h.Phase(), want)
		}
		r.Propose(micros, present, false)
		if stale := r.stale(ttl, present.Add(age), micros); stale != (want == Over) {
			t.Errorf("a number that was proposed %v ago is stale: %v", age, stale)
		}
	}
}

func TestWhichSettingCommandsMayLeave(t *testing.T) {
	held := Hold{phase: Held}
	for _, tt := range []struct {
		what  string
		hold  Hold
		round Round
		heard bool
		want  bool
	}{
		{"undecided", Hold{}, Round{}, false, true},
		{"undecided, though refused", Hold{phase: Over, why: Refused}, Round{}, false, true},
		{"undecided, released", Hold{phase: Over, why: Released}, Round{}, true, false},
		{"undecided, lost", Hold{phase: Over, why: Lost}, Round{}, true, false},
		{"undecided, closed", Hold{phase: Over, why: Closed}, Round{}, true, false},
		{"undecided, abandoned", Hold{phase: Over, why: Abandoned}, Round{}, false, true},
		{"undecided, stopped", Hold{phase: Held, stopped: true}, Round{}, true, false},
		{"dropped", Hold{}, Round{Verdict: Dropped}, true, false},
		{"carried", held, Round{Verdict: Carried}, false, true},
		{"carried, superseded", held, Round{Verdict: Carried, superseded: true}, true, false},
		{"missed", Hold{phase: Over, why: Refused}, Round{Verdict: Missed}, false, false},
		{"missed, and somebody waits", Hold{phase: Over, why: Refused}, Round{Verdict: Missed}, true, true},
		{"split", Hold{phase: Undone}, Round{Verdict: Split}, false, false},
		{"outranked, to be raised", Hold{phase: Undone}, Round{Verdict: Outranked}, false, true},
		{"outranked, and over", Hold{phase: Over, why: Refused}, Round{Verdict: Outranked}, false, false},
	} {
		if got := tt.hold.MaySet(&tt.round, tt.heard); got != tt.want {
			t.Errorf("%s: a setting command may leave: %v", tt.what, got)
		}
		r := tt.round
		r.Does = Sets
		for _, answer := range []Answer{Pending, Failed} {
			want := answer == Pending && (tt.want || r.Verdict == Carried)
			if got := tt.hold.Leaves(&r, &Vote{Sent: present, Answer: answer}, new(Trace), tt.heard, true, false, present); got != want {
				t.Errorf("%s: a second sending that teaches a script, whose vote is %v, may leave: %v", tt.what, answer, got)
			}
		}
	}
}

func TestWhatTheVotesOfARoundComeTo(t *testing.T) {
	const spared = Failed + 100 // the node was not asked, because the token is not there
	type vote struct {
		answer Answer
		number int64
	}
	one := func(answers ...Answer) (votes []vote) {
		for _, a := range answers {
			votes = append(votes, vote{answer: a})
		}
		return votes
	}
	for _, tt := range []struct {
		what       string
		any, reads bool
		oldest     int64
		votes      []vote
		want       Verdict
		granted    bool
		greatest   int64
	}{
		{what: "nothing", want: Undecided},
		{what: "a grant", votes: one(Granted), want: Undecided},
		{what: "a quorum", votes: one(Granted, Granted), want: Carried},
		{what: "a quorum of all", votes: one(Failed, Granted, Granted), want: Carried},
		{what: "no quorum", votes: one(Granted, Taken, Failed), want: Missed},
		{what: "out of reach", votes: one(Taken, Failed), want: Missed},
		{what: "absent", votes: one(Absent, Absent), want: Missed},
		{what: "a greater fence at one", votes: one(Outbid, Failed), want: Undecided},
		{what: "a greater fence at a quorum", votes: one(Outbid, Outbid), want: Outranked, granted: true},
		{what: "a grant and a greater fence", votes: one(Granted, Outbid), want: Undecided, granted: true},
		{what: "a grant, a greater fence, and nothing", votes: one(Granted, Outbid, Failed), want: Outranked, granted: true},
		{what: "a greater fence alone", votes: one(Outbid, Failed, Taken), want: Missed},
		{what: "a release: gone, and gone before", any: true, votes: one(Granted, Absent), want: Carried},
		{what: "a release: another's", any: true, votes: one(Taken, Absent), want: Carried},
		{what: "a release: silence", any: true, votes: one(Failed, Absent, Failed), want: Missed},
		{what: "a release: spared", any: true, votes: one(spared, spared), want: Undecided},
		{what: "a release: spared and gone", any: true, votes: one(spared, Granted), want: Undecided},
		{what: "a release: spared, and all have answered", any: true, votes: one(spared, spared, Failed), want: Carried},
		{what: "a number", reads: true, votes: []vote{{Granted, 5}, {Granted, 5}}, want: Carried, greatest: 5},
		{what: "two numbers", reads: true, votes: []vote{{Granted, 7}, {Granted, 5}}, want: Outranked, greatest: 7},
		{what: "two numbers, the greater one last", reads: true, votes: []vote{{Granted, 5}, {Granted, 7}}, want: Outranked, greatest: 7},
		{what: "a number of a node that has failed", reads: true, votes: []vote{{Failed, 0}, {Granted, 5}, {Granted, 5}}, want: Carried, greatest: 5},
		{what: "an old number", reads: true, oldest: 6, votes: []vote{{Granted, 5}, {Granted, 5}}, want: Outranked, greatest: 5},
		{what: "a number that is just not old", reads: true, oldest: 5, votes: []vote{{Granted, 5}, {Granted, 5}}, want: Carried, greatest: 5},
	} {
		var r Round
		r.Begin(ToHold, Sets, 3, 2, tt.any)
		r.Propose(3, present, tt.reads)
		for _, v := range tt.votes {
			if v.answer == spared {
				r.Spare()
				v.answer = Absent
			}
			r.Count(new(Vote), v.answer, v.number)
		}
		if got := r.Reached(tt.oldest); got != tt.want || r.Granted() != tt.granted || r.Greatest() != tt.greatest {
			t.Errorf("%s: verdict %d, granted %v, the greatest is %d; want %d, %v, %d", tt.what, got, r.Granted(), r.Greatest(), tt.want, tt.granted, tt.greatest)
		}
		if want := map[bool]int64{true: tt.greatest, false: 3}[tt.reads]; r.fence() != want {
			t.Errorf("%s: the fence is %d, want %d", tt.what, r.fence(), want)
		}
		if r.Agrees(Pending) {
			t.Errorf("%s: no answer agrees", tt.what)
		}
	}
}

func TestARoundCountsFromTheFirstVoteThatAgreesAndTakesVotesBack(t *testing.T) {
	var r Round
	r.Begin(ToHold, Sets, 4, 3, false)
	r.Propose(1, present, true)
	votes := []Vote{{Sent: present}, {Sent: present + 2}, {Sent: present + 1}, {Sent: present + 3}}
	for i, a := range []Answer{Failed, Granted, Granted, Granted} {
		r.Count(&votes[i], a, 7)
	}
	if r.Start != present+1 || !r.Quorum() {
		t.Errorf("a round counts from %d, want %d, and has a quorum: %v", r.Start, present+1, r.Quorum())
	}
	r.Spoil(&votes[3])
	if r.Quorum() || r.Agreed != 2 || r.have != 2 || votes[3].Answer != Failed || r.Reached(0) != Missed {
		t.Errorf("with one vote taken back %d of 3 agree, %d of them with the greatest number", r.Agreed, r.have)
	}
}

func TestALeaseCountsFromTheFirstCommandOfAllRounds(t *testing.T) {
	var h Hold
	h.Init(10*tick, time.Hour, 0, false)
	ask := func(aim Aim, at clockdrift.Instant, answer Answer) {
		var r Round
		r.Begin(aim, Sets, 2, 2, false)
		var traces [2]Trace
		for i := range traces {
			var v Vote
			if !h.Leaves(&r, &v, &traces[i], false, false, false, at.Add(time.Duration(i)*tick)) {
				t.Fatalf("command %d does not leave", i)
			}
			r.Count(&v, answer, 0)
		}
		if r.Verdict = r.Reached(0); r.Verdict == Missed {
			r.Verdict = Split
		}
		h.Decided(&r, 10*tick, at.Add(2*tick), 0)
	}
	ask(ToHold, present, Taken)
	ask(ToHoldAgain, present.Add(3*tick), Taken)
	ask(ToHoldAgain, present.Add(6*tick), Granted)
	if want := present.Add(9 * tick); h.Phase() != Held || h.Until() != want {
		t.Errorf("a lease of 10 ticks, whose drift is one, ends at %d, want %d", h.Until(), want)
	}
}

// The explorers count in ticks. This has the magnitudes of clocks and of the longest options.
func FuzzALeaseOfAnyLength(f *testing.F) {
	const year = 365 * 24 * time.Hour
	f.Add(int64(time.Hour), int64(10*time.Second), int64(year), 0.01, int64(time.Second), int64(20*time.Second), int64(5*time.Second))
	f.Add(int64(math.MaxInt64-1), int64(10*year), int64(math.MaxInt64), 0.5, int64(0), int64(10*year), int64(year))
	f.Add(int64(1), int64(10*time.Millisecond), int64(10*time.Millisecond), 0.0, int64(9*time.Millisecond), int64(10*time.Millisecond), int64(0))
	f.Fuzz(func(t *testing.T, start, ttl, most int64, drift float64, took, longer, later int64) {
		within := func(n *int64, most int64) { *n = 1 + (*n&math.MaxInt64)%most } // package redlock refuses all else
		within(&start, math.MaxInt64)
		within(&ttl, int64(10*year))
		within(&longer, int64(10*year))
		within(&took, 2*ttl)
		within(&later, 2*ttl)
		if most = max(ttl, longer, most); !(drift >= 0 && drift < 1) {
			drift = 0.01
		}
		began := clockdrift.Instant(start)
		grants := func(at clockdrift.Instant, ttl int64) float64 { // in floats, which do not wrap around
			return min(float64(at)+float64(ttl)-float64(clockdrift.Allowance(time.Duration(ttl), drift)), float64(began)+float64(most))
		}
		near := func(a, b float64) bool { return math.Abs(a-b) <= 1e4+math.Abs(b)/1e12 }
		var h Hold
		h.Init(time.Duration(ttl), time.Duration(most), drift, false)
		round := func(aim Aim, at clockdrift.Instant, ttl int64, now clockdrift.Instant) {
			var r Round
			r.Begin(aim, Sets, 1, 1, false)
			r.Count(&Vote{Sent: at}, Granted, 0)
			r.Verdict = r.Reached(0)
			h.Decided(&r, time.Duration(ttl), now, 0)
		}
		now := began.Add(time.Duration(took))
		round(ToHold, began, ttl, now)
		want := min(grants(began, ttl), math.MaxInt64)
		if held := h.Phase() == Held; !near(float64(now), want) && held != (float64(now) < want) || held && !near(float64(h.Until()), want) {
			t.Fatalf("asked at %d for %d, at most %d, and granted at %d: until %d, want %.0f", start, ttl, most, now, h.Until(), want)
		}
		at := now.Add(time.Duration(later))
		if h.Check(at); h.Phase() != Held {
			return
		}
		before := h.Until()
		h.Asks(time.Duration(longer))
		round(ToExtend, at, longer, at)
		if want := max(float64(before), min(grants(at, longer), math.MaxInt64)); !near(float64(h.Until()), want) || h.Until() < before {
			t.Fatalf("prolonged at %d by %d: until %d, and %d before, want %.0f", at, longer, h.Until(), before, want)
		}
		if h.Expires() < time.Duration(max(ttl, longer)) {
			t.Fatalf("a token may be at a node for %v, with leases of %v", h.Expires(), time.Duration(max(ttl, longer)))
		}
	})
}

func TestWhatATraceSaysOfItsNode(t *testing.T) {
	for _, tt := range []struct {
		what             string
		trace            Trace
		clean, has, gone bool
	}{
		{"nothing was asked", Trace{}, true, false, true},
		{"asked, and not sent", Trace{asked: 1}, false, false, false},
		{"granted", Trace{sets: 1, there: true}, false, true, false},
		{"under way", Trace{sets: 1, open: 1}, false, true, false},
		{"lost", Trace{sets: 1, open: 1, lost: 1}, false, true, false},
		{"lost, and the node has answered since", Trace{sets: 1, open: 1, lost: 1, replied: present}, false, true, true},
		{"lost, answered, and asked again", Trace{asked: 1, sets: 1, open: 1, lost: 1, replied: present}, false, true, false},
	} {
		if c, h, g := tt.trace.Clean(), tt.trace.Has(), tt.trace.Gone(); c != tt.clean || h != tt.has || g != tt.gone {
			t.Errorf("%s: clean %v, has %v, gone %v", tt.what, c, h, g)
		}
		if asked := tt.trace.Asked(); asked != (tt.trace.asked == 1) {
			t.Errorf("%s: asked %v", tt.what, asked)
		}
	}
	under := Trace{sets: 1, open: 1}
	if under.heard(0, present); under.Gone() {
		t.Error("a node that has answered another command has not said that the token is gone, while one is under way that may set it")
	}
}

func TestTheTombstonesThatEndALeaseAndWhenItEnds(t *testing.T) {
	ends := []clockdrift.Instant{30, 10, 50, 20, 40}
	for _, tt := range []struct {
		nodes, quorum, enough int
		until                 []clockdrift.Instant // by the number of tombstones, which are the first of ends
	}{
		{3, 2, 2, []clockdrift.Instant{0, 30, 30, 30}},
		{4, 3, 2, []clockdrift.Instant{0, 30, 30, 30, 20}},
		{5, 3, 3, []clockdrift.Instant{0, 30, 30, 50, 30, 30}},
	} {
		if got := Tombstones(tt.nodes, tt.quorum); got != tt.enough {
			t.Errorf("%d of %d nodes with a tombstone are enough, want %d", got, tt.nodes, tt.enough)
		}
		for n, want := range tt.until {
			if got := RevokedUntil(ends[:n], tt.nodes, tt.quorum); got != want {
				t.Errorf("with %d tombstones at %d nodes a lease ends at %d, want %d", n, tt.nodes, got, want)
			}
		}
	}
}
