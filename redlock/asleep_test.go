package redlock

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/internal/gate"
)

// napping makes the machine sleep once for a minute, while the nodes' answers to the
// command are on their way.
func (s *sleeper) napping(fakes []*fakeNode, command string) {
	for _, f := range fakes {
		f.change(func(f *fakeNode) {
			f.answer = func(args []any) *driver.Reply {
				if commandName(args) == command {
					s.slept.CompareAndSwap(0, int64(time.Minute))
				}
				return nil
			}
		})
	}
}

// The clock was read less than a millisecond before the machine went to sleep.
func TestAnExtensionDoesNotCountAfterASleepThatTheLastReadingHasNotSeen(t *testing.T) {
	for _, mode := range []string{"", "redis_mode:cluster\r\n"} { // where extensions go one by one
		synctest.Test(t, func(t *testing.T) {
			var machine sleeper
			locker, fakes := newLocker(t, 3, machine.option())
			for _, f := range fakes {
				f.change(func(f *fakeNode) { f.info += mode })
			}
			warm(t, locker)
			lock := mustAcquire(t, locker, "k")
			machine.napping(fakes, "EVALSHA")
			if err := lock.Extend(t.Context(), 10*time.Minute); !errors.Is(err, ErrLost) {
				t.Errorf("mode %q: Extend = %v, want ErrLost: its votes came 50s after the deadline", mode, err)
			}
			if lock.Valid() {
				t.Errorf("mode %q: the lock is valid again, 50s after its deadline", mode)
			}
		})
	}
}

// A fence counts at its store when its lock is over, so a late one must not be given out.
func TestAFenceIsNotGivenOutAfterASleepThatTheLastReadingHasNotSeen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var machine sleeper
		locker, fakes := newLocker(t, 3, machine.option(), WithFences())
		mustRelease(t, mustAcquire(t, locker, "k"))
		machine.napping(fakes, "ZADD")
		if lock, err := locker.TryAcquire(t.Context(), "k"); !errors.Is(err, ErrExpired) {
			t.Errorf("TryAcquire = %v, %v, want ErrExpired: its number is a minute old", lock, err)
		}
	})
}

// The machine may sleep between the reading of the number and that of the operation's start.
func TestAFenceIsAsOldAsItsNumber(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, _ := newLocker(t, 1, WithFences())
		warm(t, locker)
		for age, want := range map[time.Duration]bool{0: true, 9 * time.Second: true, 10 * time.Second: false} {
			lock, err := locker.newLock(t.Context(), "k", &locker.options.acquire, false)
			if err != nil {
				t.Fatal(err)
			}
			op := &lock.acquire
			now := locker.clock.Fresh()
			op.Fence.Number, op.Asked, op.Start = locker.board.Microseconds()-age.Microseconds(), now, now
			if got := lock.hold(op, now); got != want {
				t.Errorf("a lock of 10s whose number is %v old is given out: %t, want %t", age, got, want)
			}
		}
	})
}

// How long a history has been there is not told by a reading from before a sleep, in which
// it may have begun.
func TestAQuarantineDoesNotCountTheSleepBeforeIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var machine sleeper
		locker, fakes := newLocker(t, 1, machine.option(), WithRestartGuard(10*time.Second))
		fakes[0].change(func(f *fakeNode) { f.info = "role:slave\r\n" })
		_, _ = locker.TryAcquire(t.Context(), "k")
		time.Sleep(time.Second)
		fakes[0].restart()
		fakes[0].put(gate.EpochKey, gate.FormatEpoch(random.Nonce()))
		machine.napping(fakes, "SET")
		for range 3 {
			if _, err := locker.TryAcquire(t.Context(), "k"); !errors.Is(err, ErrNoQuorum) {
				t.Fatalf("TryAcquire = %v, want ErrNoQuorum: the node has just been seen", err)
			}
			time.Sleep(5 * time.Millisecond)
		}
	})
}
