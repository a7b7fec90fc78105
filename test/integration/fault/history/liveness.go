package history

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Liveness finds the calls that were kept waiting for the bound or longer while nothing
// was in their way, whatever came of them, and those that failed though nothing was in
// their way at all, with an error that is not among the allowed ones (a caller's own
// short patience, say). It also returns the longest wait that there was.
//
// Nothing is in the way of a call while a majority of the nodes is well and its own
// process is not stopped, without a break: after each, nodes and waiters begin anew. So
// of each call the longest such stretch counts.
func Liveness(l *Log, bound time.Duration, allowed ...string) (violations []Violation, most time.Duration) {
	free := l.free()
	for _, w := range l.Waits {
		all := Span{w.Asked, w.Answered}
		stretch := longest(free(w.Client), all)
		waited := time.Duration(stretch.To - stretch.From)
		most = max(most, waited)
		var what string
		switch {
		case waited >= bound && w.Answered == Never:
			what = "was not served"
		case waited >= bound && w.Err != "":
			what = "failed with " + w.Err
		case waited >= bound:
			what = "was served"
		case w.Err != "" && stretch == all && within(free(w.Client), w.Asked) && !slices.Contains(allowed, w.Err):
			what = "failed with " + w.Err + ", with nothing in its way,"
		default:
			continue
		}
		violations = append(violations, Violation{
			Rule: "liveness", Key: w.Key, Span: stretch, parties: []event{w},
			What: fmt.Sprintf("%s %s after %v, and the bound is %v", w.Client, what, between(stretch.From, stretch.To), bound),
		})
	}
	return violations, most
}

// Retries finds the tokens that were released at a node again and again for longer than the
// bound. It also returns the longest that there was.
func Retries(l *Log, bound time.Duration) (violations []Violation, most time.Duration) {
	return l.late(l.Retries, "retries", "released a token, where a node stalled, again and again", bound)
}

// Votes finds the votes that were asked of a far node by more than the bound after they were asked
// of the near ones: what waits there has grown, and is asked for locks that may be long over. It
// also returns the longest that there was.
func Votes(l *Log, bound time.Duration) (violations []Violation, most time.Duration) {
	return l.late(l.Votes, "votes", "asked a far node for a vote behind the near ones", bound)
}

// late finds the stretches that are longer than the bound. Only time counts in which all processes
// ran, and what forwards their commands: who does not run hears of no answer, and goes on where it
// was.
func (l *Log) late(all []Retry, rule, what string, bound time.Duration) (violations []Violation, most time.Duration) {
	late := map[string][]Span{}
	for _, r := range all {
		p := process(r.Client)
		if _, ok := late[p]; !ok {
			late[p] = union(slices.Concat(l.Deaf, l.Starved, l.Stopped[p]))
		}
		took := length(without([]Span{r.Span}, late[p]))
		most = max(most, took)
		if took > bound {
			violations = append(violations, Violation{
				Rule: rule, Span: r.Span, parties: []event{r},
				What: fmt.Sprintf("%s %s for %v at %s, and the bound is %v", r.Client, what, took.Round(time.Microsecond), r.Node, bound),
			})
		}
	}
	return violations, most
}

// Losses finds the locks that ended though they were to be renewed, and though nothing was in
// their holder's way for the last lease: a majority of the nodes was well, the process was not
// stopped, and the machine was not too busy. Of the hot key and of a crowd's it wants all nodes
// well: where one of its holder's is lost, others get the key at the next one before he does.
func Losses(l *Log) (violations []Violation) {
	free, busy := l.free(), union(l.Starved)
	for _, t := range l.Tenures {
		last := Span{t.Lost - Moment(l.Lease), t.Lost}
		if t.Lost == 0 || longest(free(t.Client), last) != last || longest(busy, last).To > last.From {
			continue
		}
		crowded := t.Key == l.Hot || l.Crowd != "" && strings.HasPrefix(t.Key, l.Crowd)
		if crowded && slices.ContainsFunc(l.Faults, func(f Fault) bool {
			return strings.HasPrefix(f.Whom, "node") && f.From < last.To && f.To > last.From-Moment(l.Lease)
		}) {
			continue
		}
		violations = append(violations, Violation{
			Rule: "renewal", Key: t.Key, Span: last, parties: []event{t},
			What: fmt.Sprintf("%s lost the lock that was to be renewed, with nothing in its way for %v: %s", t.Client, l.Lease, t.Why),
		})
	}
	return violations
}

