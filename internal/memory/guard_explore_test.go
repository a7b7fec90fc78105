package memory_test

import (
	"cmp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/internal/memory"
	"github.com/quorumlock/quorumlock/test/explore"
	"github.com/quorumlock/quorumlock/test/fakenode"
)

// This explorer searches every order in which two clients ask three nodes for one key, hold it, prolong it and give it
// back, while nodes forget in every way that servers have. It runs the production Rules: Judge, Need, Cap and MayBegin;
// of the script it runs what redlocktest compares with the Lua. What it adds is a server of one key. No loss cuts a
// connection: there may be a proxy in between.
//
// Time is in ticks, of a length at which Cap is one, and Need is the longest TTL and two.

const (
	tickLength = 50 * time.Millisecond
	maxNodes   = 4
	present    = int64(1_000_000_000) // by every server's clock, in microseconds: time moves the past
)

// another history than all that are known of a node: see spot.name.
const another = 7

// Ways to lose what a node knows.
const (
	comesBackEmpty  = 'e' // keys and record are gone; another history
	comesBackOld    = 'o' // from an old file, or a replica takes over: the record is there, the key is not
	isFlushed       = 'f' // keys and record are gone; the same history
	isDemoted       = 'd' // it is a replica, and is promoted again: see steps
	changesHistory  = 'h' // nothing is lost: its first replica came, or its backlog was freed
	losesTheRecord  = 'r' // alone
	allLosses       = "eofdh"
	allLossesAndOne = allLosses + "r"
)

// A model says what a world may contain, and which rule is broken. The zero rules are the production ones.
type model struct {
	name   string
	ttl    uint8 // ticks
	losses uint8
	ways   string
	jumps  uint8 // steps forward of a clock
	fresh  bool  // the first deployment; else all nodes are old
	ext    bool  // holders prolong
	lists  bool  // client 1 has other nodes: 0, 1 and 3; node 1 is empty
	change bool  // of lists: a command gives the nodes client 1's settings; node 1 is not empty, looks stand in one step with votes, and each client holds once
	leave  int   // of change: so many old nodes have left before the first enters
	shrink bool  // of change: the nodes stay, and client 1 has a longest TTL of a tick less
	stale  bool  // of lists: node 1 is not empty, and has client 0's record of another history
	atomic bool  // a look is one step

	// Of mutants.
	judge     func(r *memory.Rules, s memory.Server, own memory.Record) memory.State
	begins    func([]memory.View) bool
	grace     time.Duration // by which need is less
	most      time.Duration // that a call of the script adds, in place of Cap
	quorum    int
	unguarded bool // votes count without a look
	prolongs  bool // extensions do that find their token
	front     bool // the look stands in front
	flushKept bool // the record is kept elsewhere: FLUSHALL leaves it
	uptime    bool // the age is that of the process
	anyID     bool // the script takes a record of any history for its own
	anyRole   bool // the script writes at a replica
	anyFor    bool // the script begins a record over one for other settings
	bornOld   bool // a record begins with the age that votes
	expires   bool // the record has a TTL
	keepsAge  bool // of change: a node that enters keeps its age
	oneStep   bool // of change: nodes enter without having left
	keepsZero bool // of change: an age begins at 0, whatever the old longest TTL was
	writes    bool // a client writes back what it has read

	rules [2]*memory.Rules
	need  uint8
	zero  uint8    // what stands for age 0: one less is an age below
	ttls  [2]uint8 // of the clients
	next  world    // room for the next one
}

// A spot is one node, and what the clients know and ask of it.
type spot struct {
	key, rem uint8 // the client whose token is there, from 1; ticks that it has left
	whose    uint8 // the client whose settings the record has, from 1; 0: there is none
	id, is   uint8 // the record's history, the server's
	replica  bool
	left     bool     // of change: the command has seen that the node has left
	age      uint8    // of the memory, by the record
	pend     uint8    // ticks since the record was watched last, at most one
	asked    [2]asked // by each client
	said     [2]uint8 // the history that INFO has said
	view     [2]memory.View
}

type asked uint8

const (
	nothing asked = iota
	sent
	granted // the look is to come
	halfSeen
	seen // the look stood in front
	counts
)

type user struct{ phase, el, lease uint8 } // el: ticks since the commands left

const (
	idle = iota
	trying
	holding
	prolonging
)

