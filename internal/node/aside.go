package node

import (
	"sync/atomic"
	"time"

	"github.com/quorumlock/quorumlock/clockdrift"
	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/internal/protocol"
)

// An aside is a question of the library's own to one node.
type aside struct {
	ask     protocol.Ask
	terms   Terms
	request Request
	left    atomic.Int64 // when; 0: it has not
	err     error
	replies []driver.Reply // nil: no reply came in time. A late reply may still be written into request
	then    func([]driver.Reply, error)
}

// Ask puts commands of the library's own in the node's queue. Then is called with what came of them.
func (n *Node) Ask(op *protocol.Op, cmds []driver.Command, then func(replies []driver.Reply, err error)) {
	q := &aside{then: then}
	q.ask = protocol.Ask{Op: op, Key: n.set.Prefix, Cmds: cmds}
	now := n.set.Clock.Now()
	q.terms = Terms{Question: q, Keys: NewKeyQueues(n.set.Prefix, len(n.set.Nodes)), Asked: now, Due: now.Add(n.set.Timeout)}
	q.request.Init(&q.ask, &q.terms, n, 0)
	n.Submit(&q.request)
}

func (q *aside) Leaves(_ *Request, now clockdrift.Instant) bool {
	q.left.CompareAndSwap(0, int64(now))
	return true
}

func (q *aside) Out(_ *Request, now clockdrift.Instant) time.Duration {
	if left := q.left.Load(); left != 0 {
		return now.Sub(clockdrift.Instant(left))
	}
	return 0
}

// Answered may come after the answer was given up: counts is false then.
func (q *aside) Answered(r *Request, err, _ error, _ clockdrift.Instant, counts bool) {
	if !counts {
		return
	}
	if q.err, q.replies = err, r.Reply; r.Reply != nil {
		_, q.err = r.Read()
	}
}

func (q *aside) Unanswered(_ *Request, err error, _ clockdrift.Instant) { q.err = err }

func (q *aside) Passed(*Request) { q.then(q.replies, q.err) }
