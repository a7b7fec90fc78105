package redlock

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/quorumlock/quorumlock/clockdrift"
	"github.com/quorumlock/quorumlock/driver"
)

// A task is a kind of operation.
type task struct {
	name string
	// tries says that it asks for a key that it may not get: what its holder asks goes first.
	tries bool
	// sets says that the commands may leave the token at a node, so that an unknown
	// outcome is owed a release.
	sets bool
	// finds says that a grant may be the token of an earlier sending, with nothing written.
	finds bool
	// tells says that a node that refuses an acquire says who has the key.
	tells bool
	// votes says that a node's agreement is a vote for a holder, which may want a guard and
	// a proof.
	votes bool
	// prolongs says that the deciding vote moves the deadline of a lock that is held.
	prolongs bool
	// once says that it is never sent a second time, not even when its connection breaks.
	once bool
	// read turns a node's replies into its answer.
	read func(token string, replies []driver.Reply) (Answer, error)
	// fence, if there is one, turns the replies of a node that has granted the key into
	// its answer where the operation carries a fence.
	fence func(token string, replies []driver.Reply) (Answer, error)
	// agrees says which answers count towards the quorum.
	agrees func(Answer) bool
	// decided, if there is one, is called once, under claim.mu, with the deciding vote.
	decided func(op *operation, now clockdrift.Instant)
	// complete, if there is one, is called once, when all nodes have answered.
	complete func(op *operation)
}

// needless is the answer of a node that was not asked, because the token is not there
// to release, or because the operation was decided without it.
func (t *task) needless() (Answer, error) {
	if t == release {
		return Absent, nil
	}
	return Failed, errNeedless
}

var errNeedless = errors.New("not asked any more: the others had decided")

// An operation is one question to the nodes about one claim. It is put in the queues
// of all nodes at once and decided by the deciding vote: success when a quorum
// agrees, failure as soon as that is out of reach. The remaining answers come in
// the background and are still noted.
type operation struct {
	task    *task
	claim   *claim
	lock    *Lock            // of the claim; nil for a clean-up
	cmds    []driver.Command // the same for all nodes; a release has none: see [group]
	ttl     time.Duration    // what it asks for, or the claim's
	done    chan struct{}    // closed when decided
	full    chan struct{}    // closed when all nodes have answered; nil: nobody waits for that
	loud    bool             // a release that is announced
	waits   bool             // an acquire that also asks how long the key is held
	attempt int32            // of a renewal, since the last that was carried: see [Renewal]
	old     *operation       // the release that this hand-over stands for
	fence   int64            // what it proposes, or carries along; 0: none

	lane  *lane
	asked clockdrift.Instant
	due   clockdrift.Instant // when requests fail for want of an answer, if the nodes keep up
	ends  clockdrift.Instant // the lease that an extension prolongs; 0: it is none
	need  int

	// Guarded by claim.mu.
	requests  []request
	outcome   outcome
	agreed    int
	open      int                // requests without a final answer
	start     clockdrift.Instant // of the votes that agreed, the earliest that left
	decided   bool               // done is to be closed when claim.mu is free
	clears    bool               // and the claim to be cleared before
	submitted bool               // to all nodes
	complete  bool               // all nodes have answered, and that is to be told
	doubt     bool               // a release was sent and not heard of
	sights    []sight            // who holds the key, one a node; nil: nobody that is known
	placed    int                // nodes that have set the key, whether or not that is a vote
	outbid    int                // nodes that have granted the key and accepted a greater fence before
	counter   int64              // the greatest fence that a node was asked for
}

// words are the memory of an operation's commands, which saves what they allocate.
type words struct {
	cmds [2]driver.Command
	args [10]any
}

// An outcome of an operation.
type outcome uint8

const (
	undecided outcome = iota
	carried           // by a quorum
	failed            // a quorum is out of reach
	outbid            // a quorum has granted the key, but not the fence
	split             // a quorum is out of reach, and no other token is known to have one
	dropped           // by the caller, before it was decided
)

