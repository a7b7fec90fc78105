package redlock

import (
	"testing"
	"testing/synctest"
	"time"
)

func isWanted(lock *Lock) bool {
	select {
	case <-lock.Wanted():
		return true
	default:
		return false
	}
}

func TestAHolderLearnsThatSomebodyWaits(t *testing.T) {
	for name, take := range kindsOfLocks {
		for who, ours := range map[string]bool{"in its Locker": true, "in another": false} {
			bubble(t, name+" "+who, func(t *testing.T) {
				locker, fakes := newLocker(t, 3, WithTTL(time.Hour))
				other := locker
				if !ours {
					other = another(t, fakes, WithTTL(time.Hour))
					warm(t, other)
				}
				lock, err := take(locker, t.Context())
				must(t, err)
				isWanted(lock)
				time.Sleep(time.Minute)
				if isWanted(lock) {
					t.Error("a lock is wanted for which nobody waits")
				}
				if got := fakes[0].Count("PUBSUB"); got == 0 || got > 45 {
					t.Errorf("a node of three was asked %d times in a minute for whoever waits, want 40 times", got)
				}
				for range 3 { // or a permit may be free
					go func() {
						if lock.Shared() { // another reader waits for nobody
							_, _ = other.Acquire(t.Context(), "k")
							return
						}
						_, _ = take(other, t.Context()) // until the Locker is closed
					}()
				}
				time.Sleep(2 * wantedPeriod)
				synctest.Wait()
				if !isWanted(lock) {
					t.Error("somebody waits for the lock, and its holder was not told")
				}
			})
		}
	}
}

func TestALockThatIsOverIsNotWanted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 3)
		lock := mustAcquire(t, locker, "k")
		isWanted(lock)
		mustRelease(t, lock)
		time.Sleep(wantedPeriod)
		before := fakes[0].Count("PUBSUB") + fakes[1].Count("PUBSUB") + fakes[2].Count("PUBSUB")
		mustAcquire(t, locker, "k")
		waitFor(t.Context(), locker)
		time.Sleep(time.Second)
		if isWanted(lock) || fakes[0].Count("PUBSUB")+fakes[1].Count("PUBSUB")+fakes[2].Count("PUBSUB") != before {
			t.Error("the nodes are asked who waits for a lock that is over, or it is wanted")
		}
	})
}
