package redlock

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/quorumlock/quorumlock/internal/protocol"
)

// A namer is a call that names a key.
type namer struct {
	name   string
	beside bool // it keeps something beside the key
	call   func(t *testing.T, locker *Locker, key string) error
	option Option // nil: none
}

func namers() []namer {
	acquire := func(t *testing.T, locker *Locker, key string) error {
		lock, err := locker.TryAcquire(t.Context(), key)
		if err == nil {
			mustRelease(t, lock)
		}
		return err
	}
	return []namer{
		{name: "TryAcquire", call: acquire},
		{name: "WithFences", option: WithFences(), call: acquire},
		{name: "WithFairness", beside: true, option: WithFairness(), call: func(t *testing.T, locker *Locker, key string) error {
			if err := acquire(t, locker, key); errors.Is(err, ErrOption) {
				return err
			}
			return nil // the fake keeps no lines
		}},
		{name: "WithDeadlockDetection", beside: true, option: WithDeadlockDetection(minDetection), call: acquire},
		{name: "Acquire", call: func(t *testing.T, locker *Locker, key string) error {
			lock, err := locker.Acquire(t.Context(), key)
			if err == nil {
				mustRelease(t, lock)
			}
			return err
		}},
		{name: "Downgrade", beside: true, call: func(t *testing.T, locker *Locker, key string) error {
			lock, err := locker.TryAcquire(t.Context(), key)
			if err != nil {
				return err
			}
			reader, err := lock.Downgrade(t.Context())
			if err != nil {
				mustRelease(t, lock)
				return err
			}
			mustRelease(t, reader)
			return nil
		}},
		{name: "AcquireShared", beside: true, call: func(t *testing.T, locker *Locker, key string) error {
			lock, err := locker.AcquireShared(t.Context(), key)
			if err == nil {
				mustRelease(t, lock)
			}
			return err
		}},
		{name: "AcquireAll", beside: true, call: func(t *testing.T, locker *Locker, key string) error {
			lock, err := locker.AcquireAll(t.Context(), []string{"another", key})
			if err == nil {
				mustRelease(t, lock)
			}
			return err
		}},
		{name: "Semaphore", beside: true, call: func(t *testing.T, locker *Locker, key string) error {
			permits, err := locker.Semaphore(key, 2)
			if err != nil {
				return err
			}
			permit, err := permits.Acquire(t.Context())
			if err == nil {
				mustRelease(t, permit)
			}
			return err
		}},
		{name: "Inspect", call: func(t *testing.T, locker *Locker, key string) error {
			_, err := locker.Inspect(t.Context(), key)
			return err
		}},
		{name: "Watch", call: func(t *testing.T, locker *Locker, key string) error {
			for _, err := range locker.Watch(t.Context(), key) {
				return err
			}
			return nil
		}},
	}
}

// arrived is how many commands a node was sent.
func arrived(f *fakeNode) (count int) {
	f.change(func(f *fakeNode) { count = len(f.log) })
	return count
}

// What becomes of odd keys, by each call that names one.
func TestOddKeysWorkOrAreRefusedBeforeAnythingIsSent(t *testing.T) {
	for _, tt := range []struct {
		key    string
		plain  bool // it may be a lock
		beside bool // and have others beside it
	}{
		{"k", true, true},
		{"{k}", true, true},
		{"{{k}}", true, true},
		{"{", true, true},
		{"a{b", true, true},
		{"a{b}c", true, true},
		{"a}b{c}", true, true},
		{"\xff\xfe\x00", true, true},
		{strings.Repeat("k", maxKey), true, true},
		{"}", true, false},
		{"a}b", true, false},
		{"a}b{c", true, false},
		{"{}", true, false},
		{"{}x", true, false},
		{"{}{a}", true, false},
		{"", false, false},
		{"ql:", false, false},
		{"ql:line:{k}", false, false},
		{"ql:epoch", false, false},
		{strings.Repeat("k", maxKey+1), false, false},
	} {
		for _, e := range namers() {
			synctest.Test(t, func(t *testing.T) {
				options := []Option{}
				if e.option != nil {
					options = append(options, e.option)
				}
				locker, fakes := newLocker(t, 3, options...)
				err := e.call(t, locker, tt.key)
				want := tt.plain && (tt.beside || !e.beside)
				if want && err != nil || !want && !errors.Is(err, ErrOption) {
					t.Errorf("%s of %.20q = %v, want it to work: %v", e.name, tt.key, err, want)
				}
				if sent := arrived(fakes[0]); !want && sent > 0 && e.name != "Downgrade" {
					t.Errorf("%s of %.20q is refused, and %d commands were sent", e.name, tt.key, sent)
				}
			})
		}
	}
}

func TestNoPrefixMakesAKeyOfTheLibrarysOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, nodes := fakeNodes(3)
		if _, err := New(nodes, WithKeyPrefix("ql:x")); !errors.Is(err, ErrOption) {
			t.Errorf("New with a prefix that begins with ql: = %v, want ErrOption", err)
		}
		locker, fakes := newLocker(t, 3, WithKeyPrefix("q"))
		for _, e := range namers() {
			if e.option == nil {
				if err := e.call(t, locker, "l:line:{k}"); !errors.Is(err, ErrOption) || !strings.Contains(err.Error(), protocol.Reserved) {
					t.Errorf("%s of l:line:{k} behind the prefix q = %v, want ErrOption", e.name, err)
				}
			}
		}
		if sent := arrived(fakes[0]); sent > 0 {
			t.Errorf("%d commands were sent", sent)
		}
	})
}