type world struct {
	spots         [maxNodes]spot
	users         [2]user
	losses, jumps uint8
	held          [2]bool // of change
	late          uint8   // a record that a client will write back: its node, from 1
	lateID        uint8
	lateAge       uint8
}

var histories = func() (all [8]string) {
	for i := range all {
		all[i] = strings.Repeat(string(rune('0'+i)), 40)
	}
	return all
}()

func (m *model) size() int {
	if m.lists && !m.shrink {
		return 4
	}
	return 3
}

// settings are those that a record names.
func (m *model) settings(whose uint8) string {
	if whose == nobodys {
		return "to " + m.rules[1].Text
	}
	return m.rules[whose-1].Text
}

func (m *model) member(c, n int) bool { return !m.lists || m.shrink || n < 2 || n == 2+c }

func (m *model) init() (w world) {
	for c := range m.rules {
		if m.ttls[c] = m.ttl; m.shrink && c == 1 {
			m.ttls[c], m.zero = m.ttl-1, 1
		}
		m.rules[c] = memory.New(memory.Settings{Longest: time.Duration(m.ttls[c]) * tickLength, NodeSet: map[bool]uint64{true: uint64(c)}[m.lists], Size: 3})
	}
	need := m.rules[0].Need() - m.grace
	m.need = m.zero + ticks(need+tickLength-1)
	if m.judge == nil {
		m.judge = func(r *memory.Rules, s memory.Server, own memory.Record) memory.State {
			state, _ := r.Judge(s, own)
			return state
		}
	}
	if m.begins == nil {
		m.begins = memory.MayBegin
	}
	if m.most == 0 {
		m.most = m.rules[0].Cap()
	}
	if m.quorum == 0 {
		m.quorum = 2
	}
	w.losses, w.jumps = m.losses, m.jumps
	for n := range m.size() {
		if w.spots[n].is = 1; !m.fresh && n < 3 && (!m.lists || n != 1 || m.change) {
			w.spots[n].whose, w.spots[n].id, w.spots[n].age = 1, 1, m.need
		}
		if m.stale && n == 1 {
			w.spots[n].whose, w.spots[n].id, w.spots[n].age = 1, 2, m.need
		}
	}
	return w
}

// look judges a node for a client that has heard this history of it.
func (m *model) look(w *world, n, c int, history uint8) bool {
	s := &w.spots[n]
	server := memory.Server{Role: "master", History: histories[history]}
	if history == 0 {
		server = memory.Server{Role: "slave", History: histories[s.is]}
	}
	var own memory.Record
	if s.whose != 0 {
		own = memory.Record{ID: histories[s.id], For: m.settings(s.whose), Age: (time.Duration(s.age)-time.Duration(m.zero))*tickLength + m.grace}
	}
	state := m.judge(m.rules[c], server, own)
	if m.lists && c == 1 && !m.change {
		s.view[1] = state.View()
	}
	return state == memory.Votes
}

// token is that of a client, and what stands for its settings; or a node, from 1.
func token(c int) uint8 { return [...]uint8{1, 2, 3, 4}[c] }

func ticks(d time.Duration) uint8 { return uint8(max(0, min(d/tickLength, 100))) }

// history is what INFO says; 0: it is a replica.
func (s *spot) history() uint8 {
	if s.replica {
		return 0
	}
	return s.is
}

// script runs the script of a client.
func (m *model) script(w *world, n, c int) {
	s := &w.spots[n]
	was := fakenode.Memory{}
	if s.whose != 0 {
		was = fakenode.Memory{ID: histories[s.id], For: m.settings(s.whose), Age: (int64(s.age) - int64(m.zero)) * tickLength.Microseconds(), Last: present - int64(s.pend)*tickLength.Microseconds()}
		if m.anyID {
			was.ID = histories[s.is]
		}
		if m.anyFor && was.For != m.rules[c].Text && s.id != s.is {
			was = fakenode.Memory{}
		}
	}
	role := "master"
	if s.replica && !m.anyRole {
		role = "slave"
	}
	begins := !m.lists || c == 0 && !m.change || m.change && m.freshBegins(w, c) || !m.change && m.begins([]memory.View{w.spots[0].view[1], w.spots[1].view[1], w.spots[3].view[1]})
	is, wrote := was.Remember(role, histories[s.is], present, m.rules[c].Text, m.most.Microseconds(), (m.rules[c].Need() - m.grace).Microseconds(), begins)
	if !wrote {
		return
	}
	s.whose, s.id, s.pend = 1, s.is, 0
	if m.lists {
		s.whose = token(c)
	}
	s.age = min(m.need, ticks(time.Duration(is.Age)*time.Microsecond+time.Duration(m.zero)*tickLength))
	if was == (fakenode.Memory{}) || was.ID != is.ID {
		s.begun(m)
	}
}

