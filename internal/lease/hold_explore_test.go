package lease

import (
	"fmt"
	"hash/maphash"
	"math"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/clockdrift"
)

// This explorer searches every order in which clients ask one to three nodes for one key, hold it, prolong it, hand it
// over, convert it and give it back, while commands are delayed, given up, lost, and run late. It runs the production
// Hold, Round, Vote and Trace: what may leave, what an answer says, who holds. What it adds is a node of one key, lanes
// that keep commands in order until one is given up, and what a caller may do next.

// tick is the allowance for drift where its factor is 0: a lease ends a tick before the key would at a node whose clock
// is right.
const tick = 2 * time.Millisecond

// A task says what a world may contain. Delays are never bounded.
//
// Its number of states is written beside it: a rule that forbids more than it should makes it smaller, and nothing wrong.
// So whoever changes what may happen says how many states there are then.
type task struct {
	states   int
	clients  int
	nodes    int
	ttl      int           // ticks
	lives    []int         // for how many ticks each node keeps a key: its clock is fast, or slow
	acquires int           // of each client
	extends  int           // of each hold
	further  int           // further rounds of each acquire, for split votes or a greater fence
	silent   int           // answers that are given up
	lost     int           // connections that break; the command may still run
	again    int           // connections that break, behind which the command is sent once more
	restarts int           // of nodes: one that has forgotten all has no vote for a TTL
	shorter  bool          // extensions ask for a tick less
	fences   bool          // some proposals are below what nodes have accepted
	lazy     bool          // commands may stay in their queue for any time
	rivals   bool          // others take free nodes, and leave them, at any time
	own      bool          // the clients are attempts of one request, with one token
	handOver bool          // a client that releases may give the key to the other
	revokes  bool          // an operator may revoke the lock of client 0
	converts verb          // client 0 is a lock's writer, and client 1 the same lock's reader: see conversions
	calm     bool          // what is no vote takes no time: releases, and answers behind the decision that are not to be sent again
	most     time.Duration // the longest hold; 0: none
}

const (
	maxClients  = 2
	maxNodes    = 5
	maxMessages = 4
	rival       = maxClients + 1 // the owner of a key that no client has
)

type verb uint8

const (
	take verb = iota + 1
	prolong
	free
	share     // take, as a reader
	downgrade // make the writer a reader
	upgrade   // make the only reader a writer
	inherit   // take, also from the other client, which has released the key to this one
	turnBack  // make what is left of the writer the reader with which the lock goes on
	freeBoth
)

func (v verb) String() string {
	return [...]string{"", "command", "extension", "release", "reader's command", "downgrade", "upgrade", "hand-over", "turn", "release of both"}[v]
}

// does is what a command does to its token, and to the lock's other one.
func (v verb) does() (own, other Effect) {
	switch v {
	case free:
		return Frees, Looks
	case downgrade, upgrade, inherit:
		return Sets, Frees
	case turnBack:
		return Frees, Sets
	case freeBoth:
		return Frees, Frees
	}
	return Sets, Looks
}

func (v verb) frees() bool { own, _ := v.does(); return own == Frees }

// A message is a command for one node, and its answer.
type message struct {
	verb    verb
	state   stage
	late    bool // its answer was given up, so that others may overtake
	due     bool // severed: it runs before the next tick, or never, because what left behind the loss has run
	took    bool // of a hand-over: the other client had the key
	doubted bool // the node has forgotten what it knew: no vote
	answer  Answer
	round   uint8  // whose vote it is
	less    int8   // ticks that its lease is shorter than the TTL
	number  int64  // the fence
	seen    uint32 // the news when it left; severed: when that was lost
	besides uint32 // the news of the lock's other token when it left
}

type stage uint8

const (
	queued  stage = iota // it has not left
	sent                 // on its way, or in the server's buffers
	replied              // its answer is on its way
	severed              // the connection is gone; it may still run
)

// A seat is one client at one node.
type seat struct {
	vote     Vote
	trace    Trace
	messages [maxMessages]message // in the order in which they were put; the zero verb: none
	freed    bool                 // in a task in which commands are sent again: a release has left
}

// A place is what a node knows.
type place struct {
	life    int   // ticks that it keeps a key
	owner   int   // the client whose token has the key, from 1; 0: none
	age     int   // of that, in ticks
	counter int64 // the greatest fence that it has accepted
	young   int   // ticks for which it has no vote, because it has forgotten what it knew
	former  int   // young: the owner before that
	part    part  // of a revocation
	guest   bool  // another lock's reader has the key as well, or alone
}

// A server is one node.
type server struct {
	place
	seats [maxClients]seat
}

// A user is one client.
type user struct {
	hold     Hold
	round    Round
	rounds   uint8
	acquires int8
	extends  int8
	passed   bool // somebody else has held the key since this hold began
	begun    bool
	less     int8 // the round asks for a lease that is so many ticks shorter
	vain     bool // the round asks for a longer lease behind a revocation that was final
}

