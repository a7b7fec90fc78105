package redlock

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"regexp"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/internal/protocol"
	"github.com/quorumlock/quorumlock/internal/scripts"
)

func mustDowngrade(t *testing.T, lock *Lock) *Lock {
	t.Helper()
	reader, err := lock.Downgrade(t.Context())
	must(t, err)
	synctest.Wait()
	return reader
}

func mustUpgrade(t *testing.T, lock *Lock) *Lock {
	t.Helper()
	writer, err := lock.TryUpgrade(t.Context())
	must(t, err)
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
		returns(t, ErrReleased, "a second Downgrade")(writer.Downgrade(t.Context()))
		returns(t, ErrReleased, "Release of what is a reader now")(writer.Release())
		other := mustShare(t, another(t, fakes), "k")
		returns(t, ErrTaken, "TryAcquire beside it")(locker.TryAcquire(t.Context(), "k"))
		time.Sleep(time.Minute)
		wantHeld(t, reader, true)
		for _, lock := range []*Lock{reader, other} {
			_ = lock.Release() // the other one has expired
		}
		synctest.Wait()
		wantFree(t, fakes, "k")
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
		forEach(fakes, (*fakeNode).Stop)
		reader, err := writer.Downgrade(t.Context())
		if err != nil || !reader.Valid() || writer.Valid() {
			t.Fatalf("Downgrade of silent nodes = %v, %v; want a reader that is held", reader, err)
		}
		if d := reader.Until().Sub(until).Abs(); d > time.Millisecond {
			t.Errorf("the lease ends %v off that of the writer", d)
		}
		forEach(fakes, (*fakeNode).Resume)
		time.Sleep(2 * time.Second) // what the nodes did not answer is done by clean-ups
		for _, f := range fakes {
			if token, _ := f.Token("k"); token != protocol.SharedValue {
				t.Errorf("%s has not turned the writer into a reader", f.Name())
			}
		}
		noError(t, reader.Release())
		synctest.Wait()
		wantFree(t, fakes, "k")
	})
}

func TestTheReleaseOfADowngradeThatCameToNothingDeletesTheWriter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 3, WithTTL(10*time.Second))
		writer := mustAcquire(t, locker, "k")
		changeAll(fakes, func(f *fakeNode) {
			f.Answer = func(args []any) *driver.Reply {
				if len(args) > 1 && (args[1] == scripts.Share.Digest || args[1] == scripts.Share.Source) {
					return &driver.Reply{Kind: driver.Failure, Str: "OOM command not allowed when used memory > 'maxmemory'."}
				}
				return nil
			}
		})
		reader, err := writer.Downgrade(t.Context())
		must(t, err, "Downgrade where no node agrees")
		noError(t, reader.Release())
		synctest.Wait()
		wantFree(t, fakes, "k")
	})
}

func TestTheOnlyReaderBecomesTheWriter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 5, WithFences())
		reader := mustShare(t, locker, "k")
		work := reader.Context()
		time.Sleep(time.Second)
		writer := mustUpgrade(t, reader)
		if !errors.Is(context.Cause(work), ErrReleased) || reader.Valid() || !errors.Is(reader.Release(), ErrReleased) {
			t.Error("the reader is not over")
		}
		if writer.Fence() <= reader.Fence() || writer.Token() == reader.Token() {
			t.Errorf("the writer has the fence %d behind %d", writer.Fence(), reader.Fence())
		}
		if !writer.Until().After(reader.Until()) {
			t.Error("the writer has the reader's lease")
		}
		returns(t, ErrTaken, "TryAcquireShared beside it")(locker.TryAcquireShared(t.Context(), "k"))
		noError(t, writer.Extend(t.Context(), time.Minute))
		reader = mustDowngrade(t, writer)
		writer = mustUpgrade(t, reader)
		mustRelease(t, writer)
		synctest.Wait()
		wantFree(t, fakes, "k")
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
			if got := f.Sharers("k"); len(got) == 0 {
				t.Errorf("%s has no reader any more", f.Name())
			}
		}
		if held, err := reader.Confirm(t.Context()); !held || err != nil || !reader.Valid() {
			t.Errorf("Held = %v, %v", held, err)
		}
		mustRelease(t, second)
		mustRelease(t, mustUpgrade(t, reader))
		synctest.Wait()
		wantFree(t, fakes, "k")
	})
}

