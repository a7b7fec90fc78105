package redlock

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumlock/quorumlock/internal/quorum"
)

// ask puts a try for the key in its queues, past everything that lets tries share an answer.
func ask(t *testing.T, locker *Locker, key string) *quorum.Operation {
	t.Helper()
	o, err := locker.prepare(t.Context(), key, nil)
	if err != nil {
		t.Fatalf("prepare = %v", err)
	}
	try, err := locker.newLock(t.Context(), key, o, false)
	if err != nil {
		t.Fatalf("newLock = %v", err)
	}
	try.acquire.AskAll()
	return &try.acquire
}

// crowd keeps so many tries for the key waiting until stop is called.
func crowd(t *testing.T, locker *Locker, key string, count int) (stop func()) {
	t.Helper()
	quit, over := make(chan struct{}), make(chan struct{})
	tries := make([]*quorum.Operation, count)
	for i := range tries {
		tries[i] = ask(t, locker, key)
	}
	go func() {
		defer close(over)
		for {
			select {
			case <-tries[0].Done:
				tries = append(tries[1:], ask(t, locker, key))
			case <-quit:
				return
			}
		}
	}()
	return func() { close(quit); <-over }
}

func TestAHolderGoesBeforeTheTriesOfItsKeyThatHaveNotLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 3)
		for _, f := range fakes {
			f.change(func(f *fakeNode) { f.delay = time.Millisecond })
		}
		const ttl = 200 * time.Millisecond
		lock := mustAcquire(t, locker, "k", WithTTL(ttl), WithRenewal())
		stop := crowd(t, locker, "k", 400) // 400ms of work, twice the lease
		defer stop()
		for range 30 {
			time.Sleep(ttl)
			if !lock.Valid() {
				t.Fatalf("a healthy lock was lost, whose renewals stand behind tries for its key")
			}
		}
		began := time.Now()
		if err := lock.Extend(t.Context(), ttl); err != nil {
			t.Errorf("Extend among 400 tries = %v", err)
		}
		if took := time.Since(began); took > 10*time.Millisecond {
			t.Errorf("Extend took %v among 400 tries, want a few round trips of 1ms", took)
		}
		began = time.Now()
		if err := lock.Release(t.Context()); err != nil {
			t.Errorf("Release among 400 tries = %v", err)
		}
		if took := time.Since(began); took > 10*time.Millisecond {
			t.Errorf("Release took %v among 400 tries, want a few round trips of 1ms", took)
		}
	})
}

func TestATryThatHasNotLeftMakesWayInTheQueueItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 1)
		lock, other := mustAcquire(t, locker, "k"), mustAcquire(t, locker, "other")
		block := make(chan struct{})
		fakes[0].change(func(f *fakeNode) { f.hold = func(string) <-chan struct{} { return block } })
		go func() { _, _ = other.Held(t.Context()) }() // keeps the only batch out
		synctest.Wait()
		ask(t, locker, "k")
		released := make(chan error)
		go func() { released <- lock.Release(t.Context()) }()
		synctest.Wait()
		fakes[0].change(func(f *fakeNode) { f.hold, f.log = nil, nil })
		close(block)
		if err := <-released; err != nil {
			t.Errorf("Release = %v", err)
		}
		synctest.Wait()
		fakes[0].change(func(f *fakeNode) {
			if len(f.log) < 2 || f.log[0] != "EVALSHA" && f.log[0] != "EVAL" {
				t.Errorf("the node got %v, want the release before the try that was in the queue", f.log)
			}
		})
	})
}

func TestRequestsWithOneTokenStayInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 3)
		warm(t, locker)
		block := make(chan struct{})
		fakes[2].change(func(f *fakeNode) { f.hold = func(string) <-chan struct{} { return block } })
		first := ask(t, locker, "k").Owner.(*lease) // it has the key, and the turn at the third node
		synctest.Wait()
		if err := first.Release(t.Context()); err != nil {
			t.Errorf("Release = %v", err)
		}
		var tokens []string
		for _, token := range []string{"", "own"} {
			var options []AcquireOption
			if token != "" {
				options = append(options, WithToken(token))
			}
			lock, err := locker.TryAcquire(t.Context(), "k", options...)
			if err != nil {
				t.Fatalf("TryAcquire = %v", err)
			}
			tokens = append(tokens, lock.Token())
			if err := lock.Release(t.Context()); err != nil {
				t.Errorf("Release = %v", err)
			}
		}
		fakes[2].change(func(f *fakeNode) {
			f.hold = nil
		})
		close(block)
		synctest.Wait()
		if token, _ := fakes[2].token("k"); token != "" {
			t.Errorf("at the node that was late the key is held by %q of %q, whose releases ran before their acquires", token, tokens)
		}
	})
}