// An explored world.
type situation struct {
	users                         [maxClients]user
	servers                       [maxNodes]server
	silent, lost, restarts, again int
	fence                         int64 // the greatest of all holds so far
	spent                         bool  // own: a lock with the token was released
	hash                          uint64
	within                        bool // what is left of the writer is the reader's: see Leaving
	revoked                       revocation
}

// A searcher searches all worlds of a task, breadth first.
type searcher struct {
	task
	seed  maphash.Seed
	from  map[uint64]uint64 // the worlds seen, and from which each came first
	layer []*situation      // those of the next depth
	next  *situation        // room for the next one
	wrong string            // what must not be
	at    uint64            // the world whose steps are made
	// replayed, if set, is told the name and the world of each step.
	replayed func(name string, next *situation, hash uint64)
}

func (s *searcher) long() time.Duration { return time.Duration(s.ttl) * tick }

// put puts a message in a lane.
func (s *searcher) put(w *situation, u, n int, m message) bool {
	for i := range w.servers[n].seats[u].messages {
		if at := &w.servers[n].seats[u].messages[i]; at.verb == 0 {
			*at = m
			return true
		}
	}
	return false
}

// ask begins a round at all nodes.
func (s *searcher) ask(w *situation, u int, aim Aim, v verb, number int64) bool {
	c := &w.users[u]
	c.rounds++
	c.vain = aim == ToExtend && w.revoked.final
	c.round.Begin(aim, Sets, s.nodes, s.nodes/2+1, false)
	c.round.Propose(number, present, false)
	for n := range s.nodes {
		at := &w.servers[n].seats[u]
		at.vote = Vote{}
		at.trace.Asks()
		if !s.put(w, u, n, message{verb: v, less: c.less, round: c.rounds, number: number}) {
			return false
		}
	}
	return true
}

// leaves lets a message leave its queue, or drops it.
func (s *searcher) leaves(w *situation, u, n, i int) {
	c, at := &w.users[u], &w.servers[n].seats[u]
	m := &at.messages[i]
	v, r := &at.vote, &c.round
	if m.verb.frees() {
		v, r = new(Vote), &Round{Does: Frees}
	}
	_, other := m.verb.does()
	beside, trace := &w.users[1-u].hold, &w.servers[n].seats[1-u].trace
	may := m.verb.frees() || m.round == c.rounds
	switch {
	case m.verb == inherit:
		other, m.besides = Looks, trace.news
	case may && other != Looks:
		may = beside.LeavesBeside(other, v, trace, s.long(), present)
		m.besides = v.besides
	}
	if may && c.hold.Leaves(r, v, &at.trace, false, false, w.spent, present) {
		switch m.state, m.seen = sent, at.trace.news; {
		case !m.verb.frees() && (c.hold.why == Released || c.hold.why == Lost):
			s.wrong = "a setting command leaves for a hold that is over"
		case m.verb == turnBack && beside.Ended():
			s.wrong = "a token is made that of a lock that is over"
		}
		at.freed = at.freed || s.again > 0 && m.verb.frees()
		return
	}
	if may && other != Looks {
		beside.AnsweredBeside(other, v, trace, Unsent, false, present)
	}
	s.final(w, u, n, *m, Failed)
	s.drop(at, i)
}

// final counts the final answer of a message, unless that was counted before.
func (s *searcher) final(w *situation, u, n int, m message, a Answer) {
	at := &w.servers[n].seats[u]
	if m.verb.frees() || m.late || m.state == severed {
		return
	}
	if at.trace.Votes(); m.round == w.users[u].rounds {
		s.count(w, u, n, a)
	}
}

func (s *searcher) drop(at *seat, i int) {
	copy(at.messages[i:], at.messages[i+1:])
	at.messages[maxMessages-1] = message{}
}

// first reports whether nothing before the message holds it up.
func first(at *seat, i int) bool {
	return !slices.ContainsFunc(at.messages[:i], func(m message) bool { return !m.late && m.state != severed })
}

// pump does what takes no time in this task.
func (s *searcher) pump(w *situation) {
	for again := true; again; {
		again = false
		for u := range s.clients {
			for n := range s.nodes {
				again = s.pumpAt(w, u, n) || again
			}
		}
	}
	for u := range s.clients {
		s.forget(w, u)
	}
}

// forget drops what makes no difference any more.
func (s *searcher) forget(w *situation, u int) {
	c := &w.users[u]
	settled := c.rounds != 0 && s.settled(w, u) && (s.converts == 0 || s.settled(w, 1-u))
	decided := c.round.Verdict != Undecided
	if decided {
		c.round = Round{Verdict: c.round.Verdict, Aim: c.round.Aim, Does: c.round.Does, number: c.round.number, superseded: c.round.superseded}
	}
	switch h := &c.hold; h.phase {
	case Held:
		if h.first = 0; s.most == 0 {
			h.limit = math.MaxInt64
		}
	case Over:
		*h = Hold{phase: Over, why: h.why, longest: h.longest, own: h.own, until: min(h.until, present.Add(-10*tick))}
	}
	for n := range s.nodes {
		switch at := &w.servers[n].seats[u]; {
		case settled:
			*at = seat{}
		case decided && at.vote.Answer == Pending && at.vote.Sent != 0 && s.again > 0:
			at.vote = Vote{Sent: present}
		case decided && s.again > 0:
			at.vote = Vote{Answer: at.vote.Answer}
		case decided:
			at.vote = Vote{}
		case at.vote.Answer != Pending:
			at.vote.Sent = 0
		}
		if at := &w.servers[n].seats[u]; s.calm && at.trace.since != 0 {
			at.trace.since = present
		}
	}
	if settled {
		*c = user{acquires: c.acquires}
	}
}