func TestAnUpgradeIsRefusedUntilTheLastOneIsCleanedUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 3)
		reader := mustShare(t, locker, "k")
		forEach(fakes, (*fakeNode).Stop)
		if _, err := reader.TryUpgrade(t.Context()); !errors.Is(err, ErrNoQuorum) {
			t.Fatalf("TryUpgrade of silent nodes = %v, want ErrNoQuorum", err)
		}
		if _, err := reader.TryUpgrade(t.Context()); !errors.Is(err, ErrContended) {
			t.Fatalf("the next TryUpgrade = %v, want ErrContended", err)
		}
		forEach(fakes, (*fakeNode).Resume)
		time.Sleep(3 * time.Second)
		for _, f := range fakes {
			if got := f.Sharers("k"); len(got) != 1 || got[0] != reader.Token() {
				t.Errorf("%s has the readers %v, want the one", f.Name(), got)
			}
		}
		noError(t, reader.Release())
		time.Sleep(time.Minute)
		wantFree(t, fakes, "k")
	})
}

func TestADowngradeWakesTheReadersThatWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 3, WithTTL(time.Minute))
		for name, l := range map[string]*Locker{"the same process": locker, "another": another(t, fakes)} {
			writer := mustAcquire(t, locker, "k")
			got := make(chan *Lock, 2)
			for range 2 {
				go func() {
					lock, err := l.AcquireShared(t.Context(), "k")
					noError(t, err)
					got <- lock
				}()
			}
			time.Sleep(time.Second)
			began := time.Now()
			reader := mustDowngrade(t, writer)
			for range 2 {
				lock := <-got
				wantWithin(t, 100*time.Millisecond, began, "a reader in", name, "waited for")
				_ = lock.Release()
			}
			_ = reader.Release()
			synctest.Wait()
		}
	})
}

// upgradeGivenUp asks for an upgrade, and gives up before a node has answered.
func upgradeGivenUp(t *testing.T, reader *Lock) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if _, err := reader.TryUpgrade(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("TryUpgrade that was given up = %v", err)
	}
}

func TestAReaderIsExtendedRightBehindAnUpgradeThatWasGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 3)
		reader := mustShare(t, locker, "k")
		far(fakes, 10*time.Millisecond)
		upgradeGivenUp(t, reader)
		noError(t, reader.Extend(t.Context(), time.Minute), "Extend behind it")
		upgradeGivenUp(t, reader)
		wantHeld(t, reader, true)
		upgradeGivenUp(t, reader)
		mustRelease(t, reader)
		wantFree(t, fakes, "k")
	})
}

// The nodes' leases end behind the reader's deadline, by the drift that clocks are allowed.
func TestAnUpgradeThatIsGrantedBehindTheReadersDeadlineIsNone(t *testing.T) {
	besideADeadline(t, func(t *testing.T, reader *Lock, trip time.Duration) {
		time.Sleep(time.Until(reader.Until()) - trip*3/4) // a quarter of the trip before it, the nodes make the reader the writer
		returns(t, ErrLost, "TryUpgrade")(reader.TryUpgrade(t.Context()))
	})
}

func TestAReaderThatIsPutBackBehindItsDeadlineDoesNotStay(t *testing.T) {
	besideADeadline(t, func(t *testing.T, reader *Lock, trip time.Duration) {
		time.Sleep(time.Until(reader.Until()) - trip*5/4) // the upgrade is undone by a command that leaves before it, and runs behind it
		upgradeGivenUp(t, reader)
		time.Sleep(3 * trip)
		wantHeld(t, reader, false)
	})
}

