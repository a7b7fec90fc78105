package history

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// A script makes small logs out of any bytes: clients overlap as they please.
type script []byte

func (s *script) next(n int) int {
	if len(*s) == 0 {
		return 0
	}
	b := (*s)[0]
	*s = (*s)[1:]
	return int(b) % n
}

func (s *script) tenures() []Tenure {
	var all []Tenure
	for range 2 + s.next(5) {
		t := Tenure{Client: "a", Key: "k", Asked: Moment(s.next(16)), Fence: int64(s.next(8))}
		t.Had = t.Asked + Moment(s.next(8))
		t.Ended = t.Asked + Moment(s.next(16))
		all = append(all, t)
	}
	return all
}

func (s *script) visits() []Visit {
	n := 1 + s.next(5)
	var all []Visit
	for i := range n {
		v := Visit{Client: "a", Key: "k", Called: Moment(s.next(16)), Returned: Never, Found: content(s.next(n + 2)), Left: content(i + 1)}
		if after := s.next(10); after > 2 {
			v.Returned = v.Called + Moment(after-3)
		}
		all = append(all, v)
	}
	return all
}

// linearizable tries all orders of all visits that may have been made: what Register says
// in short.
func linearizable(visits []Visit, content string) bool {
	known := func(v Visit) bool { return v.Returned != Never }
	if !slices.ContainsFunc(visits, known) {
		return true
	}
	for i, v := range visits {
		rest := slices.Delete(slices.Clone(visits), i, i+1)
		inTime := !slices.ContainsFunc(rest, func(o Visit) bool { return o.Returned < v.Called })
		if inTime && v.Found == content && linearizable(rest, v.Left) {
			return true
		}
	}
	return false
}

// fencesInOrder compares each two.
func fencesInOrder(tenures []Tenure) bool {
	none := !slices.ContainsFunc(tenures, func(t Tenure) bool { return t.Fence != 0 })
	for i, a := range tenures {
		for j, b := range tenures {
			before := a.Had < b.Asked || b.Had < b.Ended && a.Ended <= b.Had
			if i != j && (a.Fence == b.Fence || before && a.Fence > b.Fence) {
				return none
			}
		}
	}
	return none || !slices.ContainsFunc(tenures, func(t Tenure) bool { return t.Fence == 0 })
}

func oneAtATime(tenures []Tenure) bool {
	for i, a := range tenures {
		for _, b := range tenures[:i] {
			if max(a.Had, b.Had) < min(a.Ended, b.Ended) {
				return false
			}
		}
	}
	return true
}

// The checkers say of any log what the plainest reading of their rules says.
func FuzzCheckers(f *testing.F) {
	for _, seed := range []string{"", "000000", "\x01\x05\x02\x07\x02\x06", "one, two, three", "lorem ipsum dolor sit amet, consetetur"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) { check(t, data) })
}

// The same for many small logs, of which enough are as they should be and enough are not.
func TestCheckersAgainstThePlainestReading(t *testing.T) {
	const logs = 10_000
	random := rand.NewChaCha8([32]byte{1})
	var kept [3]int
	for range logs {
		data := make([]byte, 60)
		_, _ = random.Read(data)
		for i, n := range check(t, data) {
			kept[i] += n
		}
		if t.Failed() {
			return
		}
	}
	for i, n := range kept {
		if n < logs/50 || n > logs-logs/50 {
			t.Errorf("%d of %d logs keep rule %d: they are too much alike", n, logs, i)
		}
	}
}

// check returns which of the rules are kept.
func check(t *testing.T, data []byte) (kept [3]int) {
	s := script(data)
	tenures, visits := s.tenures(), s.visits()
	l := &Log{Tenures: tenures, Visits: visits}
	overlaps, _ := Exclusion(l)
	inversions, _ := Fences(l)
	unexplained := Register(l)
	for i, c := range []struct {
		name       string
		violations []Violation
		want       bool
	}{
		{"Exclusion", overlaps, oneAtATime(tenures)},
		{"Fences", inversions, fencesInOrder(tenures)},
		{"Register", unexplained, linearizable(visits, "")},
	} {
		if (len(c.violations) == 0) != c.want {
			t.Errorf("%s finds %v, and each with each says %v:\n%+v\n%+v", c.name, c.violations, c.want, tenures, visits)
		}
		if c.want {
			kept[i]++
		}
		for _, v := range c.violations {
			if len(v.parties) == 0 {
				t.Errorf("%v: nobody is named", v)
			}
		}
	}
	return kept
}