func (s *searcher) pumpAt(w *situation, u, n int) bool {
	at := &w.servers[n].seats[u]
	for i := range at.messages {
		m := &at.messages[i]
		votes := !m.verb.frees() && m.round == w.users[u].rounds && at.vote.Answer == Pending && w.users[u].round.Verdict == Undecided
		switch {
		case m.verb == 0:
			return false
		case m.state == queued && !s.lazy && first(at, i):
			s.leaves(w, u, n, i)
			return true
		case m.state == sent && s.calm && m.verb.frees() && (m.verb != turnBack || s.nodes > 1) && !m.late && first(at, i):
			s.runs(w, u, n, i)
			return true
		case m.state == replied && s.calm && !votes && (w.again == 0 || m.verb.frees()):
			s.answered(w, u, n, i)
			return true
		}
	}
	return false
}

// runs lets the node run a message.
func (s *searcher) runs(w *situation, u, n, i int) {
	node := &w.servers[n]
	m := &node.seats[u].messages[i]
	own := s.has(node, u)
	switch {
	case s.converts != 0:
		s.runsFor(node, u, m)
	case m.verb == free:
		if m.answer = Absent; own {
			m.answer, node.owner, node.age = Granted, 0, 0
		}
	case m.verb == inherit && node.owner == 2-u:
		m.answer, m.took, node.owner, node.age = Granted, true, u+1, 0
	case node.owner != 0 && !own:
		m.answer = Taken
	default:
		switch m.answer = Granted; {
		case !own:
			node.owner, node.age = u+1, int(m.less)
		case s.own || m.verb == prolong:
			node.owner, node.age = u+1, min(node.age, int(m.less))
		}
		if m.number != 0 && m.verb == take {
			if node.counter >= m.number {
				m.answer = Outbid
			}
			node.counter = max(node.counter, m.number)
		}
	}
	m.doubted = node.young > 0
	if m.state == severed {
		s.drop(&node.seats[u], i)
		return
	}
	m.state = replied
	for j := range node.seats[u].messages {
		if z := &node.seats[u].messages[j]; z.state == severed && m.seen >= z.seen {
			z.due = true
		}
		if z := &node.seats[1-u].messages[j]; z.state == severed && s.converts != 0 && m.seen >= z.besides {
			z.due = true
		}
	}
}

// reserves reports whether the node keeps others out for the client: nobody else has its vote. One that has forgotten all
// is reserved for whoever had it before.
func (s *searcher) reserves(node server, u int) bool {
	if node.young > 0 {
		node.owner = node.former
	}
	return s.has(&node, u) || node.owner == tombstone || s.converts != 0 && u == 1 && node.owner == 1
}

// has reports whether the node has the token of the client.
func (s *searcher) has(node *server, u int) bool {
	return node.owner == u+1 || s.own && node.owner != 0 && node.owner != rival
}

// count counts an answer, and takes the verdict.
func (s *searcher) count(w *situation, u, n int, a Answer) {
	c := &w.users[u]
	if c.round.Verdict != Undecided {
		w.servers[n].seats[u].vote.Answer = a
		return // no vote
	}
	c.round.Count(&w.servers[n].seats[u].vote, a, 0)
	verdict := c.round.Reached(0)
	if verdict == Undecided {
		return
	}
	if verdict == Missed && c.hold.phase <= Undone && int(c.rounds) <= s.further {
		verdict = Split
	}
	c.round.Verdict = verdict
	was := c.hold.phase
	c.hold.Decided(&c.round, s.long()-tick*time.Duration(c.less), present, 0)
	switch c.less = 0; {
	case was != Held && c.hold.phase == Held:
		s.begins(w, u)
	case c.vain && verdict == Carried && c.hold.phase == Held:
		s.wrong = "a lease is prolonged that was revoked before"
	}
}

// begins looks at a hold that begins.
func (s *searcher) begins(w *situation, u int) {
	c := &w.users[u]
	c.begun = true
	switch {
	case w.spent:
		c.hold.End(Withdrawn, present)
	case s.converts == upgrade && u == 0:
		s.goesOn(w)
	}
	if s.fences {
		if c.hold.fence <= w.fence {
			s.wrong = fmt.Sprintf("client %d has fence %d, and somebody had %d before", u, c.hold.fence, w.fence)
		}
		w.fence = max(w.fence, c.hold.fence)
	}
	for other := range w.users {
		if other != u && w.users[other].begun && !s.own {
			w.users[other].passed = true
		}
	}
}

