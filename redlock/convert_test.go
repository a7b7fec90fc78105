package redlock

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/internal/protocol"
	"github.com/quorumlock/quorumlock/internal/scripts"
)

func mustDowngrade(t *testing.T, lock *Lock) *SharedLock {
	t.Helper()
	reader, err := lock.Downgrade(t.Context())
	if err != nil {
		t.Fatalf("Downgrade = %v", err)
	}
	synctest.Wait()
	return reader
}

func mustUpgrade(t *testing.T, lock *SharedLock) *Lock {
	t.Helper()
	writer, err := lock.TryUpgrade(t.Context())
	if err != nil {
		t.Fatalf("TryUpgrade = %v", err)
	}
	synctest.Wait()
	return writer
}

func TestADowngradeLetsReadersInAndNoWriter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 5, WithRenewal(), WithFences())
		writer := mustAcquire(t, locker, "k")
		work := writer.Context()
		reader := mustDowngrade(t, writer)
		if !errors.Is(context.Cause(work), ErrReleased) || writer.Valid() {
			t.Error("the writer is not over")
		}
		if reader.Fence() != writer.Fence() || reader.Token() == writer.Token() || reader.Key() != "k" {
			t.Error("the reader has another fence or key, or the same token")
		}
		if _, err := writer.Downgrade(t.Context()); !errors.Is(err, ErrReleased) {
			t.Errorf("a second Downgrade = %v, want ErrReleased", err)
		}
		if err := writer.Release(t.Context()); !errors.Is(err, ErrReleased) {
			t.Errorf("Release of what is a reader now = %v, want ErrReleased", err)
		}
		other := mustShare(t, another(t, fakes), "k")
		if _, err := locker.TryAcquire(t.Context(), "k"); !errors.Is(err, ErrTaken) {
			t.Errorf("TryAcquire beside it = %v, want ErrTaken", err)
		}
		time.Sleep(time.Minute)
		if held, err := reader.Held(t.Context()); !held || err != nil {
			t.Errorf("after a minute under renewal Held = %v, %v", held, err)
		}
		for _, lock := range []*SharedLock{reader, other} {
			_ = lock.Release(t.Context()) // the other one has expired
		}
		synctest.Wait()
		if names := stray(fakes, "k"); names != nil {
			t.Errorf("the key is left at %v", names)
		}
		if n := locker.board.Outstanding(); n != 0 {
			t.Errorf("%d clean-ups are left", n)
		}
	})
}

func TestADowngradeThatNoNodeAnswersKeepsTheLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 3, WithTTL(10*time.Second))
		writer := mustAcquire(t, locker, "k")
		until := writer.Until()
		for _, f := range fakes {
			f.stop()
		}
		reader, err := writer.Downgrade(t.Context())
		if !errors.Is(err, ErrNoQuorum) || reader == nil || !reader.Valid() || writer.Valid() {
			t.Fatalf("Downgrade of silent nodes = %v, %v; want ErrNoQuorum and a reader that is held", reader, err)
		}
		if d := reader.Until().Sub(until).Abs(); d > time.Millisecond {
			t.Errorf("the lease ends %v off that of the writer", d)
		}
		for _, f := range fakes {
			f.resume()
		}
		time.Sleep(2 * time.Second) // what the nodes did not answer is done by clean-ups
		for _, f := range fakes {
			if token, _ := f.token("k"); token != protocol.SharedValue {
				t.Errorf("%s has not turned the writer into a reader", f.name)
			}
		}
		if err := reader.Release(t.Context()); err != nil {
			t.Errorf("Release = %v", err)
		}
		synctest.Wait()
		if names := stray(fakes, "k"); names != nil {
			t.Errorf("the key is left at %v", names)
		}
	})
}

func TestTheReleaseOfADowngradeThatCameToNothingDeletesTheWriter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 3, WithTTL(10*time.Second))
		writer := mustAcquire(t, locker, "k")
		for _, f := range fakes {
			f.change(func(f *fakeNode) {
				f.answer = func(args []any) *driver.Reply {
					if len(args) > 1 && (args[1] == scripts.Share.Digest || args[1] == scripts.Share.Source) {
						return &driver.Reply{Kind: driver.Failure, Str: "OOM command not allowed when used memory > 'maxmemory'."}
					}
					return nil
				}
			})
		}
		reader, err := writer.Downgrade(t.Context())
		if err == nil || reader == nil {
			t.Fatalf("Downgrade = %v, %v; want a reader and an error", reader, err)
		}
		if err := reader.Release(t.Context()); err != nil {
			t.Errorf("Release = %v", err)
		}
		synctest.Wait()
		if names := stray(fakes, "k"); names != nil {
			t.Errorf("the key is left at %v", names)
		}
	})
}

