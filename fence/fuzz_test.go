package fence_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"testing"

	"github.com/quorumlock/quorumlock/fence"
)

// FuzzCheck compares any two numbers. One is accepted if it is a fence and no less than the
// last, whatever that was; else the error says which of the two it is not.
func FuzzCheck(f *testing.F) {
	numbers := []int64{math.MinInt64, -1, 0, 1, 6, 7, 1 << 53, math.MaxInt64}
	for _, last := range numbers {
		for _, offered := range numbers {
			f.Add(last, offered)
		}
	}
	f.Fuzz(func(t *testing.T, last, offered int64) {
		err := fence.Check(last, offered)
		missing, stale := offered <= 0, offered > 0 && offered < last
		if errors.Is(err, fence.ErrMissing) != missing || errors.Is(err, fence.ErrStale) != stale || (err == nil) == (missing || stale) {
			t.Errorf("Check(%d, %d) = %v", last, offered, err)
		}
		if late := (*fence.StaleError)(nil); errors.As(err, &late) && *late != (fence.StaleError{Last: last, Offered: offered}) {
			t.Errorf("Check(%d, %d) = %#v, want both numbers", last, offered, late)
		}
	})
}

// An offer is a number for a resource. The resource "\xff" is forgotten before each.
type offer struct {
	resource byte
	number   int64
}

// FuzzGuard offers any numbers for some resources. A number is judged by the greatest that was
// admitted for the same resource before, and what was refused changes nothing.
func FuzzGuard(f *testing.F) {
	for _, offers := range [][]offer{
		{{'a', 0}, {'a', 2}, {'a', 2}, {'a', 1}, {'b', 1}, {'a', 5}, {'a', 4}, {'a', 0}, {'a', 5}, {'b', math.MaxInt64}, {'b', -1}},
		{{'\xff', 2}, {'b', 2}, {'\xff', 1}, {'b', 1}, {'\xff', math.MinInt64}},
	} {
		var seed []byte
		for _, o := range offers {
			seed = binary.LittleEndian.AppendUint64(append(seed, o.resource), uint64(o.number)) //nolint:gosec // any number is meant
		}
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, offers []byte) {
		var guard fence.Guard
		greatest := map[string]int64{}
		for ; len(offers) >= 9; offers = offers[9:] {
			resource := string(offers[:1])
			offered := int64(binary.LittleEndian.Uint64(offers[1:])) //nolint:gosec // any number is meant
			if resource == "\xff" {
				guard.Forget(resource)
				delete(greatest, resource)
			}
			err, want := guard.Admit(resource, offered), fence.Check(greatest[resource], offered)
			if fmt.Sprint(err) != fmt.Sprint(want) {
				t.Fatalf("Admit(%q, %d) after %d = %v, want %v", resource, offered, greatest[resource], err, want)
			}
			if err == nil {
				greatest[resource] = offered
			}
		}
	})
}
