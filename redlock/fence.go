package redlock

import (
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

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
	cmds [5]driver.Command
	args [12]any
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
// to p, and shows who has the key then.
func (op *operation) carries(p int64) {
	c := op.claim
	w := new(fenceWords)
	args := append(w.args[:0],
		"ZADD", c.fenceArg, "GT", "CH", strconv.FormatInt(p, 10), "f",
		"PEXPIRE", c.fenceArg, c.locker.idle(op.ttl),
		"GET", c.keyArg)
	op.fence = p
	op.cmds = append(append(w.cmds[:0], op.cmds...),
		driver.Command{Args: args[:6], FirstKey: 1, Keys: 1},
		driver.Command{Args: args[6:9], FirstKey: 1, Keys: 1},
		driver.Command{Args: args[9:11], FirstKey: 1, Keys: 1})
}

// idle is how long a counter is kept, as servers take it: longer than any lease of its
// key, or a lock could outlive the number that comes before its own.
func (l *Locker) idle(ttl time.Duration) any {
	if 2*ttl <= l.options.fenceIdle {
		return l.fenceIdle
	}
	return l.milliseconds(2 * ttl)
}

// readFence reads what a node says to a fence and the GET behind it, the last three of
// the replies.
func readFence(token string, replies []driver.Reply) (Answer, error) {
	replies = replies[len(replies)-3:]
	switch accepted, holder := replies[0], replies[2]; {
	case accepted.Kind != driver.Integer:
		return Failed, fenceRefused(accepted)
	case replies[1].Kind != driver.Integer:
		return Failed, fenceRefused(replies[1])
	case holder.Kind == driver.Nil:
		return Absent, nil // it has expired in between
	case holder.Kind != driver.String:
		return Failed, unexpected(holder)
	case holder.Str != token:
		return Held, nil
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