// besideADeadline does something to a reader of distant nodes, which have nothing of it a second later.
func besideADeadline(t *testing.T, do func(t *testing.T, reader *Lock, trip time.Duration)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		const ttl, trip = 10 * time.Second, 100 * time.Millisecond
		locker, fakes := newLocker(t, 3, WithTTL(ttl))
		warm(t, locker)
		reader := mustDowngrade(t, mustUpgrade(t, mustShare(t, locker, "k"))) // the nodes know the scripts now
		far(fakes, trip)
		do(t, reader, trip)
		time.Sleep(time.Second)
		wantFree(t, fakes, "k")
	})
}

func TestAHoldIsNotLostToItsOwnUpgradeThatRunsLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 3, WithTTL(time.Minute))
		reader := mustShare(t, locker, "k")
		far(fakes, 10*time.Millisecond)
		upgradeGivenUp(t, reader)
		time.Sleep(time.Second)
		plant(fakes, "k", reader.hold.Others()[0].Token, time.Minute)
		if err := reader.Extend(t.Context(), time.Minute); !errors.Is(err, ErrNoQuorum) || errors.Is(err, ErrLost) {
			t.Errorf("Extend at nodes that have the writer = %v, want ErrNoQuorum and not ErrLost", err)
		}
		if held, err := reader.Confirm(t.Context()); held || !errors.Is(err, ErrNoQuorum) {
			t.Errorf("Held at nodes that have the writer = %v, %v; want ErrNoQuorum", held, err)
		}
	})
}

func TestAnUpgradeThatWasGivenUpFreesNoKeyThatIsAbandoned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 3, WithTTL(time.Minute))
		reader := mustShare(t, locker, "k")
		far(fakes, 10*time.Millisecond)
		upgradeGivenUp(t, reader)
		must(t, reader.Abandon())
		time.Sleep(10 * time.Second)
		if names := stray(fakes, "k"); len(names) != 3 {
			t.Errorf("the abandoned key is at %v, want all nodes", names)
		}
	})
}

func TestAReaderWhoseDowngradeWasGivenUpIsExtendedAndReleased(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 3, WithTTL(time.Minute))
		far(fakes, 10*time.Millisecond)
		for _, extends := range []bool{true, false} {
			writer := mustAcquire(t, locker, "k")
			go func() { _ = writer.Extend(t.Context(), time.Minute) }() // it is what the downgrade waits behind
			time.Sleep(time.Millisecond)
			ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
			reader, err := writer.Downgrade(ctx)
			cancel()
			must(t, err, "Downgrade that was given up")
			if extends {
				noError(t, reader.Extend(t.Context(), time.Minute), "Extend behind it")
			}
			mustRelease(t, reader)
			wantFree(t, fakes, "k")
		}
	})
}

func TestADowngradeThatWasGivenUpLeavesTheKeyToAReaderWhoHadWaitedInLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 3, WithTTL(time.Minute))
		other := another(t, fakes)
		far(fakes, 10*time.Millisecond)
		fakes[2].Change(refuse) // or its ticket would be taken away there
		first := mustTry(t, other, "k")
		got := waitFor(t.Context(), locker)
		time.Sleep(time.Second)
		mustRelease(t, first)
		writer := mustGet(t, got).lock
		go func() { _ = writer.Extend(t.Context(), time.Minute) }() // it is what the downgrade waits behind
		time.Sleep(time.Millisecond)
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		reader, err := writer.Downgrade(ctx)
		must(t, err, "Downgrade that was given up")
		time.Sleep(5 * time.Second) // longer than a ticket without its waiter stays
		returns(t, ErrTaken, "TryAcquire beside the reader")(other.TryAcquire(t.Context(), "k"))
		wantNobodyInLine(t, fakes)
		mustRelease(t, mustShare(t, other, "k"))
		mustRelease(t, reader)
		wantFree(t, fakes, "k")
	})
}

