package lease

import (
	"math"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/clockdrift"
)

// The machine may sleep between the reading of the number and that of the operation's start.
func TestAFenceIsAsOldAsItsNumber(t *testing.T) {
	const ttl, micros = 10 * time.Second, int64(1) << 50
	for age, want := range map[time.Duration]Phase{0: Held, 9 * time.Second: Held, 10 * time.Second: Over} {
		var h Hold
		h.Init(ttl, time.Hour, 0.01, false)
		var r Round
		r.Begin(ToHold, Sets, 1, 1, false)
		r.Propose(micros-age.Microseconds(), present, false)
		r.Count(&Vote{Sent: present}, Granted, 0)
		r.Verdict = r.Reached(0)
		if h.Decided(&r, ttl, present, micros); h.Phase() != want {
			t.Errorf("a lock of 10s whose number is %v old is in phase %d, want %d", age, h.Phase(), want)
		}
	}
}

// The explorers count in ticks. This has the magnitudes of clocks and of the longest options.
func FuzzALeaseOfAnyLength(f *testing.F) {
	const year = 365 * 24 * time.Hour
	f.Add(int64(time.Hour), int64(10*time.Second), int64(year), 0.01, int64(time.Second), int64(20*time.Second), int64(5*time.Second))
	f.Add(int64(math.MaxInt64-1), int64(10*year), int64(math.MaxInt64), 0.5, int64(0), int64(10*year), int64(year))
	f.Add(int64(1), int64(10*time.Millisecond), int64(10*time.Millisecond), 0.0, int64(9*time.Millisecond), int64(10*time.Millisecond), int64(0))
	f.Fuzz(func(t *testing.T, start, ttl, most int64, drift float64, took, longer, later int64) {
		within := func(n *int64, most int64) { *n = 1 + (*n&math.MaxInt64)%most } // package redlock refuses all else
		within(&start, math.MaxInt64)
		within(&ttl, int64(10*year))
		within(&longer, int64(10*year))
		within(&took, 2*ttl)
		within(&later, 2*ttl)
		if most = max(ttl, longer, most); !(drift >= 0 && drift < 1) {
			drift = 0.01
		}
		began := clockdrift.Instant(start)
		grants := func(at clockdrift.Instant, ttl int64) float64 { // in floats, which do not wrap around
			return min(float64(at)+float64(ttl)-float64(clockdrift.Allowance(time.Duration(ttl), drift)), float64(began)+float64(most))
		}
		near := func(a, b float64) bool { return math.Abs(a-b) <= 1e4+math.Abs(b)/1e12 }
		var h Hold
		h.Init(time.Duration(ttl), time.Duration(most), drift, false)
		round := func(aim Aim, at clockdrift.Instant, ttl int64, now clockdrift.Instant) {
			var r Round
			r.Begin(aim, Sets, 1, 1, false)
			r.Count(&Vote{Sent: at}, Granted, 0)
			r.Verdict = r.Reached(0)
			h.Decided(&r, time.Duration(ttl), now, 0)
		}
		now := began.Add(time.Duration(took))
		round(ToHold, began, ttl, now)
		want := min(grants(began, ttl), math.MaxInt64)
		if held := h.Phase() == Held; !near(float64(now), want) && held != (float64(now) < want) || held && !near(float64(h.Until()), want) {
			t.Fatalf("asked at %d for %d, at most %d, and granted at %d: until %d, want %.0f", start, ttl, most, now, h.Until(), want)
		}
		at := now.Add(time.Duration(later))
		if h.Check(at); h.Phase() != Held {
			return
		}
		before := h.Until()
		h.Asks(time.Duration(longer))
		round(ToExtend, at, longer, at)
		if want := max(float64(before), min(grants(at, longer), math.MaxInt64)); !near(float64(h.Until()), want) || h.Until() < before {
			t.Fatalf("prolonged at %d by %d: until %d, and %d before, want %.0f", at, longer, h.Until(), before, want)
		}
		if h.Expires() < time.Duration(max(ttl, longer)) {
			t.Fatalf("a token may be at a node for %v, with leases of %v", h.Expires(), time.Duration(max(ttl, longer)))
		}
	})
}
