package main

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// slowLock has one holder at a time, and takes its time to tell the next one.
type slowLock struct {
	free  chan struct{}
	delay time.Duration
}

func newSlowLock(holders int, delay time.Duration) *slowLock {
	l := &slowLock{make(chan struct{}, holders), delay}
	for range holders {
		l.free <- struct{}{}
	}
	return l
}

func (l *slowLock) Lock(ctx context.Context, key string) (Hold, error) { return l.Wait(ctx, key) }

func (l *slowLock) Wait(ctx context.Context, _ string) (Hold, error) {
	select {
	case <-l.free:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	return l, pause(ctx, l.delay)
}

func (l *slowLock) Release(context.Context) error {
	l.free <- struct{}{}
	return nil
}

func (*slowLock) Close() error { return nil }

func TestHandOvers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const delay = 3 * time.Millisecond
		lock := newSlowLock(1, delay)
		times, err := handOvers(t.Context(), [2]Session{lock, lock}, Span{Cycles: 20, Most: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		if times.count != 20 || bucket(times.quantile(0)) != bucket(delay) || bucket(times.quantile(1)) != bucket(delay) {
			t.Errorf("%d hand-overs took %v to %v, want 20 of %v", times.count, times.quantile(0), times.quantile(1), delay)
		}
		if len(lock.free) != 1 {
			t.Error("the last holder has not released the lock")
		}
	})
}

func TestHandOversEndWithTheirTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lock := newSlowLock(1, 80*time.Millisecond)
		times, err := handOvers(t.Context(), [2]Session{lock, lock}, Span{Cycles: 200, Most: 8 * time.Second})
		if err != nil || times.count < 70 || times.count > 90 {
			t.Errorf("8 s have %d hand-overs of 80 ms (and 10 to 30 ms before each), want 70 to 90 (%v)", times.count, err)
		}
	})
}

// A waiter that gets a lock that is held is no waiter.
func TestHandOverToWhoDoesNotWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lock := newSlowLock(2, 0)
		_, err := handOvers(t.Context(), [2]Session{lock, lock}, Span{Cycles: 20, Most: time.Minute})
		if err == nil || !strings.Contains(err.Error(), "did not wait") {
			t.Errorf("a lock with two holders was handed over: %v, want an error", err)
		}
	})
}
