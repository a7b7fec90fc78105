package lease

import (
	"time"

	"github.com/quorumlock/quorumlock/clockdrift"
)

// An Answer is the answer of a node to a round.
type Answer uint8

// The answers.
const (
	Pending Answer = iota // not yet
	Granted               // the node did as asked
	Taken                 // another token has the key
	Absent                // the token is not there
	Failed                // the node refused, gave no answer, or its answer is no vote
	Outbid                // the node set the key, but has accepted as great a fence before
)

func (a Answer) String() string {
	return [...]string{"not answered yet", "granted", "taken by another", "token not there", "failed", "has a greater fence"}[a]
}

// A Verdict is the outcome of a round.
type Verdict uint8

// The verdicts.
const (
	Undecided Verdict = iota
	Carried           // a quorum agreed
	Missed            // a quorum is out of reach
	Outranked         // a quorum has set the key, but too few took the fence
	Split             // no quorum can agree, and no other token is known to have one
	Dropped           // the caller gave up before the deciding vote
)

// An Aim is the purpose of a round for its hold.
type Aim uint8

// The aims.
const (
	Nothing     Aim = iota // a release or a look: no hold begins or goes on by it
	ToHold                 // the first round of an acquire
	ToHoldAgain            // a further round, because votes were split or too few nodes took the fence
	ToExtend               // a longer lease for a held lock
)

// A Round is a question to some nodes about a hold, decided by the deciding vote. Votes never move from one
// round to the next. Answers behind the decision are noted in traces only.
type Round struct {
	Verdict    Verdict
	Aim        Aim
	Does       Effect             // its commands on the token
	any        bool               // every answer but Failed agrees: of a release, and of a look at the holder
	reads      bool               // the fence is the greatest counter of the votes, which a quorum must have
	superseded bool               // a later round asks for the same and more
	Start      clockdrift.Instant // when the first command of the agreeing votes left; 0: none agrees
	Need       int                // votes to agree
	Agreed     int                // votes that agree
	Open       int                // votes not counted yet
	spared     int                // of Agreed: nodes without the token, which were not asked
	outbid     int
	have       int   // of Agreed: how many have the greatest counter
	counter    int64 // the greatest that a node told
	number     int64 // the proposed fence; 0: none
	proposed   clockdrift.Instant
}

// A Vote is the answer of a node to a round.
type Vote struct {
	Sent          clockdrift.Instant // when its command first left; 0: not yet
	number        int64              // the node's counter, if told
	seen, besides uint32             // the news of the token's trace when the command first left, and of the other token's
	Answer        Answer
}

// Sees notes that the vote's command tells of the trace's news so far.
func (v *Vote) Sees(t *Trace) { v.seen = t.news }

// Begin begins a round in which need nodes have to agree. AnyAnswer: any answer but Failed agrees.
func (r *Round) Begin(aim Aim, does Effect, nodes, need int, anyAnswer bool) {
	*r = Round{Aim: aim, Does: does, Need: need, Open: nodes, any: anyAnswer}
}

// Propose sets the fence, and when it was proposed. Reads: the greatest counter of the votes becomes the
// fence instead.
func (r *Round) Propose(number int64, at clockdrift.Instant, reads bool) {
	r.number, r.proposed, r.reads = number, at, reads
}

// ProposeAs proposes the number of an earlier round that reads counters, or a greater counter.
func (r *Round) ProposeAs(first *Round) {
	r.number, r.proposed, r.reads = first.number, first.proposed, true
}

// stale reports whether the proposal is as old as the lease: a node may have forgotten a greater number
// since. The number tells its age, too, for the machine may have slept before the round.
func (r *Round) stale(ttl time.Duration, now clockdrift.Instant, micros int64) bool {
	return r.number != 0 && (now >= r.proposed.Add(ttl) || micros-r.number >= ttl.Microseconds())
}

// fence is the number of the votes.
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
	Must(v.Answer == Pending, "a node votes once in a round")
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

// Spare says that the next vote is of a node without the token, which was not asked for a release. Such
// votes alone decide nothing while others are open.
func (r *Round) Spare() { r.spared++ }

// Spoil takes back a vote that agreed: a later answer, or another node, speaks against it.
func (r *Round) Spoil(v *Vote) {
	Must(r.Agrees(v.Answer) && r.Verdict == Undecided, "a vote is spoiled that does not count")
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

// Reached is the verdict of the votes so far. Oldest: the least number for a reader.
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
	Must(r.Open >= 0 && r.have <= r.Agreed && r.spared <= r.Agreed, "votes are counted that were not cast")
}
