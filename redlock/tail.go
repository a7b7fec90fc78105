package redlock

import (
	"cmp"
	"errors"

	"github.com/quorumlock/quorumlock/clockdrift"
	"github.com/quorumlock/quorumlock/driver"
)

// A tail is what a batch ends with, behind all that its requests ask for, and in this
// order:
//
//	WAIT, WAITAOF       whether its votes are safe: see [durability]
//	INFO replication    the look that says whether grants are votes: see [guard]
//	MGET records
//	INFO (three)        whether the node is fit to vote: see [fitness]
//	TIME                the node's clock: see [nodeClock]
//
// A batch is not atomic: between any two of its commands a node may forget what it had
// granted. So the look stands behind every command that makes a vote. What the node
// has lost before shows there; what it loses afterwards is a vote that counted.
type tail struct {
	body    int  // the commands in front of it
	proof   int  // WAIT and WAITAOF among it
	look    int  // the commands of the look
	fit     int  // the commands that ask whether the node is fit
	time    int  // TIME
	guarded bool // the batch asks for votes, and it has to be seen whether they count

	looked  []driver.Reply // to the look; nil: there is none
	unfit   error          // why the node has no votes
	clock   error          // why the clock guard takes no votes
	blurred bool           // a reading of the clock that takes less time may say otherwise
}

// appendTail puts the tail behind the commands of a batch that leaves now.
func (b *batch) appendTail(cmds []driver.Command, now clockdrift.Instant) []driver.Command {
	l := b.node.locker
	t := &b.tail
	t.body = len(cmds)
	t.guarded = b.votes && (l.options.guard > 0 || l.options.clockGuard > 0)
	if b.line.proves {
		t.proof = 1
		cmds = b.prove(cmds, now)
	}
	if t.guarded {
		t.look = len(l.look)
		cmds = append(cmds, l.look...)
	}
	fit, time := b.node.asks(now, t.guarded, b.line.proves, b.last)
	if fit {
		t.fit = len(askFitness)
		cmds = append(cmds, askFitness...)
	}
	if time {
		t.time = 1
		cmds = append(cmds, askTime)
	}
	b.cmds = cmds
	return cmds
}

// takeTail takes the replies to the tail off the others. Where a proof is missing, they are
// worth nothing: the whole batch is unknown.
func (b *batch) takeTail(replies []driver.Reply, sent, received clockdrift.Instant) (body []driver.Reply) {
	t := &b.tail
	t.clock = errBlind
	if b.last && t.fit > 0 { // another server may have answered than before
		t.unfit = errUnasked
	}
	if t.proof > 0 && len(replies) < t.body+t.proof {
		return nil
	}
	if len(replies) <= t.body {
		return replies
	}
	body, replies = replies[:t.body], replies[t.body:]
	if t.proof > 0 {
		b.proof.fault = b.node.locker.durability.judge(replies[0])
		replies = replies[1:]
	}
	if len(replies) < t.look {
		return body
	}
	t.looked, replies = replies[:t.look], replies[t.look:]
	if len(replies) < t.fit {
		return body
	}
	if t.fit > 0 {
		t.unfit = b.node.heardFitness(replies[:t.fit], sent)
		replies = replies[t.fit:]
	}
	if len(replies) > 0 {
		t.blurred, t.clock = b.node.heardTime(replies[0], sent, received)
	}
	return body
}

// judge says why the grants of the batch are no votes, if they are not: err, which the
// batch failed with, if the look did not arrive. It returns what the look has shown.
func (b *batch) judge(err error, now clockdrift.Instant) (shown *condition, doubt error) {
	t, o := &b.tail, &b.node.locker.options
	switch {
	case t.unfit != nil:
		return nil, cmp.Or(err, t.unfit)
	case !t.guarded:
		return nil, nil
	case o.guard > 0 && t.looked == nil:
		return nil, err
	case o.clockGuard > 0 && t.clock != nil:
		return nil, cmp.Or(err, t.clock)
	}
	return b.node.judge(t.looked, now)
}

// errUnasked keeps a vote from counting that came over another connection than the first
// one, which broke, if the node did not say whether it is fit there.
var errUnasked = errors.New("the connection broke, and the node did not say what it is on the next one")
