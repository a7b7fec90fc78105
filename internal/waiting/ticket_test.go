package waiting

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/clockdrift"
	"github.com/quorumlock/quorumlock/internal/acquire"
)

// A paper is a ticket at one node, which has done all that it was sent.
type paper struct {
	node  map[string]int64 // the ranks of the tickets in line, by their names
	name  string
	rank  int64
	maybe bool
}

func (p *paper) Name() string { return p.name }
func (p *paper) There() bool  { return p.maybe }

func (p *paper) put(rank int64) { p.node[p.name], p.maybe = rank, true }

// An office is a host with such a node.
type office struct {
	quietHost
	node map[string]int64
}

func (o office) NewTicket(w *Waiter) Ticket {
	return &paper{node: o.node, name: w.Key, rank: w.Rank()}
}

func (o office) Leaves(was, next Ticket) {
	if p := was.(*paper); p.maybe || next != nil {
		delete(o.node, p.name)
		p.maybe = false
	}
	if next != nil {
		next.(*paper).put(next.(*paper).rank)
	}
}

// A visitor is a waiter, and how far it has come: away, in line, about to try, trying, or gone.
type visitor struct {
	*Waiter
	phase int
}

const (
	away = iota
	inside
	tries
	asks
	gone
)

// does makes the next step of a visitor, or lets it leave: served, or in vain.
func (v *visitor) does(lines *Lines, step int) {
	switch {
	case step == 1:
		lines.leave(v.Waiter, &lockStub{joins: v.Joins, looks: new(int)})
		v.phase = gone
	case step == 2:
		lines.leave(v.Waiter, nil)
		v.phase = gone
	case v.phase == away:
		lines.join(v.Waiter)
		v.phase = inside
	case v.phase == inside:
		v.Due = 0
		if wait, _, _ := lines.look(v.Waiter); wait == 0 {
			v.phase = tries
		}
	case v.phase == tries:
		if v.phase = asks; v.Ticket != nil {
			v.Ticket.(*paper).put(v.Rank())
		}
	default:
		lines.failed(v.Waiter, "", nil)
		v.Crowded, v.phase = true, inside
	}
}

// This explorer searches every order in which waiters of one Locker come, try, are refused, served or give up, with the
// production Lines: a node has no ticket but of the waiter that has the line's standing, or of one that is trying.
func TestNoOrderOfWaitersLeavesATicketOfNobody(t *testing.T) {
	kinds := map[string]struct {
		ticket string
		rank   int64
		waited time.Duration
		manner acquire.Manner
	}{
		"fair":   {"x0", 20, 0, acquire.Manner{Name: "n", Fair: true}},
		"later":  {"x0", 30, 0, acquire.Manner{Name: "n", Fair: true}},
		"urgent": {"x5", 10, 0, acquire.Manner{Name: "n", Fair: true}},
		"plain":  {"x0", 40, acquire.Age, acquire.Manner{Name: "n", Ages: true}},
		"reader": {"r0", 50, 0, acquire.Manner{Name: "n", Joins: true}},
	}
	for party, states := range map[string]int{
		"fair later urgent": 1020, "plain fair urgent": 1013, "reader fair urgent": 658, "reader reader later": 404, "plain plain urgent": 666,
	} {
		seen, histories := map[string]bool{}, []string{""}
		for len(histories) > 0 {
			history := histories[0]
			histories = histories[1:]
			host := office{node: map[string]int64{}}
			lines := newLines(host)
			var all []*visitor
			for _, name := range strings.Fields(party) {
				k := kinds[name]
				all = append(all, &visitor{Waiter: &Waiter{Lines: lines, Context: t.Context(), Key: k.ticket, Keys: []string{"k"}, Waiting: acquire.Waiting{Manner: k.manner, Began: clockdrift.Instant(0).Add(-k.waited)}, RankedFrom: clockdrift.Instant(k.rank), nudged: make(chan struct{}, 1)}})
				all[len(all)-1].rank.Store(k.rank)
			}
			l, had := new(line), false
			for _, step := range history {
				had = l.standing.of != nil && host.node[l.standing.ticket.Name()] != 0
				all[step%8].does(lines, int(step/8))
				if l = lines.byKey["k"]; l == nil {
					l = new(line)
				}
			}
			wrong := func(what string) { t.Helper(); t.Fatalf("%s: %s after %q", party, what, history) }
			state, owners := fmt.Sprint(slices.Sorted(maps.Keys(host.node))), map[string]bool{}
			for e := l.waiters.Front(); e != nil; e = e.Next() {
				state += fmt.Sprint(e.Value.(*Waiter).Rank(), len(l.watches) > 0 && l.watches[0].rank != 0)
			}
			for i, v := range all {
				first, has := l.waiters.Len() > 0 && l.first() == v.Waiter, l.standing.of == v.Waiter
				state += fmt.Sprint(i, v.phase, first, has, v.Ticket != nil, v.state, v.Due, v.calls != nil)
				if owners[v.Key] = owners[v.Key] || has || v.Ticket != nil && v.phase == asks; first && v.Fair && had && (!has || len(host.node) == 0) {
					wrong("the first takes turns, and has not taken the standing that another one had")
				}
			}
			for name := range host.node {
				if !owners[name] {
					wrong("a node has a ticket of nobody")
				}
			}
			if of := l.standing.of; of != nil && len(l.watches) > 0 && l.watches[0].rank != 0 && l.watches[0].rank != of.Rank() {
				wrong("what is heard is about the rank of another one")
			}
			if seen[state] {
				continue
			}
			seen[state] = true
			for i, v := range all {
				for step := 0; v.phase != gone && step < 3 && (step == 0 || v.phase != away); step++ {
					histories = append(histories, history+string(rune(8*step+i)))
				}
			}
		}
		if len(seen) != states {
			t.Errorf("%s: %d states, want %d", party, len(seen), states)
		}
	}
}
