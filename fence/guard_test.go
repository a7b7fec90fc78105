package fence_test

import (
	"errors"
	"sync"
	"testing"

	"github.com/quorumlock/quorumlock/fence"
)

// Many writers at once, each under the mutex of what is written: no number is written
// after a greater one, and the greatest is written.
func TestGuardAmongGoroutines(t *testing.T) {
	const writers, writes = 8, 200
	var guard fence.Guard
	var state struct {
		sync.Mutex
		written []int64
	}
	var group sync.WaitGroup
	for writer := range int64(writers) {
		group.Go(func() {
			for i := range int64(writes) {
				offered := 1 + i*writers + writer
				state.Lock()
				if err := guard.Admit("state", offered); err == nil {
					state.written = append(state.written, offered)
				}
				state.Unlock()
				_ = guard.Admit("another", offered) // with no mutex but the Guard's
			}
		})
	}
	group.Wait()
	last := int64(0)
	for _, number := range state.written {
		if number < last {
			t.Fatalf("%d was written after %d", number, last)
		}
		last = number
	}
	if last != writers*writes {
		t.Errorf("the last number is %d, want the greatest, %d", last, writers*writes)
	}
	for resource, want := range map[string]error{"state": fence.ErrStale, "another": fence.ErrStale} {
		if err := guard.Admit(resource, last-1); !errors.Is(err, want) {
			t.Errorf("Admit(%q, %d) after %d = %v, want %v", resource, last-1, last, err, want)
		}
	}
}
