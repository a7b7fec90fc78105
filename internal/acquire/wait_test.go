package acquire

import (
	"fmt"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/clockdrift"
)

// A bitset hands out its bits one by one.
type bitset uint64

func (b *bitset) next() (bit bool) {
	bit = *b&1 == 1
	*b >>= 1
	return bit
}

// All that a try may find, for each manner, phase and age: no plan leaves a key free for longer than a pause where nothing
// would be heard of it, lets a ticket run out, or tries over and over without a pause.
func TestEveryPlanTriesInTimeAndNoneWithoutAPause(t *testing.T) {
	const now, trip, frees = clockdrift.Instant(time.Hour), time.Millisecond, 10 * time.Second
	most := func(bound time.Duration) time.Duration { return max(0, bound-1) }
	const pause = 4 * time.Second
	manners := map[string]Manner{
		"plain": {Name: "n", Ages: true}, "fair": {Name: "n", Fair: true}, "reader": {Name: "n", Joins: true}, "set": {Name: "n", Ages: true, Wants: 2},
		"permit": {Name: "n", Several: true}, "without a line": {Ages: true},
	}
	var seen [phases]int
	for name, manner := range manners {
		manner.BackoffMin, manner.BackoffMax = pause, pause
		for bits := range bitset(1 << 17) {
			for last := range phases {
				b := bits
				w := Waiting{Manner: manner, Quiet: b.next(), Began: now.Add(-Age / 2), Plan: Plan{Phase: last, Taken: b.next()}}
				if b.next() {
					w.Began, w.Leads, w.Tried = now.Add(-time.Minute), now.Add(-time.Minute), now.Add(-trip)
				}
				found := Found{Outranked: b.next(), Readers: b.next(), SelfWoken: b.next(), Marked: b.next()}
				if b.next() {
					found.Holder, found.Rival = "ql:h", "ql:h"
				}
				if b.next() {
					found.Frees = now.Add(frees)
				}
				at := Position{First: b.next(), Local: b.next(), Stays: b.next(), Ranked: b.next(), Stood: b.next(), Turn: b.next(), Free: b.next(), Hears: b.next()}
				at.Left = at.Stays && at.Ranked
				w.Met(&found, now)
				quiet := w.Quiet
				w.Failed(&found, at, trip, most, now)
				quiet = quiet && w.Quiet
				wrong := func(what string) {
					t.Helper()
					t.Fatalf("%s: %+v at %+v behind phase %d: %s: %+v", name, found, at, last, what, w)
				}
				waits := w.Due.Sub(now)
				switch {
				case !at.First && (w.Phase != Turn || w.Due != 0):
					wrong("it is not its turn")
				case at.First && w.Phase == Turn:
					wrong("it is its turn")
				case !at.Hears && waits > pause:
					wrong("nobody would tell it that the key is free, and it does not look")
				case waits > leastReliance*3/2+lookTogether, waits > QuietLife-time.Second:
					wrong("it relies on one announcement")
				case at.First && (w.Fair || at.Stood) && waits > TicketPeriod && !quiet:
					wrong("its ticket runs out")
				case at.Free && w.Taken && at.First && waits > max(2*trip+MaxSplitBackoff, TicketPeriod):
					wrong("the key is free, and it does not try")
				case w.Quiet && (!at.First || !at.Stood || !at.Turn || !at.Hears):
					wrong("nobody would tell it, and it is quiet")
				case at.First && !at.Local && !at.Stays && !at.Stood && manner.Name != "" && w.Due > w.ripe():
					wrong("it is old enough to leave a ticket, and leaves none")
				case !w.Deaf && !w.Taken:
					wrong("it listens to what nobody may say")
				case w.Phase == Ticket && !w.Stands(now):
					wrong("it tries to leave a ticket, and leaves none")
				case manner.Name == "" && w.Stands(now):
					wrong("it leaves a ticket where it has no name")
				case w.Due <= now && at.First && !at.Local && w.Phase != Ticket && (at.Stays || w.Stands(now) && manner.Ages && w.ripe() > now):
					wrong("it tries without a pause")
				}
				seen[w.Phase]++
				if w.Phase != Ticket {
					continue
				}
				at.Stays, at.Left = true, at.Ranked
				if w.Failed(&found, at, trip, most, now); w.Phase == Ticket {
					wrong("it tries over and over to leave a ticket that no node takes")
				}
			}
		}
	}
	for phase, count := range seen {
		if count == 0 {
			t.Errorf("nothing leads to phase %d", phase)
		}
	}
}

// A waiter that has met others leaves its ticket, or each release would wake all of them. Its own age tells a waiter that
// has met nobody.
func TestWhoWaitsForLongStandsInLine(t *testing.T) {
	const began = clockdrift.Instant(time.Hour)
	for _, tt := range []struct {
		manner Manner
		met    bool
		from   time.Duration
	}{
		{Manner{Name: "n", Ages: true}, true, 0},
		{Manner{Name: "n", Ages: true}, false, Age},
		{Manner{Name: "n", Ages: true, Wants: 2}, true, Age},
		{Manner{Name: "n", Several: true}, true, Age},
		{Manner{Name: "n", Several: true}, false, permitAge},
		{Manner{Name: "n"}, true, 0},
		{Manner{Name: "n", Fair: true}, false, 0},
	} {
		w := Waiting{Manner: tt.manner, Began: began, Leads: began}
		for _, age := range []time.Duration{tt.from - 1, tt.from} {
			w.Met(&Found{Outranked: tt.met}, began.Add(age))
			if stands := w.Stands(began.Add(age)); age >= 0 && stands != (age == tt.from) {
				t.Errorf("who waits since %v, and has met others, %v, leaves a ticket: %v: %s", age, tt.met, stands, fmt.Sprintf("%+v", tt.manner))
			}
		}
	}
}