// begun is a record that begins: the reading of the clock may be a tick old.
func (s *spot) begun(m *model) {
	if s.age, s.pend = m.zero, 1; m.change {
		s.pend = 0
	} else if m.bornOld {
		s.age, s.pend = m.need, 0
	}
}

// steps are all that can happen next.
func (m *model) steps(w world, next func(explore.Step, world)) {
	do := func(what string, n, c int, how func(w *world)) {
		m.next = w
		if how(&m.next); m.next != w {
			next(explore.Step{What: what, Node: n, Client: c}, m.normal(m.next))
		}
	}
	do("a tick", 0, 0, m.tick)
	for c := range w.users {
		m.userSteps(&w, c, do)
	}
	for n := range m.size() {
		m.nodeSteps(&w, n, do)
		if m.change {
			m.changeSteps(&w, n, do)
		}
	}
}

type doing func(what string, n, c int, how func(w *world))

func (m *model) userSteps(w *world, c int, do doing) {
	u := &w.users[c]
	switch {
	case u.phase == idle && !w.held[c], u.phase == holding && m.ext:
		do("sends to all", 0, c, func(w *world) {
			w.users[c].phase, w.users[c].el = u.phase+1, 0
			for n := range m.size() {
				if m.member(c, n) {
					w.spots[n].asked[c] = sent
				}
			}
		})
	case u.phase == trying || u.phase == prolonging:
		votes := 0
		for n := range m.size() {
			if w.spots[n].asked[c] == counts {
				votes++
			}
		}
		if votes >= m.quorum {
			do("HOLDS", 0, c, func(w *world) {
				w.held[c] = m.change
				w.users[c] = user{phase: holding, lease: max(u.lease, m.ttls[c]-u.el)}
				w.clear(c)
			})
		}
		if u.phase == trying && !m.change {
			do("gives up", 0, c, func(w *world) { w.end(c) })
		}
	}
	for n := range m.size() {
		if !m.member(c, n) {
			continue
		}
		m.answers(w, n, c, do)
		if c == 1 == m.lists || m.change { // another client's adds nothing
			do("runs the script", n, c, func(w *world) { m.script(w, n, c) })
		}
		if m.lists && c == 1 && !m.change {
			do("looks", n, c, func(w *world) { m.look(w, n, c, w.spots[n].history()) })
		}
	}
	if m.lists && c == 1 && u.phase == idle && !m.change {
		do("is another process", 0, c, func(w *world) {
			for n := range w.spots {
				w.spots[n].view[1] = memory.Unheard
			}
		})
	}
}

// answers lets a node go on with what a client has asked of it.
func (m *model) answers(w *world, n, c int, do doing) {
	s := &w.spots[n]
	last := func(ok bool) asked {
		switch {
		case ok && m.front:
			return seen
		case ok:
			return counts
		}
		return nothing
	}
	switch at := s.asked[c]; {
	case at == sent && !m.front || at == seen:
		do("grants", n, c, func(w *world) {
			s := &w.spots[n]
			found := s.key != 0
			if u := w.users[c]; s.key == 0 || s.key == token(c) && u.phase == prolonging {
				s.key, s.rem = token(c), m.ttls[c]
			}
			switch {
			case s.key != token(c):
				s.asked[c] = nothing
			case at == seen || m.unguarded || m.prolongs && found && w.users[c].phase == prolonging:
				s.asked[c] = counts
			default:
				if s.asked[c] = granted; m.change {
					s.asked[c] = last(m.look(w, n, c, s.history()))
				}
			}
		})
	case (at == granted || at == sent) && (m.lists || m.atomic):
		do("is looked at", n, c, func(w *world) { w.spots[n].asked[c] = last(m.look(w, n, c, s.history())) })
	case at == granted || at == sent:
		do("answers INFO", n, c, func(w *world) { w.spots[n].asked[c], w.spots[n].said[c] = halfSeen, s.history() })
	case at == halfSeen:
		do("answers HMGET", n, c, func(w *world) {
			w.spots[n].asked[c] = last(m.look(w, n, c, s.said[c]))
			w.spots[n].said[c] = 0
		})
	}
}

