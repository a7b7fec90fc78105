package redlock

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumlock/quorumlock/internal/node"
)

// The pitfalls are faults that other lock libraries have. The one in which a client plays a
// part is tested over all clients in test/integration.

// 1. The clean-up of a failed acquire dies with the caller's context, and the key stays
// on the good nodes for the whole TTL.
func TestPitfall01CleanUpOutlivesTheCallersContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 3, WithTTL(time.Hour))
		warm(t, locker)
		far(fakes, 100*time.Millisecond)
		ctx, cancel := context.WithTimeout(t.Context(), 70*time.Millisecond) // the keys are set, the answers under way
		defer cancel()
		if _, err := locker.TryAcquire(ctx, "k"); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("TryAcquire = %v, want the context's error", err)
		}
		if names := stray(fakes, "k"); len(names) != 3 {
			t.Fatalf("the test does not show the fault: keys at %v", names)
		}
		time.Sleep(200 * time.Millisecond)
		wantFree(t, fakes, "k")

		fakes[0].Stop()
		fakes[1].Stop()
		short, end := context.WithTimeout(t.Context(), 150*time.Millisecond)
		defer end()
		returns(t, context.DeadlineExceeded, "TryAcquire with two of three nodes silent")(locker.TryAcquire(short, "k"))
		time.Sleep(200 * time.Millisecond)
		wantFree(t, fakes[2:], "k", "where the others are silent still:")
		forEach(fakes[:2], (*fakeNode).Resume)
		time.Sleep(5 * time.Second)
		wantFree(t, fakes, "k")
	})
}

// 4. Returning at the quorum cancels the stragglers, which may have landed.
func TestPitfall04StragglersAreNotCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 5)
		warm(t, locker)
		for i, f := range fakes {
			f.Change(func(f *fakeNode) { f.Delay = time.Duration(i) * 20 * time.Millisecond })
		}
		for i := range 20 {
			key := fmt.Sprint("k", i)
			plant(fakes[:3], key, "somebody", time.Second)
			if _, err := locker.TryAcquire(t.Context(), key); !errors.Is(err, ErrTaken) {
				t.Fatalf("TryAcquire = %v, want ErrTaken", err)
			}
		}
		time.Sleep(2 * time.Second)
		for i := range 20 {
			wantFree(t, fakes, fmt.Sprint("k", i))
		}
	})
}

// 5. The deadline still lies in the future after a lost extension and after release.
func TestPitfall05UntilAndValidTellTheTruth(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 3, WithTTL(time.Second))
		warm(t, locker)
		lock, _ := locker.TryAcquire(t.Context(), "k")
		forEach(fakes, (*fakeNode).Stop)
		time.Sleep(800 * time.Millisecond)
		if err := lock.Extend(t.Context(), 10*time.Second); err == nil {
			t.Error("Extend over silent nodes succeeded")
		}
		if lock.Valid() || lock.Until().After(time.Now()) {
			t.Errorf("after the lost extension: valid %v, until %v from now", lock.Valid(), time.Until(lock.Until()))
		}
		forEach(fakes, (*fakeNode).Resume)
		time.Sleep(node.MaxCooldown)
		lock, err := locker.Acquire(t.Context(), "k2")
		must(t, err)
		mustRelease(t, lock)
		if lock.Valid() || lock.Until().After(time.Now()) {
			t.Errorf("after the release: valid %v, until %v from now", lock.Valid(), time.Until(lock.Until()))
		}
	})
}

// 6. An extension creates the lock anew after its expiry, after somebody else's whole
// tenure, and after its release.
func TestPitfall06AnExtensionDoesNotRaiseTheDead(t *testing.T) {
	for name, tt := range map[string]struct {
		before func(t *testing.T, other *Locker, lock *Lock)
		want   error
	}{
		"its expiry": {func(_ *testing.T, _ *Locker, lock *Lock) { <-lock.Context().Done(); time.Sleep(time.Second) }, ErrLost},
		"another's tenure": {func(t *testing.T, other *Locker, _ *Lock) {
			theirs, err := other.Acquire(t.Context(), "k")
			must(t, err)
			mustRelease(t, theirs)
		}, ErrLost},
		"its release": {func(t *testing.T, _ *Locker, lock *Lock) {
			mustRelease(t, lock)
		}, ErrReleased},
	} {
		synctest.Test(t, func(t *testing.T) {
			fakes, nodes := fakeNodes(3)
			locker, _ := New(nodes, WithTTL(time.Second), WithoutRenewal())
			defer locker.Close()
			other, _ := New(nodes, WithTTL(time.Second), WithoutRenewal())
			defer other.Close()
			lock := mustTry(t, locker, "k")
			tt.before(t, other, lock)
			returns(t, tt.want, "Extend after", name)(lock.Extend(t.Context(), time.Minute))
			synctest.Wait()
			wantFree(t, fakes, "k", name)
		})
	}
}