// say sets the operation's commands.
func (op *operation) say(w *words, cmds ...driver.Command) {
	op.cmds = append(w.cmds[:0], cmds...)
}

// ask puts the operation before the nodes. It is decided when need of them agree. It
// reports false, and asks nobody, if the Locker takes in no such operations any more.
func (op *operation) ask(nodes []*node, need int) bool {
	if !op.enter(nodes, need) {
		return false
	}
	op.submit(nodes)
	return true
}

// submit puts the requests of an operation that has entered in the nodes' queues. It may be
// decided before it is in all of them, by nodes that refuse at once. What it has set is
// cleared only behind its last request, or the clean-up would be before that in the lane.
func (op *operation) submit(nodes []*node) {
	for i, n := range nodes {
		n.submit(&op.requests[i])
	}
	if op.task.sets {
		op.claim.mu.Lock()
		op.submitted = true
		op.unlock()
	}
}

// patience is how long a node may take.
func (op *operation) patience() time.Duration { return op.due.Sub(op.asked) }

// enter makes the requests, and lets the operation into the lane of its key, unless the
// Locker takes in no such operations any more.
func (op *operation) enter(nodes []*node, need int) bool {
	c := op.claim
	l := c.locker
	if op.lane == nil { // or it has boarded
		op.lane = l.lanes.enter(c.keyArg.(string), len(l.nodes), op.task.sets)
		op.done = make(chan struct{})
	}
	if op.lane == nil {
		return false
	}
	op.asked = l.clock.Now()
	op.need, op.open = need, len(nodes)
	if op.requests == nil {
		op.requests = make([]request, len(nodes))
	}
	op.due = op.asked.Add(l.options.timeout(op.ttl))
	if op.task.votes {
		op.due = op.due.Add(l.durability.timeout)
	}
	for i, n := range nodes {
		op.requests[i] = request{op: op, node: n, due: op.due}
	}
	if op.task.sets {
		c.mu.Lock()
		for _, n := range nodes {
			c.traces[n.index].asked++
		}
		c.mu.Unlock()
	}
	return true
}

// leave notes that r is about to be sent, unless there is no need any more.
func (op *operation) leave(r *request, now clockdrift.Instant) bool {
	op.claim.mu.Lock()
	defer op.claim.mu.Unlock()
	t := &op.claim.traces[r.node.index]
	switch {
	case !op.task.sets:
		if op.task == release && (t.clean() || !op.claim.deletable(now)) {
			return false
		}
	case op.outcome == dropped, op.outcome == failed && op.full == nil && op.task.complete == nil:
		return false
	default:
		t.leaves(now)
	}
	if r.start == 0 {
		r.start = now
	}
	r.cut = t.cut
	return true
}

// heard notes what came of a sending of r: the reply, or else err. Doubt is why the node has
// no vote, whatever it did. If it counts, it is the final answer; otherwise r is sent once
// more, or has run out of time before.
func (op *operation) heard(r *request, err, doubt error, now clockdrift.Instant, counts bool) {
	answer := Failed
	if r.reply != nil {
		answer, err = op.task.read(op.claim.token, r.reply)
	}
	set := answer == Granted
	if set && op.task.votes {
		if doubt = r.unproved(doubt); r.half != nil {
			doubt = cmp.Or(r.half.doubt, doubt)
		}
	}
	switch {
	case !set:
	case doubt != nil && op.task.votes:
		answer, err = Failed, doubt
	case op.fence != 0 && op.task.fence != nil:
		answer, err = op.task.fence(op.claim.token, r.reply)
	}
	c := op.claim
	c.mu.Lock()
	if set && op.task.votes && r.late(now) {
		answer, err = Failed, &silence{op.patience(), false}
	}
	t := &c.traces[r.node.index]
	if r.reply != nil && r.reply[0].Kind != driver.Failure {
		t.answered(r.start, now)
	}
	switch {
	case op.task.sets && (r.reply != nil || neverSent(err)):
		t.known(set, now)
	case op.task.sets:
		t.unknown(now)
	case op.task == release && answer != Failed:
		t.released(answer == Granted)
	case op.task == release && r.reply == nil && !neverSent(err):
		op.doubt = true
	}
	t.cut = t.cut || op.fence != 0 && r.reply == nil && !neverSent(err)
	switch {
	case r.reply == nil:
	case op.task == counters:
		op.count(r.reply)
	case answer == Taken && !set:
		op.see(r, doubt != nil, now)
	}
	if set && counts {
		op.placed++
	}
	if counts {
		op.tally(r, answer, err, now)
	}
	op.unlock()
	if counts && op.old != nil {
		op.bequeath(r, set || answer != Failed)
	}
}

