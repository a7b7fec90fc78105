package history

import (
	"strings"
	"testing"
	"time"
)

func TestVerdict(t *testing.T) {
	l := &Log{
		Tenures: []Tenure{
			had("p1/1", 1000, 2000, 1), had("p1/2", 3000, 4000, 2), on("l", had("p2/1", 1500, 5000, 3)), on("l", had("p2/2", 4000, 6000, 4)),
		},
		Visits:  []Visit{visit("p1/1", 1001, Never, "", "1"), visit("p1/2", 3001, 3002, "1", "2")},
		Waits:   []Wait{{Client: "p1/1", Key: "k", Asked: 900 * ms, Answered: 1000 * ms}},
		Faults:  []Fault{{Span{1, 2}, "stopped", "p1"}, {Span{1, 2}, "killed", "node 3"}, {Span{5, 6}, "killed", "node 4"}},
		Healthy: []Span{{0, 7000 * ms}},
		Excused: []Span{{3500 * ms, 4500 * ms}},
	}
	v := Judge(l, time.Second)
	const want = `violations: none
4 tenures of 2 keys by 4 clients, 4 with a fence, 0 shared
over 5s, of which the nodes were well for 7s, some process did not get to run in time for 0s, and a clock's step is excused for 1s
2 visits to what the locks protect, 1 of them with an unknown end
1 calls to acquire; the longest wait in healthy time is 100ms, and the bound 1s; the longest release 0s
where a node stalled, a token was released for up to 0s; where one was far, a vote was asked for up to 0s behind the others
0 new keys were asked for by several at one instant, and 0 of them had no owner
faults: 2 × killed, 1 × stopped
excused, while a lease's assumptions did not hold: 1 × exclusion
`
	if got := v.String(); got != want || !v.Kept() {
		t.Errorf("the verdict is (%v)\n%swant\n%s", v.Kept(), got, want)
	}
}

// Each rule is asked.
func TestAVerdictNamesWhatWasViolated(t *testing.T) {
	l := &Log{
		Tenures: []Tenure{had("a", 10, 20, 4), had("b", 15, 30, 3), had("c", 5, 6, 0)},
		Visits:  []Visit{visit("a", 10, 11, "1", "2")},
		Waits:   []Wait{{Client: "a", Key: "k", Asked: 0, Answered: 9 * ms}, {Client: "b", Key: "k", Asked: 0, Answered: 1, Err: "down"}},
		Healthy: []Span{{0, 100 * ms}},
	}
	v := Judge(l, 5*time.Millisecond, "down")
	for _, want := range []string{
		"violations: 1 × exclusion, 2 × fences, 1 × liveness, 1 × register\n",
		"a, fence 4; b, fence 3", "c has no fence", "b has fence 3 behind a", `a found "1"`, "a was served after 9ms",
	} {
		if v.Kept() || !strings.Contains(v.String(), want) {
			t.Errorf("the verdict is\n%vwant %q in it", v, want)
		}
	}
	if v := Judge(&Log{}, time.Second); v.Kept() || !strings.Contains(v.String(), "nothing to judge") {
		t.Errorf("an empty log's verdict is\n%v", v)
	}
	for range 20 {
		l.Waits = append(l.Waits, l.Waits[0])
	}
	l.Lease = time.Millisecond
	lost := on("lost", had("d", 40, 50, 0))
	lost.Lost, lost.Release = 50*ms, Span{50 * ms, 60 * ms}
	l.Tenures = append(l.Tenures, lost)
	l.Faults = []Fault{{Span{2, 1}, "killed", "node 1"}}
	l.Retries = []Retry{{Span{0, 4 * ms}, "a", "node 1"}}
	l.Votes = []Retry{{Span{0, 3 * ms}, "a", "node 2"}}
	l.Rounds = []Wait{{Client: "a", Key: "new", Asked: 1, Answered: 2, Err: "held"}}
	if v := Judge(l, 5*time.Millisecond, "down"); !strings.HasSuffix(v.String(), "and 21 more\n") ||
		!strings.HasPrefix(v.String(), "violations: 1 × answers, 1 × exclusion, 2 × fences, 21 × liveness, 1 × notes, 1 × register, 1 × release, 1 × renewal, 1 × retries, 1 × votes\n") ||
		!strings.Contains(v.String(), "violation of retries: a released a token, where a node stalled") {
		t.Errorf("a verdict with many violations is\n%v", v)
	}
}