// 7. A SET whose reply was lost is sent again, and refused by itself.
func TestPitfall07OurOwnTokenCountsAsHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 3)
		warm(t, locker)
		changeAll(fakes, func(f *fakeNode) { f.Delay, f.Lose = 100*time.Millisecond, once("SET") })
		time.Sleep(time.Second) // a Locker's clock begins at 0, which would say that nothing has left
		start := time.Now()
		lock, err := locker.TryAcquire(t.Context(), "k")
		must(t, err, "TryAcquire whose replies were lost")
		if want := start.Add(10*time.Second - 102*time.Millisecond); !lock.Until().Equal(want) {
			t.Errorf("Until = start + %v, want it to count from the first sending, which has set the key", lock.Until().Sub(start))
		}
	})
}

// 9. A TTL below 1ms deletes the key and reports success.
func TestPitfall09ATTLBelowTheMinimumIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 3)
		lock := mustAcquire(t, locker, "k")
		calls := fakes[0].Batches()
		for _, ttl := range []time.Duration{-1, 0, 1, time.Microsecond, time.Millisecond, minTTL - 1, 999500 * time.Nanosecond, 1500 * time.Microsecond, maxTTL + 1, 1 << 62} {
			returns(t, ErrOption, "Extend to", ttl)(lock.Extend(t.Context(), ttl))
			returns(t, ErrOption, "TryAcquire for", ttl)(locker.TryAcquire(t.Context(), "k2", WithTTL(ttl)))
		}
		synctest.Wait()
		if fakes[0].Batches() != calls || !lock.Valid() {
			t.Error("a refused TTL was sent, or cost the lock")
		}
	})
}

// 10. Loss is noticed at the new deadline, so that two holders overlap.
func TestPitfall10TheContextEndsAtTheOldDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 3, WithTTL(time.Second), WithNodeTimeout(900*time.Millisecond))
		warm(t, locker)
		lock, _ := locker.TryAcquire(t.Context(), "k")
		ctx, until := lock.Context(), lock.Until()
		forEach(fakes, (*fakeNode).Stop)
		time.Sleep(500 * time.Millisecond)
		go func() {
			returns(t, ErrLost)(lock.Extend(t.Context(), 10*time.Second))
		}()
		<-ctx.Done()
		if !time.Now().Equal(until) {
			t.Errorf("with an extension under way on a silent link the context ended %v after the deadline", time.Since(until))
		}
		time.Sleep(time.Second)
		forEach(fakes, (*fakeNode).Resume)
	})
}

// 11. One foreign key at a minority blocks the lock for everybody.
func TestPitfall11AForeignKeyAtAMinorityChangesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 5)
		fakes[0].Plant("k", "foreign", time.Hour)
		fakes[4].Plant("k", "foreign", time.Hour)
		lock := mustTry(t, locker, "k")
		noError(t, lock.Extend(t.Context(), time.Minute))
		noError(t, lock.Release())
		if token, _ := fakes[0].Token("k"); token != "foreign" {
			t.Error("the foreign key was deleted")
		}
	})
}

// 12. Waiting hides real errors.
func TestPitfall12WaitingDoesNotHideWhatWaitingCannotMend(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 3)
		changeAll(fakes[:2], func(f *fakeNode) { f.Answer = refusing("WRONGPASS invalid username-password pair") })
		began := time.Now()
		_, err := locker.Acquire(t.Context(), "k", WithMaxWait(time.Minute))
		if !errors.Is(err, ErrNoQuorum) || errors.Is(err, ErrTaken) || time.Since(began) > 0 {
			t.Errorf("Acquire = %v after %v, want ErrNoQuorum at once", err, time.Since(began))
		}
		changeAll(fakes[:2], func(f *fakeNode) { f.Answer = refusing("READONLY You can't write against a read only replica.") })
		_, err = locker.Acquire(t.Context(), "k", WithMaxWait(time.Minute), WithMaxOutage(3*time.Second))
		says(t, ErrNoQuorum, "node-1", "node-2", "READONLY", "give the master's address")(err)
		wantWithin(t, 4*time.Second, began, "Acquire against replicas, which may be promoted, with WithMaxOutage(3s)")
	})
}

