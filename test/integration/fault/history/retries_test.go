package history

import (
	"testing"
	"time"
)

func TestRetriesCountWhileTheirProcessRuns(t *testing.T) {
	const bound = 30 * time.Millisecond
	for _, tt := range []struct {
		name    string
		stopped map[string][]Span
		deaf    []Span
		want    int
		longest Moment
	}{
		{"nothing was in the way", nil, nil, 1, 40 * ms},
		{"the process was stopped", map[string][]Span{"p": {{20 * ms, 30 * ms}}}, nil, 0, 30 * ms},
		{"it was stopped for less", map[string][]Span{"p": {{20 * ms, 29 * ms}}}, nil, 1, 31 * ms},
		{"it was stopped at other times", map[string][]Span{"p": {{0, 10 * ms}, {50 * ms, 90 * ms}}}, nil, 1, 40 * ms},
		{"another was stopped", map[string][]Span{"q": {{20 * ms, 30 * ms}}}, nil, 1, 40 * ms},
		{"nothing was forwarded", nil, []Span{{45 * ms, 60 * ms}}, 1, 35 * ms},
		{"both, at the same time", map[string][]Span{"p": {{20 * ms, 26 * ms}}}, []Span{{20 * ms, 26 * ms}}, 1, 34 * ms},
		{"one after the other", map[string][]Span{"p": {{20 * ms, 26 * ms}}}, []Span{{26 * ms, 30 * ms}}, 0, 30 * ms},
	} {
		l := &Log{Retries: []Retry{{Span{10 * ms, 50 * ms}, "p", "node 1"}}, Stopped: tt.stopped, Deaf: tt.deaf}
		if got, most := Retries(l, bound); len(got) != tt.want || Moment(most) != tt.longest {
			t.Errorf("%s: the violations are %v and the longest took %v, want %d and %v", tt.name, got, most, tt.want, time.Duration(tt.longest))
		}
	}
	l := &Log{Retries: []Retry{{Span{10 * ms, 50 * ms}, "p", "node 1"}}, Starved: []Span{{20 * ms, 30 * ms}}}
	if got, _ := Retries(l, bound); len(got) > 0 {
		t.Errorf("no process got to run for a while: the violations are %v, want none", got)
	}
	l = &Log{Votes: []Retry{{Span{10 * ms, 40 * ms}, "p", "node 1"}, {Span{10 * ms, 41 * ms}, "p", "node 2"}}}
	if got, most := Votes(l, bound); len(got) != 1 || Moment(most) != 31*ms {
		t.Errorf("votes that came late: the violations are %v and the latest came after %v, want one and 31ms", got, most)
	}
}
