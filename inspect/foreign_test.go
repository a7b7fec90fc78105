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
		{"{job}:fence", "zset", false},
		{"{job}:readers", "zset", false},
		{"{job}:line", "zset", false},
		{"{job}:live", "zset", false},
		{"{job}:permits", "string", false},
		{"{job}:wanted", "string", false},
		{"{job}:writer", "string", false},
		{"{job}:line", "hash", true},
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
