package history

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// generated makes the log of a lock that keeps all rules: with waiters, crashed clients
// and their unknown visits, calls in vain, nodes that are down and clients that are
// stopped.
func generated(seed uint64, tenures, keys int) *Log {
	random := rand.New(rand.NewPCG(seed, 1)) //nolint:gosec // the same again for the same seed
	some := func(n int) Moment { return Moment(random.IntN(n)) * ms / 10 }
	l := &Log{Lease: 20 * time.Millisecond, Stopped: map[string][]Span{}}
	var end Moment
	for key := range keys {
		now, fence, content, visits := some(100), int64(random.IntN(1000)), "", 0
		name := fmt.Sprintf("key %d", key)
		for range tenures / keys {
			client := fmt.Sprintf("p%d/%d", random.IntN(8), random.IntN(32))
			fence += 1 + random.Int64N(5)
			t := Tenure{Client: client, Key: name, Asked: max(now-some(200), 0), Had: now + some(3), Fence: fence}
			t.Ended = t.Had + 1 + some(100)
			t.Release = Span{t.Ended, t.Ended + some(20)}
			l.Tenures = append(l.Tenures, t)
			l.Waits = append(l.Waits, Wait{Client: client, Key: name, Asked: t.Asked, Answered: t.Had})
			if random.IntN(10) == 0 {
				l.Waits = append(l.Waits, Wait{Client: client, Key: name, Asked: t.Had, Answered: t.Ended, Err: "own patience"})
			}

			visits++
			v := Visit{Client: client, Key: name, Fence: fence, Called: t.Had, Found: content, Left: fmt.Sprint(name, " ", visits)}
			v.Returned = v.Called + Moment(random.Int64N(int64(t.Ended-v.Called)))
			switch random.IntN(200) {
			case 0: // it was made, but who made it does not know
				v.Returned, content = Never, v.Left
			case 1: // it was not made
				v.Returned = Never
			default:
				content = v.Left
			}
			l.Visits = append(l.Visits, v)
			now = t.Ended
		}
		end = max(end, now)
	}
	for from := Moment(0); from < end; {
		to := from + 500*ms + some(5000)
		l.Healthy = append(l.Healthy, Span{from, to})
		from = to + some(500)
		l.Faults = append(l.Faults, Fault{Span: Span{to, from}, What: "killed", Whom: fmt.Sprint("node ", random.IntN(5))})
		stopped := fmt.Sprint("p", random.IntN(8))
		l.Stopped[stopped] = append(l.Stopped[stopped], Span{from + 10*ms, from + 20*ms})
	}
	random.Shuffle(len(l.Tenures), func(i, j int) { l.Tenures[i], l.Tenures[j] = l.Tenures[j], l.Tenures[i] })
	random.Shuffle(len(l.Visits), func(i, j int) { l.Visits[i], l.Visits[j] = l.Visits[j], l.Visits[i] })
	return l
}

// patient is a bound that nobody in a generated log meets.
const patient = 40 * time.Millisecond

func TestALargeLogOfACorrectLockKeepsAllRules(t *testing.T) {
	l := generated(1, 48_000, 48)
	v := Judge(l, patient, "own patience")
	if !v.Kept() {
		t.Fatal(v)
	}
	if v.Tenures != 48_000 || v.Fenced != v.Tenures || v.Visits != v.Tenures || v.Waits <= v.Tenures || v.Keys != 48 || v.Clients != 8*32 {
		t.Errorf("the counts are not those of the log:\n%v", v)
	}
	if v.Unknown < 300 || v.Faults["killed"] != len(l.Faults) || v.LongestWait <= 20*time.Millisecond || v.LongestWait >= patient {
		t.Errorf("the log has not what it should have:\n%v", v)
	}
}

