package redlock

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumlock/quorumlock/internal/protocol"
)

// readers keeps count readers of each Locker busy until the context ends: each reads for about
// the time, again and again. It returns how often they have read.
func readers(ctx context.Context, t *testing.T, lockers []*Locker, count int, busy time.Duration) (reads func() int, over *sync.WaitGroup) {
	t.Helper()
	var mu sync.Mutex
	sum := 0
	over = new(sync.WaitGroup)
	for _, l := range lockers {
		for range count {
			over.Go(func() {
				for ctx.Err() == nil {
					lock, err := l.AcquireShared(ctx, "k")
					if err != nil {
						if ctx.Err() == nil {
							t.Errorf("AcquireShared = %v", err)
						}
						return
					}
					time.Sleep(busy/2 + rand.N(busy)) //nolint:gosec // it is no secret
					_ = lock.Release()
					mu.Lock()
					sum++
					mu.Unlock()
				}
			})
		}
	}
	return func() int { mu.Lock(); defer mu.Unlock(); return sum }, over
}

func TestAWriterIsServedUnderAnyStreamOfReaders(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 3)
		far(fakes, time.Millisecond)
		lockers := []*Locker{another(t, fakes), another(t, fakes), locker}
		ctx, cancel := context.WithCancel(t.Context())
		reads, over := readers(ctx, t, lockers, 32, 50*time.Millisecond)
		time.Sleep(time.Second)
		for range some(16) {
			began, before := time.Now(), reads()
			bounded, end := context.WithTimeout(ctx, 2*time.Second)
			writer, err := lockers[0].Acquire(bounded, "k")
			end()
			if took := time.Since(began); err != nil || took > 150*time.Millisecond {
				t.Fatalf("a writer waited for %v: %v", took, err)
			}
			_ = writer.Release()
			time.Sleep(200 * time.Millisecond)
			if reads() < before+2*96 {
				t.Errorf("96 readers have read %d times in 200 ms behind the write", reads()-before)
			}
		}
		cancel()
		over.Wait()
	})
}

// inLineOf returns the classes of the tickets in a line, as most nodes have it: what a quorum has
// refused may be sent to no other node any more.
func inLineOf(fakes []*fakeNode, name string) string {
	count := map[string]int{}
	for _, f := range fakes {
		class := ""
		f.Change(func(f *fakeNode) {
			for _, ticket := range f.Line(name) {
				class += ticket[:1]
			}
		})
		if count[class]++; count[class] > len(fakes)/2 {
			return class
		}
	}
	return fmt.Sprint(count)
}

func TestAWriterStandsInLineUntilItHasTheKeyOrGivesUp(t *testing.T) {
	for _, fair := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			var options []Option
			if fair {
				options = []Option{WithFairness()}
			}
			locker, fakes := newLocker(t, 3, options...)
			far(fakes, time.Millisecond) // or a node is not asked any more when two have refused, and its ticket is missing
			other := another(t, fakes)
			for _, gives := range []bool{false, true} {
				reader := mustShare(t, other, "k", WithTTL(time.Hour))
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				got := waitFor(ctx, locker)
				time.Sleep(3 * time.Second) // its ticket is renewed
				if at := inLineOf(fakes, "ql:line:{k}"); at != "x" {
					t.Errorf("in line are %q, want a writer", at)
				}
				returns(t, ErrTaken, "a newcomer's TryAcquireShared behind a writer")(other.TryAcquireShared(t.Context(), "k"))
				noError(t, reader.Extend(t.Context(), time.Minute), "Extend of one who is there")
				newcomer := make(chan *Lock)
				go func() {
					lock, err := other.AcquireShared(t.Context(), "k")
					noError(t, err)
					newcomer <- lock
				}()
				time.Sleep(20 * time.Millisecond)
				if at := inLineOf(fakes, "ql:line:{k}"); at != "xr" {
					t.Errorf("in line are %q, want a writer, and a reader behind it", at)
				}
				began := time.Now()
				if gives {
					cancel()
					if result := <-got; !errors.Is(result.err, context.Canceled) {
						t.Errorf("Acquire = %v", result.err)
					}
				} else {
					_ = reader.Release()
					result := <-got
					synctest.Wait()
					if at := inLineOf(fakes, "ql:line:{k}"); at != "r" {
						t.Errorf("beside the writer in line are %q, want the reader", at)
					}
					mustRelease(t, result.lock)
				}
				lock := <-newcomer
				wantWithin(t, 50*time.Millisecond, began, "a reader waited for")
				time.Sleep(20 * time.Millisecond)
				if at := inLineOf(fakes, "ql:line:{k}"); at != "" {
					t.Errorf("in line are %q, want nobody", at)
				}
				_, _ = lock.Release(), reader.Release()
			}
		})
	}
}