// answered lets a client read an answer.
func (s *searcher) answered(w *situation, u, n, i int) {
	at := &w.servers[n].seats[u]
	m := at.messages[i]
	s.drop(at, i)
	s.tell(w, u, n, m, Ran)
	if m.doubted {
		m.answer = Failed
	}
	s.final(w, u, n, m, m.answer)
}

// tell tells a client's hold what became of a message, and the hold that it is about as well.
func (s *searcher) tell(w *situation, u, n int, m message, fate Fate) {
	own, other := m.verb.does()
	beside, trace := &w.users[1-u].hold, &w.servers[n].seats[1-u].trace
	switch {
	case m.verb == inherit && fate == Ran: // it is a release of the other client's hold: see package quorum, HandOver
		gone := Absent
		if m.took {
			gone = Granted
		}
		beside.Answered(&Round{Does: Frees}, &Vote{seen: m.besides}, trace, Ran, gone, present)
	case m.verb != inherit && other != Looks:
		beside.AnsweredBeside(other, &Vote{besides: m.besides}, trace, fate, fate == Ran && m.answer == Granted, present)
	}
	w.users[u].hold.Answered(&Round{Does: own}, &Vote{seen: m.seen}, &w.servers[n].seats[u].trace, fate, m.answer, present)
}

// breaks lets the connection of a message break.
func (s *searcher) breaks(w *situation, u, n, i int) {
	at := &w.servers[n].seats[u]
	m := &at.messages[i]
	was := *m
	s.tell(w, u, n, was, Silent)
	if m.state == replied {
		s.drop(at, i)
	} else {
		m.state, m.seen, m.besides = severed, at.trace.news, w.servers[n].seats[1-u].trace.news
	}
	s.final(w, u, n, was, Failed)
}

// repeats lets the connection of a message break, and sends the message once more, which may leave out of turn.
func (s *searcher) repeats(w *situation, u, n, i int) bool {
	c, at := &w.users[u], &w.servers[n].seats[u]
	m := at.messages[i]
	s.tell(w, u, n, m, Silent)
	v, r := &at.vote, &c.round
	if m.verb.frees() {
		v, r = new(Vote), &Round{Does: Frees}
	}
	lost := m
	lost.state, lost.seen = severed, at.trace.news
	if (m.verb.frees() || m.round == c.rounds) && c.hold.Leaves(r, v, &at.trace, false, true, w.spent, present) {
		if at.messages[i].state = sent; at.freed && !m.verb.frees() {
			s.wrong = "a setting command leaves behind a release"
		}
	} else {
		s.drop(at, i)
		s.final(w, u, n, m, Failed)
	}
	return m.state == replied || s.put(w, u, n, lost)
}

// cleans puts a release for each node that may have the token, of a hold that is over.
func (s *searcher) cleans(w *situation, u, n int) bool {
	at := &w.servers[n].seats[u]
	if h := &w.users[u].hold; h.phase != Over || !h.Remains(&at.trace, w.spent, present) {
		return false
	}
	if slices.ContainsFunc(at.messages[:], func(m message) bool { return m.verb.frees() && m.state != severed }) {
		return false
	}
	return s.put(w, u, n, message{verb: s.freeing(w, u)})
}

func (s *searcher) cleanAll(w *situation, u int) {
	for n := range s.nodes {
		s.cleans(w, u, n)
	}
}

// settled reports whether nothing is left of a client's hold.
func (s *searcher) settled(w *situation, u int) bool {
	for n := range s.nodes {
		at := &w.servers[n].seats[u]
		if at.messages[0].verb != 0 || !at.trace.Clean() && w.users[u].hold.Deletable(w.spent) {
			return false
		}
	}
	return w.users[u].hold.phase == Over || w.users[u].rounds == 0
}

// step is one step of the search.
func (s *searcher) step(w *situation, act func(w *situation) bool, name string, args ...any) {
	if s.next == nil {
		s.next = new(situation)
	}
	next := s.next
	*next = *w
	if s.wrong != "" || !act(next) {
		return
	}
	for u := range s.clients { // who is over asks for releases at once
		if next.users[u].hold.phase == Over && w.users[u].hold.phase != Over {
			s.cleanAll(next, u)
		}
	}
	s.pump(next)
	h := s.hash(next)
	if s.replayed != nil {
		s.next = nil
		s.replayed(fmt.Sprintf(name, args...), next, h)
		return
	}
	if _, ok := s.from[h]; ok && s.wrong == "" {
		return
	}
	s.from[h] = s.at
	if s.wrong == "" {
		s.check(next)
	}
	if s.wrong != "" {
		s.at = h
		return
	}
	next.hash = h
	s.layer, s.next = append(s.layer, next), nil
}

// hash is the same for worlds that differ in the order of nodes or of clients alone.
func (s *searcher) hash(w *situation) uint64 {
	var hs hashes
	for u := range s.clients {
		hs.users[u] = maphash.Comparable(s.seed, w.users[u])
		for n := range s.nodes {
			hs.seats[n][u] = maphash.Comparable(s.seed, w.servers[n].seats[u])
		}
	}
	h := s.hashAs(w, hs, false)
	if s.clients == 2 && s.converts == 0 {
		hs.users[0], hs.users[1] = hs.users[1], hs.users[0]
		for n := range s.nodes {
			hs.seats[n][0], hs.seats[n][1] = hs.seats[n][1], hs.seats[n][0]
		}
		h = min(h, s.hashAs(w, hs, true))
	}
	return h
}

