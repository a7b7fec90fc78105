package node

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/clockdrift"
	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/internal/fault"
	"github.com/quorumlock/quorumlock/internal/protocol"
)

// request returns a request for op.
func request(op *protocol.Op, terms Terms) *Request {
	r := new(Request)
	r.Init(&protocol.Ask{Op: op}, &terms, nil, 0)
	return r
}

func TestWhatEndsFirstIsExtendedFirstAndStarvesNobody(t *testing.T) {
	var q queue
	const count = 3 * MaxBatch
	for i := range clockdrift.Instant(count) {
		q.push(request(protocol.Exclusive.Release, Terms{Asked: i}))
		q.push(request(protocol.Exclusive.Extend, Terms{Ends: 1 + rand.N(clockdrift.Instant(1e6))})) //nolint:gosec // no secret
	}
	var last, order clockdrift.Instant
	for batches := 1; q.len() > 0; batches++ {
		batch := q.take(nil)
		extended := 0
		for _, r := range batch {
			if r.Ends != 0 {
				extended++
				if r.Ends < last {
					t.Fatalf("in batch %d a lease that ends at %v stands behind one that ends at %v", batches, r.Ends, last)
				}
				last = r.Ends
			} else {
				if r.Asked != order {
					t.Fatalf("in batch %d stands release %d, want %d", batches, r.Asked, order)
				}
				order++
			}
		}
		if len(batch) != MaxBatch || batches <= 4 && extended != MaxBatch*3/4 || batches > 4 && extended != 0 {
			t.Errorf("batch %d has %d requests, %d extensions among them; want %d and three quarters of them as long as there are any", batches, len(batch), extended, MaxBatch)
		}
	}
}

// A process that computes would pay for each batch with a turn of all that computes.
func TestBehindAYieldThatWasLongASenderLetsNobodyGoFirst(t *testing.T) {
	n := newNode(&Set{Config: Config{Clock: clockdrift.New()}}, 0, driver.Node{})
	c := &n.channels[0]
	s := sender{node: n, channel: c}
	if s.take(n.set.Clock.Now()); c.yields != 0 {
		t.Errorf("behind a short yield there are none until %v, want the next at once", c.yields)
	}
	const took = longYield + time.Millisecond
	now := n.set.Clock.Now()
	if s.take(now.Add(-took)); c.yields < now.Add(noYields*took) {
		t.Errorf("behind a yield of %v there are none until %v, want it for %d times as long", took, c.yields, noYields)
	}
}

func TestRequestsAreDueInOrderWhateverTheirTime(t *testing.T) {
	var a deadlines
	a.expire = func() {}
	defer a.stop()
	clock := clockdrift.New()
	var all []*Request
	for range 500 {
		asked := clock.Now().Add(time.Hour)
		patience := time.Duration(1+rand.N(9)) * time.Second //nolint:gosec // no secret
		r := request(protocol.Exclusive.Acquire, Terms{Asked: asked, Due: asked.Add(patience)})
		a.add(r, clock)
		all = append(all, r)
		if i := rand.N(len(all)); rand.N(3) == 0 { //nolint:gosec // as above
			a.remove(all[i])
			all = slices.Delete(all, i, i+1)
		}
	}
	for len(all) > 0 {
		first := slices.MinFunc(all, func(r, s *Request) int { return int(r.due - s.due) })
		oldest := a.oldest()
		if oldest.due != first.due || a.fires > oldest.due {
			t.Fatalf("the request that is due first is due at %v and not %v, and the timer is set for %v", oldest.due, first.due, a.fires)
		}
		a.remove(oldest)
		all = slices.DeleteFunc(all, func(r *Request) bool { return r == oldest })
	}
	if a.oldest() != nil {
		t.Error("a request is left that was taken out")
	}
}