func TestAReaderIsLetInUnderItsOwnLockWhileAWriterWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, _ := newLocker(t, 3)
		outer := mustShare(t, locker, "k", WithTTL(time.Hour))
		got := waitFor(t.Context(), locker)
		time.Sleep(time.Second)
		inner, err := locker.AcquireShared(outer.Context(), "k")
		must(t, err, "AcquireShared under one's own")
		returns(t, ErrDeadlock, "Acquire under one's own shared lock")(locker.Acquire(outer.Context(), "k"))
		_, _ = inner.Release(), outer.Release()
		writer := (<-got).lock
		returns(t, ErrDeadlock, "AcquireShared under one's own lock")(locker.AcquireShared(writer.Context(), "k"))
	})
}

func TestAStormOfReadersCostsANodeLittle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		storm := some(10_000)
		locker, fakes := newLocker(t, 3, WithFences(), WithNodeTimeout(time.Second))
		far(fakes, time.Millisecond)
		_ = mustShare(t, locker, "k").Release() // the scripts are there from now on
		_ = mustShare(t, locker, "k").Release()
		synctest.Wait()
		before := fakes[0].Count("EVALSHA")
		var group sync.WaitGroup
		locks := make([]*Lock, storm)
		for i := range locks {
			group.Go(func() {
				var err error
				if locks[i], err = locker.TryAcquireShared(t.Context(), "k"); err != nil {
					t.Errorf("TryAcquireShared = %v", err)
				}
			})
		}
		group.Wait()
		time.Sleep(time.Second) // the last nodes answer
		calls := fakes[0].Count("EVALSHA") - before
		if most := storm/protocol.MaxGroup + 100; calls > most {
			t.Errorf("%d readers took %d calls of a node, want no more than %d", storm, calls, most)
		}
		if got := len(fakes[0].Sharers("k")); got != storm {
			t.Errorf("a node has %d readers, want %d", got, storm)
		}
		before = fakes[0].Count("EVALSHA")
		for _, lock := range locks {
			group.Go(func() {
				noError(t, lock.Release())
			})
		}
		group.Wait()
		time.Sleep(time.Second) // the last nodes answer
		if most, calls := storm/protocol.MaxGroup+100, fakes[0].Count("EVALSHA")-before; calls > most {
			t.Errorf("%d releases took %d calls of a node, want no more than %d", storm, calls, most)
		}
		wantFree(t, fakes, "k")
	})
}

func TestReadersInLineGoTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 3, WithTTL(time.Minute))
		far(fakes, 10*time.Millisecond)
		writer := mustAcquire(t, locker, "k")
		var readers, all sync.WaitGroup
		for range 64 {
			readers.Add(1)
			all.Go(func() {
				lock, err := locker.AcquireShared(t.Context(), "k")
				readers.Done()
				if err != nil {
					t.Error(err)
					return
				}
				time.Sleep(time.Second)
				_ = lock.Release()
			})
		}
		time.Sleep(time.Second)
		behind := waitFor(t.Context(), locker)
		began := time.Now()
		mustRelease(t, writer)
		readers.Wait()
		wantWithin(t, 150*time.Millisecond, began, "64 readers in line came to the key in")
		result := <-behind
		if took := time.Since(began); result.err != nil || took > 1300*time.Millisecond {
			t.Errorf("the writer behind them waited for %v: %v", took, result.err)
		}
		all.Wait()
	})
}

func TestCarelessUseOfAReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, _ := newLocker(t, 3)
		lock := mustShare(t, locker, "k")
		returns(t, ErrOption, "Downgrade of a reader")(lock.Downgrade(t.Context()))
		returns(t, ErrOption, "TryUpgrade of a writer")(mustAcquire(t, locker, "writer").TryUpgrade(t.Context()))
		noError(t, lock.Release())
		returns(t, ErrReleased, "Abandon of a released lock")(lock.Abandon())
		returns(t, ErrReleased, "TryUpgrade of a released lock")(lock.TryUpgrade(t.Context()))
		lost, writer := mustShare(t, locker, "k", WithTTL(time.Second)), mustAcquire(t, locker, "w", WithTTL(time.Second))
		time.Sleep(2 * time.Second)
		returns(t, ErrLost, "TryUpgrade of a lost lock")(lost.TryUpgrade(t.Context()))
		if reader, err := writer.Downgrade(t.Context()); !errors.Is(err, ErrLost) || reader != nil {
			t.Errorf("Downgrade of a lost lock = %v, %v, want ErrLost", reader, err)
		}
		reader, writer := mustShare(t, locker, "x"), mustAcquire(t, locker, "y")
		_ = locker.Close()
		returns(t, ErrClosed, "TryUpgrade behind Close")(reader.TryUpgrade(t.Context()))
		if reader, err := writer.Downgrade(t.Context()); !errors.Is(err, ErrClosed) || reader != nil {
			t.Errorf("Downgrade behind Close = %v, %v, want ErrClosed", reader, err)
		}
	})
}

func TestAReaderThatWasCalledInVainTriesWhenItsTurnComes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 3, WithTTL(time.Hour))
		other := another(t, fakes)
		writer := mustAcquire(t, other, "k")
		got := make(chan error, 2)
		ask := func(ctx context.Context) {
			_, err := locker.AcquireShared(ctx, "k")
			got <- err
		}
		first, leaves := context.WithCancel(t.Context())
		go ask(first)
		synctest.Wait()
		go ask(t.Context())
		synctest.Wait()
		locker.lines.Call("k") // as if a reader of this process had the key
		synctest.Wait()
		mustRelease(t, writer)
		leaves()
		began := time.Now()
		if one, two := <-got, <-got; one != nil && two != nil {
			t.Errorf("AcquireShared = %v, %v", one, two)
		}
		wantWithin(t, 100*time.Millisecond, began, "a reader came to a free key after")
	})
}

func TestReadersShareAKeyAndKeepWritersOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 5)
		other := another(t, fakes)
		one, two, three := mustShare(t, locker, "k"), mustShare(t, locker, "k"), mustShare(t, other, "k")
		synctest.Wait()
		for _, f := range fakes {
			if got := f.Sharers("k"); len(got) != 3 {
				t.Errorf("%s has %d readers, want 3", f.Name(), len(got))
			}
		}
		for _, l := range []*Locker{locker, other} {
			_, err := l.TryAcquire(t.Context(), "k")
			if !errors.Is(err, ErrTaken) || strings.Contains(err.Error(), protocol.TokenMark) {
				t.Errorf("TryAcquire of a key with readers = %v, want ErrTaken", err)
			}
		}
		for _, lock := range []*Lock{one, two} {
			noError(t, lock.Release())
		}
		returns(t, ErrTaken, "with one reader left TryAcquire")(locker.TryAcquire(t.Context(), "k"))
		wantHeld(t, three, true)
		wantHeld(t, one, false)
		noError(t, three.Release(), "Release of the last")
		synctest.Wait()
		wantFree(t, fakes, "k")
		wantNobodyInLine(t, fakes) // of those that did not wait
		mustAcquire(t, locker, "k")
		for _, f := range fakes {
			f.Plant("foreign", "", time.Minute) // even with an empty value
		}
		returns(t, ErrTaken, "TryAcquireShared beside a foreign lock")(locker.TryAcquireShared(t.Context(), "foreign"))
	})
}
