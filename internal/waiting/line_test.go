package waiting

import (
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/internal/acquire"
)

// A lockStub is a lock that counts how often anybody looks at it.
type lockStub struct {
	joins bool
	looks *int
}

func (l *lockStub) Left() time.Duration { *l.looks++; return time.Hour }
func (l *lockStub) Joins() bool         { return l.joins }

// A lineHost is a Locker whose locks are those by the name of their tokens.
type lineHost struct {
	quietHost
	locks map[string]Holder
}

func (h lineHost) HolderOf(token string) Holder { return h.locks[token] }

// A ringError is a ring of waits.
type ringError []Block

func (ringError) Error() string { return "a ring" }

func (h lineHost) Deadlock(ring []Block) error { return ringError(slices.Clone(ring)) }

// joins puts a waiter for key into its line, that works for the locks.
func joins(t *testing.T, lines *Lines, key string, reads bool, works ...Holder) *Waiter {
	t.Helper()
	w := &Waiter{
		Lines: lines, Key: key, Keys: []string{key}, Waiting: acquire.Waiting{Manner: acquire.Manner{Joins: reads}}, Context: t.Context(), Carries: works,
		nudged: make(chan struct{}, 1),
	}
	lines.join(w)
	return w
}

func TestAWaitLooksAtWhatIsBehindItsHolderAlone(t *testing.T) {
	const waiters = 1000
	looks := 0
	lock := func() Holder { return &lockStub{looks: &looks} }
	holder, elsewhere := lock(), lock()
	locks := map[string]Holder{"holder's": holder, "elsewhere": elsewhere}
	lines := newLines(lineHost{locks: locks})
	lines.failed(joins(t, lines, "elsewhere", false, holder), "elsewhere", nil) // so there is something behind the holder
	first := joins(t, lines, "k", false, lock())
	lines.failed(first, "holder's", nil)
	owns := []Holder{lock()}
	for i := range waiters {
		joins(t, lines, "k", false, owns[i])
		owns = append(owns, lock())
		lines.failed(first, "holder's", nil)
	}
	if looks > 3*waiters {
		t.Errorf("while %d joined a line, each under a lock of its own, locks were looked at %d times, want a few for each", waiters, looks)
	}
	// The holder's work comes to wait for the one before the last in line.
	closes := joins(t, lines, "theirs", false, holder)
	locks["theirs"] = owns[waiters-1]
	lines.failed(closes, "theirs", nil)
	if want := (ringError{{"theirs", owns[waiters-1]}, {"k", holder}}); !reflect.DeepEqual(closes.verdict, want) {
		t.Errorf("the ring of two is %v", closes.verdict)
	}
}

// called reports whether w is to try before its turn, and lets it.
func called(lines *Lines, w *Waiter) (is bool) {
	if is = w.calls != nil; is {
		lines.look(w)
	}
	return is
}

// Whoever of them gets the key calls those that have come since, and no others.
func TestOfReadersEachIsCalledOnceWhileOneAfterTheOtherGetsTheKey(t *testing.T) {
	const waiters = 1000
	lines := newLines(quietHost{})
	lock := &lockStub{joins: true, looks: new(int)}
	waits := func(reads bool) *Waiter { return joins(t, lines, "k", reads) }
	first, readers, calls := waits(true), []*Waiter(nil), 0
	for range waiters {
		readers = append(readers, waits(true))
	}
	lines.leave(first, lock)
	var late *Waiter
	for i, r := range readers {
		for _, other := range readers[i:] {
			if called(lines, other) {
				calls++
			}
		}
		if i == waiters/2 {
			late = waits(true)
		}
		lines.leave(r, lock)
		if i == waiters/2 && !called(lines, late) {
			t.Error("a reader that has come behind those who were called is not called")
		}
	}
	if calls != waiters {
		t.Errorf("%d readers waited for one writer, and were called %d times, want once each", waiters, calls)
	}
	writer, behind := waits(false), waits(true)
	lines.failed(late, "", nil) // so it has to wait for its turn, or for a hand-over
	lines.leave(late, lock)
	if called(lines, behind) {
		t.Error("a reader behind a writer is called")
	}
	lines.leave(writer, nil)
	next, last := waits(true), waits(true)
	lines.leave(behind, lock)
	if !called(lines, next) || !called(lines, last) {
		t.Error("two readers behind the first of a new phase are not both called")
	}
	lines.failed(next, "", nil) // refused, as is the last one: they wait for the next phase
	lines.failed(last, "", nil)
	lines.leave(next, lock)
	if !called(lines, last) {
		t.Error("who was refused in the phase before is not called in the next")
	}
	asked, other := waits(true), waits(true)
	lines.leave(last, lock)
	if !called(lines, asked) || !called(lines, other) {
		t.Error("two readers behind one that has got the key are not both called")
	}
	urgent := &Waiter{Lines: lines, Key: "k", Keys: []string{"k"}, Context: t.Context(), RankedFrom: -1, Waiting: acquire.Waiting{Manner: acquire.Manner{Fair: true}}}
	lines.join(urgent)
	over := waits(true)
	lines.leave(asked, lock)
	if called(lines, over) {
		t.Error("a reader is called over a writer that has come in between, with a priority")
	}
}

// Sets come to the lines in another order than their waits began in now and then.
func TestSetsWaitInTheOrderOfTheirTickets(t *testing.T) {
	lines := newLines(quietHost{})
	joins := func(place int64) *Waiter {
		w := &Waiter{Lines: lines, Keys: []string{"a", "b"}, Context: t.Context(), Waiting: acquire.Waiting{Manner: acquire.Manner{Wants: 2, Most: 128}}, nudged: make(chan struct{}, 1)}
		w.rank.Store(place)
		lines.join(w)
		return w
	}
	second, third, first := joins(20), joins(30), joins(10)
	for _, w := range []*Waiter{first, second, third} {
		if is, _ := lines.isFirst(w); is != (w == first) {
			t.Errorf("who has the ticket of the time %d is first: %v", w.rank.Load(), is)
		}
	}
}
