package redlock

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func TestReadersShareTheNumberOfTheWriterBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 5, WithFences())
		writer := mustAcquire(t, locker, "k")
		mustRelease(t, writer)
		time.Sleep(time.Second)
		calls := fakes[0].count("EVALSHA") + fakes[0].count("EVAL")
		one, two := mustShare(t, locker, "k"), mustShare(t, another(t, fakes, WithFences()), "k")
		if one.Fence() != writer.Fence() || two.Fence() != writer.Fence() {
			t.Errorf("readers behind %d have %d and %d", writer.Fence(), one.Fence(), two.Fence())
		}
		if more := fakes[0].count("EVALSHA") + fakes[0].count("EVAL") - calls; more > 4 { // twice for want of the source
			t.Errorf("two readers took %d calls of a node, want one each", more)
		}
		for _, lock := range []*SharedLock{one, two} {
			_ = lock.Release(t.Context())
		}
		synctest.Wait()
		if after := mustAcquire(t, locker, "k"); after.Fence() <= one.Fence() {
			t.Errorf("a writer behind the readers has %d, want more than %d", after.Fence(), one.Fence())
		}
	})
}

func TestAReadersNumberIsBroughtToAQuorum(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 5, WithFences())
		mustRelease(t, mustAcquire(t, locker, "k"))
		const ahead = 1 << 52 // what one node has accepted, of a writer that had no quorum
		fakes[2].change(func(f *fakeNode) { f.setFence("k", "k", ahead) })
		for _, f := range fakes[3:] {
			f.stop()
		}
		reader, err := locker.TryAcquireShared(t.Context(), "k")
		if err != nil || reader.Fence() != ahead {
			t.Fatalf("TryAcquireShared = %v with the number %d, want %d", err, reader.Fence(), int64(ahead))
		}
		for _, f := range fakes[:3] {
			if counter := f.accepted(); counter != ahead {
				t.Errorf("%s has the counter %d, want %d", f.name, counter, int64(ahead))
			}
		}
		for _, f := range fakes[3:] {
			f.resume()
		}
		_ = reader.Release(t.Context())
		time.Sleep(20 * time.Second) // clean-ups of what the stopped nodes ran late
		// A writer who meets only one of the nodes that had the number in the first round.
		for _, f := range []*fakeNode{fakes[1], fakes[2]} {
			f.stop()
		}
		if writer := mustAcquire(t, locker, "k"); writer.Fence() <= ahead {
			t.Errorf("a writer behind the reader has %d, want more than %d", writer.Fence(), int64(ahead))
		}
	})
}

func TestAReadersNumberIsNoneThatMayHaveBeenOutrunAndForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 3, WithFences())
		old := mustAcquire(t, locker, "k")
		mustRelease(t, old)
		time.Sleep(time.Second)
		writer := mustAcquire(t, locker, "k")
		mustRelease(t, writer)
		for _, f := range fakes { // the writer's is forgotten, and then a late command brings back an older one
			f.change(func(f *fakeNode) { f.setFence("k", "", writer.Fence()+1); f.setFence("k", "k", old.Fence()) })
		}
		reader := mustShare(t, locker, "k")
		if reader.Fence() <= writer.Fence() {
			t.Errorf("a reader behind the writer %d has %d", writer.Fence(), reader.Fence())
		}
		if other := mustShare(t, locker, "k"); other.Fence() != reader.Fence() {
			t.Errorf("the next reader has %d, want %d", other.Fence(), reader.Fence())
		}
	})
}

func TestAReadersNumberIsNoneThatANodeHadBeforeItForgotAGreaterOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := admittedLocker(t, 3, WithTTL(time.Second), WithFences(), WithRestartGuard(time.Second))
		old := mustAcquire(t, locker, "k")
		mustRelease(t, old)
		time.Sleep(time.Second)
		writer := mustAcquire(t, locker, "k")
		mustRelease(t, writer)
		for _, f := range fakes { // two, and the third was not in the writer's quorum
			f.change(func(f *fakeNode) { f.setFence("k", "k", old.Fence()) })
		}
		time.Sleep(time.Second) // for the longest TTL they have no votes
		reader := mustShare(t, locker, "k")
		if reader.Fence() <= writer.Fence() {
			t.Errorf("a reader behind the writer %d has %d", writer.Fence(), reader.Fence())
		}
		if other := mustShare(t, locker, "k"); other.Fence() != reader.Fence() {
			t.Errorf("the next reader has %d, want %d", other.Fence(), reader.Fence())
		}
	})
}

func TestManyReadersOfAnIdleKeyAgreeOnTheirNumber(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 5, WithFences())
		mustRelease(t, mustAcquire(t, locker, "k"))
		for _, f := range fakes {
			f.change(func(f *fakeNode) { f.delay, f.jitter = time.Millisecond, 5*time.Millisecond })
		}
		lockers := []*Locker{locker, another(t, fakes, WithFences()), another(t, fakes, WithFences())}
		for range 3 {
			time.Sleep(time.Hour)
			var group sync.WaitGroup
			for i := range 300 {
				group.Go(func() {
					lock, err := lockers[i%3].AcquireShared(t.Context(), "k")
					if err != nil {
						t.Errorf("AcquireShared = %v", err)
						return
					}
					_ = lock.Release(t.Context())
				})
			}
			group.Wait()
		}
	})
}

func TestAReaderOfAnIdleKeyHasTheTimeForItsNumber(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 3, WithFences())
		writer := mustAcquire(t, locker, "k")
		mustRelease(t, writer)
		for _, f := range fakes { // the counter is forgotten, and the store has the writer's number
			f.change(func(f *fakeNode) { clear(f.fences); f.setFence("k", "", writer.Fence()+1) })
		}
		time.Sleep(time.Hour)
		began := time.Now().UnixMicro()
		reader := mustShare(t, locker, "k", WithTTL(time.Second), WithRenewal())
		if fence := reader.Fence(); fence <= writer.Fence() || fence < began-1e6 {
			t.Errorf("a reader behind %d has %d", writer.Fence(), fence)
		}
		time.Sleep(10 * time.Minute)
		for _, f := range fakes {
			if counter := f.accepted(); counter != reader.Fence() {
				t.Errorf("%s has the counter %d, want %d", f.name, counter, reader.Fence())
			}
		}
		for _, f := range fakes {
			f.restart()
		}
		time.Sleep(time.Second)
		if next := mustShare(t, locker, "k"); next.Fence() < reader.Fence() {
			t.Errorf("behind a restart the next reader has %d, want at least %d", next.Fence(), reader.Fence())
		}
	})
}
