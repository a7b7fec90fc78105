package redlock

import (
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/quorumlock/quorumlock/clockdrift"
	"github.com/quorumlock/quorumlock/driver"
)

// Fences are numbers that order the holders of a key (see [Lock.Fence]). Each node keeps
// the greatest number that it has accepted for a key, and accepts a number once and only
// upwards. An acquire proposes one number to all nodes, behind the token and in the same
// batch, and a vote is a node that took both. Two quorums share a node, so no two locks
// have the same number, and one that was asked for after another was had has the greater:
// whatever leases and clocks do. The GET behind the number shows that the node had the
// token when it took the number; without it, attempts that overlap could be ordered one
// way by their tenure and the other way by their fences.
//
// What is proposed is the time in microseconds by the median of the nodes' clocks, so it
// is accepted at once where nothing is wrong, a clock that is years off poisons nothing,
// and the number of an idle key may be forgotten. A proposal that is too small at too many
// nodes is raised: see [Locker.raise].
type fences struct {
	last atomic.Int64 // the last proposal
}

// maxFence is the first number that is none: a server counts in floats, which are exact
// below.
const maxFence = 1<<53 - 1

// propose returns a number above those that it has returned before.
func (l *Locker) propose() int64 {
	now := l.microseconds()
	for {
		last := l.fences.last.Load()
		p := max(now, last+1)
		if l.fences.last.CompareAndSwap(last, p) {
			return p
		}
	}
}

// outlived reports whether the proposal is as old as the lease: such a number may be below
// one that a node has forgotten. The number tells its age, too, for the machine may have
// slept before the operation was asked.
func (op *operation) outlived(now clockdrift.Instant) bool {
	return now >= op.asked.Add(op.ttl) || op.claim.locker.microseconds()-op.fence >= op.ttl.Microseconds()
}

// fenceKey names the counter of a key. It has the key's hash tag, so that a node may
// be a Redis Cluster; a key with a closing brace and no valid tag has no such name, and
// tagged is false.
func fenceKey(key string) (name string, tagged bool) {
	if from := strings.IndexByte(key, '{'); from >= 0 && strings.IndexByte(key[from:], '}') > 1 {
		return key + ":fence", true
	}
	if strings.IndexByte(key, '}') >= 0 {
		return key + ":fence", false
	}
	return "{" + key + "}:fence", true
}

// errUntagged fails an acquire at a Redis Cluster that might keep the counter on another
// server than the key.
var errUntagged = fmt.Errorf("%w: on a Redis Cluster a fence wants a key with a hash tag, or without a closing brace", ErrFence)

// fenceWords are the memory of an acquire's commands with a fence.
type fenceWords struct {
	cmds [6]driver.Command
	args [16]any
}

// proposes puts a fence behind the commands of an acquire, if fences are wanted.
func (op *operation) proposes() {
	c := op.claim
	if c.locker.options.fences {
		c.fenceArg, c.tagged = fenceKey(c.keyArg.(string))
		op.carries(c.locker.propose())
	}
}

// carries puts the fence p behind the operation's commands: what raises the key's counter
// to p and keeps it, and shows who has the key then.
//
// No expiry of a counter is ever shortened, whatever TTL and idle time its other clients
// have: a new counter has none, and gets it by NX; one that has an expiry keeps the later
// one, by GT, which takes none for endless.
func (op *operation) carries(p int64) {
	c := op.claim
	w := new(fenceWords)
	kept := c.locker.keeps(p, op.ttl)
	args := append(w.args[:0],
		"ZADD", c.fenceArg, "GT", "CH", strconv.FormatInt(p, 10), "f",
		"PEXPIRE", c.fenceArg, kept, "NX",
		"PEXPIRE", c.fenceArg, kept, "GT",
		"GET", c.keyArg)
	op.fence = p
	op.cmds = append(append(w.cmds[:0], op.cmds...),
		driver.Command{Args: args[:6], FirstKey: 1, Keys: 1},
		driver.Command{Args: args[6:10], FirstKey: 1, Keys: 1},
		driver.Command{Args: args[10:14], FirstKey: 1, Keys: 1},
		driver.Command{Args: args[14:16], FirstKey: 1, Keys: 1})
}

// mend puts the expiry of a counter behind the releases of attempts that may have been cut
// off between their number and it: nobody may ever use the key again.
func (b *batch) mend(cmds []driver.Command) []driver.Command {
	for _, r := range b.requests[len(b.requests)-b.noisy-b.quiet:] {
		if r.cut {
			c := r.op.claim
			cmds = append(cmds, driver.Command{Args: []any{"PEXPIRE", c.fenceArg, c.locker.keeps(0, r.op.ttl), "NX"}, FirstKey: 1, Keys: 1})
		}
	}
	return cmds
}

// fenceReplies is how many commands carry a fence, and replies answer them.
const fenceReplies = 4

// keeps is how long a counter at p is kept, as servers take it: from when the nodes' clocks
// have come to p, for the idle time, or for two leases if that is longer, so that no lock
// outlives the number that comes before its own.
func (l *Locker) keeps(p int64, ttl time.Duration) any {
	idle := max(l.options.fenceIdle, 2*ttl)
	ahead := (p - l.microseconds() + 999) / 1000 // milliseconds: durations end in 292 years
	if ahead <= 1 && idle == l.options.fenceIdle {
		return l.fenceIdle
	}
	return strconv.FormatInt(idle.Milliseconds()+max(1, ahead), 10)
}

// readFence reads what a node says to a fence and the GET behind it, the last of the
// replies. Whether an expiry was set or was later already is all the same.
func readFence(token string, replies []driver.Reply) (Answer, error) {
	replies = replies[len(replies)-fenceReplies:]
	for _, reply := range replies[:fenceReplies-1] {
		if reply.Kind != driver.Integer {
			return Failed, fenceRefused(reply)
		}
	}
	switch accepted, holder := replies[0], replies[fenceReplies-1]; {
	case holder.Kind == driver.Nil:
		return Absent, nil // it has expired in between
	case holder.Kind != driver.String:
		return Failed, unexpected(holder)
	case holder.Str != token:
		return Taken, nil
	case accepted.Int != 1:
		return Outbid, nil
	}
	return Granted, nil
}

// readCarried reads what a node says to the fence that an extension carries along. It has
// accepted as great a one before, unless it has forgotten it.
func readCarried(token string, replies []driver.Reply) (Answer, error) {
	answer, err := readFence(token, replies)
	if answer == Outbid {
		return Granted, nil
	}
	return answer, err
}

// fenceRefused words what keeps a node from counting.
func fenceRefused(reply driver.Reply) error {
	err := unexpected(reply)
	if lasting(err) {
		return fmt.Errorf("the fence: %w (its counter is the key's name in braces and :fence; allow ~{KEYS}:fence with +zadd +zscore +pexpire)", err)
	}
	return fmt.Errorf("the fence: %w", err)
}

// Fence returns the number that orders the holders of the key, or 0 without [WithFences].
// Hand it to whatever the lock protects, and let that refuse a number below the greatest
// that it has seen (package fence helps): then a holder who does not know yet that his
// lease is over can do no harm there.
func (l *Lock) Fence() int64 {
	l.claim.mu.Lock()
	defer l.claim.mu.Unlock()
	return l.fence
}
