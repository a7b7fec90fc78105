package inspect

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/quorumlock/quorumlock/clockdrift"
	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/internal/acl"
	"github.com/quorumlock/quorumlock/internal/fault"
	"github.com/quorumlock/quorumlock/internal/protocol"
)

// MaxListed is how many keys a node may have for [Status] to list them without being told to.
const MaxListed = 1_000_000

// A ManyKeysError says that a node has too many keys to list them unasked. It matches
// redlock.ErrOption.
type ManyKeysError struct {
	Node string
	Keys int64         // in its database, whatever their prefix
	Time time.Duration // that to list them takes, at the rate that was asked for
}

func (e *ManyKeysError) Error() string {
	return fmt.Sprintf("status: node %s has %d keys, and to list those of locks it goes through all of them, which takes %v: name the keys, or allow it (--full, StatusOptions.Full)", e.Node, e.Keys, e.Time)
}

// Is makes the error match redlock.ErrOption.
func (e *ManyKeysError) Is(target error) bool { return target == fault.ErrOption }

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
	return fault.With(reply.Err(), "name the keys, or allow it: ACL SETUSER "+cmp.Or(t.user, "USER")+" "+strings.Join(acl.Rules(v.Prefix, acl.Status), " "))
}

// list lists the keys that may be locks: by their names on the nodes, with how many slots were seen
// of each. Every lock that is held has a node in common with those whose keys are listed.
func (v *survey) list(ctx context.Context) (map[string]int, error) {
	for _, s := range v.states {
		if s.Keys > MaxListed && !v.Full {
			return nil, &ManyKeysError{s.Name, s.Keys, time.Duration(float64(s.Keys) / float64(v.Rate) * float64(time.Second)).Round(time.Second)}
		}
	}
	names := make([]map[string]int, len(v.states))
	v.each(func(i int) {
		if v.states[i].unlisted == nil {
			names[i] = v.scan(ctx, i)
		}
	})
	all := make(map[string]int)
	var why []error
	listed, cluster := 0, false
	for i, s := range v.states {
		for name, slots := range names[i] {
			all[name] = max(all[name], slots)
		}
		switch {
		case s.err != nil:
			why = append(why, fmt.Errorf("%s: %w", s.Name, s.err))
		case s.unlisted != nil:
			cluster = cluster || errors.Is(s.unlisted, errCluster)
			why = append(why, fmt.Errorf("%s: %w", s.Name, s.unlisted))
		default:
			listed++
		}
	}
	need := len(v.states) - v.report.Quorum + 1
	switch {
	case listed >= need:
		return all, nil
	case cluster:
		return nil, fmt.Errorf("status: the keys of %d of %d nodes can be listed, and %d must be, to see every lock: name the keys: %w", listed, len(v.states), need, errors.Join(why...))
	}
	return nil, fmt.Errorf("status: %w to list keys by: those of %d of %d nodes can be listed, and %d must be, to see every lock: %w", fault.ErrNoQuorum, listed, len(v.states), need, errors.Join(why...))
}

// perScan is how many keys a node goes through in one call.
const perScan = 1000

// scan goes through all keys of a node. One pattern finds locks as well as the slots of semaphores,
// whose names begin with a brace: to go through the keys is what costs, not to compare them.
func (v *survey) scan(ctx context.Context, i int) map[string]int {
	s, t := v.states[i], v.targets[i]
	names := make(map[string]int)
	match := "*"
	if v.Prefix != "" {
		match += pattern(v.Prefix)
	}
	begun := v.clock.Now()
	for cursor := "0"; ; {
		replies, err := t.ask(ctx, patience, command("SCAN", cursor, "MATCH", match, "COUNT", strconv.Itoa(perScan)))
		if err != nil {
			s.err = unanswered(err)
			return names
		}
		if len(replies[0].Elems) != 2 {
			s.unlisted = v.listRefused(t, replies[0])
			return names
		}
		for _, name := range replies[0].Elems[1].Elems {
			if key, slots, ok := lockOf(v.Prefix, name.Str); ok {
				names[key] = max(names[key], slots)
			}
		}
		if cursor = replies[0].Elems[0].Str; cursor == "0" || ctx.Err() != nil {
			return names
		}
		begun = v.pause(ctx, begun, perScan)
	}
}

// pause keeps to the rate behind so many keys. It returns when the next ones begin.
func (v *survey) pause(ctx context.Context, begun clockdrift.Instant, keys int) clockdrift.Instant {
	next := begun.Add(time.Duration(float64(keys) / float64(v.Rate) * float64(time.Second)))
	if wait := next.Sub(v.clock.Now()); wait > 0 {
		timer := time.NewTimer(wait)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
		}
		return next
	}
	return v.clock.Now() // what was late is not made up for
}

// slotName is the name of a semaphore's slot.
var slotName = regexp.MustCompile(`^(.*):slot:(0|[1-9][0-9]{0,2})$`)

// beside is the name of what is kept beside a lock, which has its hash tag.
var beside = regexp.MustCompile(`(?s)^.*\{[^}]+\}.*:(fence|readers|writer|wanted|permits|line|live|waits)$`)

// lockOf returns the key of a lock or a semaphore by a name on a node, and for a slot how many slots
// there are at least. It is not ok for what is kept beside locks, and for keys of others.
func lockOf(prefix, name string) (key string, slots int, ok bool) {
	if found := slotName.FindStringSubmatch(name); found != nil {
		stem := found[1]
		number, _ := strconv.Atoi(found[2]) // it has up to three digits
		key = stem
		if inner, braced := strings.CutPrefix(stem, "{"); braced && strings.IndexByte(stem, '}') == len(stem)-1 && strings.HasPrefix(inner, prefix) {
			key = inner[:len(inner)-1]
		}
		if number < protocol.MaxPermits && protocol.SlotKey(key, number) == name {
			return key, number + 1, ours(prefix, key)
		}
	}
	return name, 0, ours(prefix, name) && !beside.MatchString(name)
}

// ours reports whether a key may be one of a lock's: it has the prefix, and is none of the library's own.
func ours(prefix, key string) bool {
	name, ok := strings.CutPrefix(key, prefix)
	return ok && name != "" && !strings.HasPrefix(name, protocol.TokenMark)
}