func (m *model) nodeSteps(w *world, n int, do doing) {
	s := &w.spots[n]
	if s.replica {
		do("is promoted, without keys", n, 0, func(w *world) {
			s := &w.spots[n]
			s.key, s.rem, s.replica, s.is = 0, 0, false, another
		})
		do("gets its master's keys", n, 0, func(w *world) { w.spots[n].key, w.spots[n].rem = 0, 0 })
	}
	// A step while a vote is there or under way ends keys too early: that is another assumption, guard or not.
	if w.jumps > 0 && s.key == 0 && s.whose != 0 && s.asked[0] < granted && s.asked[1] < granted {
		do("has its clock set forward", n, 0, func(w *world) {
			w.jumps--
			if s := &w.spots[n]; m.most > m.rules[0].Cap() {
				s.age = m.need
			} else if s.age < m.need {
				s.pend = 1
			}
		})
	}
	for _, way := range m.ways {
		if w.losses > 0 && (way != isDemoted || !s.replica) {
			do("loses: "+string(way), n, 0, func(w *world) { w.losses--; m.lose(&w.spots[n], way) })
		}
	}
	if m.writes {
		do("is read by who will write the record back", n, 0, func(w *world) {
			if s := w.spots[n]; w.late == 0 && s.whose != 0 {
				w.late, w.lateID, w.lateAge = token(n), s.id, s.age
			}
		})
		do("has its record written back", n, 0, func(w *world) {
			if s := &w.spots[n]; w.late == token(n) {
				s.whose, s.id, s.age, s.pend = 1, w.lateID, w.lateAge, 0
				w.late, w.lateID, w.lateAge = 0, 0, 0
			}
		})
	}
}

func (m *model) lose(s *spot, way rune) {
	record := func() { s.whose, s.id, s.age, s.pend = 0, 0, 0, 0 }
	if way != isDemoted && way != changesHistory && way != losesTheRecord {
		s.key, s.rem = 0, 0
	}
	switch way {
	case comesBackEmpty:
		if record(); m.uptime {
			s.whose, s.id = 1, another
			s.begun(m)
		}
		s.replica, s.is = false, another
	case comesBackOld:
		s.replica, s.is = false, another
		if m.uptime { // a replica that has run for long takes over
			s.id = s.is
		}
	case isFlushed:
		if !m.flushKept && !m.uptime {
			record()
		}
	case isDemoted:
		s.replica = true
	case changesHistory:
		s.is = another
	case losesTheRecord:
		record()
	}
}

func (m *model) tick(w *world) {
	for c := range w.users {
		u := &w.users[c]
		if u.phase == trying || u.phase == prolonging {
			if u.el++; u.el >= m.ttls[c] {
				if u.phase == trying {
					w.end(c)
				} else {
					u.phase, u.el = holding, 0
					w.clear(c)
				}
			}
		}
		if u.phase >= holding {
			if u.lease--; u.lease == 0 {
				w.end(c)
			}
		}
	}
	for n := range m.size() {
		s := &w.spots[n]
		if s.key != 0 {
			if s.rem--; s.rem == 0 {
				s.key = 0
			}
		}
		if s.whose != 0 && s.age < m.need {
			s.pend = 1
		}
		if m.expires && s.age >= m.need {
			s.whose, s.id, s.age, s.pend = 0, 0, 0, 0
		}
	}
}

// clear forgets what a client has asked.
func (w *world) clear(c int) {
	for n := range w.spots {
		w.spots[n].asked[c], w.spots[n].said[c] = nothing, 0
	}
}

// end ends a client's lock, or its try.
func (w *world) end(c int) {
	w.users[c] = user{}
	w.clear(c)
	for n := range w.spots {
		if s := &w.spots[n]; s.key == token(c) {
			s.key, s.rem = 0, 0
		}
	}
}

// normal makes one world of those that differ in names alone, and drops what makes no difference.
func (m *model) normal(w world) world {
	for n := range w.spots {
		s := &w.spots[n]
		if s.age >= m.need {
			s.pend = 0
		}
		s.name(&w, n)
	}
	switch {
	case m.shrink:
		w.sort(3)
		return w
	case m.lists:
		w.sort(2)
		return w
	}
	if w.late == 0 {
		w.sort(3)
		swapped := w
		swapped.swap()
		swapped.sort(3)
		if x, y := swapped.ranks(), w.ranks(); slices.Compare(x[:], y[:]) < 0 {
			return swapped
		}
	}
	return w
}