// hashes are those of a world's largest parts.
type hashes struct {
	users [maxClients]uint64
	seats [maxNodes][maxClients]uint64
}

// hashAs is that of a world whose parts are these, and whose clients may be swapped.
func (s *searcher) hashAs(w *situation, hs hashes, swapped bool) uint64 {
	type node struct {
		place
		seats [maxClients]uint64
	}
	var nodes [maxNodes]uint64
	for n := range s.nodes {
		at := node{w.servers[n].place, hs.seats[n]}
		if swapped && at.owner != 0 && at.owner != rival {
			at.owner = 3 - at.owner
		}
		nodes[n] = maphash.Comparable(s.seed, at)
	}
	slices.Sort(nodes[:])
	type rest struct {
		users   [maxClients]uint64
		more    [4]int
		flags   [2]bool
		fence   int64
		revoked revocation
		nodes   [maxNodes]uint64
	}
	return maphash.Comparable(s.seed, rest{hs.users, [4]int{w.silent, w.lost, w.restarts, w.again}, [2]bool{w.spent, w.within}, w.fence, w.revoked, nodes})
}

// check says what must not be.
func (s *searcher) check(w *situation) {
	holders := 0
	for u := range s.clients {
		c := &w.users[u]
		valid := c.hold.phase == Held && present < c.hold.until
		has := 0
		for n := range s.nodes {
			node := &w.servers[n]
			at := &node.seats[u]
			if s.reserves(*node, u) {
				has++
			}
			if c.hold.phase != Over || !at.trace.Clean() || s.own { // another attempt may have set it
				continue
			}
			if node.owner == u+1 {
				s.wrong = fmt.Sprintf("the trace of client %d at node %d is clean, and the node has its token", u, n)
			}
			if slices.ContainsFunc(at.messages[:], func(m message) bool {
				return m.verb != 0 && !m.verb.frees() && (m.state == sent || m.state == severed)
			}) {
				s.wrong = fmt.Sprintf("the trace of client %d at node %d is clean, and a command is under way that sets its token", u, n)
			}
		}
		switch {
		case !valid:
		case has < s.nodes/2+1:
			s.wrong = fmt.Sprintf("client %d holds with %d nodes", u, has)
		case c.hold.until > c.hold.limit:
			s.wrong = fmt.Sprintf("the lease of client %d passes the longest hold", u)
		case c.passed:
			s.wrong = fmt.Sprintf("client %d holds, and somebody else has begun to since", u)
		}
		if valid {
			holders++
		}
	}
	if w.revoked.final && w.users[0].hold.phase == Held && w.users[0].hold.until > w.revoked.ends {
		s.wrong = "a lease runs longer than its tombstones"
	}
	switch {
	case holders > 1 && !s.own:
		s.wrong = "two hold"
	case s.nodes == 1 && s.wrong == "" && !s.settles(*w):
		s.wrong = "what a hold that is over has left is never taken away"
	}
}

// settles reports whether nothing is left of the holds that are over where nothing more goes wrong: all commands leave,
// run and are answered, and releases are sent each tick.
func (s *searcher) settles(w situation) bool {
	for range 2*s.ttl + 6 {
		for u := range s.clients {
			at := &w.servers[0].seats[u]
			for at.messages[0].verb != 0 {
				switch m := at.messages[0]; m.state {
				case queued:
					s.leaves(&w, u, 0, 0)
				case replied:
					s.answered(&w, u, 0, 0)
				default:
					s.runs(&w, u, 0, 0)
				}
			}
		}
		over := false
		for u := range s.clients {
			over = over || w.users[u].hold.phase == Over && !s.settled(&w, u)
		}
		if !over {
			return true
		}
		s.tick(&w)
		for u := range s.clients {
			s.cleans(&w, u, 0)
		}
	}
	return false
}

// follow makes all steps that can follow a world.
func (s *searcher) follow(w *situation) {
	for u := range s.clients {
		if s.converts == 0 {
			s.acts(w, u)
		} else {
			s.converting(w, u)
		}
		for n := range s.nodes {
			s.moves(w, u, n)
		}
	}
	for n := range s.nodes {
		if node := &w.servers[n]; s.rivals && node.owner == 0 && !node.guest {
			s.step(w, func(w *situation) bool { w.servers[n].owner = rival; return true }, "somebody else takes node %d", n)
		} else if node.owner == rival {
			s.step(w, func(w *situation) bool { w.servers[n].owner = 0; return true }, "somebody else leaves node %d", n)
		}
		if node := &w.servers[n]; s.converts != 0 && (node.guest || node.owner == 0 || node.owner == 2) {
			s.step(w, func(w *situation) bool { w.servers[n].guest = !w.servers[n].guest; return true }, "another reader comes to node %d, or goes", n)
		}
		if w.restarts > 0 && w.servers[n].young == 0 {
			s.step(w, func(w *situation) bool { return s.restart(w, n) }, "node %d restarts, and has forgotten all", n)
		}
	}
	if s.revokes {
		s.revoking(w)
	}
	s.step(w, s.tick, "a tick")
}