func TestTheWindowFollowsTheDistance(t *testing.T) {
	for _, tt := range []struct {
		trip time.Duration
		want int
	}{
		{50 * time.Microsecond, 1},
		{140 * time.Microsecond, 1},
		{200 * time.Microsecond, 2},
		{time.Millisecond, 7},
		{5 * time.Millisecond, 8},
		{time.Second, 8},
	} {
		var w window
		for i := range 3 * WindowPeriod {
			w.note(tt.trip + time.Duration(i%7)*time.Millisecond) // busy now and then
			if size := w.size(windowStep); size != tt.want {
				t.Fatalf("after %d batches with a least round trip of %v the window is %d, want %d", i+1, tt.trip, size, tt.want)
			}
		}
	}
	var moved window
	moved.note(50 * time.Microsecond)
	for range 2 * WindowPeriod {
		moved.note(5 * time.Millisecond)
	}
	if moved.size(windowStep) != MaxWindow {
		t.Errorf("a node that moved away keeps a window of %d", moved.size(windowStep))
	}
}

// Nobody waits for a node as long as a quorum of those that may vote is nearer: fewer batches go there.
func TestASpareNodeGetsFewBatches(t *testing.T) {
	const trip = 2500 * time.Microsecond
	for _, tt := range []struct {
		what  string
		trips [4]time.Duration // of the other nodes
		then  func(n *Node)    // done to the first of them
		want  int
	}{
		{"a quorum is near", [4]time.Duration{time.Millisecond, time.Millisecond, time.Millisecond, trip}, nil, 2},
		{"a quorum is nearer, but not by half", [4]time.Duration{time.Millisecond, time.Millisecond, 2 * time.Millisecond, trip}, nil, 8},
		{"a quorum is not near", [4]time.Duration{time.Millisecond, time.Millisecond, trip, trip}, nil, 8},
		{"one of the quorum has failed", [4]time.Duration{time.Millisecond, time.Millisecond, time.Millisecond, trip}, func(n *Node) { n.fails(errBusy) }, 8},
		{"one of the quorum is unfit to vote", [4]time.Duration{time.Millisecond, time.Millisecond, time.Millisecond, trip}, func(n *Node) { n.nature.unfit = errUnasked }, 8},
		{"one of the quorum is kept from voting", [4]time.Duration{time.Millisecond, time.Millisecond, time.Millisecond, trip}, func(n *Node) { n.health.shut = 1 }, 8},
	} {
		s := NewSet(Config{Clock: clockdrift.New(), Quorum: 3, Emit: func(fault.Event) {}}, make([]driver.Node, 5))
		answers := func(n *Node, trip time.Duration) {
			now := s.Clock.Now()
			_ = n.channels[0].measured(now.Add(-trip), now)
		}
		for i, n := range s.Nodes {
			n.health.turn(up, nil, s.Clock.Now())
			answers(n, append(tt.trips[:], trip)[i])
		}
		if tt.then != nil {
			tt.then(s.Nodes[0])
			if s.Nodes[0].health.state == up {
				answers(s.Nodes[0], tt.trips[0])
			}
		}
		if room := s.Nodes[4].channels[0].room(); room != tt.want {
			t.Errorf("%s: at a node that is %v away %d batches may be out, want %d", tt.what, trip, room, tt.want)
		}
	}
}

// A heard question notes which of its requests were refused.
type heard struct {
	Question
	refused []*Request
}

func (h *heard) Unanswered(r *Request, _ error, _ clockdrift.Instant) {
	h.refused = append(h.refused, r)
}
func (h *heard) Passed(*Request) {}

func TestANodeThatIsProbedTakesInAllExtensionsAndABoundedRest(t *testing.T) {
	l := newLine(2 * maxPending)
	l.node.set.Clock = clockdrift.New()
	l.node.channels[0].deadlines.expire = func() {}
	defer l.node.StopTimers()
	h := &heard{}
	for _, op := range []*protocol.Op{protocol.Exclusive.Release, protocol.Exclusive.Extend} {
		for _, queues := range l.queues {
			r := new(Request)
			r.Init(&protocol.Ask{Op: op, Token: "t"}, &Terms{Question: h, Keys: queues, Due: clockdrift.Instant(time.Hour)}, l.node, 0)
			l.node.Submit(r)
		}
	}
	if len(h.refused) != maxPending {
		t.Errorf("%d requests were refused, want %d of the releases", len(h.refused), maxPending)
	}
	for _, r := range h.refused {
		if r.Op.Prolongs {
			t.Fatal("an extension was refused")
		}
	}
}