// 13. 1,024 goroutines on keys of their own deadlock inside the library.
func TestPitfall13TenThousandCallersDoNotDeadlock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 3)
		far(fakes, time.Millisecond)
		var group sync.WaitGroup
		for i := range some(10_000) {
			group.Go(func() {
				noError(t, passing(locker.TryAcquire(t.Context(), fmt.Sprint("k", i))))
			})
		}
		group.Wait()
	})
}

// 14. A lock is returned that had expired before the call ended.
func TestPitfall14NoLockIsReturnedThatHasExpired(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 3, WithTTL(100*time.Millisecond), WithNodeTimeout(99*time.Millisecond))
		warm(t, locker)
		far(fakes, 98*time.Millisecond)
		lock, err := locker.TryAcquire(t.Context(), "k")
		if !errors.Is(err, ErrExpired) || errors.Is(err, ErrNoQuorum) || errors.Is(err, ErrTaken) {
			t.Errorf("TryAcquire = %v, %v: a quorum after 98 of 100ms, with 3ms of drift, is ErrExpired", lock, err)
		}
		time.Sleep(time.Second)
		wantFree(t, fakes, "k")
	})
}

// 15. A retry with one's own live token fails, and its clean-up deletes the live lock.
func TestPitfall15ARetryWithOnesOwnTokenNeverHarmsTheLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 3)
		warm(t, locker)
		first := mustAcquire(t, locker, "k", WithToken("request-42"))
		// A retry that fails: two of three nodes are down meanwhile.
		changeAll(fakes[:2], refuse)
		returns(t, ErrNoQuorum, "the retry")(locker.TryAcquire(t.Context(), "k", WithToken("request-42")))
		changeAll(fakes[:2], func(f *fakeNode) { f.Refused = nil })
		time.Sleep(node.MaxCooldown)
		synctest.Wait()
		if names := stray(fakes, "k"); len(names) != 3 {
			t.Errorf("after the failed retry the live lock is only at %v", names)
		}
		// A retry that succeeds prolongs, and never shortens.
		second, err := locker.TryAcquire(t.Context(), "k", WithToken("request-42"), WithTTL(time.Second))
		must(t, err, "the retry")
		synctest.Wait()
		if _, left := fakes[2].Token("k"); left < 8*time.Second {
			t.Errorf("the retry with a shorter TTL has cut the lease to %v", left)
		}
		noError(t, second.Release())
		returns(t, ErrReleased, "a late retry after the release")(locker.TryAcquire(t.Context(), "k", WithToken("request-42")))
		wantHeld(t, first, false)
		time.Sleep(11 * time.Second)
		returns(t, nil, "the token one TTL after its release")(locker.TryAcquire(t.Context(), "k", WithToken("request-42")))
	})
}

// 16. All failures become "taken by another".
func TestPitfall16FourFailuresAreFourErrors(t *testing.T) {
	all := map[string]error{"held": ErrTaken, "no quorum": ErrNoQuorum, "expired": ErrExpired, "context": context.DeadlineExceeded}
	for name, prepare := range map[string]func(f *fakeNode){
		"held":      func(f *fakeNode) { f.Put("k", "somebody", time.Hour) },
		"no quorum": refuse,
		"expired":   func(f *fakeNode) { f.Delay = 989 * time.Millisecond },
		"context":   func(f *fakeNode) { f.Delay = 989 * time.Millisecond },
	} {
		synctest.Test(t, func(t *testing.T) {
			locker, fakes := newLocker(t, 3, WithTTL(time.Second), WithNodeTimeout(995*time.Millisecond))
			warm(t, locker)
			changeAll(fakes, prepare)
			ctx := t.Context()
			if name == "context" {
				short, cancel := context.WithTimeout(ctx, 10*time.Millisecond)
				defer cancel()
				ctx = short
			}
			_, err := locker.TryAcquire(ctx, "k")
			for other, sentinel := range all {
				want := other == name || name == "context" && other == "no quorum"
				if errors.Is(err, sentinel) != want {
					t.Errorf("%s: TryAcquire = %v; matches %v: %v", name, err, sentinel, !want)
				}
			}
		})
	}
}

// 17. With an even number of nodes, one yes and one error, the call never returns.
func TestPitfall17EveryEvenNumberDecides(t *testing.T) {
	for n := 2; n <= 8; n += 2 {
		for down := range n + 1 {
			synctest.Test(t, func(t *testing.T) {
				locker, fakes := newLocker(t, n)
				changeAll(fakes[:down], refuse)
				want := error(nil)
				if n-down < n/2+1 {
					want = ErrNoQuorum
				}
				returns(t, want, down, "of", n, "down: TryAcquire")(locker.TryAcquire(t.Context(), "k"))
			})
		}
	}
}

