package fence_test

import (
	"errors"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/quorumlock/quorumlock/fence"
)

func TestMarks(t *testing.T) {
	at := fence.Marks{Written: 10, Read: 20}
	early := fence.Marks{Written: 20, Read: 10}
	tests := []struct {
		name    string
		do      func(fence.Marks, int64) (fence.Marks, error)
		marks   fence.Marks
		offered int64
		want    fence.Marks
		err     error
	}{
		{"the first read", fence.Read, fence.Marks{}, 1, fence.Marks{Read: 1}, nil},
		{"the first write", fence.Write, fence.Marks{}, 1, fence.Marks{Written: 1}, nil},
		{"a reader with the writer's number", fence.Read, early, 20, fence.Marks{Written: 20, Read: 20}, nil},
		{"a reader behind the writer", fence.Read, at, 11, at, nil},
		{"a later reader", fence.Read, at, 30, fence.Marks{Written: 10, Read: 30}, nil},
		{"a reader before the writer", fence.Read, early, 19, early, fence.ErrStale},
		{"a writer that writes again", fence.Write, early, 20, early, nil},
		{"a later writer", fence.Write, at, 21, fence.Marks{Written: 21, Read: 20}, nil},
		{"a writer with a reader's number", fence.Write, at, 20, at, fence.ErrStale},
		{"a writer before the reader", fence.Write, at, 15, at, fence.ErrStale},
		{"a writer before the writer", fence.Write, early, 15, early, fence.ErrStale},
		{"a reader without a number", fence.Read, at, 0, at, fence.ErrMissing},
		{"a writer without a number", fence.Write, fence.Marks{}, 0, fence.Marks{}, fence.ErrMissing},
		{"a number below 0", fence.Read, fence.Marks{Written: math.MinInt64}, -1, fence.Marks{Written: math.MinInt64}, fence.ErrMissing},
	}
	for _, tt := range tests {
		got, err := tt.do(tt.marks, tt.offered)
		if got != tt.want || !errors.Is(err, tt.err) || (err == nil) != (tt.err == nil) {
			t.Errorf("%s: %+v, %v; want %+v, %v", tt.name, got, err, tt.want, tt.err)
		}
	}
}

func TestAStaleWriterIsToldOfTheReader(t *testing.T) {
	_, err := fence.Write(fence.Marks{Written: 33, Read: 34}, 34)
	var stale *fence.StaleError
	if !errors.As(err, &stale) || !stale.ByReader || !strings.Contains(err.Error(), "a reader with 34") {
		t.Errorf("Write = %v", err)
	}
	_, err = fence.Write(fence.Marks{Written: 35, Read: 34}, 34)
	if !errors.As(err, &stale) || stale.ByReader {
		t.Errorf("Write behind a later writer = %v", err)
	}
}

// Holds in their order have numbers as the nodes give them: a writer's is above all before, a
// reader's is the last writer's or above. They come to the store late, or again, in any order.
func TestNoReadIsUndoneAndNoHolderInOrderIsRefused(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // repeatable
	for range 1000 {
		type hold struct {
			number int64
			writes bool
		}
		var holds []hold
		number := int64(0)
		for range 8 {
			h := hold{writes: random.IntN(2) == 0}
			if number++; !h.writes && len(holds) > 0 {
				number -= int64(random.IntN(2)) // it may share the number of who was before
			}
			h.number = number
			holds = append(holds, h)
		}
		var m fence.Marks
		latest := 0 // the last hold that was here in time
		var read int64
		for range 40 {
			i := random.IntN(len(holds))
			if random.IntN(2) == 0 {
				i = min(latest+1, len(holds)-1)
			}
			h := holds[i]
			do := fence.Read
			if h.writes {
				do = fence.Write
			}
			next, err := do(m, h.number)
			if i > latest && err != nil {
				t.Fatalf("hold %d of %v is refused in time: %v", i, holds, err)
			}
			if err == nil && h.writes && h.number <= read {
				t.Fatalf("the writer %d of %v writes behind a reader with %d", i, holds, read)
			}
			if err == nil && !h.writes {
				read = max(read, h.number)
			}
			m, latest = next, max(latest, i)
		}
	}
}
