package lease

import (
	"fmt"
	"slices"
	"testing"

	"github.com/quorumlock/quorumlock/test/explore"
)

// This explorer searches every order in which a writer and a reader ask nodes for their numbers, while others raise the
// counters of nodes, or their floors, to any number. It runs the production Round. There is no time: a key may expire at
// any moment, so a node may vote for both, the one behind the other.

const (
	writer = iota
	reader
)

// An inquirer asks for a number.
type inquirer struct {
	round  Round
	number int64 // that its commands carry; 0: it has not begun
	level  bool  // of the reader: it brings that to a quorum
	behind bool  // it began when the other one held
}

// A counter is a node, with the votes of the two in their rounds.
type counter struct {
	number int64
	votes  [2]int64 // what they are for; -1: there is none; 0: nothing has been answered
	last   int      // who voted last
}

type inquiry struct {
	nodes [3]counter
	both  [2]inquirer
}

func (i *inquirer) holds() bool { return i.round.Verdict == Carried }

// ask begins a round.
func (q *inquiry) ask(who int, number int64) {
	i := &q.both[who]
	if last := i.round; i.number == 0 {
		i.behind = q.both[1-who].holds()
		i.round.Begin(ToHold, Sets, len(q.nodes), len(q.nodes)/2+1, false)
		i.round.Propose(number, 0, who == reader)
	} else if i.round.Begin(ToHoldAgain, Sets, len(q.nodes), len(q.nodes)/2+1, false); who == reader {
		i.level = true
		i.round.ProposeAs(&last)
	} else {
		i.round.Propose(number, 0, false)
	}
	i.number = number
	for n := range q.nodes {
		q.nodes[n].votes[who] = 0
	}
}

// answer lets a node answer, and takes the verdict.
func (q *inquiry) answer(who, n int, fails bool) {
	i, at, answer, told := &q.both[who], &q.nodes[n], Granted, int64(0)
	switch {
	case fails:
		answer = Failed
	case who == writer && at.number >= i.number:
		answer = Outbid
	case who == writer:
		at.number = i.number
	case i.level, at.number == 0:
		at.number = max(at.number, i.number)
		fallthrough
	default:
		told = at.number
	}
	if at.votes[who] = -1; answer == Granted {
		at.votes[who], at.last = at.number, who
	}
	i.round.Count(new(Vote), answer, told)
	if i.round.Verdict = i.round.Reached(0); i.round.Verdict == Undecided {
		return
	}
	i.round = Round{Verdict: i.round.Verdict, number: i.round.number, counter: i.round.counter, reads: i.round.reads}
	for n := range q.nodes { // what makes no difference any more
		if vote := &q.nodes[n].votes[who]; !i.holds() || *vote != i.round.fence() {
			*vote = 0
		}
	}
}

// steps are all that can happen next. Most: the greatest number.
func (q inquiry) steps(most int64, next func(explore.Step, inquiry)) {
	do := func(what string, who, n int, how func(q *inquiry)) {
		t := q
		how(&t)
		slices.SortFunc(t.nodes[:], func(a, b counter) int { return slices.Compare(a.rank(), b.rank()) })
		next(explore.Step{What: what, Node: n, Client: who}, t)
	}
	for who, i := range q.both {
		for number := int64(1); number <= most; number++ {
			again := i.round.Verdict == Outranked && (who == writer && number > i.number || who == reader && number == i.round.Greatest())
			if i.number == 0 || again {
				do(fmt.Sprintf("asks for %d", number), who, 0, func(q *inquiry) { q.ask(who, number) })
			}
		}
		for n := range q.nodes {
			if i.number != 0 && i.round.Verdict == Undecided && q.nodes[n].votes[who] == 0 {
				do("is answered", who, n, func(q *inquiry) { q.answer(who, n, false) })
				do("is not answered", who, n, func(q *inquiry) { q.answer(who, n, true) })
			}
		}
	}
	for n := range q.nodes {
		for number := q.nodes[n].number + 1; number <= most; number++ {
			do(fmt.Sprintf("others raise the number to %d", number), 0, n, func(q *inquiry) { q.nodes[n].number = number })
		}
	}
}

func (c counter) rank() []int64 {
	return []int64{c.number, c.votes[writer], c.votes[reader], int64(c.last)}
}

// wrong says what must not be, once both hold.
func (q inquiry) wrong() string {
	w, r := &q.both[writer], &q.both[reader]
	if !w.holds() || !r.holds() {
		return ""
	}
	number, greater := r.round.fence(), w.round.fence() > r.round.fence()
	switch common := slices.IndexFunc(q.nodes[:], func(c counter) bool {
		return c.votes[writer] > 0 && c.votes[reader] == number && greater != (c.last == writer)
	}); {
	case w.behind && !greater:
		return "a writer asked when the reader held, and its number is not greater"
	case r.behind && greater:
		return "a reader asked when the writer held, and its number is less"
	case common >= 0:
		return "a node voted for both, and not in the order of their numbers"
	}
	return ""
}

// The number of states is written down: a rule that forbids more than it should makes it smaller, and nothing wrong.
func TestTheNumbersOfReadersAndWritersAreInOrder(t *testing.T) {
	for most, want := range map[int64]int{2: 19257, 3: 242422} {
		if testing.Short() && want > small {
			continue
		}
		worlds, wrong := explore.Search(inquiry{}, func(q inquiry, next func(explore.Step, inquiry)) {
			w, r := q.both[writer].round.Verdict, q.both[reader].round.Verdict
			if w != Missed && r != Missed && (w != Carried || r != Carried) {
				q.steps(most, next)
			}
		}, inquiry.wrong)
		if wrong != "" || len(worlds) != want {
			t.Errorf("numbers to %d: %d states, want %d: %s", most, len(worlds), want, wrong)
		}
	}
}
