package lease

import (
	"testing"
	"time"
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
