package redlock

import (
	"context"
	"errors"
	"iter"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/internal/memory"
	"github.com/quorumlock/quorumlock/internal/protocol"
	"github.com/quorumlock/quorumlock/test/fakenode"
)

// A namesNode is a fake node that notes the names that it is sent.
type namesNode struct {
	*fakeNode

	mu    sync.Mutex
	names []string // that commands say are keys
	calls int
}

func (n *namesNode) Do(ctx context.Context, cmds []driver.Command) ([]driver.Reply, error) {
	n.mu.Lock()
	n.calls++
	for _, cmd := range cmds {
		for _, key := range cmd.Args[cmd.FirstKey : cmd.FirstKey+cmd.Keys] {
			n.names = append(n.names, key.(string))
		}
	}
	n.mu.Unlock()
	return n.fakeNode.Do(ctx, cmds)
}

// hashed is the part of a key that says which server of a Redis Cluster keeps it, as the
// cluster's specification has it.
func hashed(key string) string {
	if _, rest, found := strings.Cut(key, "{"); found {
		if tag, _, found := strings.Cut(rest, "}"); found && tag != "" {
			return tag
		}
	}
	return key
}

// FuzzKeys takes locks under any prefix, key and token. What may not be is an OptionError,
// and nothing is sent. Otherwise the lock works, is kept under its own name, and on a Redis
// Cluster all its names are on one server, or it is refused.
func FuzzKeys(f *testing.F) {
	huge := strings.Repeat("k{\x00}", 1<<18)
	for _, key := range []string{
		"", "k", "{}", "{", "}", "}{", "{a", "a}", "{a}", "{{a}}", "{a}{b}", "{}{a}", "a{b}c", "a{}b", "ql:fences:{a}", "ql:memory", "ql:free:", "ql:free:k",
		" ", "\n", "\r\n", "\x00", "\xff\xfe", "a b", "€", huge[:maxKey], huge[:maxKey+1], huge,
	} {
		for _, prefix := range []string{"", "p:", "{p}:", "{", "}", huge} {
			f.Add(prefix, key, "t", false)
			f.Add(prefix, key, "t", true)
		}
	}
	for _, token := range []string{"", "ql:", "\x00\r\n\xff", huge[:maxToken], huge[:maxToken+1], huge} {
		f.Add("", "k", token, false)
	}
	f.Fuzz(func(t *testing.T, prefix, key, token string, cluster bool) {
		synctest.Test(t, func(t *testing.T) {
			node := &namesNode{fakeNode: fakenode.New("node-1")}
			options := []Option{WithKeyPrefix(prefix), WithFences()}
			if cluster {
				node.Info += "redis_mode:cluster\r\n"
			} else {
				options = append(options, WithRestartGuard(defaults().acquire.ttl))
			}
			locker, err := New([]driver.Node{{Name: "node-1", Driver: node}}, options...)
			if err != nil {
				refused(t, err, 0)
				return
			}
			defer locker.Close()
			if !cluster {
				ripen(t, locker)
			}
			for _, option := range [][]AcquireOption{nil, {WithToken(token)}} {
				synctest.Wait()
				calls := node.calls
				lock, err := locker.TryAcquire(t.Context(), key, option...)
				switch {
				case errors.Is(err, ErrOption):
					refused(t, err, node.calls-calls)
					continue
				case err != nil:
					t.Fatalf("TryAcquire of a free key = %v", err)
				}
				if has, _ := node.Token(prefix + key); lock.Key() != key || has != lock.Token() || option != nil && lock.Token() != token {
					t.Fatalf("the lock of key %q is that of %q, and the node has %q", key, lock.Key(), has)
				}
				mustRelease(t, lock)
			}
			synctest.Wait()
			known := []string{prefix + key, fenceName(prefix + key), memory.Key(prefix), prefix + asideKey}
			for _, name := range node.names {
				if !slices.Contains(known, name) {
					t.Errorf("the node was asked for %q, want only %q", name, known)
				}
				if cluster && name != prefix+asideKey && name != fenceName(prefix+key) && hashed(name) != hashed(prefix+key) {
					t.Errorf("a cluster was asked for %q, which is on another server than %q", name, prefix+key)
				}
			}
			if channels := node.Published; len(channels) > 0 && channels[0] != protocol.WakeChannel+prefix+key {
				t.Errorf("the release was announced on %q", channels[0])
			}
		})
	})
}