// Releases finds the calls to release that took the bound or longer while nothing was in their
// way. It also returns the longest that there was.
func Releases(l *Log, bound time.Duration) (violations []Violation, most time.Duration) {
	free := l.free()
	for _, t := range l.Tenures {
		stretch := longest(free(t.Client), t.Release)
		took := time.Duration(stretch.To - stretch.From)
		most = max(most, took)
		if took >= bound {
			violations = append(violations, Violation{
				Rule: "release", Key: t.Key, Span: stretch, parties: []event{t},
				What: fmt.Sprintf("%s's call to release took %v, and the bound is %v", t.Client, between(stretch.From, stretch.To), bound),
			})
		}
	}
	return violations, most
}

// free returns what says when nothing was in a client's way: a majority of the nodes was well
// and its process was not stopped.
func (l *Log) free() func(client string) []Span {
	healthy := union(l.Healthy)
	free := map[string][]Span{}
	return func(client string) []Span {
		p := process(client)
		if _, ok := free[p]; !ok {
			free[p] = without(healthy, union(l.Stopped[p]))
		}
		return free[p]
	}
}

// ownerless is of how many keys one may have no owner, though several clients asked for it at one
// instant with nothing in their way.
const ownerless = 100

// nodeTimeout is for how long a token has to be there if silent nodes may hide that it has a
// quorum.
const nodeTimeout = Moment(250 * time.Millisecond)

// Rounds judges the calls that begin at one instant, for a key that is new. Where nobody has it,
// not all may be told that somebody has: of a job that one of several hosts must do, each would
// think that another does it. One of several may be, by a quorum of nodes that named the token of
// another: that one does not know it where their answers are late, gives up, and is told that they
// contended. Or by a token that was there for a node time-out. And mostly somebody has the key. It
// also returns how many keys were judged, and how many of them had no owner.
//
// A call that had no quorum, or whose process was killed or stopped, may have had one all the same,
// which others have seen: such a key says nothing of what they were told. Nor does one that
// somebody gave up to ask for by an error that callers make for themselves.
func Rounds(l *Log, allowed ...string) (violations []Violation, keys, without int) {
	free, busy := l.free(), union(l.Starved)
	had := map[string]bool{}
	for _, t := range l.Tenures {
		had[t.Key] = true
	}
	var unhad []Wait
	for key, asks := range byKey(l.Rounds) {
		known, unhindered, told, contended, early := true, true, "", false, false
		for _, w := range asks {
			all := Span{w.Asked, w.Answered}
			hidden := w.Err == "hidden"
			early = early || hidden && all.To-all.From < nodeTimeout
			contended = contended || w.Err == "contended"
			known = known && (w.Err == "held" || hidden || w.Err == "contended") && longest(union(l.Stopped[process(w.Client)]), all).To == all.From
			unhindered = unhindered && !slices.Contains(allowed, w.Err) && longest(free(w.Client), all) == all && longest(busy, all).To == all.From
			if w.Err == "held" || hidden {
				told = w.Client
			}
		}
		if !had[key] && known && told != "" && (early || !contended) {
			violations = append(violations, Violation{
				Rule: "answers", Key: key, Span: hull([]event{asks[0]}), parties: events(asks),
				What: fmt.Sprintf("%s was told that somebody has it, and none of the %d who asked has", told, len(asks)),
			})
		}
		if unhindered {
			if keys++; !had[key] {
				without, unhad = without+1, append(unhad, asks...)
			}
		}
	}
	if without*ownerless > keys && without > 1 {
		violations = append(violations, Violation{
			Rule: "owners", Key: unhad[0].Key, Span: hull(events(unhad[:1])), parties: events(unhad[:1]),
			What: fmt.Sprintf("%d of %d keys that were asked for at one instant had no owner, with nothing in the way", without, keys),
		})
	}
	return violations, keys, without
}

func events(waits []Wait) (all []event) {
	for _, w := range waits {
		all = append(all, w)
	}
	return slices.Clip(all)
}