func TestADowngradeOfALockThatOthersHaveIsALoss(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		told := newLedger(t)
		locker, fakes := newLocker(t, 3, WithHooks(told.hooks()))
		writer := mustAcquire(t, locker, "k")
		plant(fakes, "k", "another", time.Minute)
		reader, err := writer.Downgrade(t.Context())
		if !errors.Is(err, ErrLost) || errors.Is(err, ErrTaken) || reader != nil {
			t.Errorf("Downgrade = %v, %v; want ErrLost, not ErrTaken", reader, err)
		}
		noError(t, locker.Close())
		told.settle(2, 1) // the reader that nobody gets is no lock for the hooks either
	})
}

func TestADowngradeOfSeveralKeysOrPermitsIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 3)
		set, err := locker.AcquireAll(t.Context(), []string{"a", "b"})
		must(t, err)
		synctest.Wait()
		for text, lock := range map[string]*Lock{
			"redlock: Downgrade: readers share one key, and this lock has 2: release it, and AcquireShared the keys one by one":               set,
			`redlock: Downgrade: readers do not share permits, and this lock has some of "s": release it, and AcquireShared a key of its own`: mustTake(t, newSemaphore(t, locker, 2)),
		} {
			before := fakes[0].Batches()
			if reader, err := lock.Downgrade(t.Context()); reader != nil || !errors.Is(err, ErrOption) || err.Error() != text {
				t.Errorf("Downgrade of %v = %v, %v, want %q", lock, reader, err, text)
			}
			if after := fakes[0].Batches(); after != before || !lock.Valid() {
				t.Errorf("a Downgrade that is refused has sent %d batches, and %v is valid: %v", after-before, lock, lock.Valid())
			}
		}
	})
}

var conversionRounds = flag.Int("conversion.rounds", 8, "how many random rounds of conversions are looked at for keys that nobody holds")

// leftAt returns what the nodes have of keys that begin with the prefix, readers and those in line
// included.
func leftAt(fakes []*fakeNode, prefix string) (left []string) {
	begins := regexp.MustCompile(`^(ql:\w+[:=])?\{?` + prefix).MatchString
	changeAll(fakes, func(f *fakeNode) {
		for key := range f.Keys {
			if held, ok := f.Get(key); ok && begins(key) {
				left = append(left, fmt.Sprintf("%s has %q for %v: %s", f.Name(), key, held.Until.Sub(f.Now()), held.Token))
			}
		}
		for set, readers := range f.Readers {
			for token, until := range readers {
				if until.After(f.Now()) && begins(set) {
					left = append(left, fmt.Sprintf("%s has the reader %s in %q", f.Name(), token, set))
				}
			}
		}
		for line, tickets := range f.Lines {
			for name, ticket := range tickets {
				if ticket.Until.After(f.Now()) && begins(line) {
					left = append(left, fmt.Sprintf("%s has %s in %q", f.Name(), name, line))
				}
			}
		}
	})
	return left
}

// Two processes, each of which shares a key, asks in vain to be its writer, and releases it. No
// node keeps a reader behind the last release: the lease is a minute.
func TestReadersWhoseUpgradesFailLeaveNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, fakes := newLocker(t, 3)
		changeAll(fakes, func(f *fakeNode) { f.Delay, f.Jitter = time.Millisecond, 2*time.Millisecond })
		var all sync.WaitGroup
		for range 2 {
			locker := another(t, fakes, WithTTL(time.Minute))
			all.Go(func() {
				for range 200 {
					reader, err := locker.AcquireShared(t.Context(), "kept")
					if err != nil {
						t.Errorf("AcquireShared = %v", err)
						return
					}
					held := reader
					if writer, err := reader.TryUpgrade(t.Context()); err == nil {
						held = writer
					}
					noError(t, held.Release())
				}
			})
		}
		all.Wait()
		time.Sleep(100 * time.Millisecond) // for clean-ups
		if left := leftAt(fakes, "k"); left != nil {
			t.Errorf("behind the last release %v", left)
		}
	})
}

// A round of conversions is what several processes do with a few keys on nodes with faults.
type conversions struct {
	t     *testing.T
	fakes []*fakeNode
	who   *register
	ends  time.Time

	beside sync.WaitGroup // extensions
}

