package node

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/quorumlock/quorumlock/internal/protocol"
)

// line is requests about random keys at one node, whose sender is the test.
type line struct {
	node   *Node
	queues []*KeyQueues
	all    []*Request
	out    []*Request
}

func newLine(keys int) *line {
	l := &line{node: &Node{set: &Set{}}}
	l.node.health.state = down // nobody sends
	l.node.channels = newChannels(l.node)
	l.node.probing = true // no sender starts
	for i := range keys {
		l.queues = append(l.queues, NewKeyQueues(fmt.Sprint(i), 1))
	}
	return l
}

// ask puts a request of the token about some keys in their queues.
func (l *line) ask(op *protocol.Op, token string, keys []int) *Request {
	terms := &Terms{Keys: l.queues[keys[0]]}
	if len(keys) > 1 {
		var others []*KeyQueues
		for _, k := range keys[1:] {
			others = append(others, l.queues[k])
		}
		terms.More = NewMore(others, 1)
	}
	r := new(Request)
	r.Init(&protocol.Ask{Op: op, Token: token}, terms, l.node, 0)
	l.node.enter(r)
	l.all = append(l.all, r)
	return r
}

// send takes what may leave out of the queue for the next batch.
func (l *line) send() {
	for _, r := range l.node.channels[0].queue.all() {
		if r.stage == queued {
			r.stage = sending
			l.out = append(l.out, r)
		}
	}
}

// answer ends one of the requests that are out.
func (l *line) answer() {
	i := rand.N(len(l.out)) //nolint:gosec // no secret
	r := l.out[i]
	l.out = slices.Delete(l.out, i, i+1)
	r.stage = final
	l.node.withdraw(r)
}

func TestRequestsAboutSeveralKeysNeverWaitForEachOther(t *testing.T) {
	const keys = 6
	for round := range 2000 {
		l := newLine(keys)
		tokens := map[string][]int{}
		for range 60 {
			token := fmt.Sprint("token ", rand.N(12)) //nolint:gosec // as above
			if tokens[token] == nil {
				tokens[token] = rand.Perm(keys)[:1+rand.N(3)] //nolint:gosec // as above
			}
			op := []*protocol.Op{protocol.Exclusive.Acquire, protocol.Exclusive.Release, protocol.Exclusive.Extend}[rand.N(3)] //nolint:gosec // as above
			l.ask(op, token, tokens[token])
			if rand.N(3) == 0 { //nolint:gosec // as above
				l.send()
			}
			for rand.N(3) == 0 && len(l.out) > 0 { //nolint:gosec // as above
				l.answer()
			}
			if rand.N(10) == 0 { //nolint:gosec // as above
				if r := l.all[rand.N(len(l.all))]; r.stage < sending { //nolint:gosec // as above
					r.stage = final // it ran out of time
					l.node.withdraw(r)
				}
			}
			busy := map[int]bool{}
			for _, r := range l.out {
				for _, k := range tokens[r.Token.(string)] {
					if busy[k] {
						t.Fatalf("round %d: two requests are out for key %d", round, k)
					}
					busy[k] = true
				}
			}
		}
		for l.send(); len(l.out) > 0; l.send() {
			l.answer()
		}
		for _, r := range l.all {
			if r.stage != final {
				t.Fatalf("round %d: nothing is out, and %s of %v waits", round, r.Op.Name, r.Token)
			}
		}
		for i, q := range l.queues {
			if q := &q.at[0]; q.front != nil || q.next() != nil {
				t.Fatalf("round %d: something is left in the queue of key %d", round, i)
			}
		}
	}
}
