package redlock

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// seen is what a Watch has yielded.
type seen struct {
	holder Holder
	err    error
}

// watch watches the key "k", until the test ends.
func watch(t *testing.T, locker *Locker) chan seen {
	t.Helper()
	all := make(chan seen, 100)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for holder, err := range locker.Watch(ctx, "k") {
			all <- seen{holder, err}
		}
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
	return all
}

// next waits for the next change, in virtual time.
func next(t *testing.T, all chan seen, within time.Duration) seen {
	t.Helper()
	select {
	case s := <-all:
		return s
	case <-time.After(within):
		t.Fatalf("nothing was seen within %v", within)
		return seen{}
	}
}

func TestAWatchSeesEveryChangeOfHolder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 5, WithTTL(10*time.Second))
		far(fakes, time.Millisecond)
		other := another(t, fakes, WithOwner("b"))
		all := watch(t, another(t, fakes))
		if s := next(t, all, time.Second); s.err != nil || s.holder != (Holder{}) {
			t.Fatalf("of a free key the watch shows %+v", s)
		}
		lock := mustAcquire(t, locker, "k", WithOwner("a"))
		first := next(t, all, 1100*time.Millisecond).holder
		if !first.Held || first.Owner != "a" || first.ID == "" {
			t.Fatalf("the watch shows %+v, want the owner a", first)
		}
		// A release is announced, and who waits for it has the key at once.
		took := make(chan *Lock)
		go func() {
			lock, err := other.Acquire(t.Context(), "k")
			noError(t, err)
			took <- lock
		}()
		time.Sleep(time.Second)
		mustRelease(t, lock)
		second := <-took
		for s := next(t, all, 100*time.Millisecond); s.holder.Owner != "b"; s = next(t, all, 100*time.Millisecond) {
			if s.err != nil || s.holder.Held {
				t.Fatalf("between two holders the watch shows %+v", s)
			}
		}
		// A holder that dies is gone with its lease.
		must(t, second.Abandon())
		if s := next(t, all, 11*time.Second); s.err != nil || s.holder.Held {
			t.Fatalf("after the end of the lease the watch shows %+v", s)
		}
		if len(all) > 0 {
			t.Errorf("the watch shows more than the changes: %+v", <-all)
		}
	})
}

func TestAWatchOfAKeyThatNothingHappensToReadsTwiceASecond(t *testing.T) {
	for _, held := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			locker, fakes := newLocker(t, 3, WithTTL(time.Minute))
			if held {
				mustAcquire(t, another(t, fakes, WithTTL(time.Hour)), "k")
			}
			_ = watch(t, locker)
			time.Sleep(5 * time.Second)
			before := fakes[0].Count("GET")
			time.Sleep(10 * time.Second)
			if reads := fakes[0].Count("GET") - before; reads < 10 || reads > 20 {
				t.Errorf("held %t: %d readings in 10s, want one or two a second", held, reads)
			}
		})
	}
}

func TestAWatchTakesATombstoneForNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 3)
		all := watch(t, another(t, fakes))
		next(t, all, time.Second)
		mustAcquire(t, locker, "k", WithOwner("leader"))
		if s := next(t, all, 1100*time.Millisecond); s.holder.Owner != "leader" {
			t.Fatalf("the watch shows %+v, want the leader", s)
		}
		for i, f := range fakes { // by several revocations
			tombstone := "ql:revoked:0123456789abcdef0123456789abcde" + string(rune('0'+i)) + ":it hangs"
			f.Change(func(f *fakeNode) { f.Put("k", tombstone, 5*time.Second) })
		}
		if s := next(t, all, 1100*time.Millisecond); s.err != nil || s.holder != (Holder{}) {
			t.Errorf("of a key that was taken from its holder the watch shows %+v, want nobody", s)
		}
	})
}

// The former holder's extension was in the buffers of stopped servers, and sets the key again.
func TestAWatchDoesNotGoBackToAHolderThatWasReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 3)
		all := watch(t, another(t, fakes))
		next(t, all, time.Second)
		first := mustAcquire(t, locker, "k", WithOwner("first"))
		next(t, all, 1100*time.Millisecond)
		mustRelease(t, first)
		if s := next(t, all, time.Second); s.holder.Held {
			t.Fatalf("after the release the watch shows %+v", s)
		}
		changeAll(fakes, func(f *fakeNode) { f.Put("k", first.Token(), 10*time.Second) })
		time.Sleep(9 * time.Second)
		if len(all) > 0 {
			t.Errorf("a holder that was replaced comes back: %+v", <-all)
		}
		time.Sleep(2 * time.Second)
		second := mustAcquire(t, locker, "k", WithOwner("second"))
		if s := next(t, all, 2*time.Second); s.holder.Owner != "second" {
			t.Errorf("the watch shows %+v, want the next holder", s)
		}
		mustRelease(t, second)
	})
}

