package history

import (
	"strings"
	"testing"
	"time"
)

func TestLiveness(t *testing.T) {
	const bound = 10 * time.Millisecond
	wait := func(asked, answered Moment, err string) Wait {
		if answered != Never {
			answered *= ms
		}
		return Wait{Client: "p1/2", Key: "k", Asked: asked * ms, Answered: answered, Err: err}
	}
	always := []Span{{0, 100 * ms}}
	tests := []struct {
		name    string
		wait    Wait
		healthy []Span
		stopped []Span
		want    string // in the violation; "" for none
		longest time.Duration
	}{
		{name: "served at once", wait: wait(5, 6, ""), healthy: always, longest: 1},
		{name: "served in time", wait: wait(5, 14, ""), healthy: always, longest: 9},
		{name: "served late", wait: wait(5, 15, ""), healthy: always, want: "was served after 10ms", longest: 10},
		{name: "late, with the nodes down", wait: wait(5, 50, ""), healthy: []Span{{0, 10 * ms}, {41 * ms, 100 * ms}}, longest: 9},
		{name: "late, and the nodes were well for long enough", wait: wait(5, 50, ""), healthy: []Span{{0, 10 * ms}, {40 * ms, 100 * ms}}, want: "was served after 10ms", longest: 10},
		{name: "spans that touch are one", wait: wait(5, 15, ""), healthy: []Span{{10 * ms, 100 * ms}, {0, 10 * ms}}, want: "was served", longest: 10},
		{name: "late, and it was stopped", wait: wait(5, 50, ""), healthy: always, stopped: []Span{{10 * ms, 45 * ms}}, longest: 5},
		{name: "late after it was stopped", wait: wait(5, 50, ""), healthy: always, stopped: []Span{{10 * ms, 40 * ms}}, want: "was served", longest: 10},
		{name: "never answered", wait: wait(5, Never, ""), healthy: always, want: "was not served after 95ms", longest: 95},
		{name: "never answered, and the time is up", wait: wait(90, Never, ""), healthy: always, want: "was not served after 10ms", longest: 10},
		{name: "never answered, as it was killed", wait: wait(5, Never, ""), healthy: always, stopped: []Span{{10 * ms, Never}}, longest: 5},
		{name: "never healthy", wait: wait(5, 50, "")},
		{name: "failed", wait: wait(5, 6, "no quorum"), healthy: always, want: "failed with no quorum, with nothing in its way", longest: 1},
		{name: "failed at once", wait: wait(5, 5, "no quorum"), healthy: always, want: "failed with no quorum, with nothing in its way"},
		{name: "failed at once, with the nodes down", wait: wait(5, 5, "no quorum")},
		{name: "failed as the nodes went down", wait: wait(5, 8, "no quorum"), healthy: []Span{{0, 7 * ms}}, longest: 2},
		{name: "failed as it was stopped", wait: wait(5, 8, "expired"), healthy: always, stopped: []Span{{6 * ms, 7 * ms}}, longest: 1},
		{name: "failed as it may", wait: wait(5, 8, "own deadline"), healthy: always, longest: 3},
		{name: "failed as it may, but late", wait: wait(5, 18, "own deadline"), healthy: always, want: "failed with own deadline after 13ms", longest: 13},
	}
	for _, tt := range tests {
		log := &Log{Waits: []Wait{tt.wait}, Healthy: tt.healthy, Stopped: map[string][]Span{"p1": tt.stopped, "p2": {{0, 100 * ms}}}}
		violations, most := Liveness(log, bound, "own deadline")
		if most != tt.longest*time.Millisecond {
			t.Errorf("%s: the longest wait is %v, want %v", tt.name, most, tt.longest*time.Millisecond)
		}
		if found := len(violations) > 0; found != (tt.want != "") || found && !strings.Contains(violations[0].What, tt.want) {
			t.Errorf("%s: %v, want %q", tt.name, violations, tt.want)
		}
	}
}
