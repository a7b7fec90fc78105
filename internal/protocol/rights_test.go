package protocol

import (
	"slices"
	"testing"

	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/internal/acl"
)

// What a kind of locks needs is asked of nodes, but for what the library does without.
func TestNodesAreAskedForAllThatLocksNeed(t *testing.T) {
	without := []string{"info", "zremrangebyscore"} // unchecked, and untrimmed
	for _, f := range []*acl.Feature{acl.Locks, acl.Turns, acl.Deadlocks, acl.Sets, acl.Semaphore, acl.Shared, acl.Fences} {
		for _, command := range f.Commands {
			if named(command) == 0 && !slices.Contains(without, command) {
				t.Errorf("%s needs %s, of which no node is asked", f.Name, command)
			}
		}
	}
}

func TestWhereAllOfAKeyIsForbiddenTheKeyIs(t *testing.T) {
	list := func(names ...string) (reply driver.Reply) {
		reply.Kind = driver.Array
		for _, name := range names {
			reply.Elems = append(reply.Elems, driver.Reply{Kind: driver.String, Str: name})
		}
		return reply
	}
	var all []string
	for _, name := range ofKeys.names() {
		all = append(all, "+"+name)
	}
	all[0] = "-set"
	for _, tt := range []struct {
		reply              driver.Reply
		unknown, forbidden Commands
	}{
		{list(), 0, 0},
		{list("-unlink", "+zadd", "+time"), named("unlink"), named("zadd", "time")},
		{list("+none of ours", ""), 0, 0},
		{list(all...), named("set"), 0},
		{list(append(all, "+time")...), named("set"), named("time")},
		{list(all[1:]...), 0, ofKeys &^ named("set")},
		{driver.Reply{Kind: driver.Failure, Str: "BUSY"}, 0, 0},
	} {
		if unknown, forbidden := readRights(tt.reply); unknown != tt.unknown || forbidden != tt.forbidden {
			t.Errorf("%+v means unknown %v and forbidden %v, want %v and %v", tt.reply, unknown.names(), forbidden.names(), tt.unknown.names(), tt.forbidden.names())
		}
	}
}

// A server cuts off who has not logged in and sends more than ten arguments, or 16 kB in one.
func TestTheFirstCommandsAreShortEnoughToBeRefusedInWords(t *testing.T) {
	for _, cmd := range slices.Concat(AskFitness, []driver.Command{AskTime}, Probes("key", "one", "other")) {
		if len(cmd.Args) > 10 {
			t.Errorf("%v has %d arguments, want 10 at most", cmd.Args[0], len(cmd.Args))
		}
		for _, arg := range cmd.Args {
			if text := arg.(string); len(text) > 16<<10 {
				t.Errorf("%v has an argument of %d bytes", cmd.Args[0], len(text))
			}
		}
	}
}
