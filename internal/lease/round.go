package lease

import (
	"time"

	"github.com/quorumlock/quorumlock/clockdrift"
)

// An Answer is what one node said to a round.
type Answer uint8

// The answers.
const (
	Pending Answer = iota // not yet
	Granted               // the node did what was asked
	Taken                 // another token has the key
	Absent                // the token is not there
	Failed                // the node refused, gave no answer, or its answer is no vote
	Outbid                // the node set the key, but has accepted as great a fence before
)

func (a Answer) String() string {
	names := [...]string{"not answered yet", "granted", "taken by another", "token not there", "failed", "has a greater fence"}
	if int(a) < len(names) {
		return names[a]
	}
	return "unknown"
}

// A Verdict is what became of a round.
type Verdict uint8

// The verdicts.
const (
	Undecided Verdict = iota
	Carried           // a quorum agreed
	Missed            // a quorum is out of reach
	Outranked         // a quorum has set the key, but too few took the fence
	Split             // a quorum is out of reach, and no other token is known to have one
	Dropped           // the caller gave up before the deciding vote
)

// An Aim is what a round is to bring about for its hold.
type Aim uint8

// The aims.
const (
	Nothing     Aim = iota // a release or a look: no hold begins or goes on by it
	ToHold                 // the first round of an acquire
	ToHoldAgain            // a further round, because votes were split or too few nodes took the fence
	ToExtend               // a longer lease for what is held
)

// A Round is one question to some nodes about one hold, decided by the deciding vote. Votes never move from one round
// to the next. Answers behind the decision are noted in traces only.
type Round struct {
	Verdict    Verdict
	Aim        Aim
	Does       Effect             // its commands on the token
	any        bool               // every answer but Failed agrees: of a release, and of a look at who has the key
	reads      bool               // the fence is the greatest counter that the votes tell, which a quorum must have
	superseded bool               // a later round asks for the same and more
	Start      clockdrift.Instant // of the votes that agree, when the first of their commands left; 0: none agrees
	Need       int                // so many have to agree
	Agreed     int                // so many do
	Open       int                // so many have no vote yet
	spared     int                // of Agreed: nodes that were not asked, because the token is not there
	outbid     int
	have       int   // of Agreed: how many have the greatest counter
	counter    int64 // the greatest that a node told
	number     int64 // the fence that is proposed; 0: none
	proposed   clockdrift.Instant
}

// A Vote is the answer of one node to one round.
type Vote struct {
	Sent          clockdrift.Instant // when its command first left; 0: it has not
	number        int64              // the node's counter, if the answer tells that
	seen, besides uint32             // the news of the token's trace when the command first left, and of the other token's
	Answer        Answer
}

// Sees notes that what the vote's command tells is of the news of the trace so far.
func (v *Vote) Sees(t *Trace) { v.seen = t.news }

// Begin begins the round: so many of the nodes have to agree. AnyAnswer: whatever a node says agrees, unless it has Failed.
func (r *Round) Begin(aim Aim, does Effect, nodes, need int, anyAnswer bool) {
	*r = Round{Aim: aim, Does: does, Need: need, Open: nodes, any: anyAnswer}
}

// Propose says which number becomes the fence, and when that was proposed. Reads: it is the greatest counter that the
// votes tell instead.
func (r *Round) Propose(number int64, at clockdrift.Instant, reads bool) {
	r.number, r.proposed, r.reads = number, at, reads
}

// ProposeAs makes the round about the number of an earlier one that reads, or a greater counter.
func (r *Round) ProposeAs(first *Round) {
	r.number, r.proposed, r.reads = first.number, first.proposed, true
}

// stale reports whether the proposal is as old as the lease: such a number may be below one that a node has forgotten.
// The number tells its age, too, for the machine may have slept before the round was asked.
func (r *Round) stale(ttl time.Duration, now clockdrift.Instant, micros int64) bool {
	return r.number != 0 && (now >= r.proposed.Add(ttl) || micros-r.number >= ttl.Microseconds())
}

// fence is the number that the votes are for.
func (r *Round) fence() int64 {
	if r.reads {
		return r.counter
	}
	return r.number
}

// Greatest is the greatest counter that a node told.
func (r *Round) Greatest() int64 { return r.counter }

// Supersede says that a later round asks for the same and more.
func (r *Round) Supersede() { r.superseded = true }

// Agrees reports whether the answer counts towards the quorum.
func (r *Round) Agrees(a Answer) bool { return a == Granted || r.any && a != Failed && a != Pending }

// Count counts the answer of a node, once. Number: its counter, where the round reads.
func (r *Round) Count(v *Vote, a Answer, number int64) {
	must(v.Answer == Pending, "a node votes once in a round")
	v.Answer, v.number = a, number
	r.Open--
	switch {
	case r.Agrees(a):
		if r.Agreed++; r.Agreed == 1 || v.Sent < r.Start {
			r.Start = v.Sent // the earliest expiry counts
		}
		if number > r.counter {
			r.counter, r.have = number, 0
		}
		if number == r.counter {
			r.have++
		}
	case a == Outbid:
		r.outbid++
	}
	r.verify()
}

// Spare notes that the vote which is counted next is that of a node that was not asked for a release: the token is not
// there. Such votes alone decide nothing while others are open.
func (r *Round) Spare() { r.spared++ }

// Spoil takes back a vote that agreed: what the node has answered since, or another node, speaks against it.
func (r *Round) Spoil(v *Vote) {
	must(r.Agrees(v.Answer) && r.Verdict == Undecided, "a vote is spoiled that does not count")
	v.Answer = Failed
	r.Agreed--
	if v.number == r.counter {
		r.have--
	}
}

// Quorum reports whether enough nodes agree.
func (r *Round) Quorum() bool {
	return r.Agreed >= r.Need && (r.Agreed-r.spared >= r.Need || r.Open == 0)
}

// Reached is the verdict of the votes so far. Oldest: the least that a reader's number may be.
func (r *Round) Reached(oldest int64) Verdict {
	switch {
	case r.Quorum() && r.reads && (r.have < r.Need || r.counter < oldest):
		return Outranked
	case r.Quorum():
		return Carried
	case r.Agreed+r.Open >= r.Need: // a quorum is in reach
	case r.Agreed+r.outbid >= r.Need:
		return Outranked
	case r.Agreed+r.outbid+r.Open < r.Need:
		return Missed
	}
	return Undecided
}

// Granted reports whether a quorum has set the key, though too few may have taken the fence.
func (r *Round) Granted() bool { return r.outbid > 0 && r.Agreed+r.outbid >= r.Need }

func (r *Round) verify() {
	must(r.Open >= 0 && r.have <= r.Agreed && r.spared <= r.Agreed, "votes are counted that were not cast")
}