func TestAWatchGoesOnWithoutAQuorumAndSaysSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 5, WithTTL(time.Minute))
		lock := mustAcquire(t, locker, "k", WithOwner("a"))
		all := watch(t, another(t, fakes))
		if s := next(t, all, time.Second); s.holder.Owner != "a" {
			t.Fatalf("the watch shows %+v", s)
		}
		forEach(fakes[:2], (*fakeNode).Stop)
		time.Sleep(20 * time.Second)
		if len(all) > 0 {
			t.Errorf("with a majority well the watch shows %+v", <-all)
		}
		fakes[2].Stop()
		if s := next(t, all, 20*time.Second); !errors.Is(s.err, ErrNoQuorum) {
			t.Errorf("without a quorum the watch shows %+v, want ErrNoQuorum", s)
		}
		time.Sleep(10 * time.Second)
		if len(all) > 0 {
			t.Errorf("one outage is shown again: %+v", <-all)
		}
		for _, f := range fakes {
			heal(f, 0)
		}
		if s := next(t, all, 5*time.Second); s.err != nil || s.holder.Owner != "a" {
			t.Errorf("after the outage the watch shows %+v, want the holder", s)
		}
		mustRelease(t, lock)
	})
}

func TestAWatchEndsWithItsContextAndItsLocker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 3)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var last error
		for _, err := range locker.Watch(ctx, "k") {
			last = err
			cancel()
		}
		if !errors.Is(last, context.Canceled) {
			t.Errorf("the watch ends with %v, want context.Canceled", last)
		}
		for _, err := range locker.Watch(t.Context(), "k") {
			last = err
			break // leaves nothing behind: see below
		}
		if last != nil {
			t.Errorf("the first that a watch shows = %v", last)
		}
		for _, err := range locker.Watch(t.Context(), "") {
			if !errors.Is(err, ErrOption) {
				t.Errorf("a watch of no key = %v, want ErrOption", err)
			}
		}
		time.Sleep(time.Minute)
		empty(t, locker)
		closes := another(t, fakes)
		go func() {
			time.Sleep(time.Second)
			_ = closes.Close()
		}()
		for _, err := range closes.Watch(t.Context(), "k") {
			last = err
		}
		if !errors.Is(last, ErrClosed) {
			t.Errorf("the watch of a closed Locker ends with %v, want ErrClosed", last)
		}
	})
}

func TestAWatchSeesReadersAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 3)
		all := watch(t, another(t, fakes))
		next(t, all, time.Second)
		for range 2 {
			reader, err := locker.AcquireShared(t.Context(), "k")
			must(t, err)
			if s := next(t, all, 2*time.Second); !s.holder.Held || !s.holder.Shared {
				t.Fatalf("of a key that is shared the watch shows %+v", s)
			}
			mustRelease(t, reader)
			if s := next(t, all, 2*time.Second); s.holder.Held {
				t.Fatalf("of a key that is free again the watch shows %+v", s)
			}
		}
	})
}

// Whoever waits for a key is woken, whatever else of the same Locker listens for it.
func TestAReleaseWakesAllThatListenForTheKey(t *testing.T) {
	for _, listen := range []struct {
		name string
		too  func(t *testing.T, locker *Locker) (end func())
	}{
		{"nobody else", func(*testing.T, *Locker) func() { return func() {} }},
		{"a watch", func(t *testing.T, locker *Locker) func() {
			all := watch(t, locker)
			next(t, all, time.Second)
			return func() {}
		}},
		{"two watches", func(t *testing.T, locker *Locker) func() {
			next(t, watch(t, locker), time.Second)
			next(t, watch(t, locker), time.Second)
			return func() {}
		}},
		{"a watch that has ended", func(t *testing.T, locker *Locker) func() {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			for _, err := range locker.Watch(ctx, "k") {
				noError(t, err)
				break
			}
			return func() {}
		}},
		{"one who waits for several keys", func(t *testing.T, locker *Locker) func() {
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan struct{})
			go func() {
				defer close(done)
				_, _ = locker.AcquireAll(ctx, []string{"k", "other"})
			}()
			return func() {
				cancel()
				<-done
			}
		}},
	} {
		synctest.Test(t, func(t *testing.T) {
			holder, fakes := newLocker(t, 5)
			far(fakes, time.Millisecond)
			lock := mustAcquire(t, holder, "k", WithTTL(time.Hour))
			mustAcquire(t, holder, "other", WithTTL(time.Hour))
			locker := another(t, fakes)
			took := async(func() error {
				return passing(locker.Acquire(t.Context(), "k", WithMaxWait(time.Hour), WithBackoff(time.Minute, time.Minute)))
			})
			time.Sleep(time.Second)
			end := listen.too(t, locker)
			time.Sleep(time.Second)
			mustRelease(t, lock)
			began := time.Now()
			noError(t, <-took)
			wantWithin(t, 20*time.Millisecond, began, "beside", listen.name, "the waiter has the key")
			end()
		})
	}
}
