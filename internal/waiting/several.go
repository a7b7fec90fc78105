package waiting

import (
	"iter"
	"math"
	"slices"
	"time"

	"github.com/quorumlock/quorumlock/internal/acquire"
	"github.com/quorumlock/quorumlock/internal/protocol"
)

// Sets of one Locker with a key in common wait in the order of their arrival: only the first asks the nodes
// when a key is released. Requests for several permits do the same. Across processes tickets at the nodes
// keep the order.

// overlaps reports whether two lists, each in order, have an element in common.
func overlaps(a, b []string) bool {
	return slices.ContainsFunc(a, func(key string) bool {
		_, is := slices.BinarySearch(b, key)
		return is
	})
}

// A set in a line is covered by the set right before it if it wants no less: where the set before gets
// nothing, the covered set gets nothing, and a try is only worth while once the set before has left.
type set struct {
	*Waiter
	covered bool
}

// enterSet puts w behind the sets that came before, in the order of their tickets: a set must not wait here
// for a set whose ticket is behind its own, or each would be in the other's way at the nodes.
func (l *line) enterSet(w *Waiter) {
	at := len(l.sets)
	for at > 0 && l.sets[at-1].behind(w) {
		at--
	}
	l.sets = slices.Insert(l.sets, at, set{Waiter: w})
	l.cover(at)
	l.cover(at + 1)
}

// leaveSet takes w out, and returns its place.
func (l *line) leaveSet(w *Waiter) (at int) {
	at = slices.IndexFunc(l.sets, func(s set) bool { return s.Waiter == w })
	l.sets = slices.Delete(l.sets, at, at+1)
	l.cover(at)
	return at
}

// cover notes whether the set at this place, if there is one, is covered by the set before it now.
func (l *line) cover(at int) {
	if at == len(l.sets) {
		return
	}
	s := &l.sets[at]
	if s.covered {
		s.Waiter.covered--
		s.nudge() // the set may have to look for itself from now on
	}
	if s.covered = at > 0 && l.sets[at-1].covers(s.Waiter); s.covered {
		s.Waiter.covered++
	}
}

// covers reports whether w wants no more than the set other, which holds nothing that w may wait for.
func (w *Waiter) covers(other *Waiter) bool {
	return len(other.Held) == 0 && w.Wants <= min(other.Wants, other.Most) &&
		!slices.ContainsFunc(w.Keys, func(key string) bool { return !overlaps([]string{key}, other.Keys) })
}

// wakeSets makes the sets from this place on look whether it is their turn, and whether the key may be free.
// Covered sets are left out: the sets before them try first.
func (l *line) wakeSets(from int, free bool) {
	for i := from; i < len(l.sets); i++ {
		s := &l.sets[i]
		if s.missed = free; !s.covered {
			s.nudge()
		}
	}
}

// HasSet reports whether a set waits for one of the keys, and for no key of the caller's.
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
	for other := range ls.inTheWay(w.Keys, w.Held, w.Most, w) {
		behind = true
		if idle {
			return false, math.MaxInt64
		}
		if rests, until := other.rests(w); !rests {
			return false, until
		}
	}
	if calm := w.Calm.Sub(w.Lines.Clock.Now()); behind && calm > 0 {
		return false, calm
	}
	return true, 0
}

// relies reports whether a key of the set w was held at the last try, and its release would be announced to
// w: until then no rest of tickets before is worth a try.
func (w *Waiter) relies() bool {
	return w.Tried != 0 && w.Taken && !w.missed && protocol.Digits(w.Token) != "" && w.watches.quorate() && !w.watches.free()
}

// inTheWay yields the sets that wait for one of the keys, came before w (nil: all), and do not wait for a
// key in held, nor behind such a set. ls.mu is held.
func (ls *Lines) inTheWay(keys, held []string, most int, w *Waiter) iter.Seq[*Waiter] {
	return func(yield func(*Waiter) bool) {
		for _, key := range keys {
			l := ls.byKey[key]
			if l == nil {
				continue
			}
			for i := range l.sets {
				other := l.sets[i].Waiter
				if other == w || overlaps(other.Keys, held) || other.Wants > most {
					break
				}
				if !yield(other) {
					return
				}
			}
		}
	}
}

// rests reports whether the set w is in nobody's way for now, or else for how long it is. A set rests when
// its ticket does: see line.lua.
func (w *Waiter) rests(before *Waiter) (rests bool, until time.Duration) {
	return acquire.Rests(w.Rank(), w.Lines.Clock.Now().Sub(w.Began), before.Rank())
}
