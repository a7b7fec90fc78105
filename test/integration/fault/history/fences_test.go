package history

import "testing"

func TestFences(t *testing.T) {
	// waited is had, and was asked for long before.
	waited := func(client string, asked, from, ended Moment, fence int64) Tenure {
		t := had(client, from, ended, fence)
		t.Asked = asked * ms
		return t
	}
	tests := []struct {
		name       string
		tenures    []Tenure
		excused    []Span
		violations int
		excuses    int
	}{
		{name: "no fences", tenures: []Tenure{had("a", 1, 5, 0), had("b", 7, 9, 0)}},
		{name: "growing", tenures: []Tenure{had("a", 1, 5, 3), had("b", 7, 9, 4)}},
		{name: "growing, in any order", tenures: []Tenure{had("b", 7, 9, 4), had("a", 1, 5, 3)}},
		{name: "falling", tenures: []Tenure{had("a", 1, 5, 4), had("b", 7, 9, 3)}, violations: 1},
		{name: "falling on another key", tenures: []Tenure{had("a", 1, 5, 4), on("l", had("b", 7, 9, 3))}},
		{name: "one too great: the first behind it", tenures: []Tenure{had("a", 1, 5, 99), had("b", 7, 9, 3), had("c", 11, 12, 4)}, violations: 1},
		{name: "one too small", tenures: []Tenure{had("a", 1, 5, 3), had("b", 7, 9, 1), had("c", 11, 12, 4)}, violations: 1},
		{name: "two that fall, each behind another", tenures: []Tenure{had("a", 1, 5, 4), had("b", 7, 9, 3), had("c", 11, 12, 6), had("d", 14, 15, 5)}, violations: 2},
		{name: "one missing", tenures: []Tenure{had("a", 1, 5, 3), had("b", 7, 9, 0)}, violations: 1},
		{name: "shared", tenures: []Tenure{had("a", 1, 5, 3), had("b", 7, 9, 3)}, violations: 1},
		{name: "shared by two that overlap", tenures: []Tenure{had("a", 1, 5, 3), had("b", 2, 4, 3)}, violations: 1},
		{name: "windows that overlap have no order", tenures: []Tenure{had("a", 3, 9, 4), waited("b", 2, 4, 9, 3)}},
		{
			name:    "but a call behind the other's return has one, also while that lease runs",
			tenures: []Tenure{had("a", 1, 9, 4), had("b", 4, 9, 3)}, violations: 1,
		},
		{name: "and not in the moment of it", tenures: []Tenure{had("a", 3, 9, 4), had("b", 4, 9, 3)}},
		{name: "who waited", tenures: []Tenure{had("a", 3, 5, 4), waited("b", 2, 5, 9, 5)}},
		{name: "who waited, and has the smaller one", tenures: []Tenure{had("a", 3, 5, 4), waited("b", 2, 5, 9, 3)}, violations: 1},
		{
			name:    "who waited, and has the smaller one, while a node may have forgotten",
			tenures: []Tenure{had("a", 3, 5, 4), waited("b", 2, 5, 9, 3)}, excused: []Span{{4 * ms, 6 * ms}}, excuses: 1,
		},
		{
			name:    "what a node forgot is no excuse for who did not wait",
			tenures: []Tenure{had("a", 3, 5, 4), had("b", 5, 9, 3)}, excused: []Span{{0, 10 * ms}}, violations: 1,
		},
		{
			name:    "what is excused hides nothing behind it",
			tenures: []Tenure{had("a", 3, 5, 4), waited("b", 2, 5, 6, 2), waited("c", 2, 7, 9, 3)}, excused: []Span{{4 * ms, 6 * ms}},
			excuses: 1, violations: 1,
		},
		{
			// It had the lock before the other, was stopped, and noted it when both were over.
			name:    "who learned too late that it had the lock",
			tenures: []Tenure{had("a", 5, 7, 4), waited("b", 1, 9, 3, 3)},
		},
		{
			name:    "behind one who learned too late",
			tenures: []Tenure{waited("b", 1, 9, 3, 4), waited("a", 2, 10, 12, 3)}, violations: 1,
		},
	}
	for _, tt := range tests {
		violations, excused := Fences(&Log{Tenures: tt.tenures, Excused: tt.excused})
		if len(violations) != tt.violations || len(excused) != tt.excuses {
			t.Errorf("%s: %d violations and %d excused, want %d and %d: %v %v",
				tt.name, len(violations), len(excused), tt.violations, tt.excuses, violations, excused)
		}
	}
}

func TestAFenceOfWhoSharesIsBetweenThoseOfTheOthers(t *testing.T) {
	before := Tenure{Client: "before", Key: "k", Asked: 1, Had: 2, Ended: 3, Fence: 10}
	after := Tenure{Client: "after", Key: "k", Asked: 20, Had: 21, Ended: 22, Fence: 12}
	for number, want := range map[int64]int{9: 1, 10: 0, 11: 0, 12: 1, 13: 1, 0: 0} {
		reader := Tenure{Client: "reader", Key: "k", Asked: 5, Had: 6, Ended: 7, Fence: number, Shared: true}
		if violations := SharedFences(&Log{Tenures: []Tenure{before, reader, after}}); len(violations) != want {
			t.Errorf("between 10 and 12 the number %d = %v, want %d violations", number, violations, want)
		}
		if violations, _ := Fences(&Log{Tenures: []Tenure{before, reader, after}}); len(violations) != 0 {
			t.Errorf("the rule of those who are alone judges one who shares: %v", violations)
		}
	}
}