// Any one thing that is put wrong in a log is found.
func TestOneMistakeIsFound(t *testing.T) {
	mistakes := []struct {
		rule string
		make func(l *Log, random *rand.Rand) (key string)
	}{
		{"fences", func(l *Log, random *rand.Rand) string {
			a, b := neighbours(l, random)
			a.Fence, b.Fence = b.Fence, a.Fence
			return a.Key
		}},
		{"fences", func(l *Log, random *rand.Rand) string {
			a, b := neighbours(l, random)
			b.Fence = a.Fence
			return a.Key
		}},
		{"exclusion", func(l *Log, random *rand.Rand) string {
			a, b := neighbours(l, random)
			a.Ended = b.Had + 1
			return a.Key
		}},
		{"exclusion", func(l *Log, random *rand.Rand) string {
			a, b := neighbours(l, random)
			b.Had = a.Ended - 1
			return a.Key
		}},
		{"register", func(l *Log, random *rand.Rand) string { // a lost update
			a, b := pages(l, random)
			b.Found = a.Found
			return a.Key
		}},
		{"register", func(l *Log, random *rand.Rand) string { // two in the wrong order
			a, b := pages(l, random)
			a.Called, b.Called = b.Called, a.Called
			a.Returned, b.Returned = b.Returned, a.Returned
			return a.Key
		}},
		{"register", func(l *Log, random *rand.Rand) string { // a visit that nobody made
			a, b := pages(l, random)
			b.Found = a.Left + "?"
			return a.Key
		}},
		{"liveness", func(l *Log, random *rand.Rand) string {
			w := &l.Waits[random.IntN(len(l.Waits))]
			w.Asked, w.Answered = 0, w.Answered+Moment(time.Second) // nodes are well for half a second at least
			return w.Key
		}},
		{"renewal", func(l *Log, random *rand.Rand) string {
			a := &l.Tenures[random.IntN(len(l.Tenures))]
			a.Lost = 100 * ms // and nodes are well for half a second at first
			return a.Key
		}},
		{"release", func(l *Log, random *rand.Rand) string {
			a := &l.Tenures[random.IntN(len(l.Tenures))]
			a.Release = Span{0, 100 * ms}
			return a.Key
		}},
		{"notes", func(l *Log, random *rand.Rand) string {
			a := &l.Tenures[random.IntN(len(l.Tenures))]
			a.Release.From = a.Release.To + 1
			return a.Key
		}},
		{"notes", func(l *Log, random *rand.Rand) string {
			a := &l.Tenures[random.IntN(len(l.Tenures))]
			a.Asked = a.Had + 1
			return a.Key
		}},
	}
	for seed := range uint64(25) {
		random := rand.New(rand.NewPCG(seed, 2)) //nolint:gosec // the same again for the same seed
		for i, mistake := range mistakes {
			l := generated(seed, 200, 2)
			if v := Judge(l, patient, "own patience"); !v.Kept() {
				t.Fatalf("seed %d, before the mistake:\n%v", seed, v)
			}
			key := mistake.make(l, random)
			v := Judge(l, patient, "own patience")
			if !slices.ContainsFunc(v.Violations, func(v Violation) bool { return v.Rule == mistake.rule && v.Key == key }) {
				t.Errorf("seed %d: mistake %d on %q breaks %s, and that is not found:\n%v", seed, i, key, mistake.rule, v)
			}
		}
	}
}

// neighbours returns two tenures of a key, of which one had it right behind the other.
func neighbours(l *Log, random *rand.Rand) (earlier, later *Tenure) {
	at := random.IntN(len(l.Tenures))
	for ; later == nil; at = (at + 1) % len(l.Tenures) {
		earlier = &l.Tenures[at]
		for i := range l.Tenures {
			t := &l.Tenures[i]
			if t.Key == earlier.Key && t.Had >= earlier.Ended && (later == nil || t.Had < later.Had) {
				later = t
			}
		}
	}
	return earlier, later
}

// pages returns two visits that returned, of which one found what the other left and one
// did not begin as the other returned.
func pages(l *Log, random *rand.Rand) (earlier, later *Visit) {
	at := random.IntN(len(l.Visits))
	for ; ; at = (at + 1) % len(l.Visits) {
		earlier = &l.Visits[at]
		for i := range l.Visits {
			later = &l.Visits[i]
			if later.Found == earlier.Left && later.Key == earlier.Key && later.Returned != Never && later.Called > earlier.Returned {
				return earlier, later
			}
		}
	}
}

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
	overlaps, _ := Exclusion(l, Alone)
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