func TestConversionsLeaveNoKeyThatNobodyHolds(t *testing.T) {
	t.Parallel()
	for i := range some(*conversionRounds) {
		seed := rand.Uint64() //nolint:gosec // any will do
		synctest.Test(t, func(t *testing.T) { convertsAtRandom(t, seed, 3+2*(i%2), i%4 < 2) })
		if t.Failed() {
			t.Fatalf("in round %d, with the seed %d", i, seed)
		}
	}
}

const (
	conversionLasts = 10 * time.Second
	// conversionSettles is how long clean-ups may take once the nodes are well: two node time-outs,
	// and the pauses between tries.
	conversionSettles = 5 * time.Second
)

func convertsAtRandom(t *testing.T, seed uint64, size int, fences bool) {
	options := []Option{WithTTL(time.Minute), WithMaxWait(500 * time.Millisecond), WithNodeTimeout(50 * time.Millisecond)}
	if fences {
		options = append(options, WithFences())
	}
	fakes, _ := fakeNodes(size)
	r := conversions{t: t, fakes: fakes, who: newRegister(t), ends: time.Now().Add(conversionLasts)}
	random := func(which uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, which)) } //nolint:gosec // it has to be repeatable
	chaos := random(0)
	changeAll(fakes, func(f *fakeNode) {
		f.Delay, f.Jitter = time.Millisecond, time.Duration(1+chaos.IntN(4))*time.Millisecond
	})
	var all sync.WaitGroup
	var lockers []*Locker
	for i := range 3 {
		if i == 2 {
			options = append(options, WithFairness())
		}
		locker := another(t, fakes, options...)
		lockers = append(lockers, locker)
		for j := range 2 {
			all.Go(func() { r.work(locker, random(uint64(10*i+j+1))) }) //nolint:gosec // it is small
		}
	}
	all.Go(func() { r.faults(chaos) })
	all.Wait()
	r.beside.Wait()
	noError(t, lockers[0].Close())
	time.Sleep(conversionSettles)
	if left := leftAt(fakes, "k"); left != nil {
		t.Errorf("%v behind the last release %v", conversionSettles, left)
	}
}

// faults makes a minority of the nodes lose replies and connections, and stop, until the round
// ends.
func (r *conversions) faults(rng *rand.Rand) {
	pause := func(most int) { time.Sleep(time.Duration(rng.IntN(most)) * time.Millisecond) }
	for time.Now().Before(r.ends) {
		pause(500)
		f := r.fakes[rng.IntN(len(r.fakes))]
		switch rng.IntN(6) {
		case 0:
			f.Stop() // and what it was sent it runs in another order
			pause(200)
			f.Resume()
		case 1:
			loses := 1 + rng.IntN(4)
			f.Change(func(f *fakeNode) { f.Lose = func(string) bool { loses--; return loses >= 0 } })
		case 2:
			f.Change(func(f *fakeNode) { f.Cuts = 1 + rng.IntN(3) })
		case 3:
			f.Change(func(f *fakeNode) { f.Delay = 20 * time.Millisecond })
			pause(200)
			f.Change(func(f *fakeNode) { f.Delay = time.Millisecond })
		case 4:
			f.Change(func(f *fakeNode) { f.Answer = failing("EVALSHA", "OOM command not allowed") })
			pause(200)
			f.Change(func(f *fakeNode) { f.Answer = nil })
		case 5:
			f.Change(refuse)
			pause(200)
			f.Change(func(f *fakeNode) { f.Refused = nil })
		}
	}
}

// brief returns a context that sometimes ends within a few round trips.
func (r *conversions) brief(rng *rand.Rand) (context.Context, context.CancelFunc) {
	if rng.IntN(3) > 0 {
		return r.t.Context(), func() {}
	}
	return context.WithTimeout(r.t.Context(), time.Duration(1+rng.IntN(8000))*time.Microsecond)
}

