package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"syscall"
	"time"

	"github.com/quorumlock/quorumlock/clockdrift"
	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/internal/fault"
	"github.com/quorumlock/quorumlock/internal/gate"
	"github.com/quorumlock/quorumlock/internal/protocol"
)

// send sends requests as one batch and gives every reply to its request.
//
// A few things are sent once more, within the same time-out: what needs a script that the node
// does not know, with the script's source; releases that the node does not take together, one by
// one, or not by the command that it had; what is prolonged without a script, as its second half;
// and all that a broken connection left unanswered, for an idle connection that the server has
// closed fails at its next use. That is safe because a request that is run twice finds its own
// token.
func (s *sender) send(requests []*Request) {
	patience := s.channel.timeout
	for _, r := range requests {
		patience = max(patience, r.Patience())
	}
	s.sending.Until = 0
	b := batch{sender: s, requests: requests, wire: protocol.NewBatch(s.node.manner(), &s.buffer)}
	for len(b.requests) > 0 || len(b.wire.Unpublished) > 0 {
		b.send(s.context(patience))
	}
}

// A batch is what goes to a node together. It ends with
//
//	WAIT, WAITAOF, INFO replication, HMGET   what the gates ask: see [gate.Gates]
//	INFO (three)                             whether the node is fit to vote: see [nature]
//	TIME                                     the node's clock: see [clock]
type batch struct {
	*sender
	requests []*Request // to be sent
	wire     protocol.Batch
	attempt  int

	// Of one sending.
	votes   bool  // some of the requests ask for votes
	gated   bool  // the gates judge
	asked   int   // commands of the gates
	body    int   // the commands in front of what follows
	fit     int   // the commands that ask whether the node is fit
	time    int   // TIME
	unfit   error // why the node has no votes
	doubt   error // the gates' reason
	reading gate.Reading
}

// send sends the batch. What is to be sent once more is left in it.
func (b *batch) send(ctx context.Context) {
	n := b.node
	clock := n.set.Clock
	start := clock.Now() // before the first byte leaves: the earliest expiry counts
	cmds := b.build(start)
	if len(cmds) == 0 {
		b.requests = b.requests[:0]
		return
	}
	b.sending = gate.Sending{Sent: start, Until: b.sending.Until}
	cmds = b.behind(cmds)
	replies, err := n.Do(ctx, cmds)
	now := clock.Fresh()
	b.sending.Received, b.sending.Err = now, err
	took := now.Sub(start)
	body := b.takeReadings(replies, start, now)
	broken := false
	if err == nil {
		b.unfit = cmp.Or(b.unfit, b.channel.measured(start, now))
		n.onRefused(body, start)
		if b.gated && b.reading.Blurred && took <= b.channel.timeout/2 {
			b.reading, err = n.readClock(ctx, 1)
			b.reading.OK, b.reading.Doubt = true, cmp.Or(err, b.reading.Doubt)
			now, err = clock.Fresh(), nil
			b.sending.Received = now
		}
	} else {
		if broken = ctx.Err() == nil && !b.wire.Last; !broken {
			err = n.explain(ctx, err, min(took, b.channel.timeout))
			n.fails(err)
			b.sending.Err = err
		}
		b.giveUp()
	}
	if n.set.Sent != nil {
		b.tell(len(cmds), took, err)
	}
	b.sending.Reading = b.reading
	if b.gated {
		body = b.judge(body, replies)
	}
	b.read(body, err, broken, now)
}

// Sent tells of one sending of a batch, after its end.
type Sent struct {
	Node     *Node
	Parts    []*protocol.Part // of its requests
	Commands int
	Queued   time.Duration // of the request that was asked first, until the batch left
	Took     time.Duration
	Err      error // why there are no replies
	Attempt  int   // 1; more for a batch that goes on with an earlier one's requests
}

// tell tells [Config.Sent] of a sending.
func (b *batch) tell(cmds int, took time.Duration, err error) {
	b.attempt++
	s := Sent{Node: b.node, Parts: b.wire.Parts, Commands: cmds, Took: took, Err: err, Attempt: b.attempt}
	for _, p := range s.Parts {
		s.Queued = max(s.Queued, b.sending.Sent.Sub(p.Of.(*Request).Asked))
	}
	b.node.set.Sent(s)
}

// build gathers the commands, and drops the requests whose question needs no answer any more.
func (b *batch) build(start clockdrift.Instant) []driver.Command {
	b.wire.Begin()
	b.votes = false
	sent := 0
	var needless []*Request
	for _, r := range b.requests {
		if err := b.wire.Unfit(&r.Part); err != nil {
			b.node.onLack()
			b.node.finish([]*Request{r}, err)
			continue
		}
		if !r.Question.Leaves(r, start) {
			needless = append(needless, r)
			continue
		}
		sent++
		b.wire.Add(&r.Part)
		b.votes = b.votes || r.Op.Votes
	}
	cmds := b.wire.Encode()
	b.node.finish(needless, nil)
	if sent == 0 && len(b.wire.Unpublished) == 0 {
		return nil
	}
	return cmds
}

// behind appends the gates' questions and the node's own (fitness, time) to the commands of a batch.
func (b *batch) behind(cmds []driver.Command) []driver.Command {
	n := b.node
	b.body = len(cmds)
	b.gated = (b.votes || b.channel.durable) && n.gates.Any()
	if b.gated {
		before := len(cmds)
		cmds = n.gates.Behind(cmds, &b.sending)
		b.asked = len(cmds) - before
	}
	fit, time := n.asks(b.sending.Sent, b.gated && n.gates.ReadsClock(), b.channel.durable, b.wire.Last)
	b.fit, b.time = 0, 0
	if fit {
		b.fit = len(protocol.AskFitness)
		cmds = append(cmds, protocol.AskFitness...)
	}
	if time {
		b.time = 1
		cmds = append(cmds, protocol.AskTime)
	}
	b.wire.Keep(cmds)
	return cmds
}

