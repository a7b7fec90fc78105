package inspect

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/internal/acl"
	"github.com/quorumlock/quorumlock/internal/fault"
	"github.com/quorumlock/quorumlock/internal/protocol"
)

// MaxListed is how many keys a node may have for [Status] to list them without being told to.
const MaxListed = 1_000_000

// A manyKeysError says that a node has too many keys to list them unasked.
type manyKeysError struct{ error }

// Is makes the error match redlock.ErrOption.
func (manyKeysError) Is(target error) bool { return target == fault.ErrOption }

// errCluster is why a node's keys cannot be listed.
var errCluster = fmt.Errorf("%w: it is a Redis Cluster, of which SCAN shows one master only", fault.ErrOption)

// meetList notes how many keys the node has, and why they cannot be listed.
func (v *survey) meetList(s *nodeState, t *target, size driver.Reply) {
	switch {
	case t.info["cluster_enabled"] == "1":
		s.unlisted = errCluster
	case size.Kind != driver.Integer:
		s.unlisted = v.listRefused(t, size)
	default:
		s.Keys = size.Int
	}
}

// listRefused words what keeps a node from listing its keys.
func (v *survey) listRefused(t *target, reply driver.Reply) error {
	if !protocol.Says(reply, "NOPERM") {
		return protocol.Unexpected(reply)
	}
	return fault.With(reply.Err(), "name the keys, or allow it: ACL SETUSER "+cmp.Or(t.user, "USER")+" "+strings.Join(wanted(reply.Str, v.Prefix, acl.Status), " "))
}

// list looks at the keys that may be locks: by their names on the nodes, all of which are scanned
// at the same time. Every lock that is held has a node in common with those whose keys are listed.
func (v *survey) list(ctx context.Context, pages chan<- []found) error {
	for _, s := range v.states {
		if s.Keys > MaxListed && !v.Full {
			takes := time.Duration(float64(s.Keys) / float64(v.Rate) * float64(time.Second)).Round(time.Second)
			return manyKeysError{fmt.Errorf("status: node %s has %d keys, and to list those of locks it goes through all of them, which takes %v: name the keys, or allow it (--full, StatusOptions.Full)", s.Name, s.Keys, takes)}
		}
	}
	for more := true; more; {
		v.wait(ctx)
		v.each(func(i int) { v.scan(ctx, i) })
		if err := v.listable(); err != nil {
			return err
		}
		more = false
		var candidates []candidate
		for i, s := range v.states {
			for _, name := range s.names {
				key, slots, ok := lockOf(v.Prefix, name)
				if !ok {
					continue
				}
				p := candidate{key: key, node: i, slot: slots}
				fresh, remembered := v.seen.add(p)
				if p.once = remembered; fresh {
					candidates = append(candidates, p)
				}
			}
			s.names = s.names[:0]
			more = more || s.listed() && s.cursor != "0"
		}
		for part := range slices.Chunk(candidates, chunk) {
			if err := v.send(ctx, part, pages); err != nil {
				return err
			}
		}
		v.asked(perScan - len(candidates)) // what a node went through, and was not asked for
	}
	return v.answering()
}

// listed reports whether the node takes part, and its keys can be listed.
func (s *nodeState) listed() bool { return s.err == nil && s.unlisted == nil }

// listable says that the keys of too few nodes can be listed, or nil.
func (v *survey) listable() error {
	var why []error
	cluster := false
	for _, s := range v.states {
		if !s.listed() {
			cluster = cluster || s.err == nil && errors.Is(s.unlisted, errCluster)
			why = append(why, fmt.Errorf("%s: %w", s.Name, cmp.Or(s.err, s.unlisted)))
		}
	}
	listed, need := len(v.states)-len(why), len(v.states)-v.report.Quorum+1
	switch {
	case listed >= need:
		return nil
	case cluster:
		return fmt.Errorf("status: the keys of %d of %d nodes can be listed, and %d must be, to see every lock: name the keys: %w", listed, len(v.states), need, errors.Join(why...))
	}
	return fmt.Errorf("status: %w to list keys by: those of %d of %d nodes can be listed, and %d must be, to see every lock: %w", fault.ErrNoQuorum, listed, len(v.states), need, errors.Join(why...))
}