// work acquires, converts and gives up locks until the round ends.
func (r *conversions) work(l *Locker, rng *rand.Rand) {
	for time.Now().Before(r.ends) {
		abandons := rng.IntN(50) == 0
		held, lasts := r.acquire(l, abandons, rng)
		if held == nil {
			continue
		}
		for range rng.IntN(4) {
			held = r.convert(held, lasts, rng)
			time.Sleep(time.Duration(rng.IntN(4)) * time.Millisecond)
		}
		if abandons {
			r.abandon(held)
			continue
		}
		if err := held.Release(); errors.Is(err, ErrLost) && lasts {
			r.t.Errorf("Release of %v = %v", held, err)
		}
	}
}

// acquire takes a lock of any kind; nil: in vain. A token of the user's own stays where a try has failed, and so has a
// short lease, which may not last.
func (r *conversions) acquire(l *Locker, abandons bool, rng *rand.Rand) (held *Lock, lasts bool) {
	key := fmt.Sprint("k", rng.IntN(2))
	if abandons {
		key = fmt.Sprint("abandoned", rng.Uint64())
	}
	ctx, cancel := r.brief(rng)
	defer cancel()
	acquire, options, lasts := l.Acquire, []AcquireOption(nil), true
	switch kind := rng.IntN(16); {
	case kind < 8:
		acquire = l.AcquireShared
	case abandons:
	case kind < 10:
		acquire = func(ctx context.Context, _ string, options ...AcquireOption) (*Lock, error) {
			return l.AcquireAll(ctx, []string{"k0", "k1"}, options...)
		}
	case kind < 11:
		options, lasts = append(options, WithToken(fmt.Sprint("own", rng.Uint64())), WithTTL(300*time.Millisecond)), false
	case kind < 12:
		options, lasts = append(options, WithTTL(200*time.Millisecond), WithMaxHold(300*time.Millisecond)), false
	case kind < 14:
		acquire = l.TryAcquire
	}
	before := r.who.asks(key)
	held, err := acquire(ctx, key, options...)
	if err != nil {
		if errors.Is(err, ErrOption) {
			r.t.Error(err)
		}
		return nil, false
	}
	r.who.has(held, before)
	return held, lasts
}

// convert does one thing with a hold, and returns what it is then.
func (r *conversions) convert(held *Lock, lasts bool, rng *rand.Rand) *Lock {
	ctx, cancel := r.brief(rng)
	defer cancel()
	if rng.IntN(3) == 0 {
		r.beside.Go(func() { _ = held.Extend(r.t.Context(), time.Minute) })
		time.Sleep(time.Duration(rng.IntN(500)) * time.Microsecond)
	}
	switch {
	case rng.IntN(3) == 0:
		if err := held.Extend(ctx, time.Minute); errors.Is(err, ErrLost) && lasts {
			r.t.Errorf("Extend of %v = %v", held, err)
		}
	case held.Shared():
		before := r.who.asks(held.Key())
		if upgraded, err := held.TryUpgrade(ctx); err == nil {
			r.who.has(upgraded, before)
			return upgraded
		}
	default:
		before := r.who.asks(held.Key())
		if downgraded, err := held.Downgrade(ctx); downgraded != nil {
			r.who.has(downgraded, before)
			return downgraded
		} else if ctx.Err() == nil && lasts && len(held.Keys()) == 1 {
			r.t.Errorf("Downgrade = %v", err)
		}
	}
	return held
}

// abandon leaves a key to its TTL: nobody else gets it.
func (r *conversions) abandon(held *Lock) {
	if err := held.Abandon(); err != nil {
		r.t.Errorf("Abandon = %v", err)
	}
	time.Sleep(conversionSettles)
	count := 0
	for _, f := range r.fakes {
		if token, _ := f.Token(held.Key()); token == held.Token() || token == protocol.SharedValue {
			count++
		}
	}
	if count <= len(r.fakes)/2 {
		r.t.Errorf("%v behind Abandon %d nodes have the key", conversionSettles, count)
	}
}