// vote notes the final answer of a request of which nothing was heard.
func (op *operation) vote(r *request, answer Answer, err error, now clockdrift.Instant) {
	op.claim.mu.Lock()
	op.tally(r, answer, err, now)
	op.unlock()
	if op.old != nil {
		op.bequeath(r, answer != Failed)
	}
}

// tally counts the final answer of r; the deciding vote decides the operation.
// claim.mu is held.
func (op *operation) tally(r *request, answer Answer, err error, now clockdrift.Instant) {
	c := op.claim
	if op.task.votes && op.task.agrees(answer) && op.twice(r) {
		answer, err = Failed, errTwice
	}
	r.answer, r.err, r.answered = answer, err, now
	if op.task.sets {
		c.traces[r.node.index].asked--
	}
	op.open--
	if op.task.agrees(answer) {
		op.agreed++
		if op.agreed == 1 || r.start < op.start {
			op.start = r.start
		}
	}
	if answer == Outbid {
		op.outbid++
	}
	if op.outcome == undecided {
		switch {
		case op.agreed >= op.need && op.stands():
			op.decide(carried, now)
		case op.agreed+op.open >= op.need:
		case op.agreed+op.outbid >= op.need:
			op.decide(outbid, now)
		case op.agreed+op.outbid+op.open < op.need:
			op.decide(failed, now)
		}
	}
	if op.task == release {
		c.settle(r, now)
	}
	r.last = op.open == 0
	op.complete = r.last
}

// unlock gives back claim.mu, and does what was put off until then. A caller who tries
// again must find the clean-up in the lanes before him, or his own previous try would
// refuse him: so he hears of the decision last.
func (op *operation) unlock() {
	decided, clears, complete := op.decided, op.clears && op.submitted, op.complete
	op.decided, op.clears, op.complete = false, op.clears && !op.submitted, false
	op.claim.mu.Unlock()
	if clears {
		op.claim.clear()
	}
	if decided {
		close(op.done)
	}
	if complete && op.full != nil {
		close(op.full)
	}
	if complete && op.task.complete != nil {
		op.task.complete(op)
	}
}

// decide ends the operation. claim.mu is held.
func (op *operation) decide(how outcome, now clockdrift.Instant) {
	op.outcome = how
	if op.task.decided != nil {
		op.task.decided(op, now)
	}
	op.decided = true
}

// await waits until the operation is decided, and drops it if ctx ends first.
func (op *operation) await(ctx context.Context) {
	select {
	case <-op.done:
	case <-ctx.Done():
		op.drop()
	}
}

// decidesForGood reports whether the deciding vote has to know of all sleep of the machine.
// An acquire's does not: whoever uses the lock compares its deadline with a fresh reading
// ([Lock.Valid], [Lock.Context]). An extension moves that deadline, and a fence goes on
// counting after it.
func (op *operation) decidesForGood() bool { return op.task.prolongs || op.fence != 0 }

// deadline is when the lease ends that the votes have granted. claim.mu is held.
func (op *operation) deadline() clockdrift.Instant {
	return clockdrift.Deadline(op.start, op.ttl, op.claim.locker.options.drift)
}

// drop ends the operation for a caller who does not wait any longer, unless it is
// decided. What was not sent is not sent any more.
func (op *operation) drop() {
	now := op.claim.locker.clock.Fresh()
	op.claim.mu.Lock()
	if op.outcome == undecided {
		op.decide(dropped, now)
	}
	op.unlock()
}
