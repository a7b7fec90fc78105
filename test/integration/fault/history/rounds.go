package history

import (
	"fmt"
	"slices"
	"time"
)

// ownerless is of how many keys one may have no owner, though several clients asked for it at one
// instant with nothing in their way.
const ownerless = 100

// nodeTimeout is for how long a token has to be there if silent nodes may hide that it has a quorum.
const nodeTimeout = Moment(250 * time.Millisecond)

// Rounds judges the calls that begin at one instant, for a key that is new. Where nobody has it, not all
// may be told that somebody has: of a job that one of several hosts must do, each would think that
// another does it. One of several may be, by a quorum of nodes that named the token of another: that one
// does not know it where their answers are late, gives up, and is told that they contended. Or by a token
// that was there for a node time-out. And mostly somebody has the key. It also returns how many keys were
// judged, and how many of them had no owner.
//
// A call that had no quorum, or whose process was killed or stopped, may have had one all the same, which others
// have seen: such a key says nothing of what they were told. Nor does one that somebody gave up to ask
// for by an error that callers make for themselves.
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
