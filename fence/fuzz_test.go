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

// An offer is a number for a resource, which a capital letter reads. The resource "\xff" is forgotten
// before each.
type offer struct {
	resource byte
	number   int64
}

// FuzzGuard offers any numbers for some resources. A number is judged by the marks of the same resource,
// and what was refused changes nothing.
func FuzzGuard(f *testing.F) {
	for _, offers := range [][]offer{
		{{'a', 0}, {'a', 2}, {'a', 2}, {'a', 1}, {'b', 1}, {'a', 5}, {'a', 4}, {'a', 0}, {'a', 5}, {'b', math.MaxInt64}, {'b', -1}},
		{{'\xff', 2}, {'b', 2}, {'\xff', 1}, {'b', 1}, {'\xff', math.MinInt64}},
		{{'k', 5}, {'K', 5}, {'k', 5}, {'K', 4}, {'K', 7}, {'k', 6}, {'k', 8}, {'K', 7}},
	} {
		var seed []byte
		for _, o := range offers {
			seed = binary.LittleEndian.AppendUint64(append(seed, o.resource), uint64(o.number)) //nolint:gosec // any number is meant
		}
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, offers []byte) {
		var guard fence.Guard
		marks := map[string]fence.Marks{}
		for ; len(offers) >= 9; offers = offers[9:] {
			resource := string(offers[:1])
			offered := int64(binary.LittleEndian.Uint64(offers[1:])) //nolint:gosec // any number is meant
			if resource == "\xff" {
				guard.Forget(resource)
				delete(marks, resource)
			}
			admit, do := guard.Admit, fence.Write
			if c := offers[0]; 'A' <= c && c <= 'Z' {
				resource, admit, do = string(c+'a'-'A'), guard.AdmitRead, fence.Read
			}
			next, want := do(marks[resource], offered)
			if err := admit(resource, offered); fmt.Sprint(err) != fmt.Sprint(want) {
				t.Fatalf("%d for %q after %+v: %v, want %v", offered, resource, marks[resource], err, want)
			}
			marks[resource] = next
		}
	})
}
