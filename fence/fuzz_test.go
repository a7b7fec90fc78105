package fence_test

import (
	"encoding/binary"
	"errors"
	"math"
	"testing"

	"github.com/quorumlock/quorumlock/fence"
)

// FuzzCheck compares any two numbers. One is accepted if it is a fence and no less than the
// last, whatever that was.
func FuzzCheck(f *testing.F) {
	for _, last := range []int64{math.MinInt64, -1, 0, 1, 1 << 53, math.MaxInt64} {
		for _, offered := range []int64{math.MinInt64, -1, 0, 1, 1 << 53, math.MaxInt64} {
			f.Add(last, offered)
		}
	}
	f.Fuzz(func(t *testing.T, last, offered int64) {
		err := fence.Check(last, offered)
		if (err == nil) != (offered > 0 && offered >= last) {
			t.Errorf("Check(%d, %d) = %v", last, offered, err)
		}
		if err != nil && errors.Is(err, fence.ErrStale) == errors.Is(err, fence.ErrMissing) {
			t.Errorf("Check(%d, %d) = %v, want it stale or missing, and not both", last, offered, err)
		}
	})
}

// FuzzGuard offers any numbers for some resources, one of which is forgotten at times. None
// is admitted below one that was admitted for the same resource before.
func FuzzGuard(f *testing.F) {
	f.Add([]byte("a\x01\x00\x00\x00\x00\x00\x00\x00a\x00\x00\x00\x00\x00\x00\x00\x00b\xff\xff\xff\xff\xff\xff\xff\x7fb\xff\xff\xff\xff\xff\xff\xff\xff"))
	f.Add([]byte("\xff\x00\x00\x00\x00\x00\x00\x00\x80a\x02\x00\x00\x00\x00\x00\x00\x00a\x01\x00\x00\x00\x00\x00\x00\x00"))
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
			err := guard.Admit(resource, offered)
			if want := offered > 0 && offered >= greatest[resource]; (err == nil) != want {
				t.Fatalf("Admit(%q, %d) after %d = %v", resource, offered, greatest[resource], err)
			}
			if err == nil {
				greatest[resource] = offered
			}
		}
	})
}
