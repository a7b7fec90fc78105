package redlock

import (
	"context"
	"errors"
	"math/rand/v2"
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
					_ = lock.Release(context.WithoutCancel(ctx))
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
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 3)
		for _, f := range fakes {
			f.change(func(f *fakeNode) { f.delay = time.Millisecond })
		}
		lockers := []*Locker{another(t, fakes), another(t, fakes), locker}
		ctx, cancel := context.WithCancel(t.Context())
		reads, over := readers(ctx, t, lockers, 32, 50*time.Millisecond)
		time.Sleep(time.Second)
		for range 10 {
			began, before := time.Now(), reads()
			bounded, end := context.WithTimeout(ctx, 2*time.Second)
			writer, err := lockers[0].Acquire(bounded, "k")
			end()
			if took := time.Since(began); err != nil || took > 150*time.Millisecond {
				t.Fatalf("a writer waited for %v: %v", took, err)
			}
			_ = writer.Release(ctx)
			time.Sleep(200 * time.Millisecond)
			if reads() < before+2*96 {
				t.Errorf("96 readers have read %d times in 200 ms behind the write", reads()-before)
			}
		}
		cancel()
		over.Wait()
	})
}

func TestAMarkIsWithdrawnByTheGrantAndByGivingUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 3)
		other := another(t, fakes)
		const name = "ql:writer:{k}"
		for _, gives := range []bool{false, true} {
			reader := mustShare(t, other, "k", WithTTL(time.Hour))
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			got := waitFor(ctx, locker)
			time.Sleep(3 * time.Second) // it is renewed
			for _, f := range fakes {
				if token, left := f.token(name); token == "" || left > protocol.MarkTTL {
					t.Errorf("%s has the mark %q for %v", f.name, token, left)
				}
			}
			if _, err := other.TryAcquireShared(t.Context(), "k"); !errors.Is(err, ErrTaken) {
				t.Errorf("a newcomer's TryAcquireShared under a mark = %v, want ErrTaken", err)
			}
			if err := reader.Extend(t.Context(), time.Minute); err != nil {
				t.Errorf("Extend of one who is there = %v", err)
			}
			newcomer := make(chan *SharedLock)
			began := time.Now()
			go func() {
				lock, err := other.AcquireShared(t.Context(), "k")
				if err != nil {
					t.Error(err)
				}
				newcomer <- lock
			}()
			synctest.Wait()
			if gives {
				cancel()
				if result := <-got; !errors.Is(result.err, context.Canceled) {
					t.Errorf("Acquire = %v", result.err)
				}
			} else {
				_ = reader.Release(t.Context())
				result := <-got
				synctest.Wait()
				if names := stray(fakes, name); names != nil {
					t.Errorf("beside the writer there are marks at %v", names)
				}
				mustRelease(t, result.lock)
			}
			lock := <-newcomer
			if took := time.Since(began); took > 50*time.Millisecond {
				t.Errorf("a reader waited for %v behind the mark", took)
			}
			synctest.Wait()
			if names := stray(fakes, name); names != nil {
				t.Errorf("the mark is left at %v", names)
			}
			_, _ = lock.Release(t.Context()), reader.Release(t.Context())
		}
	})
}

func TestAReaderIsLetInUnderItsOwnLockWhileAWriterWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, _ := newLocker(t, 3)
		outer := mustShare(t, locker, "k", WithTTL(time.Hour))
		got := waitFor(t.Context(), locker)
		time.Sleep(time.Second)
		inner, err := locker.AcquireShared(outer.Context(), "k")
		if err != nil {
			t.Fatalf("AcquireShared under one's own = %v", err)
		}
		if _, err := locker.Acquire(outer.Context(), "k"); !errors.Is(err, ErrDeadlock) {
			t.Errorf("Acquire under one's own shared lock = %v, want ErrDeadlock", err)
		}
		_, _ = inner.Release(t.Context()), outer.Release(t.Context())
		writer := (<-got).lock
		if _, err := locker.AcquireShared(writer.Context(), "k"); !errors.Is(err, ErrDeadlock) {
			t.Errorf("AcquireShared under one's own lock = %v, want ErrDeadlock", err)
		}
	})
}

func TestATryOfAWriterLeavesNoMark(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 3)
		mustShare(t, locker, "k")
		if _, err := locker.TryAcquire(t.Context(), "k"); !errors.Is(err, ErrTaken) {
			t.Fatalf("TryAcquire = %v", err)
		}
		synctest.Wait()
		if names := stray(fakes, "ql:writer:{k}"); names != nil {
			t.Errorf("there are marks at %v", names)
		}
		mustShare(t, locker, "k")
	})
}
