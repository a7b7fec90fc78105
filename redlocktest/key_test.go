package redlocktest

import (
	"slices"
	"testing"
	"time"
)

func TestKeysPastTheProtocol(t *testing.T) {
	kinds(t, func(t *testing.T, nodes Nodes) {
		node := nodes[0]
		node.Hang() // none of them waits for it
		node.Set("b", "foreign", time.Hour)
		node.Set("a", "foreign", 0)
		if got := node.Keys(); !slices.Equal(got, []string{"a", "b"}) {
			t.Errorf("Keys = %v, want a and b", got)
		}
		if ttl := node.TTL("a"); ttl != 0 {
			t.Errorf("TTL of a key without an end = %v, want 0", ttl)
		}
		if ttl := node.TTL("b"); ttl <= 59*time.Minute || ttl > time.Hour {
			t.Errorf("TTL of a key set for an hour = %v", ttl)
		}
		node.FastForward(time.Hour)
		if _, found := node.Get("b"); found {
			t.Error("a key set for an hour is there an hour later")
		}
		node.Del("a")
		if got := node.Keys(); len(got) != 0 || len(node.Counts()) != 0 {
			t.Errorf("after Del and FastForward: keys %v, counts %v, want none", got, node.Counts())
		}
		node.Resume()
	})
}

func TestSetReplacesAKeyOfAnyType(t *testing.T) {
	node := Start(t, 1)[0]
	ask(t, node, "ZADD", "key", "1", "member")
	if value, found := node.Get("key"); found {
		t.Errorf("Get of a sorted set = %q, want none", value)
	}
	node.Set("key", "foreign", 0)
	if value, _ := node.Get("key"); value != "foreign" {
		t.Errorf("Get after Set over a sorted set = %q, want what was set", value)
	}
}
