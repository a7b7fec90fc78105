package redlock

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
)

func TestLocksThatTakeTurnsNeedScriptsAndOneServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, tt := range []struct {
			node func(f *fakeNode)
			key  string
			want string
		}{
			{func(f *fakeNode) { f.scriptless = true }, "a", "allow +eval +evalsha"},
			{func(f *fakeNode) { f.info += "redis_mode:cluster\r\n" }, "a}", "hash tag"},
		} {
			locker, fakes := newLocker(t, 3, WithFairness())
			for _, f := range fakes {
				f.change(tt.node)
			}
			if _, err := locker.Acquire(t.Context(), tt.key); !errors.Is(err, ErrNode) || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("Acquire of %q = %v, want ErrNode with %q", tt.key, err, tt.want)
			}
		}
	})
}
