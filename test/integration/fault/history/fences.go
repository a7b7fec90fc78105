package history

import (
	"cmp"
	"fmt"
	"slices"
)

// An order is a way to see that one tenure is before another: from(later) is not before
// until(earlier).
type order struct {
	until, from func(Tenure) Moment
	what        string
}

var (
	// asked is the order that leans on no clock and no lease.
	asked = order{
		until: func(t Tenure) Moment { return t.Had + 1 }, // readings that are equal tell nothing
		from:  func(t Tenure) Moment { return t.Asked },
		what:  "was asked for when the other was had",
	}
	// held is the order of windows.
	held = order{
		until: func(t Tenure) Moment { return t.Ended },
		from:  func(t Tenure) Moment { return t.Had },
		what:  "began when the other had ended",
	}
)

// Fences finds the tenures whose fences are not in the order of the holders. Tenures that
// overlap have no order, but no two of a key share a fence. Of all that come too late
// behind one fence, which is too great or was had by the wrong one, the first is named.
//
// Who was asked for when another was had has the greater fence always. The order of
// windows says more only where the two calls overlapped, and there it leans on leases: a
// node that forgot the one call's vote may have given it to the other in between. So
// where the later window begins in an excused span, that is returned apart.
func Fences(l *Log) (violations, excused []Violation) {
	excuses := union(l.Excused)
	for key, tenures := range byKey(l.Tenures) {
		tenures = slices.DeleteFunc(tenures, func(t Tenure) bool { return t.Shared })
		if !slices.ContainsFunc(tenures, func(t Tenure) bool { return t.Fence != 0 }) {
			continue
		}
		violations = append(violations, unique(key, tenures)...)
		for _, p := range inversions(tenures, tenures, asked) {
			violations = append(violations, p.violation(key, asked))
		}
		for excuse, into := range map[bool]*[]Violation{false: &violations, true: &excused} {
			later := slices.DeleteFunc(slices.Clone(tenures), func(t Tenure) bool {
				// Who learned too late that it had the lock may have had it any time before.
				return t.Ended <= t.Had || within(excuses, t.Had) != excuse
			})
			for _, p := range inversions(tenures, later, held) {
				if p.overlapped() {
					*into = append(*into, p.violation(key, held))
				}
			}
		}
	}
	return violations, excused
}

// SharedFences finds the tenures of who shares a key whose fence is not between those of the ones
// that had it alone: at least that of each that was had when this one was asked for, and less than
// that of each that is asked for when this one was had.
func SharedFences(l *Log) (violations []Violation) {
	for key, tenures := range byKey(l.Tenures) {
		var alone, shared []Tenure
		for _, t := range tenures {
			switch {
			case t.Shared:
				shared = append(shared, t)
			case t.Fence != 0:
				alone = append(alone, t)
			}
		}
		if len(alone) == 0 {
			continue
		}
		for _, p := range inversions(alone, shared, asked) {
			violations = append(violations, p.violation(key, asked))
		}
		lifted := slices.Clone(shared)
		for i := range lifted {
			lifted[i].Fence++ // an equal one is too small
		}
		for _, p := range inversions(lifted, alone, asked) {
			violations = append(violations, p.violation(key, asked))
		}
	}
	return violations
}

// unique finds fences that are missing or that two tenures have.
func unique(key string, tenures []Tenure) []Violation {
	var found []Violation
	first := map[int64]Tenure{}
	for _, t := range tenures {
		other, shared := first[t.Fence]
		switch {
		case t.Fence == 0:
			found = append(found, Violation{
				Rule: "fences", Key: key, Span: Span{t.Asked, t.Had}, parties: []event{t},
				What: t.Client + " has no fence, and others have",
			})
		case shared:
			found = append(found, Violation{
				Rule: "fences", Key: key, Span: Span{min(t.Had, other.Had), max(t.Had, other.Had)}, parties: []event{other, t},
				What: fmt.Sprintf("%s and %s share the fence %d", other.Client, t.Client, t.Fence),
			})
		default:
			first[t.Fence] = t
		}
	}
	return found
}

// A pair is in this order, and its fences are in the other.
type pair struct{ earlier, later Tenure }

// overlapped tells of the two calls that neither had returned when the other began. The
// rest is asked's.
func (p pair) overlapped() bool { return p.earlier.Had >= p.later.Asked }

// inversions goes through the later ones in order of time, with the greatest fence of all
// that are before. Each one of these is in one pair at most.
func inversions(earlier, later []Tenure, by order) []pair {
	earlier = slices.SortedFunc(slices.Values(earlier), func(a, b Tenure) int { return cmp.Compare(by.until(a), by.until(b)) })
	later = slices.SortedFunc(slices.Values(later), func(a, b Tenure) int { return cmp.Compare(by.from(a), by.from(b)) })
	var (
		found    []pair
		greatest Tenure
		told     bool
		next     int
	)
	for _, t := range later {
		for ; next < len(earlier) && by.until(earlier[next]) <= by.from(t); next++ {
			if earlier[next].Fence > greatest.Fence {
				greatest, told = earlier[next], false
			}
		}
		if t.Fence < greatest.Fence && t.Fence != 0 && !told {
			found = append(found, pair{greatest, t})
			told = true
		}
	}
	return found
}

func (p pair) violation(key string, by order) Violation {
	return Violation{
		Rule: "fences", Key: key, Span: Span{by.until(p.earlier), by.from(p.later)}, parties: []event{p.earlier, p.later},
		What: fmt.Sprintf("%s has fence %d behind %s, which had fence %d: it %s",
			p.later.Client, p.later.Fence, p.earlier.Client, p.earlier.Fence, by.what),
	}
}