// perScan is how many keys a node goes through in one call.
const perScan = 1000

// scan goes on through the keys of a node. One pattern finds locks as well as the slots of
// semaphores, whose names have the prefix inside: to go through the keys is what costs, not to
// compare them.
func (v *survey) scan(ctx context.Context, i int) {
	s, t := v.states[i], v.targets[i]
	if s.unlisted != nil || s.cursor == "0" {
		return
	}
	match := "*"
	if v.Prefix != "" {
		match += pattern(v.Prefix)
	}
	replies, err := t.ask(ctx, v.within(), command("SCAN", cmp.Or(s.cursor, "0"), "MATCH", match, "COUNT", strconv.Itoa(perScan)))
	if err != nil {
		s.err = v.unanswered(err)
		return
	}
	if len(replies[0].Elems) != 2 {
		s.unlisted = v.listRefused(t, replies[0])
		return
	}
	s.cursor = replies[0].Elems[0].Str
	for _, name := range replies[0].Elems[1].Elems {
		s.names = append(s.names, name.Str)
	}
}

// wait waits until the nodes may be asked again, by the rate.
func (v *survey) wait(ctx context.Context) {
	now := v.clock.Now()
	if v.next.Sub(now) <= 0 {
		v.next = now // what was late is not made up for
		return
	}
	select {
	case <-time.After(v.next.Sub(now)):
	case <-ctx.Done():
	}
}

// asked notes that the nodes were asked for so many keys.
func (v *survey) asked(keys int) {
	v.next = v.next.Add(time.Duration(float64(max(0, keys)) / float64(v.Rate) * float64(time.Second)))
}

// lockOf returns the key of a lock or a semaphore by a name on a node, and for a slot how many
// slots there are at least. It is not ok for what is kept beside locks, and for keys of others.
func lockOf(prefix, name string) (key string, slots int, ok bool) {
	if key, slot, ok := protocol.SlotOf(name); ok {
		return key, slot + 1, ours(prefix, key)
	}
	return name, 0, ours(prefix, name)
}

// ours reports whether a key may be one of a lock's: it has the prefix, and is none of the
// library's own.
func ours(prefix, key string) bool {
	return len(key) > len(prefix) && strings.HasPrefix(key, prefix) && !protocol.IsReserved("", key)
}

// A seen is which locks were found already: a lock has its name at several nodes, and a node may
// show a name twice. It remembers a bounded number of hashes.
type seen struct {
	seed   maphash.Seed
	hashes map[uint64]struct{}
	bound  int
}

func newSeen(bound int) *seen {
	return &seen{maphash.MakeSeed(), make(map[uint64]struct{}), bound}
}

// add notes a candidate. It reports whether the candidate is to be looked at, and whether it is
// remembered.
func (s *seen) add(p candidate) (fresh, remembered bool) {
	h := maphash.String(s.seed, p.key)
	if p.slot > 0 {
		h = ^h // a key may be a lock's and a semaphore's
	}
	if _, ok := s.hashes[h]; ok {
		return false, true
	}
	if len(s.hashes) == s.bound {
		return true, false
	}
	s.hashes[h] = struct{}{}
	return true, true
}

// elsewhere reports whether another candidate shows the same lock. Of candidates that are not
// remembered the one at the first node that has the lock shows it, and of a semaphore that of the
// first slot there.
func (v *survey) elsewhere(f found) bool {
	if f.once {
		return false
	}
	ways := f.slots
	if f.slot == 0 {
		ways = [][]sight{f.sights}
	}
	for i, s := range v.states {
		for slot, sights := range ways {
			if s.listed() && sights[i].held() {
				return i != f.node || f.slot > 0 && slot != f.slot-1
			}
		}
	}
	return true // it has gone
}
