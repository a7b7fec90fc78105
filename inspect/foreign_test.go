package inspect

import (
	"testing"

	"github.com/quorumlock/quorumlock/driver"
)

func TestWhatStandsBesideALockIsNoneOfAnotherLibrary(t *testing.T) {
	for _, tt := range []struct {
		key, kind string
		other     bool
	}{
		{"ql:fences:{1}", "zset", false},
		{"ql:fences:{2}", "string", true},
		{"ql:readers:{job}", "zset", false},
		{"ql:line:{job}", "zset", false},
		{"ql:live:{job}", "zset", false},
		{"ql:permits:{job}", "string", false},
		{"ql:wanted:{job}", "string", false},
		{"ql:writer:{job}", "string", false},
		{"{job}:scores", "zset", true},
		{"line", "zset", true},
	} {
		at := target{exam: new(exam)}
		at.classify(tt.key, driver.Reply{Kind: driver.String, Str: tt.kind}, driver.Reply{Kind: driver.String, Str: "value"}, driver.Reply{Kind: driver.Integer, Int: 1000})
		if other := len(at.foreign.others)+len(at.foreign.locks) > 0; other != tt.other {
			t.Errorf("a %s %s is other data: %v, want %v", tt.kind, tt.key, other, tt.other)
		}
	}
}
