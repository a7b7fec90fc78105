package waiting

import (
	"iter"
	"math"
	"slices"
	"time"

	"github.com/quorumlock/quorumlock/internal/protocol"
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

// A set in a line is covered by the one right before it if that wants no more: where that one gets nothing, neither
// does the set, which is only worth a try when that one has left.
type set struct {
	*Waiter
	covered bool
}

// enterSet puts w behind the sets that came before, in the order of their tickets: one that waits here
// for another, whose ticket is behind its own, would be in that one's way at the nodes.
func (l *line) enterSet(w *Waiter) {
	at := len(l.sets)
	for at > 0 && w.Host.Behind(l.sets[at-1].Waiter, w) {
		at--
	}
	l.sets = slices.Insert(l.sets, at, set{Waiter: w})
	l.cover(at)
	l.cover(at + 1)
}

// leaveSet takes w out, and returns where it was.
func (l *line) leaveSet(w *Waiter) (at int) {
	at = slices.IndexFunc(l.sets, func(s set) bool { return s.Waiter == w })
	l.sets = slices.Delete(l.sets, at, at+1)
	l.cover(at)
	return at
}

// cover notes whether the set at this place, if there is one, is covered by the one before it now.
func (l *line) cover(at int) {
	if at == len(l.sets) {
		return
	}
	s := &l.sets[at]
	if s.covered {
		s.Waiter.covered--
		s.nudge() // it may have to look for itself from now on
	}
	if s.covered = at > 0 && l.sets[at-1].covers(s.Waiter); s.covered {
		s.Waiter.covered++
	}
}

// covers reports whether w wants no more than the set other, which holds nothing that w may wait for.
func (w *Waiter) covers(other *Waiter) bool {
	return len(other.Held) == 0 && w.Options.Wants <= min(other.Options.Wants, other.Options.Most) &&
		!slices.ContainsFunc(w.Keys, func(key string) bool { return !overlaps([]string{key}, other.Keys) })
}

// wakeSets lets the sets from this place on look whether it is their turn, and whether the key may be free, but for
// those that are covered: the ones before them are to try first.
func (l *line) wakeSets(from int, free bool) {
	for i := from; i < len(l.sets); i++ {
		s := &l.sets[i]
		if s.missed = free; !s.covered {
			s.nudge()
		}
	}
}

// HasSet reports whether a set waits for one of the keys, and for none of those that the caller
// holds.
func (ls *Lines) HasSet(keys, held []string, most int) bool {
	if ls.count.Load() == 0 {
		return false
	}
	ls.mu.Lock()
	defer ls.mu.Unlock()
	for range ls.inTheWay(keys, held, most, nil) {
		return true
	}
	return false
}

// isFirst reports whether nobody of this process is before w, or else for how long. ls.mu is held.
func (ls *Lines) isFirst(w *Waiter) (first bool, wait time.Duration) {
	switch {
	case w.line != nil:
		return w.line.first() == w, math.MaxInt64
	case w.covered > 0:
		return false, math.MaxInt64
	}
	behind, idle := false, w.relies()
	for other := range ls.inTheWay(w.Keys, w.Held, w.Options.Most, w) {
		behind = true
		if idle {
			return false, math.MaxInt64
		}
		if rests, until := other.rests(w); !rests {
			return false, until
		}
	}
	if calm := w.calm.Sub(w.Host.Now()); behind && calm > 0 {
		return false, calm
	}
	return true, 0
}

// relies reports whether a key of the set w was held at its last try, and it would be told if that were free: until
// then no rest of those before it is worth a try.
func (w *Waiter) relies() bool {
	return w.tried != 0 && w.outlook.Taken && !w.missed && protocol.Digits(w.seen) != "" && w.watches.quorate() && !w.watches.free()
}

// inTheWay yields the sets that wait for one of the keys, came before w, or at all if it is nil,
// and do not wait for what is held, or behind such a one. ls.mu is held.
func (ls *Lines) inTheWay(keys, held []string, most int, w *Waiter) iter.Seq[*Waiter] {
	return func(yield func(*Waiter) bool) {
		for _, key := range keys {
			l := ls.byKey[key]
			if l == nil {
				continue
			}
			for i := range l.sets {
				other := l.sets[i].Waiter
				if other == w || overlaps(other.Keys, held) || other.Options.Wants > most {
					break
				}
				if !yield(other) {
					return
				}
			}
		}
	}
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
