package redlock

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumlock/quorumlock/clockdrift"
	"github.com/quorumlock/quorumlock/internal/protocol"
)

// FuzzClockGuard sets a node's clock, and lets it tell anything instead of its time. Under
// the guard the node has no vote where it does not tell its time, nor after a step forward
// that shows, for as long as the longest lease. A step back does no harm.
func FuzzClockGuard(f *testing.F) {
	f.Add([]byte{0, 129, 0, 10, 228, 0, 10, 128, 0, 200, 0, 0, 1, 28, 0})
	f.Add([]byte("0\xff\x0000\x00001x\x9c\x00000000")) // set back and forward, with an idle reading in between
	f.Add([]byte{1, 255, 0, 1, 1, 0, 50, 128, 0, 250, 156, 0, 255, 130, 0})
	for kind := range byte(16) {
		for detail := range byte(8) {
			f.Add([]byte{1, 128, 0, 1, 128 + 8*detail, kind + 1, 1, 128, 0, 110, 128, 0, 1, 128 + detail, kind + 1, 110, 228, 0})
		}
	}
	f.Fuzz(func(t *testing.T, steps []byte) {
		synctest.Test(t, func(t *testing.T) {
			const longest = 10 * time.Second
			odd := liars(1, redis7, false, &witness{}, nil)[0]
			locker, err := New(driversOf([]*liar{odd}), WithClockGuard(longest))
			if err != nil {
				t.Fatal(err)
			}
			defer locker.Close()
			mustRelease(t, mustAcquire(t, locker, "k"))
			seen := time.Now()     // when the clock was last told
			var until time.Time    // the node sits out
			var set time.Time      // when the clock was last set forward: an idle Locker may have seen it
			var lied time.Time     // when something else was told
			sure := true           // that nothing was hidden, or told wrongly
			var step time.Duration // since then
			for ; len(steps) >= 3; steps = steps[3:] {
				time.Sleep(time.Duration(steps[0]) * 100 * time.Millisecond)
				by := (time.Duration(steps[1]) - 128) * 20 * time.Millisecond
				step += by
				if by > 0 {
					set = time.Now()
				}
				odd.change(func(f *fakeNode) { f.skew += by })
				told, l := steps[2] == 0, lie{steps[2] - 1, steps[1]}
				if !told {
					odd.tells("TIME", lie{l.kind | lieForever, l.detail}) // an idle Locker may hear it, too
					lied = time.Now()
				}
				hides := time.Duration(2*clockdrift.DefaultRate*float64(time.Since(seen))) + time.Millisecond
				readable := func() (ok bool) { // what is made of the time depends on the time
					odd.change(func(f *fakeNode) { _, ok = protocol.ReadTime(l.about([]any{"TIME"}, f.one([]any{"TIME"}))) })
					return ok
				}
				before := readable()
				lock, err := locker.TryAcquire(t.Context(), "k")
				if after := readable(); !told && (before || after) {
					sure = false
				} else if !told && err == nil {
					t.Errorf("a node that tells %+v instead of its time has a vote", l)
				}
				if !told && by != 0 { // set back before it is read, a step is not seen
					sure = false
				}
				if told && step > hides && sure {
					until = set.Add(longest)
				}
				if told && step <= hides && step > 0 {
					sure = false
				}
				switch quarantined := time.Now().Before(until); {
				case err == nil && quarantined && sure:
					t.Errorf("%v after its clock was set forward a node has a vote", longest-time.Until(until))
				case err != nil && told && sure && time.Now().After(until.Add(longest)) && time.Since(set) > 3*longest:
					t.Errorf("a node whose clock was not set forward of late: TryAcquire = %v", err)
				case err != nil && !errors.Is(err, ErrNoQuorum):
					t.Errorf("TryAcquire = %v, want ErrNoQuorum", err)
				}
				if told {
					seen, step = time.Now(), 0
					sure = sure || time.Since(set) > 3*longest && time.Since(lied) > 3*longest
				}
				if lock != nil {
					mustRelease(t, lock)
				}
				synctest.Wait()
				odd.tells("TIME")
			}
		})
	})
}