func TestTheOnlyReaderBecomesTheWriter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 5, WithFences())
		reader := mustShare(t, locker, "k")
		work := reader.Context()
		time.Sleep(time.Second)
		writer := mustUpgrade(t, reader)
		if !errors.Is(context.Cause(work), ErrReleased) || reader.Valid() || !errors.Is(reader.Release(t.Context()), ErrReleased) {
			t.Error("the reader is not over")
		}
		if writer.Fence() <= reader.Fence() || writer.Token() == reader.Token() {
			t.Errorf("the writer has the fence %d behind %d", writer.Fence(), reader.Fence())
		}
		if !writer.Until().After(reader.Until()) {
			t.Error("the writer has the reader's lease")
		}
		if _, err := locker.TryAcquireShared(t.Context(), "k"); !errors.Is(err, ErrTaken) {
			t.Errorf("TryAcquireShared beside it = %v, want ErrTaken", err)
		}
		if err := writer.Extend(t.Context(), time.Minute); err != nil {
			t.Errorf("Extend = %v", err)
		}
		reader = mustDowngrade(t, writer)
		writer = mustUpgrade(t, reader)
		mustRelease(t, writer)
		synctest.Wait()
		if names := stray(fakes, "k"); names != nil {
			t.Errorf("the key is left at %v", names)
		}
	})
}

func TestAnUpgradeAmongReadersFailsAndLeavesTheLockShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 5)
		reader := mustShare(t, locker, "k")
		// The other one is at a quorum only, so two nodes take the upgrade.
		other := another(t, fakes[:3])
		second := mustShare(t, other, "k")
		if _, err := reader.TryUpgrade(t.Context()); !errors.Is(err, ErrTaken) {
			t.Fatalf("TryUpgrade among readers = %v, want ErrTaken", err)
		}
		synctest.Wait()
		for _, f := range fakes {
			if got := f.sharers(); len(got) == 0 {
				t.Errorf("%s has no reader any more", f.name)
			}
		}
		if held, err := reader.Held(t.Context()); !held || err != nil || !reader.Valid() {
			t.Errorf("Held = %v, %v", held, err)
		}
		if err := second.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		mustRelease(t, mustUpgrade(t, reader))
		synctest.Wait()
		if names := stray(fakes, "k"); names != nil {
			t.Errorf("the key is left at %v", names)
		}
	})
}

func TestTwoThatUpgradeAtOnceBothStayReaders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 3)
		one, two := mustShare(t, locker, "k"), mustShare(t, another(t, fakes), "k")
		results := make(chan error, 2)
		for _, lock := range []*SharedLock{one, two} {
			go func() { _, err := lock.TryUpgrade(t.Context()); results <- err }()
		}
		for range 2 {
			if err := <-results; !errors.Is(err, ErrTaken) {
				t.Errorf("TryUpgrade = %v, want ErrTaken", err)
			}
		}
		if !one.Valid() || !two.Valid() {
			t.Error("a reader was lost")
		}
	})
}

func TestAnUpgradeIsRefusedUntilTheLastOneIsCleanedUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 3)
		reader := mustShare(t, locker, "k")
		for _, f := range fakes {
			f.stop()
		}
		if _, err := reader.TryUpgrade(t.Context()); !errors.Is(err, ErrNoQuorum) {
			t.Fatalf("TryUpgrade of silent nodes = %v, want ErrNoQuorum", err)
		}
		if _, err := reader.TryUpgrade(t.Context()); !errors.Is(err, ErrContended) {
			t.Fatalf("the next TryUpgrade = %v, want ErrContended", err)
		}
		for _, f := range fakes {
			f.resume()
		}
		time.Sleep(3 * time.Second)
		for _, f := range fakes {
			if got := f.sharers(); len(got) != 1 || got[0] != reader.Token() {
				t.Errorf("%s has the readers %v, want the one", f.name, got)
			}
		}
		if err := reader.Release(t.Context()); err != nil {
			t.Errorf("Release = %v", err)
		}
		time.Sleep(time.Minute)
		if names := stray(fakes, "k"); names != nil {
			t.Errorf("the key is left at %v", names)
		}
	})
}

func TestAnUpgradeThatIsDecidedAfterTheReadersLeaseFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 3, WithTTL(time.Second), WithNodeTimeout(900*time.Millisecond))
		reader := mustShare(t, locker, "k")
		time.Sleep(800 * time.Millisecond)
		for _, f := range fakes {
			f.change(func(f *fakeNode) { f.delay = 300 * time.Millisecond })
		}
		if _, err := reader.TryUpgrade(t.Context()); !errors.Is(err, ErrLost) {
			t.Errorf("TryUpgrade that took longer than the lease = %v, want ErrLost", err)
		}
		time.Sleep(3 * time.Second)
		if names := stray(fakes, "k"); names != nil {
			t.Errorf("the key is left at %v", names)
		}
	})
}

func TestADowngradeWakesTheReadersThatWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 3, WithTTL(time.Minute))
		for name, l := range map[string]*Locker{"the same process": locker, "another": another(t, fakes)} {
			writer := mustAcquire(t, locker, "k")
			got := make(chan *SharedLock, 2)
			for range 2 {
				go func() {
					lock, err := l.AcquireShared(t.Context(), "k")
					if err != nil {
						t.Error(err)
					}
					got <- lock
				}()
			}
			time.Sleep(time.Second)
			began := time.Now()
			reader := mustDowngrade(t, writer)
			for range 2 {
				lock := <-got
				if took := time.Since(began); took > 100*time.Millisecond {
					t.Errorf("a reader in %s waited for %v after the downgrade", name, took)
				}
				_ = lock.Release(t.Context())
			}
			_ = reader.Release(t.Context())
			synctest.Wait()
		}
	})
}

// upgradeGivenUp asks for an upgrade, and gives up before a node has answered.
func upgradeGivenUp(t *testing.T, reader *SharedLock) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if _, err := reader.TryUpgrade(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("TryUpgrade that was given up = %v", err)
	}
}

// farAway makes a round trip to the nodes take 10ms.
func farAway(fakes []*fakeNode) {
	for _, f := range fakes {
		f.change(func(f *fakeNode) { f.delay = 10 * time.Millisecond })
	}
}

func TestAReaderIsExtendedRightBehindAnUpgradeThatWasGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 3)
		reader := mustShare(t, locker, "k")
		farAway(fakes)
		upgradeGivenUp(t, reader)
		if err := reader.Extend(t.Context(), time.Minute); err != nil {
			t.Errorf("Extend behind it = %v", err)
		}
		upgradeGivenUp(t, reader)
		if held, err := reader.Held(t.Context()); !held || err != nil {
			t.Errorf("Held behind it = %v, %v", held, err)
		}
		upgradeGivenUp(t, reader)
		mustRelease(t, reader)
		if names := stray(fakes, "k"); names != nil {
			t.Errorf("when Release has returned the key is left at %v", names)
		}
	})
}

func TestAHoldIsNotLostToItsOwnUpgradeThatRunsLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 3, WithTTL(time.Minute))
		reader := mustShare(t, locker, "k")
		farAway(fakes)
		upgradeGivenUp(t, reader)
		time.Sleep(time.Second)
		for _, f := range fakes {
			f.plant("k", reader.attempt.Others()[0].Token, time.Minute)
		}
		if err := reader.Extend(t.Context(), time.Minute); !errors.Is(err, ErrNoQuorum) || errors.Is(err, ErrLost) {
			t.Errorf("Extend at nodes that have the writer = %v, want ErrNoQuorum and not ErrLost", err)
		}
		if held, err := reader.Held(t.Context()); held || !errors.Is(err, ErrNoQuorum) {
			t.Errorf("Held at nodes that have the writer = %v, %v; want ErrNoQuorum", held, err)
		}
	})
}

func TestAnUpgradeThatWasGivenUpFreesNoKeyThatIsAbandoned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 3, WithTTL(time.Minute))
		reader := mustShare(t, locker, "k")
		farAway(fakes)
		upgradeGivenUp(t, reader)
		if err := reader.Abandon(); err != nil {
			t.Fatalf("Abandon = %v", err)
		}
		time.Sleep(10 * time.Second)
		if names := stray(fakes, "k"); len(names) != 3 {
			t.Errorf("the abandoned key is at %v, want all nodes", names)
		}
	})
}

func TestAReaderWhoseDowngradeWasGivenUpIsExtendedAndReleased(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 3, WithTTL(time.Minute))
		farAway(fakes)
		for _, extends := range []bool{true, false} {
			writer := mustAcquire(t, locker, "k")
			go func() { _ = writer.Extend(t.Context(), time.Minute) }() // it is what the downgrade waits behind
			time.Sleep(time.Millisecond)
			ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
			reader, err := writer.Downgrade(ctx)
			cancel()
			if reader == nil || !errors.Is(err, context.DeadlineExceeded) {
				t.Fatalf("Downgrade that was given up = %v, %v", reader, err)
			}
			if extends {
				if err := reader.Extend(t.Context(), time.Minute); err != nil {
					t.Errorf("Extend behind it = %v", err)
				}
			}
			mustRelease(t, reader)
			if names := stray(fakes, "k"); names != nil {
				t.Errorf("when Release has returned the key is left at %v", names)
			}
		}
	})
}

func TestADowngradeOfALockThatOthersHaveIsALoss(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 3)
		writer := mustAcquire(t, locker, "k")
		for _, f := range fakes {
			f.plant("k", "another", time.Minute)
		}
		reader, err := writer.Downgrade(t.Context())
		if !errors.Is(err, ErrLost) || errors.Is(err, ErrTaken) || reader == nil {
			t.Errorf("Downgrade = %v, %v; want ErrLost, not ErrTaken, and a reader", reader, err)
		}
	})
}
