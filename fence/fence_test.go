package fence_test

import (
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/quorumlock/quorumlock/fence"
)

func TestCheck(t *testing.T) {
	tests := []struct {
		last, offered int64
		want          error
	}{
		{last: 0, offered: 1, want: nil},
		{last: 7, offered: 8, want: nil},
		{last: 7, offered: 7, want: nil}, // the same holder writes again
		{last: 7, offered: math.MaxInt64, want: nil},
		{last: 7, offered: 6, want: fence.ErrStale},
		{last: math.MaxInt64, offered: 1, want: fence.ErrStale},
		{last: 0, offered: 0, want: fence.ErrMissing}, // a lock without a fence says 0
		{last: 7, offered: 0, want: fence.ErrMissing},
		{last: math.MinInt64, offered: -1, want: fence.ErrMissing},
	}
	for _, tt := range tests {
		err := fence.Check(tt.last, tt.offered)
		for _, sentinel := range []error{fence.ErrStale, fence.ErrMissing} {
			if errors.Is(err, sentinel) != errors.Is(tt.want, sentinel) || (err == nil) != (tt.want == nil) {
				t.Errorf("Check(%d, %d) = %v, want %v", tt.last, tt.offered, err, tt.want)
			}
		}
	}
}

func TestAStaleErrorSaysWhichMetWhich(t *testing.T) {
	err := fence.Check(1763715001134567, 1763715000123456)
	var stale *fence.StaleError
	if !errors.As(err, &stale) || stale.Last != 1763715001134567 || stale.Offered != 1763715000123456 {
		t.Fatalf("Check = %#v, want a StaleError with both numbers", err)
	}
	for _, want := range []string{"1763715001134567", "1763715000123456"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("the error is %q, want %s in it", err, want)
		}
	}
}
