package main

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"
)

// fakeSession remembers the keys, and fails where it is told to.
type fakeSession struct {
	fail error

	mu   sync.Mutex
	keys map[string]int
	held int
}

func (s *fakeSession) Lock(_ context.Context, key string) (Hold, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.keys[key]++
	if s.fail != nil {
		return nil, s.fail
	}
	s.held++
	return s, nil
}

func (s *fakeSession) Wait(ctx context.Context, key string) (Hold, error) { return s.Lock(ctx, key) }

func (s *fakeSession) Release(context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held--
	return nil
}

func (s *fakeSession) Close() error { return nil }

func TestLoadLocksEachKeyOnce(t *testing.T) {
	session := &fakeSession{keys: map[string]int{}}
	load := startLoad(session, 8)
	sample, err := load.Window(context.Background(), Span{Cycles: 5000, Most: time.Minute})
	load.Stop()
	if err != nil || sample.Cycles < 5000 || sample.Failed != 0 {
		t.Errorf("a window of 5000 cycles ended with %d, %d failed: %v", sample.Cycles, sample.Failed, err)
	}
	if sample.Unlock.count != sample.Cycles {
		t.Errorf("%d cycles have %d times of unlock, want as many", sample.Cycles, sample.Unlock.count)
	}
	if session.held != 0 {
		t.Errorf("%d keys are held after Stop, want none", session.held)
	}
	length := 0
	for key, n := range session.keys {
		if n != 1 {
			t.Fatalf("%q was locked %d times, want once", key, n)
		}
		if length == 0 {
			length = len(key)
		}
		if len(key) != length {
			t.Fatalf("%q has %d bytes, others have %d", key, len(key), length)
		}
	}
}

func TestLoadCountsFailures(t *testing.T) {
	refusal := errors.New("refused")
	load := startLoad(&fakeSession{keys: map[string]int{}, fail: refusal}, 2)
	defer load.Stop()
	sample, err := load.Window(context.Background(), Span{Least: 10 * time.Millisecond, Cycles: 1, Most: 20 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	if sample.Cycles != 0 || sample.Failed == 0 || !errors.Is(sample.Err, refusal) {
		t.Errorf("%d cycles, %d failed with %v; want none, some and %v", sample.Cycles, sample.Failed, sample.Err, refusal)
	}
}

func TestWindowEndsWithTheContext(t *testing.T) {
	load := startLoad(&fakeSession{keys: map[string]int{}}, 1)
	defer load.Stop()
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := load.Window(ctx, Span{Least: time.Hour, Most: time.Hour}); !errors.Is(err, context.Canceled) {
		t.Errorf("a window of an hour ended with %v, want the context's error", err)
	}
}