// acts is what a client may do.
func (s *searcher) acts(w *situation, u int) {
	c := &w.users[u]
	switch {
	case s.settled(w, u) && int(c.acquires) < s.acquires && !w.spent:
		numbers := []int64{0}
		if s.fences { // by a clock that is right, and by one that is late
			numbers = []int64{w.fence + 1, 1}
		}
		for _, number := range slices.Compact(numbers) {
			s.step(w, func(w *situation) bool {
				c := &w.users[u]
				c.acquires++
				most := s.most
				if most == 0 {
					most = math.MaxInt64
				}
				c.hold.Init(s.long(), most, 0, s.own)
				return s.ask(w, u, ToHold, take, number)
			}, "client %d asks for the key with fence %d", u, number)
		}
	case c.rounds == 0:
	case c.hold.phase == Undone:
		if int(c.rounds) <= s.further {
			for _, number := range s.raises(w, u) {
				s.step(w, func(w *situation) bool {
					return s.ask(w, u, ToHoldAgain, take, number)
				}, "client %d asks again, with fence %d", u, number)
			}
		}
		s.step(w, func(w *situation) bool { w.users[u].hold.End(Refused, present); return true }, "client %d lets go", u)
	case c.hold.phase == Held:
		s.prolongs(w, u)
		s.step(w, func(w *situation) bool { s.releases(w, u); return true }, "client %d releases", u)
		if next := &w.users[1-u]; s.handOver && next.acquires == 0 {
			s.step(w, func(w *situation) bool {
				w.users[u].hold.End(Released, present)
				next := &w.users[1-u]
				next.acquires++
				next.hold.Init(s.long(), math.MaxInt64, 0, false)
				return s.ask(w, 1-u, ToHold, inherit, 0)
			}, "client %d hands over", u)
		}
	case c.hold.phase == Asking:
		s.givesUp(w, u)
	}
	s.cleaning(w, u)
}

// prolongs lets a client that holds ask for a longer lease, if it may.
func (s *searcher) prolongs(w *situation, u int) {
	if c := &w.users[u]; int(c.extends) >= s.extends || c.round.Verdict == Undecided {
		return
	}
	s.step(w, func(w *situation) bool {
		c := &w.users[u]
		if c.hold.Check(present); c.hold.phase != Held {
			return true
		}
		if c.extends++; s.shorter {
			c.less = 1
		}
		return s.ask(w, u, ToExtend, prolong, 0)
	}, "client %d prolongs its lease", u)
}

// givesUp lets a client that asks wait no longer.
func (s *searcher) givesUp(w *situation, u int) {
	s.step(w, func(w *situation) bool {
		c := &w.users[u]
		c.round.Verdict = Dropped
		c.hold.Decided(&c.round, s.long(), present, 0)
		return true
	}, "client %d gives up", u)
}

// cleaning is what a client may do about what a hold that is over has left.
func (s *searcher) cleaning(w *situation, u int) {
	for n := range s.nodes {
		if !s.calm {
			s.step(w, func(w *situation) bool { return s.cleans(w, u, n) }, "client %d cleans node %d", u, n)
		}
	}
}

// releases ends a hold for its user; of one request that ends all attempts which hold.
func (s *searcher) releases(w *situation, u int) {
	w.users[u].hold.End(Released, present)
	if w.spent = s.own; w.spent && s.clients == 2 && w.users[1-u].hold.phase == Held {
		w.users[1-u].hold.End(Released, present)
	}
}

// raises are the numbers that a client may propose in a further round: above what a quorum of the nodes tells.
func (s *searcher) raises(w *situation, u int) (numbers []int64) {
	if !s.fences {
		return []int64{0}
	}
	for without := range s.nodes {
		number := w.users[u].round.number
		for n := range s.nodes {
			if n != without {
				number = max(number, w.servers[n].counter)
			}
		}
		numbers = append(numbers, number+1)
	}
	slices.Sort(numbers)
	return slices.Compact(numbers)
}