// name names histories in the order in which they are met, since only whether two are the same is of interest.
func (s *spot) name(w *world, n int) {
	var names [8]uint8
	last := uint8(0)
	for _, history := range []*uint8{&s.is, &s.id, &s.said[0], &s.said[1], &w.lateID} {
		if *history == 0 || history == &w.lateID && w.late != token(n) {
			continue
		}
		if names[*history] == 0 {
			last++
			names[*history] = last
		}
		*history = names[*history]
	}
}

func (s *spot) rank() (rank uint64) {
	for _, part := range []uint8{s.key, s.rem, s.whose, s.id, s.is, s.age, s.pend, uint8(s.asked[0]), uint8(s.asked[1]), s.said[0], s.said[1], uint8(s.view[0]), uint8(s.view[1])} {
		rank = rank<<4 | uint64(part)
	}
	if s.replica {
		rank |= 1 << 60
	}
	if s.left {
		rank |= 1 << 61
	}
	return rank
}

func (w *world) sort(nodes int) {
	slices.SortFunc(w.spots[:nodes], func(a, b spot) int { return cmp.Compare(a.rank(), b.rank()) })
}

func (w *world) swap() {
	w.users[0], w.users[1] = w.users[1], w.users[0]
	for n := range w.spots {
		s := &w.spots[n]
		if s.key != 0 {
			s.key = 3 - s.key
		}
		s.asked[0], s.asked[1] = s.asked[1], s.asked[0]
		s.said[0], s.said[1] = s.said[1], s.said[0]
	}
}

// ranks order worlds.
func (w *world) ranks() (all [4]uint64) {
	for n := range all[:3] {
		all[n] = w.spots[n].rank()
	}
	u := w.users[0]
	all[3] = uint64(u.phase)<<16 | uint64(u.el)<<8 | uint64(u.lease)
	return all
}

func twoHolders(w world) string {
	if w.users[0].phase >= holding && w.users[1].phase >= holding {
		return "two holders"
	}
	return ""
}

// recovers returns after how many ticks, without faults and watched in each, client 0 has a quorum; -1: never.
func (m *model) recovers(w world) int {
	w.end(0)
	w.end(1)
	for n := range w.spots {
		if s := &w.spots[n]; s.replica {
			s.replica, s.is = false, another
		}
	}
	for t := range 3*int(m.need) + 3 {
		votes := 0
		for n := range m.size() {
			if m.member(0, n) {
				if m.look(&w, n, 0, w.spots[n].history()) {
					votes++
				}
				m.script(&w, n, 0)
			}
		}
		if votes >= m.quorum {
			return t
		}
		m.tick(&w)
	}
	return -1
}

// run searches the model, and then whether every world recovers.
func (m *model) run() (states, slowest int, wrong string) {
	worlds, wrong := explore.Search(m.init(), m.steps, twoHolders)
	tried := map[world]bool{}
	for _, w := range worlds {
		if wrong != "" || m.change {
			break
		}
		w.users, w.losses, w.jumps, w.late = [2]user{}, 0, 0, 0
		for n := range w.spots {
			s := &w.spots[n]
			s.key, s.rem, s.asked, s.said = 0, 0, [2]asked{}, [2]uint8{}
		}
		if tried[w] {
			continue
		}
		tried[w] = true
		switch after := m.recovers(w); {
		case after < 0:
			wrong = "nobody ever gets the lock"
		default:
			slowest = max(slowest, after)
		}
	}
	return len(worlds), slowest, wrong
}

