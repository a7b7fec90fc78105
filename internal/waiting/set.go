package waiting

import (
	"math"
	"slices"
	"time"

	"github.com/quorumlock/quorumlock/clockdrift"
	"github.com/quorumlock/quorumlock/internal/fault"
)

// A SetWaiter is an acquire of several keys that has to wait. It holds none of them meanwhile.
//
// Those of one Locker that want a key in common wait in the order in which they came: only the
// first asks the nodes when a key is released. Others only look now and then. Across processes the
// order is kept by marks at the nodes, which a waiter leaves while it [SetWaiter.stays]. They hold
// off only those who want several keys and came later.
type SetWaiter struct {
	Waiter
	Keys []string // in order
	// Passes: it goes before all others, for they wait for what its caller has.
	Passes bool
	// Held are the keys that its caller has, in order: it goes before those who want one of them.
	Held []string
	// Ask asks the nodes once. While the waiter stays, they keep the keys for so long from those
	// who came later.
	Ask func(stays time.Duration) (Attempt, error)

	watches []*KeyWatch
	news    chan struct{}

	// Guarded by Lines.mu.
	freed bool // a key may be free that was not at the last try
}

// The times of those who wait for several keys.
const (
	SetLook  = 250 * time.Millisecond // they look at least so often
	setAge   = 100 * time.Millisecond // from this age on they keep others off,
	setOn    = time.Second            // at first for so long, then for twice as long, …
	setOff   = 2 * SetLook            // and in between let all others look once
	MarkLife = 3 * SetLook            // so long a mark stays behind their last look
)

// stays says whether somebody who has waited for age keeps others off now, and until which age that
// stays so. Who would keep them off all the time might wait for the very one that it keeps off: one
// that holds a key already and wants another one besides. Each time is twice as long as the one
// before, so one of them is longer than others hold the keys.
func stays(age time.Duration) (on bool, until time.Duration) {
	until = setAge
	for length := setOn; ; length = min(2*length, math.MaxInt64/8) {
		if age < until {
			return false, until
		}
		if until += length; age < until {
			return true, until
		}
		until += setOff
	}
}

// on reports whether somebody who has waited for age keeps others off.
func on(age time.Duration) bool {
	on, _ := stays(age)
	return on
}

// overlaps reports whether two lists, each in order, have an element in common.
func overlaps(a, b []string) bool {
	for len(a) > 0 && len(b) > 0 {
		switch {
		case a[0] == b[0]:
			return true
		case a[0] < b[0]:
			a = a[1:]
		default:
			b = b[1:]
		}
	}
	return false
}

// Wait waits until the keys are had or the waiting ends. It begins with a try that has failed, or
// with nil.
func (w *SetWaiter) Wait(failed Attempt) (lock Attempt, err error) {
	w.nudged, w.news = make(chan struct{}, 1), make(chan struct{}, 1)
	w.Lines.joinSet(w)
	defer func() {
		w.Lines.leaveSet(w, lock != nil)
		for _, watch := range w.watches {
			watch.End()
		}
	}()
	if failed != nil {
		w.plan(failed.Last())
	} else {
		w.due = w.look()
	}
	bound := time.NewTimer(w.left())
	defer bound.Stop()
	alarm := time.NewTimer(math.MaxInt64)
	defer alarm.Stop()
	for {
		if err := w.stand(alarm, bound.C); err != nil {
			return nil, err
		}
		var life time.Duration
		if on(w.age()) {
			life = MarkLife
		}
		for _, watch := range w.watches {
			watch.Arm() // before the try: what is announced meanwhile counts
		}
		leave, end := w.enter(bound.C)
		if leave == nil {
			return nil, w.stop(end)
		}
		attempt, err := w.Ask(life)
		leave()
		if err == nil {
			return attempt, nil
		}
		if attempt == nil || w.Over(err) {
			return nil, w.GiveUp(err)
		}
		w.plan(attempt.Last())
	}
}

func (w *SetWaiter) age() time.Duration { return w.Host.Now().Sub(w.Began) }

// look is when to look again, if nothing happens before.
func (w *SetWaiter) look() clockdrift.Instant {
	now := w.Host.Now()
	_, until := stays(now.Sub(w.Began))
	return min(now.Add(SetLook/2+w.Host.Jitter(SetLook/2)), w.Began.Add(until))
}

