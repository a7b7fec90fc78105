package waiting

import (
	"math"
	"slices"
	"time"
)

// Those of one Locker that want several keys, one of them in common, wait in the order in which
// they came: only the first asks the nodes when a key is released. So do those that want several
// permits. Across processes the order is kept by tickets at the nodes.

// overlaps reports whether two lists, each in order, have an element in common.
func overlaps(a, b []string) bool {
	return slices.ContainsFunc(a, func(key string) bool {
		_, is := slices.BinarySearch(b, key)
		return is
	})
}

// HasSet reports whether a set waits for one of the keys, and for none of those that the caller
// holds.
func (ls *Lines) HasSet(keys, held []string, most int) bool {
	if ls.count.Load() == 0 {
		return false
	}
	ls.mu.Lock()
	defer ls.mu.Unlock()
	return len(ls.inTheWay(keys, held, most, nil)) > 0
}

// isFirst reports whether nobody of this process is before w, or else for how long. ls.mu is held.
func (ls *Lines) isFirst(w *Waiter) (first bool, wait time.Duration) {
	if w.line != nil {
		return w.line.first() == w, math.MaxInt64
	}
	others := ls.inTheWay(w.Keys, w.Held, w.Options.Most, w)
	for _, other := range others {
		if rests, until := other.rests(w); !rests {
			return false, until
		}
	}
	if calm := w.calm.Sub(w.Host.Now()); len(others) > 0 && calm > 0 {
		return false, calm
	}
	return true, 0
}

// inTheWay returns the sets that wait for one of the keys, came before w, or at all if it is nil,
// and do not wait for what is held, or behind such a one. ls.mu is held.
func (ls *Lines) inTheWay(keys, held []string, most int, w *Waiter) (others []*Waiter) {
	for _, key := range keys {
		l := ls.byKey[key]
		if l == nil {
			continue
		}
		for _, other := range l.sets {
			if other == w || overlaps(other.Keys, held) || other.Options.Wants > most {
				break
			}
			others = append(others, other)
		}
	}
	return others
}

// rests reports whether the set w is in the way of nobody for now, or else for how long it will be.
// It does when its ticket does: see line.lua.
func (w *Waiter) rests(before *Waiter) (rests bool, until time.Duration) {
	age, rank := w.age(), w.Host.Rank(w)
	if rank == 0 {
		return false, ticketPeriod / 2 // nobody knows
	}
	micros, old := rank+age.Microseconds(), age.Microseconds()/8
	period := int64(48000)
	for old >= 2*period {
		period *= 2
	}
	since := micros - micros%period + period*2/3
	switch came := before.Host.Rank(before); {
	case micros < since || old < period:
		until = time.Duration(max(since-micros, 8*(period-old))) * time.Microsecond
	case came != 0 && came < since:
		return true, 0
	default: // a wait that began in a rest passes nobody
		until = time.Duration(since+period-micros) * time.Microsecond
	}
	return false, until + time.Millisecond
}
