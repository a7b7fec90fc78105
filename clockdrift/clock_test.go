package clockdrift_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumlock/quorumlock/clockdrift"
)

// A lease is decided by Fresh: the machine may have slept since the last reading.
func ExampleClock_Fresh() {
	var slept time.Duration // clockdrift.New measures it
	clock := clockdrift.NewWith(func() time.Duration { return slept })

	deadline := clockdrift.Deadline(clock.Now(), 10*time.Second, clockdrift.DefaultFactor)
	fmt.Println("holds:", clock.Fresh() < deadline)

	slept = 30 * time.Second // somebody has closed the lid
	fmt.Println("holds:", clock.Fresh() < deadline)
	// Output:
	// holds: true
	// holds: false
}

func ExampleNew() {
	clock := clockdrift.New()
	start := clock.Now()
	fmt.Println(clock.Fresh() >= start)
	// Output: true
}

func ExampleNewWith() {
	slept := 5 * time.Minute // before the clock was made: does not count
	clock := clockdrift.NewWith(func() time.Duration { return slept })

	slept += 30 * time.Second
	fmt.Println(clock.Fresh().Sub(0).Truncate(time.Second))
	// Output: 30s
}

// machine is what sleeps in a test.
type machine struct {
	slept atomic.Int64
	asked atomic.Int64
}

func (m *machine) sleeps(d time.Duration) { m.slept.Add(int64(d)) }

func (m *machine) report() time.Duration {
	m.asked.Add(1)
	return time.Duration(m.slept.Load())
}

func TestClockFollowsABubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clock := clockdrift.New()
		for _, step := range []time.Duration{0, time.Nanosecond, time.Millisecond, 10 * time.Second, 24 * time.Hour} {
			before := clock.Now()
			time.Sleep(step)
			if got := clock.Now().Sub(before); got != step {
				t.Errorf("after %v of virtual time Now has moved by %v", step, got)
			}
			if got := clock.Fresh().Sub(before); got != step {
				t.Errorf("after %v of virtual time Fresh has moved by %v", step, got)
			}
		}
	})
}

func TestClockCountsSleep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var m machine
		m.sleeps(time.Hour) // before its time
		clock := clockdrift.NewWith(m.report)
		check := func(when string, reading func() clockdrift.Instant, want time.Duration) {
			t.Helper()
			if got := reading().Sub(0); got != want {
				t.Errorf("%s: the clock shows %v, want %v", when, got, want)
			}
		}
		check("at the start", clock.Now, 0)

		time.Sleep(500 * time.Millisecond)
		m.sleeps(30 * time.Second)
		check("Now, less than a second after the last look", clock.Now, 500*time.Millisecond)
		check("Fresh, right after a sleep", clock.Fresh, 30*time.Second+500*time.Millisecond)
		check("Now, after a Fresh", clock.Now, 30*time.Second+500*time.Millisecond)

		m.sleeps(10 * time.Second)
		time.Sleep(time.Second - 1)
		check("Now, at the end of its second", clock.Now, 31*time.Second+500*time.Millisecond-1)
		time.Sleep(time.Nanosecond)
		check("Now, a second after the last look", clock.Now, 41*time.Second+500*time.Millisecond)

		m.sleeps(-20 * time.Second)
		check("Fresh, when the sleep is said to be shorter than before", clock.Fresh, 41*time.Second+500*time.Millisecond)
		m.sleeps(20*time.Second + 99*time.Microsecond)
		check("Fresh, when the growth is too small for a sleep", clock.Fresh, 41*time.Second+500*time.Millisecond)
		m.sleeps(time.Microsecond)
		check("Fresh, when the growth is a sleep", clock.Fresh, 41*time.Second+500*time.Millisecond+100*time.Microsecond)
	})
}

func TestClockAsksAtMostOnceASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var m machine
		clock := clockdrift.NewWith(m.report)
		before := m.asked.Load()
		for range 10_000 {
			time.Sleep(time.Millisecond)
			clock.Now()
		}
		if got := m.asked.Load() - before; got != 10 {
			t.Errorf("in 10s, 10,000 calls of Now asked %d times about sleep, want 10", got)
		}
	})
}

// Measurements of sleep are too small when the scheduler interrupts them.
func TestInterruptedMeasurementIsNotTakenForSleep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		answers := []time.Duration{-20 * time.Millisecond, 0, -time.Millisecond, -5 * time.Millisecond, 0}
		clock := clockdrift.NewWith(func() time.Duration {
			answer := answers[0]
			answers = answers[1:]
			return answer
		})
		for len(answers) > 0 {
			if got := clock.Fresh(); got != 0 {
				t.Errorf("with %d measurements to come the clock shows %v, want 0", len(answers), got)
			}
		}
	})
}

func TestClockNeverGoesBack(t *testing.T) {
	var m machine
	clock := clockdrift.NewWith(m.report)
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			var previous clockdrift.Instant
			for i := range 5_000 {
				if g == 0 {
					m.sleeps(time.Millisecond)
				}
				reading := clock.Now
				if i%3 == g%3 {
					reading = clock.Fresh
				}
				now := reading()
				if now < previous {
					t.Errorf("goroutine %d read %v after %v", g, now, previous)
					return
				}
				previous = now
			}
		})
	}
	wg.Wait()
	if got := clock.Fresh().Sub(0); got < 5*time.Second {
		t.Errorf("after 5,000 sleeps of 1ms the clock shows %v", got)
	}
}

// A machine that did not sleep has none found, however the scheduler interrupts
// the measurement: or leases would end early for nothing.
func TestClockFindsNoSleepWhereThereIsNone(t *testing.T) {
	origin := time.Now()
	clock := clockdrift.New()
	for range 20_000 {
		if got, most := clock.Fresh().Sub(0), time.Since(origin); got > most {
			t.Fatalf("the clock shows %v when at most %v have passed", got, most)
		}
	}
	if got, least := clock.Fresh().Sub(0), time.Since(origin)-time.Minute; got < least {
		t.Errorf("the clock shows %v when at least %v have passed", got, least)
	}
}