// The numbers of worlds are written down: a change that forbids more than it should makes them smaller, and nothing wrong.
func TestNoLossMakesTwoHoldersAndAllNodesVoteAgain(t *testing.T) {
	for _, tt := range []struct {
		model
		states, slowest int // and the ticks after which a quorum votes
	}{
		{model{name: "every loss, and a record that is deleted", ttl: 1, losses: 1, ways: allLossesAndOne, ext: true}, 75148, 0},
		{model{name: "a longer lease", ttl: 2, losses: 1, ways: allLossesAndOne}, 377294, 0},
		{model{name: "two losses", ttl: 1, losses: 2, ways: allLosses, atomic: true}, 154342, 4},
		{model{name: "the first deployment", ttl: 1, losses: 1, ways: "eo", fresh: true, atomic: true}, 410109, 4},
		{model{name: "a clock that is set forward", ttl: 1, losses: 1, jumps: 1, ways: allLosses}, 61138, 0},
		{model{name: "two lists of nodes", ttl: 1, lists: true}, 6754, 0},
		{model{name: "two lists of nodes, and anybody begins a record where there is none", ttl: 1, lists: true, stale: true, begins: func([]memory.View) bool { return true }}, 67530, 0},
	} {
		if testing.Short() && tt.states > 100000 {
			continue
		}
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			states, slowest, wrong := tt.run()
			if wrong != "" || states != tt.states || slowest != tt.slowest {
				t.Errorf("%d worlds, a quorum votes after %d ticks at most: %s; want %d, %d and nothing wrong", states, slowest, wrong, tt.states, tt.slowest)
			}
		})
	}
}

// judged is Judge with something else than what a look has shown.
func judged(change func(s *memory.Server, own *memory.Record, r *memory.Rules)) func(*memory.Rules, memory.Server, memory.Record) memory.State {
	return func(r *memory.Rules, s memory.Server, own memory.Record) memory.State {
		change(&s, &own, r)
		state, _ := r.Judge(s, own)
		return state
	}
}

func TestEveryRuleOfTheGuardIsNeeded(t *testing.T) {
	base := model{ttl: 1, losses: 1, ways: allLosses}
	anyID := judged(func(s *memory.Server, own *memory.Record, _ *memory.Rules) {
		if own.ID != "" {
			own.ID = s.History
		}
	})
	for name, mutant := range map[string]func(m *model){
		"1: a vote counts without a look":         func(m *model) { m.unguarded = true },
		"2: the look stands in front of the vote": func(m *model) { m.front = true },
		"3: the record is not among the keys":     func(m *model) { m.flushKept = true },
		"4: the age is that of the process":       func(m *model) { m.uptime = true },
		"5: the record is for any history":        func(m *model) { m.judge, m.anyID = anyID, true },
		"8: a replica votes, and keeps a record": func(m *model) {
			m.anyRole = true
			m.judge = judged(func(s *memory.Server, _ *memory.Record, _ *memory.Rules) { s.Role = "master" })
		},
		"9: a record begins old":                              func(m *model) { m.bornOld = true },
		"10: a client writes the record back":                 func(m *model) { m.ways, m.writes, m.atomic = "f", true, true },
		"11: need is less than the longest TTL":               func(m *model) { m.grace = tickLength + 2*time.Millisecond },
		"11: need has no allowance for a reading that is old": func(m *model) { m.grace, m.jumps = time.Millisecond, 1 },
		"13: an extension counts without a look":              func(m *model) { m.ttl, m.ext, m.prolongs, m.ways = 2, true, true, "e" },
		"14: the record has a TTL":                            func(m *model) { m.losses, m.expires = 0, true },
		"15: a step of the clock counts whole":                func(m *model) { m.jumps, m.most = 1, time.Hour },
		"15: need has no allowance for a step":                func(m *model) { m.jumps, m.grace = 1, tickLength },
		"15: there is one allowance, and two steps":           func(m *model) { m.jumps = 2 },
		"16: a record is begun over another's, by who has seen none": func(m *model) {
			m.lists, m.losses, m.stale, m.anyFor, m.begins = true, 0, true, true, func([]memory.View) bool { return true }
		},
		"17: who has seen other settings begins a record": func(m *model) {
			m.lists, m.losses = true, 0
			m.begins = func(nodes []memory.View) bool { return !slices.Contains(nodes, memory.Unheard) }
		},
		"17: who has not heard of all nodes begins a record": func(m *model) {
			m.lists, m.losses = true, 0
			m.begins = func(nodes []memory.View) bool { return !slices.Contains(nodes, memory.Differs) }
		},
		"18: settings are not compared": func(m *model) {
			m.lists, m.losses = true, 0
			m.judge = judged(func(_ *memory.Server, own *memory.Record, r *memory.Rules) {
				if own.For != "" {
					own.For = r.Text
				}
			})
		},
		"18: one vote is a quorum": func(m *model) { m.quorum = 1 },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := base
			mutant(&m)
			if states, _, wrong := m.run(); wrong == "" {
				t.Errorf("%d worlds, and nothing is wrong in any", states)
			}
		})
	}
}
