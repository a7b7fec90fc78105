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
	l.Retries = []Retry{{Span{0, 4 * ms}, "a", "node 1"}}
	l.Votes = []Retry{{Span{0, 3 * ms}, "a", "node 2"}}
	l.Rounds = []Wait{{Client: "a", Key: "new", Asked: 1, Answered: 2, Err: "held"}}
	if v := Judge(l, 5*time.Millisecond, "down"); !strings.HasSuffix(v.String(), "and 18 more\n") ||
		!strings.HasPrefix(v.String(), "violations: 1 × answers, 1 × exclusion, 2 × fences, 21 × liveness, 1 × register, 1 × retries, 1 × votes\n") ||
		!strings.Contains(v.String(), "violation of retries: a released a token, where a node stalled") {
		t.Errorf("a verdict with many violations is\n%v", v)
	}
}