// fenceName is the set in which the counter of a key is, among those of its slot.
func fenceName(key string) string { return protocol.FenceSet(key).(string) }

// refused fails the test if an error does not say what is wrong with an option, or if
// something was sent all the same.
func refused(t *testing.T, err error, sent int) {
	t.Helper()
	var option *OptionError
	if !errors.As(err, &option) || option.Option == "" || option.Reason == "" || sent > 0 {
		t.Errorf("%v after %d calls, want an OptionError and none", err, sent)
	}
}

// besides are all names of keys beside a key, those of its first and last slots included.
func besides(key string) iter.Seq[string] {
	roles := []string{
		protocol.RoleReaders, protocol.RolePool,
		protocol.RolePermits, protocol.RoleLine, protocol.RoleWaits,
	}
	return func(yield func(string) bool) {
		for _, role := range roles {
			if !yield(protocol.Beside(role, key)) {
				return
			}
		}
		for _, slot := range []int{0, 1, 11, maxPermits - 1} {
			name := protocol.SlotKey(key, slot)
			if !yield(name) {
				return
			}
		}
	}
}

// FuzzTwoKeys holds two keys at once. They share nothing.
func FuzzTwoKeys(f *testing.F) {
	for _, keys := range [][2]string{
		{"a", "b"},
		{"a", "{a}"},
		{"{a}", "{{a}}"},
		{"{a", "a}"},
		{"{}", "ql:readers:{}"},
		{"a", "a:readers"},
		{"a", "ql:readers:{a}"},
		{"{a}x", "{a}y"},
		{"}", "{}}"},
		{"{a}", "ql:readers:{a}"},
		{"ql:free:a", "a"},
		{"\x00", ""},
		{"a ", "a"},
		{"a\n", "a"},
	} {
		f.Add(keys[0], keys[1])
	}
	f.Fuzz(func(t *testing.T, one, other string) {
		o := defaults()
		if one == other || o.checkKey(one) != nil || o.checkKey(other) != nil || o.checkNames(one, "") != nil || o.checkNames(other, "") != nil {
			return
		}
		names := make(map[string]string)
		for _, key := range []string{one, other} {
			for name := range besides(key) {
				if was, there := names[name]; there {
					t.Errorf("%q is a name of %q, and of %q", name, key, was)
				}
				if names[name] = key; o.checkKey(name) == nil {
					t.Errorf("%q is a name of %q, and a lock may have it", name, key)
				}
				if hashed(name) != hashed(key) {
					t.Errorf("%q is on another server of a Redis Cluster than %q", name, key)
				}
			}
		}
		synctest.Test(t, func(t *testing.T) {
			ours, fakes := newLocker(t, 3, WithFences())
			theirs := another(t, fakes, WithFences())
			last := map[string]int64{}
			for range 3 {
				for _, locker := range []*Locker{ours, theirs} {
					first, second := mustAcquire(t, locker, one), mustAcquire(t, locker, other)
					for _, lock := range []*Lock{first, second} {
						if fence := fenced(t, lock); fence <= last[lock.Key()] {
							t.Errorf("%q has the fence %d after %d", lock.Key(), fence, last[lock.Key()])
						}
						last[lock.Key()] = lock.Fence()
					}
					mustRelease(t, first)
					wantHeld(t, second, true)
					mustRelease(t, second)
				}
			}
		})
	})
}
