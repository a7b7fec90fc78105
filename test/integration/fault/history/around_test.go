package history

import (
	"strings"
	"testing"
)

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
	violations, _ := Exclusion(l, Alone)
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
