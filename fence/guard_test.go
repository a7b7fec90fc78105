package fence_test

import (
	"errors"
	"sync"
	"testing"

	"github.com/quorumlock/quorumlock/fence"
)

func TestGuardAdmitsUpwards(t *testing.T) {
	var guard fence.Guard
	steps := []struct {
		resource string
		fence    int64
		want     error
	}{
		{"a", 0, fence.ErrMissing},
		{"a", 2, nil},
		{"a", 2, nil},
		{"a", 1, fence.ErrStale},
		{"b", 1, nil}, // each resource has numbers of its own
		{"a", 5, nil},
		{"a", 4, fence.ErrStale},
		{"a", 0, fence.ErrMissing},
		{"a", 5, nil}, // what was refused has changed nothing
	}
	for i, step := range steps {
		if err := guard.Admit(step.resource, step.fence); !errors.Is(err, step.want) {
			t.Errorf("step %d: Admit(%q, %d) = %v, want %v", i, step.resource, step.fence, err, step.want)
		}
	}
}

func TestGuardForgets(t *testing.T) {
	var guard fence.Guard
	guard.Forget("a") // before anything is known
	for _, resource := range []string{"a", "b"} {
		if err := guard.Admit(resource, 2); err != nil {
			t.Fatal(err)
		}
	}
	guard.Forget("a")
	if err := guard.Admit("a", 1); err != nil {
		t.Errorf("Admit after Forget = %v, want what is new to be admitted", err)
	}
	if err := guard.Admit("b", 1); !errors.Is(err, fence.ErrStale) {
		t.Errorf("Admit after another resource was forgotten = %v, want %v", err, fence.ErrStale)
	}
}

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