func TestNotes(t *testing.T) {
	tests := []struct {
		name string
		log  Log
		want string
	}{
		{"all in order", Log{
			Tenures: []Tenure{had("a", 2, 3, 0), had("b", 9, 8, 0)}, // b learned too late that it had it
			Visits:  []Visit{visit("a", 1, 1, "", "1"), visit("a", 1, Never, "1", "2")},
			Waits:   []Wait{{Client: "a", Key: "k", Asked: 1, Answered: Never}},
			Faults:  []Fault{{Span: Span{1, Never}}},
			Healthy: []Span{{1, 2}}, Stopped: map[string][]Span{"p": {{1, Never}}},
		}, ""},
		{"a tenure of nobody", Log{Tenures: []Tenure{had("", 2, 3, 0)}}, "of nobody"},
		{"a tenure of nothing", Log{Tenures: []Tenure{on("", had("a", 2, 3, 0))}}, "of nothing"},
		{"had before", Log{Tenures: []Tenure{{Client: "a", Key: "k", Asked: 2, Had: 1, Ended: 3}}}, "before it asked"},
		{"ended before", Log{Tenures: []Tenure{{Client: "a", Key: "k", Asked: 2, Had: 3, Ended: 1}}}, "ended before"},
		{"a lease with no end", Log{Tenures: []Tenure{{Client: "a", Key: "k", Asked: 2, Had: 3, Ended: Never}}}, "no end"},
		{"a visit of nobody", Log{Visits: []Visit{visit("", 1, 2, "", "1")}}, "a visit of nobody"},
		{"a visit that returned before", Log{Visits: []Visit{visit("a", 2, 1, "", "1")}}, "before it was called"},
		{"a wait of nobody", Log{Waits: []Wait{{Key: "k"}}}, "a wait of nobody"},
		{"an answer before", Log{Waits: []Wait{{Client: "a", Key: "k", Asked: 2, Answered: 1}}}, "answered before"},
		{"a fault that ends before", Log{Faults: []Fault{{Span{2, 1}, "killed", "node 1"}}}, "node 1 was well again"},
		{"health that ends before", Log{Healthy: []Span{{2, 1}}}, "a span ends"},
		{"an excuse that ends before", Log{Excused: []Span{{2, 1}}}, "a span ends"},
		{"a stop that ends before", Log{Stopped: map[string][]Span{"p": {{2, 1}}}}, "a span ends"},
	}
	for _, tt := range tests {
		if len(tt.log.Tenures) == 0 {
			tt.log.Tenures = []Tenure{had("a", 2, 3, 0)}
		}
		violations := Notes(&tt.log)
		if found := len(violations) > 0; found != (tt.want != "") || found && !strings.Contains(violations[0].What, tt.want) {
			t.Errorf("%s: %v, want %q", tt.name, violations, tt.want)
		}
	}
	if len(Notes(&Log{})) == 0 {
		t.Error("a log in which no lock was had is taken for a proof")
	}
}

func TestAround(t *testing.T) {
	l := &Log{
		Tenures: []Tenure{
			had("p1/1", 10, 20, 1), had("p1/2", 1000, 1050, 7), had("p2/1", 1040, 1060, 8), had("p2/2", 5000, 5001, 9),
			on("another", had("p3/1", 1000, 1100, 3)),
		},
		Visits: []Visit{visit("p1/2", 1001, Never, "1", "2")},
		Waits: []Wait{
			{Client: "p3/3", Key: "k", Asked: 1030 * ms, Answered: 1045 * ms, Err: "no quorum"},
			{Client: "p1/2", Key: "k", Asked: 999 * ms, Answered: 1000 * ms},
		},
		Faults: []Fault{{Span{900 * ms, 1500 * ms}, "killed", "node 3"}, {Span{1020 * ms, 1050 * ms}, "stopped", "p1"}},
	}
	violations, _ := Exclusion(l)
	if len(violations) != 1 {
		t.Fatalf("%d violations, want 1", len(violations))
	}
	const want = `exclusion: key "k": held together for 10ms: p1/2, fence 7; p2/1, fence 8
    from (ms)       to (ms)
     -140.000      +460.000  node 3: killed
>     -41.000       +10.000  p1/2 holds from -40.000 to +10.000, fence 7
      -39.000         never  p1/2 finds "1", leaves "2", perhaps
      -20.000       +10.000  p1: stopped
      -10.000        +5.000  p3/3 waits in vain: no quorum
>      -1.000       +20.000  p2/1 holds from +0.000 to +20.000, fence 8
`
	if got := l.Around(violations[0]); got != want {
		t.Errorf("around the violation:\n%swant:\n%s", got, want)
	}
}

func TestAroundShowsTheWaitThatIsTooLong(t *testing.T) {
	l := &Log{Waits: []Wait{{Client: "p1/2", Key: "k", Asked: 5 * ms, Answered: 25 * ms}}, Healthy: []Span{{0, 100 * ms}}}
	violations, _ := Liveness(l, 1)
	if len(violations) != 1 {
		t.Fatalf("%d violations, want 1", len(violations))
	}
	if got, want := l.Around(violations[0]), ">      +0.000       +20.000  p1/2 waits, and is served\n"; !strings.HasSuffix(got, want) {
		t.Errorf("around the violation:\n%swant %q at its end", got, want)
	}
}

// However much there is, what is shown can be read, and the parties are there.
func TestAroundIsShort(t *testing.T) {
	l := &Log{}
	for i := range Moment(1000) {
		l.Tenures = append(l.Tenures, had("p1/1", 10*i, 10*i+5, 1+int64(i)))
		l.Waits = append(l.Waits, Wait{Client: "p1/2", Key: "k", Asked: i * ms, Answered: Never})
		l.Faults = append(l.Faults, Fault{Span: Span{i * ms, i * ms}, What: "stopped", Whom: "p1"})
	}
	l.Tenures[999].Fence = 1 // as the first one's
	violations, _ := Fences(l)
	if len(violations) != 2 {
		t.Fatalf("%d violations, want a shared fence and one that falls: %v", len(violations), violations)
	}
	for _, v := range violations {
		text := l.Around(v)
		if lines := strings.Count(text, "\n"); lines > 31 {
			t.Errorf("%d lines are too many:\n%s", lines, text)
		}
		if marked := strings.Count(text, "\n>"); marked != 2 {
			t.Errorf("%d parties are marked, want 2:\n%s", marked, text)
		}
		if !strings.Contains(text, "more of this key") {
			t.Errorf("what is left out is not told:\n%s", text)
		}
	}
}