// stand waits until it is time to try, or the waiting ends.
func (w *SetWaiter) stand(alarm *time.Timer, bound <-chan time.Time) error {
	for {
		first, freed := w.Lines.turn(w)
		wait := w.due.Sub(w.Host.Now())
		switch {
		case first && freed:
			w.How = Woken
			return nil
		case first && wait <= 0:
			w.How = Polled
			return nil
		case wait <= 0:
			w.due = w.look()
			continue
		}
		var news <-chan struct{}
		if first && (w.last == nil || w.outlook.Taken) && !w.selfWoken {
			news = w.news
		}
		alarm.Reset(wait)
		var end error
		select {
		case <-news:
			w.How = Woken
			return nil
		case <-w.nudged:
			if end = w.Lines.verdictOn(&w.Waiter); end == nil {
				continue
			}
		case <-alarm.C:
			continue
		case <-bound:
		case <-w.Context.Done():
			end = fault.EndOf(w.Context)
		case <-w.Host.Closing():
			end = fault.ErrClosed
		}
		return w.stop(end)
	}
}

// stop words the end of the waiting.
func (w *SetWaiter) stop(end error) error {
	last := w.last
	if last == nil {
		last = &fault.StateError{Op: "acquire", Key: w.Key, Why: fault.ErrTaken}
	}
	return w.gaveUp(last, end)
}

// plan says when to try again after a try that has failed. A lock of this Locker that is in the
// way tells of its end: see [Lines.Freed].
func (w *SetWaiter) plan(try Try) {
	token := try.Holder()
	w.selfWoken = try.SelfWoken()
	local := token != "" && w.Host.HolderOf(token) != nil
	if !local && w.watches == nil {
		for _, key := range w.Keys {
			w.watches = append(w.watches, NewKeyWatch(w.Host, key, "", w.news))
		}
	}
	free := false
	for _, watch := range w.watches {
		free = watch.found(try) || free
	}
	now := w.Host.Now()
	w.due = w.look()
	switch {
	case !w.outlook.Taken:
		w.due = min(w.due, now.Add(w.poll()))
	case token == "" || free:
		w.due = min(w.due, now.Add(splitBackoff(w.Host, w.splits)))
		w.splits++
	default:
		w.splits = 0
		if expires := try.Frees(); expires != 0 {
			w.due = min(w.due, expires)
		}
		if !local && !w.hears() {
			w.due = min(w.due, now.Add(w.poll()))
		}
	}
}

// hears reports whether announcements of the keys would arrive.
func (w *SetWaiter) hears() bool {
	return len(w.watches) > 0 && !slices.ContainsFunc(w.watches, func(k *KeyWatch) bool { return !k.quorate() })
}

// joinSet puts w behind all who wait.
func (ls *Lines) joinSet(w *SetWaiter) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	ls.sets = append(ls.sets, w)
	ls.setCount.Add(1)
}

// leaveSet takes w out. Those behind it whose turn comes try at once, unless it has got the keys that
// they want.
func (ls *Lines) leaveSet(w *SetWaiter, got bool) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	ls.setCount.Add(-1)
	ls.sets = slices.DeleteFunc(ls.sets, func(other *SetWaiter) bool { return other == w })
	for _, other := range ls.sets {
		if overlaps(other.Keys, w.Keys) {
			other.freed = !got || w.Options.Several // there may be more
			other.nudge()
		}
	}
}

// turn reports whether w is before all who want one of its keys and do not let others look, and
// whether one may have become free since its last try.
func (ls *Lines) turn(w *SetWaiter) (first, freed bool) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	for _, other := range ls.sets {
		if other == w || w.Passes {
			break
		}
		if age := other.age(); overlaps(other.Keys, w.Keys) && !overlaps(other.Keys, w.Held) && (age < setAge || on(age)) {
			return false, false
		}
	}
	freed, w.freed = w.freed, false
	return true, freed
}

// HasSet reports whether somebody waits for several keys, one of these among them, and none of those
// that the caller holds.
func (ls *Lines) HasSet(keys, held []string) bool {
	if ls.setCount.Load() == 0 {
		return false
	}
	ls.mu.Lock()
	defer ls.mu.Unlock()
	return slices.ContainsFunc(ls.sets, func(w *SetWaiter) bool {
		return overlaps(w.Keys, keys) && !overlaps(w.Keys, held)
	})
}

// Freed notes that a lock of this Locker leaves its key to nobody: who waits for several keys may
// try.
func (ls *Lines) Freed(key string) {
	if ls.setCount.Load() > 0 {
		ls.wakeSets([]string{key})
	}
}

// FreedAll is Freed for a lock on several keys, which are in order. The first who waits for one of
// them alone may try as well.
func (ls *Lines) FreedAll(keys []string) {
	if ls.setCount.Load() > 0 {
		ls.wakeSets(keys)
	}
	if ls.count.Load() == 0 {
		return
	}
	ls.mu.Lock()
	defer ls.mu.Unlock()
	for _, key := range keys {
		if l := ls.byKey[key]; l != nil {
			l.holder = nil
			l.first().missed = true
			l.first().nudge()
		}
	}
}

// wakeSets lets those try who wait for one of the keys.
func (ls *Lines) wakeSets(keys []string) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	for _, w := range ls.sets {
		if overlaps(w.Keys, keys) {
			w.freed = true
			w.nudge()
		}
	}
}