// 20. A released lock's late retry deletes the next holder's key.
func TestPitfall20ALateReleaseDoesNotDeleteTheNextHoldersKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 3)
		warm(t, locker)
		lock, _ := locker.TryAcquire(t.Context(), "k")
		synctest.Wait()
		late := fakes[0]
		late.Stop()
		noError(t, lock.Release())
		next := mustTry(t, locker, "k")
		late.Resume()
		time.Sleep(5 * time.Second)
		synctest.Wait()
		wantHeld(t, next, true)
		if token, _ := late.Token("k"); token == lock.Token() {
			t.Error("the late release has left its own key")
		}
	})
}

// 25. A mutable lock object without synchronisation.
func TestPitfall25ALockMayBeUsedFromAnyGoroutine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, _ := newLocker(t, 3)
		lock, _ := locker.TryAcquire(t.Context(), "k")
		released := make(chan error, 4)
		var group sync.WaitGroup
		for range 4 {
			group.Go(func() { _ = lock.Extend(t.Context(), time.Minute) })
			group.Go(func() { _, _, _ = lock.Until(), lock.Valid(), lock.Votes() })
			group.Go(func() { _, _ = lock.Confirm(t.Context()); <-lock.Context().Done() })
			group.Go(func() { released <- lock.Release() })
		}
		group.Wait()
		close(released)
		successes := 0
		for err := range released {
			if err == nil {
				successes++
			} else if !errors.Is(err, ErrReleased) {
				t.Errorf("a second Release = %v, want ErrReleased", err)
			}
		}
		if successes != 1 {
			t.Errorf("%d of 4 releases succeeded, want one", successes)
		}
	})
}

// Where readers share one lease, those who read keep one alive that has crashed, and a writer out.
func TestPitfall23AReaderThatHasCrashedAndAStreamOfOthersKeepNoWriterOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const ttl = 2 * time.Second
		locker, fakes := newLocker(t, 3)
		crashed := mustShare(t, another(t, fakes), "k", WithTTL(ttl)) // it is neither renewed nor released
		begun := time.Now()
		ctx, cancel := context.WithCancel(t.Context())
		reads, over := readers(ctx, t, []*Locker{another(t, fakes), locker}, 8, 50*time.Millisecond)
		defer over.Wait()
		defer cancel()
		time.Sleep(ttl / 2)
		if reads() < 100 {
			t.Errorf("16 readers have read %d times in %v", reads(), ttl/2)
		}
		bounded, end := context.WithTimeout(ctx, time.Minute)
		defer end()
		writer, err := locker.Acquire(bounded, "k")
		must(t, err)
		if took := time.Since(begun); took < ttl || took > ttl+ttl/4 {
			t.Errorf("the writer has the key %v after a reader of %v has crashed, want it when that lease is over", took, ttl)
		}
		for _, f := range fakes {
			if slices.Contains(f.Sharers("k"), crashed.Token()) {
				t.Errorf("%s still has the reader that has crashed", f.Name())
			}
		}
		mustRelease(t, writer)
	})
}

// docs/pitfalls.md names the tests of each fault.
func TestThePitfallsAndTheirTestsAreOneList(t *testing.T) {
	text, err := os.ReadFile("../docs/pitfalls.md")
	must(t, err)
	named := regexp.MustCompile("`(TestPitfall\\d\\w+)`").FindAllStringSubmatch(string(text), -1)
	missing := map[string]bool{}
	for _, name := range named {
		missing[name[1]] = true
	}
	rows := regexp.MustCompile(`(?m)^\| (\d+) \|.*$`).FindAllStringSubmatch(string(text), -1)
	if len(rows) < 25 || len(missing) < 25 {
		t.Fatalf("docs/pitfalls.md names %d faults and %d tests", len(rows), len(missing))
	}
	for _, row := range rows {
		if name := fmt.Sprintf("`TestPitfall%02s", row[1]); !strings.Contains(row[0], name) {
			t.Errorf("fault %s has no test that is named by it", row[1])
		}
	}
	there := regexp.MustCompile(`(?m)^func (TestPitfall\d\w+)\(`)
	err = filepath.WalkDir("..", func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		file, err := os.ReadFile(path) //nolint:gosec // a test of this repository
		for _, name := range there.FindAllStringSubmatch(string(file), -1) {
			if !strings.Contains(string(text), "`"+name[1]+"`") {
				t.Errorf("%s: docs/pitfalls.md does not name %s", path, name[1])
			}
			delete(missing, name[1])
		}
		return err
	})
	must(t, err)
	for name := range missing {
		t.Errorf("docs/pitfalls.md names %s, which is not there", name)
	}
}