// takeReadings splits off the replies to [batch.behind], and reads the node's fitness and clock in them.
func (b *batch) takeReadings(replies []driver.Reply, sent, received clockdrift.Instant) (body []driver.Reply) {
	b.unfit, b.doubt, b.reading = nil, nil, gate.Reading{}
	if b.wire.Last && b.fit > 0 { // another server may have answered than before
		b.unfit = errUnasked
	}
	if len(replies) <= b.body {
		return replies
	}
	body, replies = replies[:b.body], replies[b.body:]
	if b.gated {
		replies = replies[min(b.asked, len(replies)):]
	}
	if len(replies) < b.fit {
		return body
	}
	if b.fit > 0 {
		b.unfit = b.node.OnFitness(replies[:b.fit], sent)
		replies = replies[b.fit:]
	}
	if len(replies) > 0 {
		b.reading = b.node.onTime(replies[0], sent, received)
	}
	return body
}

// errUnasked is the doubt at votes of a second connection, after the first one broke, if the node did not
// tell its fitness there.
var errUnasked = errors.New("the connection broke, and the node did not say what it is on the next one")

// judge lets the gates judge the votes of a batch. Where a durable vote's proof is missing, the
// replies are worth nothing: the whole batch is unknown.
func (b *batch) judge(body, replies []driver.Reply) []driver.Reply {
	behind := replies[min(b.body, len(replies)):]
	switch {
	case b.node.gates.Unknown(behind):
		return nil
	case b.unfit != nil: // its look says nothing that may be kept
		return body
	}
	v := b.node.gates.Judge(behind, &b.sending)
	b.doubt = v.Doubt
	if v.Shown != nil {
		for _, p := range b.wire.Parts {
			p.Of.(*Request).Evidence = v.Shown
		}
	}
	return body
}

// read gives the replies to the requests, and err to those without a reply. Requests to be sent once more
// stay in the batch.
func (b *batch) read(replies []driver.Reply, err error, broken bool, now clockdrift.Instant) {
	if b.unfit != nil {
		b.doubt = cmp.Or(err, b.unfit)
	}
	again, finals := b.requests[:0], b.finals[:0]
	unpublished := len(b.wire.Unpublished) > 0
	b.wire = b.wire.Decode(replies, broken, func(p *protocol.Part, repeat bool) {
		r := p.Of.(*Request)
		if !repeat {
			finals = append(finals, r)
			return
		}
		p.Doubt(b.doubt)
		r.Question.Answered(r, err, b.doubt, now, false)
		again = append(again, r)
	})
	b.node.OnNews(b.wire.News)
	b.requests, b.finals = again, finals
	if len(b.wire.Unpublished) > 0 {
		b.node.set.Owe(+1)
	}
	if unpublished {
		b.node.set.Owe(-1)
	}
	b.node.settle(finals, err, b.doubt, now)
}

// measured notes the round trip of a batch. The error says why the node has no votes, by another batch's
// findings.
func (c *channel) measured(sent, now clockdrift.Instant) (unfit error) {
	c.node.mu.Lock()
	defer c.node.mu.Unlock()
	c.window.note(now.Sub(sent))
	c.node.reached()
	c.node.answered = now
	if sent < c.node.health.reborn {
		return errMoved
	}
	return c.node.nature.unfit
}

// explain words a failed batch for the user. It leaves the context's own errors out: a user who looks for
// them means the context of the call. Took is for how long the node was asked.
func (n *Node) explain(ctx context.Context, err error, took time.Duration) error {
	var said *driver.ServerError
	switch {
	case n.set.Life.Err() != nil:
		return fault.ErrClosed
	case ctx.Err() != nil || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled):
		silence := &fault.SilenceError{After: took, First: n.stranger()}
		if errors.Is(err, driver.ErrNotSent) {
			return driver.NotSent(silence)
		}
		return silence
	case errors.As(err, &said):
	case n.stranger() && (errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET)):
		return fault.With(err, "the server has hung up at the first command: does it speak TLS at this port (rediss://), or is it a proxy that does not know HELLO, CLIENT or INFO?")
	}
	return fault.Advise(err)
}

// Beside asks the node beside its queues, for a node time-out at most.
func (n *Node) Beside(cmds []driver.Command) ([]driver.Reply, error) {
	return n.beside(n.set.Life, cmds)
}

func (n *Node) beside(ctx context.Context, cmds []driver.Command) ([]driver.Reply, error) {
	ctx, cancel := context.WithTimeout(ctx, n.set.Timeout)
	defer cancel()
	replies, err := n.Do(ctx, cmds)
	if err != nil {
		return replies, n.explain(ctx, err, n.set.Timeout)
	}
	return replies, nil
}

// Do calls the driver, and holds it to its contract: surplus replies are dropped; missing replies and a
// panic are errors.
func (n *Node) Do(ctx context.Context, cmds []driver.Command) (replies []driver.Reply, err error) {
	defer func() {
		if cause := recover(); cause != nil {
			replies, err = nil, fmt.Errorf("the driver panicked: %v", cause)
		}
	}()
	replies, err = n.Driver.Do(ctx, cmds)
	if len(replies) > len(cmds) {
		replies = replies[:len(cmds)]
	}
	if err == nil && len(replies) < len(cmds) {
		err = fmt.Errorf("the driver returned %d replies to %d commands", len(replies), len(cmds))
	}
	return replies, err
}
