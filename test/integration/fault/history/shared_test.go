package history

import "testing"

func TestWhoSharesAKeyHoldsItTogether(t *testing.T) {
	log := &Log{Tenures: []Tenure{
		{Client: "a", Key: "k", Asked: 1, Had: 10, Ended: 30, Shared: true},
		{Client: "b", Key: "k", Asked: 1, Had: 20, Ended: 40, Shared: true},
		{Client: "c", Key: "k", Asked: 1, Had: 40, Ended: 50},
	}}
	if violations, _ := Exclusion(log, AloneOrShared); len(violations) > 0 {
		t.Errorf("two who share a key and then one who has it alone = %v", violations)
	}
	log.Tenures[2].Had = 39
	if violations, _ := Exclusion(log, AloneOrShared); len(violations) != 1 {
		t.Errorf("one who has the key alone while it is shared = %v, want one violation", violations)
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
