package acquire

import (
	"fmt"
	"slices"
	"testing"

	"github.com/quorumlock/quorumlock/internal/lease"
	"github.com/quorumlock/quorumlock/test/explore"
)

// This explorer searches every order in which clients that ask for a free key at the same moment meet at the nodes. It runs
// the production View: who is told that the key is held, who asks again, who lets go. There are no leases, no pauses and no
// bound for rounds; who has let go does not try again. Silent nodes have no steps.

const (
	maxUp      = 4
	maxClients = 3
)

// A setting says who takes part, and which rule is broken.
type setting struct {
	up, nodes, clients int
	all                bool // a round waits for all nodes that answer, and not for a quorum of them
	certain            bool // somebody gets the key
	endless            bool // two that see each other's lead may ask again for ever
	states             int

	leads     func(leads bool) bool // of mutants
	held      func(held bool) bool
	lateGrant bool // who lets go counts a grant that comes late
}

func (s *setting) need() int { return s.nodes/2 + 1 }

type phase uint8

const (
	asking phase = iota
	leaving
	has
	told // that the key is held
	gone
)

type contender struct {
	phase phase
	held  bool        // leaving: it is told that the key is held
	late  bool        // leaving: a request of its own may have come late at the node where it is
	at    int8        // leaving: the node
	view  [maxUp]int8 // what the nodes have said in this round: a client, from 1
}

type contest struct {
	holder  [maxUp]int8 // the client whose token has the key, from 1
	clients [maxClients]contender
}

// view is what a client knows at the end of a round.
func (s *setting) view(c *contender, me int8) View {
	v := View{Need: s.need(), Token: fmt.Sprint(me), Marked: true, Nodes: make([]Seen, s.nodes)}
	for n, whose := range c.view[:s.up] {
		switch seen := &v.Nodes[n]; whose {
		case 0:
		case me:
			seen.Answer = lease.Granted
		default:
			*seen = Seen{Answer: lease.Taken, Named: true, Holder: fmt.Sprint(whose), Marked: true}
		}
	}
	return v
}

// steps are the worlds that a client can make of one.
func (s *setting) steps(w contest, i int) (next []contest) {
	me, c := int8(i)+1, &w.clients[i] //nolint:gosec // one of three
	do := func(how func(w *contest, c *contender)) {
		t := w
		how(&t, &t.clients[i])
		next = append(next, t)
	}
	switch c.phase {
	case asking:
		said := 0
		for n := range s.up {
			if c.view[n] != 0 {
				said++
				continue
			}
			do(func(w *contest, c *contender) {
				if w.holder[n] == 0 {
					w.holder[n] = me
				}
				c.view[n] = w.holder[n]
			})
		}
		if said >= s.need() && (!s.all || said == s.up) {
			do(func(_ *contest, c *contender) { s.decides(c, me) })
		}
	case leaving:
		n := c.at
		if c.view[n] == 0 && w.holder[n] == 0 && !c.late {
			do(func(w *contest, c *contender) {
				w.holder[n], c.late = me, true
				if s.lateGrant {
					c.view[n] = me
					if v := s.view(c, me); v.Count(lease.Granted) >= v.Need {
						*c = contender{phase: has}
					}
				}
			})
			return next
		}
		do(func(w *contest, c *contender) {
			if w.holder[n] == me {
				w.holder[n] = 0
			}
			if c.at, c.late = c.at+1, false; int(c.at) < s.up {
				return
			}
			if c.held {
				*c = contender{phase: told}
			} else {
				*c = contender{phase: gone}
			}
		})
	}
	return next
}

// decides ends a client's round.
func (s *setting) decides(c *contender, me int8) {
	v := s.view(c, me)
	_, held := v.Holder(v.Need)
	_, leads := v.Rank()
	leads = leads && v.Disputed()
	if s.leads != nil {
		leads = s.leads(leads)
	}
	if s.held != nil {
		held = s.held(held)
	}
	switch {
	case v.Count(lease.Granted) >= v.Need:
		*c = contender{phase: has}
	case leads && !held:
		*c = contender{}
	default:
		c.phase, c.held = leaving, held
	}
}

// wrong says what must not be.
func (s *setting) wrong(w contest) string {
	var phases [gone + 1]int
	for _, c := range w.clients[:s.clients] {
		phases[c.phase]++
	}
	over := phases[asking]+phases[leaving] == 0
	switch {
	case phases[has] > 1:
		return "two have the key"
	case over && phases[told] == s.clients:
		return "nobody has the key, and all are told that it is held"
	case over && s.certain && phases[has] == 0:
		return "nobody has the key"
	}
	return ""
}

