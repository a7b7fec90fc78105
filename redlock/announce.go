package redlock

import (
	"github.com/quorumlock/quorumlock/driver"
)

// Where a release is a command of the node and no script, the batch announces it: behind
// the release if anybody listened when the batch before asked, or nobody has asked yet. As
// the script does, each batch looks who listens; if that is somebody and nothing was
// announced, another batch with the announcements follows at once.

// lookAround asks how many listen at a node.
var lookAround = driver.Command{Args: []any{"PUBSUB", "NUMSUB", wakeChannel}}

// release appends the command that releases a group, and what announces it.
func (b *batch) release(cmds []driver.Command, args []any, g group, loud bool) ([]driver.Command, []any) {
	from := len(args)
	if b.deletes == byScript {
		args = g.release(args, loud, b.always)
		return append(cmds, driver.Command{Args: args[from:], FirstKey: 3, Keys: len(g)}), args
	}
	c := g[0].op.claim // it is alone: see [node.manner]
	args = b.deletes.say(args, c.keyArg, c.tokenArg)
	cmds = append(cmds, driver.Command{Args: args[from:], FirstKey: 1, Keys: 1})
	if loud && b.publish {
		cmds = append(cmds, announcement(g[0]))
	}
	return cmds, args
}

// extend appends the command that prolongs a group's leases. One alone has its own.
func (b *batch) extend(cmds []driver.Command, args []any, g group) ([]driver.Command, []any) {
	if len(g) == 1 {
		return b.ask(cmds, g[0]), args
	}
	from := len(args)
	args = g.extend(args)
	return append(cmds, driver.Command{Args: args[from:], FirstKey: 3, Keys: len(g)}), args
}

// announcement announces that the key of r is free. A release that has deleted nothing
// makes a waiter try once in vain.
func announcement(r *request) driver.Command {
	return driver.Command{Args: []any{"PUBLISH", wakeChannel + r.op.claim.keyArg.(string), ""}}
}

// looks reports whether the batch looks who listens. In a Cluster that cannot be known.
func (b *batch) looks() bool { return b.deletes != byScript && b.noisy > 0 && !b.always }

// tell appends the look, and the announcements that the batch before has left.
func (b *batch) tell(cmds []driver.Command) []driver.Command {
	if b.looks() {
		cmds = append(cmds, lookAround)
	}
	for _, r := range b.untold {
		cmds = append(cmds, announcement(r))
	}
	return cmds
}

// told reads what the node says to that, and returns the releases of the batch that are
// to be announced now: which have deleted, or may have when they were sent before. Where
// nobody says who listens, somebody does.
func (b *batch) told(next func(int) []driver.Reply) (untold []*request) {
	listeners := int64(1)
	if b.looks() {
		if said := next(1); said != nil && len(said[0].Elems) == 2 {
			listeners = said[0].Elems[1].Int
		}
	}
	for range b.untold {
		b.heed(next(1))
	}
	if b.deletes == byScript || b.noisy == 0 {
		return nil
	}
	b.node.listening(listeners)
	if b.publish || listeners == 0 {
		return nil
	}
	for _, r := range b.sender.noisy {
		if len(r.reply) > 0 && r.reply[0].Kind == driver.Integer && (r.reply[0].Int == 1 || b.last) {
			untold = append(untold, r)
		}
	}
	return untold
}

// heed notes a refusal of an announcement.
func (b *batch) heed(said []driver.Reply) {
	if said != nil && says(said[0], "NOPERM") {
		b.node.mute()
	}
}

// replies is how many replies are those of the group.
func (b *batch) replies(g group) int {
	r := g[0]
	switch {
	case len(g) > 1:
		return 1
	case r.op.task != release && b.holds(r):
		return len(b.hold(nil, r))
	case r.op.task == release && b.deletes != byScript && b.publish && r.op.loud:
		return 2
	}
	return max(1, len(r.op.cmds))
}

// ask appends the commands of r, which is no release.
func (b *batch) ask(cmds []driver.Command, r *request) []driver.Command {
	if b.holds(r) {
		return b.hold(cmds, r)
	}
	return append(cmds, r.op.cmds...)
}

// hear puts the node's replies to r as the scripts do. More says that r is to be sent once
// more, as [dialect.hold] has it.
func (b *batch) hear(r *request, said []driver.Reply) (as []driver.Reply, more bool) {
	switch {
	case said == nil:
	case r.op.task == release && b.deletes != byScript:
		if len(said) > 1 {
			b.heed(said[1:])
		}
		return b.deletes.hear(said), false
	case b.holds(r):
		if said, more = b.held(r, said); more {
			r.half = &half{said: said}
		}
	}
	return said, more
}