// moves is what may happen to the commands of a client at a node.
func (s *searcher) moves(w *situation, u, n int) {
	at := &w.servers[n].seats[u]
	for i, m := range at.messages {
		if m.verb == 0 {
			break
		}
		is := func(act func(w *situation) bool, what string) {
			s.step(w, act, "the %v of client %d at node %d "+what, m.verb, u, n)
		}
		switch {
		case m.state == queued && s.lazy && first(at, i):
			is(func(w *situation) bool { s.leaves(w, u, n, i); return true }, "leaves")
		case m.state == sent && first(at, i):
			is(func(w *situation) bool { s.runs(w, u, n, i); return true }, "runs")
		case m.state == severed:
			is(func(w *situation) bool { s.runs(w, u, n, i); return true }, "runs late")
			if m.due {
				is(func(w *situation) bool { s.drop(&w.servers[n].seats[u], i); return true }, "was not in the buffers")
			}
		case m.state == replied:
			is(func(w *situation) bool { s.answered(w, u, n, i); return true }, "is answered: "+m.answer.String())
		}
		if m.state == queued || m.state == severed {
			continue
		}
		if w.silent > 0 && !m.late {
			is(func(w *situation) bool {
				w.silent--
				w.servers[n].seats[u].messages[i].late = true
				s.final(w, u, n, m, Failed)
				return true
			}, "is not waited for")
		}
		if w.lost > 0 {
			is(func(w *situation) bool { w.lost--; s.breaks(w, u, n, i); return true }, "loses its connection")
		}
		if w.again > 0 {
			is(func(w *situation) bool { w.again--; return s.repeats(w, u, n, i) }, "loses its connection, and is sent again")
		}
	}
}

// restart lets a node begin anew, empty.
func (s *searcher) restart(w *situation, n int) bool {
	w.restarts--
	node := &w.servers[n]
	node.former, node.owner, node.age, node.young, node.guest = node.owner, 0, 0, s.ttl, false
	for u := range s.clients {
		for i := maxMessages - 1; i >= 0; i-- {
			switch m := node.seats[u].messages[i]; {
			case m.verb == 0 || m.state == queued:
			case m.state == severed:
				s.drop(&node.seats[u], i)
			default:
				if s.breaks(w, u, n, i); m.state == sent {
					s.drop(&node.seats[u], i)
				}
			}
		}
	}
	return true
}

// tick lets time pass, unless something runs before: the past moves.
func (s *searcher) tick(w *situation) bool {
	for n := range s.nodes {
		for u := range s.clients {
			if slices.ContainsFunc(w.servers[n].seats[u].messages[:], func(m message) bool { return m.due }) {
				return false
			}
		}
	}
	past := func(at *clockdrift.Instant) {
		if *at != 0 && *at != math.MaxInt64 {
			*at = max(at.Add(-tick), present.Add(-10*tick))
		}
	}
	for u := range s.clients {
		c := &w.users[u]
		for _, at := range []*clockdrift.Instant{&c.hold.first, &c.hold.until, &c.hold.limit, &c.round.Start, &c.round.proposed} {
			past(at)
		}
		for n := range s.nodes {
			at := &w.servers[n].seats[u]
			past(&at.vote.Sent)
			past(&at.trace.since)
			past(&at.trace.replied)
			at.trace.expire(present, c.hold.Expires())
		}
	}
	for u := range s.clients {
		s.cleanAll(w, u)
	}
	for n := range s.nodes {
		node := &w.servers[n]
		if node.owner != 0 && node.owner != rival {
			if node.age++; node.age >= node.life {
				node.owner, node.age, node.part = 0, 0, untouched
			}
		}
		if node.young = max(0, node.young-1); node.young == 0 {
			node.former = 0
		}
	}
	if past(&w.revoked.ends); w.revoked.ends != 0 && w.revoked.ends <= present {
		w.revoked = revocation{}
		for n := range s.nodes {
			w.servers[n].part = untouched
		}
	}
	return true
}

// found: a task has found a violation, so the others end.
var found atomic.Bool

const ended = "another task has found a violation"

// search searches all worlds of a task, breadth first, and returns the shortest schedule of a violation.
func search(k task) (states, deep int, violation string) {
	s := &searcher{task: k, seed: maphash.MakeSeed(), from: make(map[uint64]uint64)}
	var w situation
	w.silent, w.lost, w.restarts, w.again = k.silent, k.lost, k.restarts, k.again
	for n := range k.nodes {
		w.servers[n].life = k.lives[n]
	}
	w.hash = s.hash(&w)
	s.from[w.hash] = 0
	for layer := []*situation{&w}; len(layer) > 0; deep++ {
		s.layer = nil
		if len(s.from) > 2000000 {
			return len(s.from), deep, "the task is too large to be searched"
		}
		for i, at := range layer {
			if found.Load() {
				return len(s.from), deep, ended
			}
			layer[i], s.at = nil, at.hash
			if s.follow(at); s.wrong != "" {
				found.Store(true)
				what := s.wrong // the schedule forgets it
				return len(s.from), deep, what + ":" + s.schedule(w)
			}
		}
		layer = s.layer
	}
	return len(s.from), deep, ""
}

// schedule names the steps from the first world to the one where something is wrong.
func (s *searcher) schedule(w situation) (steps string) {
	var path []uint64
	for h := s.at; h != 0; h = s.from[h] {
		path = append(path, h)
	}
	slices.Reverse(path)
	for _, h := range path[1:] {
		var next *situation
		s.replayed = func(name string, to *situation, hash uint64) {
			if next == nil && hash == h {
				next, steps = to, steps+"\n  "+name
			}
		}
		s.wrong = ""
		if s.follow(&w); next == nil {
			return steps + "\n  (the rest cannot be told)"
		}
		w = *next
	}
	return steps
}

var fast, twice = []int{1, 1, 1, 1, 1}, []int{2, 2, 2}