// search visits all worlds, and says what is wrong in one of them.
func (s *setting) search() (states int, wrong string) {
	worlds, wrong := explore.Search(contest{}, func(w contest, next func(explore.Step, contest)) {
		for c := range s.clients {
			for _, to := range s.steps(w, c) {
				next(explore.Step{What: fmt.Sprintf("%+v", to.clients[c]), Client: c}, to)
			}
		}
	}, s.wrong)
	if wrong == "" && s.endless != s.lasts(worlds) {
		wrong = fmt.Sprintf("a contest without an end: %t", !s.endless)
	}
	return len(worlds), wrong
}

// lasts reports whether some contest has no end although every client goes on: whether there are worlds in which nobody has
// the key, and from each of which each client that is not over can make a step, now or later, without leaving them.
func (s *setting) lasts(worlds []contest) bool {
	index := make(map[contest]int)
	for at, w := range worlds {
		index[w] = at
	}
	in, before := make([]bool, len(worlds)), make([][]int, len(worlds))
	after := make([][maxClients][]int, len(worlds)) // by client
	for at, w := range worlds {
		in[at] = !slices.ContainsFunc(w.clients[:s.clients], func(c contender) bool { return c.phase == has })
		for c := range s.clients {
			for _, to := range s.steps(w, c) {
				after[at][c], before[index[to]] = append(after[at][c], index[to]), append(before[index[to]], at)
			}
		}
	}
	for shrinks := true; shrinks; {
		shrinks = false
		for c := range s.clients {
			reach := make([]bool, len(worlds)) // worlds from which c can make a step, or is over
			var queue []int
			add := func(at int) {
				if in[at] && !reach[at] {
					reach[at] = true
					queue = append(queue, at)
				}
			}
			for at, w := range worlds {
				goes := slices.ContainsFunc(after[at][c], func(to int) bool { return in[to] })
				others := slices.ContainsFunc(slices.Concat(after[at][:]...), func(to int) bool { return in[to] })
				if goes || others && w.clients[c].phase >= has {
					add(at)
				}
			}
			for len(queue) > 0 {
				at := queue[0]
				queue = queue[1:]
				for _, from := range before[at] {
					add(from)
				}
			}
			for at := range in {
				shrinks = shrinks || in[at] && !reach[at]
				in[at] = in[at] && reach[at]
			}
		}
	}
	return slices.Contains(in, true)
}

// The numbers of worlds are written down: a rule that forbids more than it should makes them smaller, and nothing wrong.
func TestASplitIsSettled(t *testing.T) {
	for name, s := range map[string]setting{
		"two of three nodes":                  {states: 1575, up: 2, nodes: 3, clients: 3, certain: true},
		"three of five":                       {states: 27220, up: 3, nodes: 5, clients: 3, certain: true},
		"all three, when all have answered":   {states: 13746, up: 3, nodes: 3, clients: 3, all: true, certain: true},
		"four of five, when all have":         {states: 1907, up: 4, nodes: 5, clients: 2, all: true, certain: true},
		"all three: both may let go":          {states: 1179, up: 3, nodes: 3, clients: 2},
		"four of five: both may ask for ever": {states: 12048, up: 4, nodes: 5, clients: 2, endless: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if states, wrong := s.search(); wrong != "" || states != s.states {
				t.Errorf("of %d worlds, want %d: %s", states, s.states, wrong)
			}
		})
	}
}

func TestEachRuleOfAContestIsNeeded(t *testing.T) {
	always := func(what bool) func(bool) bool { return func(bool) bool { return what } }
	for name, s := range map[string]setting{
		"views differ, and both let go":            {up: 3, nodes: 3, clients: 2, certain: true},
		"nobody leads":                             {up: 2, nodes: 3, clients: 2, certain: true, leads: always(false)},
		"nobody lets go":                           {up: 2, nodes: 3, clients: 2, leads: always(true)},
		"who lets go counts a late grant":          {up: 3, nodes: 3, clients: 2, lateGrant: true},
		"who is refused is told that it is held":   {up: 2, nodes: 3, clients: 2, held: always(true)},
		"four of five: views differ, and both ask": {up: 4, nodes: 5, clients: 2},
	} {
		if states, wrong := s.search(); wrong == "" {
			t.Errorf("%s: nothing is wrong in %d worlds", name, states)
		}
	}
}