// The tasks, by what they are about. Those of one node carry the traces: answers in any order, all faults. Those of three
// carry votes and leases. With rivals one client is enough: as long as it holds, a quorum has its key, whatever others do.
// With everything in one task no search ends.
var tasks = map[string]task{
	"one node, a slow clock": {states: 28989, clients: 1, nodes: 1, ttl: 2, lives: []int{3}, acquires: 2, extends: 1, silent: 1, lost: 1},
	"one node, full queues":  {states: 14368, clients: 1, nodes: 1, ttl: 2, lives: []int{3}, acquires: 2, extends: 1, silent: 2, lazy: true},
	"sent again":             {states: 6841, clients: 1, nodes: 3, ttl: 2, lives: fast, acquires: 1, silent: 1, again: 1, calm: true},
	"one node, fences":       {states: 10970, clients: 2, nodes: 1, ttl: 2, lives: []int{1}, acquires: 1, further: 1, fences: true, calm: true},
	"one node, a restart":    {states: 172680, clients: 2, nodes: 1, ttl: 2, lives: []int{2}, acquires: 1, restarts: 1},
	"one node, extensions":   {states: 155777, clients: 2, nodes: 1, ttl: 3, lives: []int{2}, acquires: 1, extends: 1},
	"one node, own token":    {states: 96616, clients: 2, nodes: 1, ttl: 3, lives: []int{2}, acquires: 1, extends: 1, rivals: true, own: true, silent: 1, lost: 1, calm: true},
	"one node, longest hold": {states: 782, clients: 1, nodes: 1, ttl: 3, lives: []int{2}, acquires: 1, extends: 2, most: 2 * tick},
	"contend":                {states: 275461, clients: 2, nodes: 3, ttl: 2, lives: fast, acquires: 1, calm: true},
	"rivals, further rounds": {states: 467916, clients: 1, nodes: 3, ttl: 3, lives: twice, acquires: 1, further: 1, rivals: true, calm: true},
	"late votes":             {states: 127491, clients: 1, nodes: 3, ttl: 3, lives: twice, acquires: 1, calm: true, lazy: true},
	"rivals, extensions":     {states: 161462, clients: 1, nodes: 3, ttl: 2, lives: fast, acquires: 1, extends: 1, rivals: true, calm: true},
	"four nodes":             {states: 11164, clients: 1, nodes: 4, ttl: 2, lives: fast, acquires: 1, rivals: true, calm: true},
	"five nodes":             {states: 36872, clients: 1, nodes: 5, ttl: 2, lives: fast, acquires: 1, rivals: true, calm: true},
	"rivals, all faults":     {states: 170565, clients: 1, nodes: 3, ttl: 2, lives: fast, acquires: 1, silent: 1, lost: 1, restarts: 1, rivals: true, calm: true},
	"one node, hand-over":    {states: 54227, clients: 2, nodes: 1, ttl: 2, lives: []int{2}, acquires: 1, extends: 1, handOver: true, silent: 1, rivals: true, calm: true},
	"revocation":             {states: 645965, clients: 1, nodes: 3, ttl: 3, lives: twice, acquires: 1, extends: 1, revokes: true, calm: true},
	"one node, downgrade":    {states: 96886, clients: 2, nodes: 1, ttl: 2, lives: []int{2}, converts: downgrade, silent: 1, lost: 1, rivals: true, calm: true, lazy: true},
	"one node, upgrade":      {states: 31343, clients: 2, nodes: 1, ttl: 2, lives: []int{2}, converts: upgrade, silent: 1, lost: 1, rivals: true, calm: true, lazy: true},
	"downgrade":              {states: 44876, clients: 2, nodes: 3, ttl: 2, lives: fast, converts: downgrade, calm: true},
	"upgrade":                {states: 191795, clients: 2, nodes: 3, ttl: 2, lives: fast, converts: upgrade, calm: true},
	"shorter extensions":     {states: 232231, clients: 1, nodes: 3, ttl: 3, lives: twice, acquires: 1, extends: 1, shorter: true, rivals: true, calm: true},
	"downgrade, a restart":   {states: 4671, clients: 2, nodes: 1, ttl: 2, lives: []int{2}, converts: downgrade, restarts: 1, rivals: true, calm: true},
	"upgrade, a restart":     {states: 9395, clients: 2, nodes: 1, ttl: 2, lives: []int{2}, converts: upgrade, restarts: 1, rivals: true, calm: true},
}

// small is how many states a task may have with -short: mutants are run against those.
const small = 60000

func TestNoTwoHoldInAnyOrderOfCommandsAnswersAndLosses(t *testing.T) {
	for name, k := range tasks {
		if testing.Short() && k.states > small {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			states, deep, violation := search(k)
			t.Logf("%d states, %d steps deep", states, deep)
			switch {
			case violation == ended:
				t.Skip(ended)
			case violation != "":
				t.Error(violation)
			case states != k.states:
				found.Store(true)
				t.Errorf("the task has %d states, want %d: more may happen than before, or less", states, k.states)
			}
		})
	}
}
