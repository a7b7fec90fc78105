package protocol

import (
	"cmp"
	"slices"
	"strconv"
	"time"

	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/internal/lease"
)

// An Op is a question that a token can ask of a node. Its commands and their replies belong together: see
// [Exclusive].
type Op struct {
	*Verb

	// Finds: a grant may be the token of an earlier sending, with nothing written.
	Finds bool
	// Once: the op is never sent a second time, not even when its connection breaks.
	Once bool
	// Reads: with fences, a grant comes with the counter of its node, and the votes are for the greatest
	// counter, which a quorum must have.
	Reads bool
	// Levels: the op's number is a counter of some nodes, and no proposal.
	Levels bool
	// Besides is the effect on the lock's other token, of an op about two: see [Downgrade].
	Besides lease.Effect
	// Sides: the op runs a script that uses the keys beside the key.
	Sides bool

	// grouping: which parts share one command of the batch.
	grouping grouping
	// encode writes the commands for a node that runs scripts. Nil: the batch always writes them, see
	// [Batch.encodeReleases].
	encode func(a *Ask, m *Memory) []driver.Command
	// decode turns a node's replies into its answer.
	decode func(a *Ask, replies []driver.Reply) (Answer, error)
	// fence reads a grant's replies where the ask carries a fence; nil: the op carries none.
	fence func(a *Ask, replies []driver.Reply) (Answer, error)
	// refusal reads a refusal; nil: no reply names the holder.
	refusal func(p *Part) Refusal
	// unscripted is why a node without scripts cannot take the op; nil: it can.
	unscripted error
	// needs are the commands without which a node cannot take the op, or what follows from it.
	needs Commands
	// carries: its own commands carry the fence, and are written anew with each.
	carries bool
	// holds: the op's first command is the hold script, for which a node without scripts has a substitute.
	holds bool
	// lineless: a node without scripts has a substitute that heeds no line.
	lineless bool
	// mode: how the token shares the key, by the script's name for it; "": it does not.
	mode string
}

// A Verb is the purpose of an op, the same for all kinds.
type Verb struct {
	Name string // in errors

	// Tries: the op asks for a key that it may not get. The holder's ops go first.
	Tries bool
	// Does is the effect of the commands on the token at a node. Where they may set the token, an unknown
	// outcome wants a release. Where they take it away, a node without the token needs no question, and
	// agrees when asked.
	Does lease.Effect
	// Votes: a node's agreement is a vote for a holder, which has to pass the gates.
	Votes bool
	// Prolongs: the deciding vote moves the deadline of a held lock.
	Prolongs bool
}

// The verbs of locks.
var (
	Acquiring   = &Verb{Name: "acquire", Tries: true, Does: lease.Sets, Votes: true}
	Inheriting  = &Verb{Name: "acquire", Does: lease.Sets, Votes: true}
	Upgrading   = &Verb{Name: "upgrade", Does: lease.Sets, Votes: true}
	Meeting     = &Verb{Name: "acquire", Tries: true}
	Reserving   = &Verb{Name: "acquire", Tries: true, Does: lease.Sets} // no hold comes of it
	Raising     = &Verb{Name: "acquire", Votes: true}                   // the fence of a token that has the key
	Retaking    = &Verb{Name: "acquire", Does: lease.Sets, Votes: true} // the key as well
	Extending   = &Verb{Name: "extend", Does: lease.Sets, Votes: true, Prolongs: true}
	Downgrading = &Verb{Name: "downgrade", Does: lease.Sets, Votes: true, Prolongs: true}
	Releasing   = &Verb{Name: "release", Does: lease.Frees}
	Looking     = &Verb{Name: "confirm"}
	Leaving     = &Verb{Name: "leave", Tries: true} // the line
)

// A grouping says which parts share one command.
type grouping uint8

const (
	alone          grouping = iota // none: the part has commands of its own
	withExtensions                 // in a run of the extension script
	withReleases                   // in a run of the release script, or its substitute
	withReaders                    // of one key, in a run of a script of shared locks: see [Batch.run]
)

// A Kind is a way to hold a key.
type Kind struct {
	KeyName string // the nodes' name of the held key; "": the user's
	Many    *Many  // the keys that are held together; nil: a single one
	Acquire *Op    // takes a free key, for a token that was never used
	adopt   *Op    // takes the key for a token of the user's own, which may have it already; nil: Acquire does
	Inherit *Op    // takes the key over from the token in Old; nil: the kind hands nothing over
	Extend  *Op    // prolongs the lease
	Release *Op    // takes the token away
	Look    *Op    // asks whether the token has the key
	Raise   *Op    // proposes a greater fence where the token has the key
	Level   *Op    // brings the number of the votes to a quorum; nil: a greater one is proposed

	// Joins: others of the kind may have the key at the same time.
	Joins bool
	// Passes: tries go ahead of waiters, because they wait for the same caller.
	Passes bool
	// HeedsLine: tries heed the tickets in the key's line, and waiters leave one there: see [Line].
	HeedsLine bool
}

// AnyAnswer reports whether every answer counts towards the quorum, but Failed.
func (o *Op) AnyAnswer() bool { return o.Does == lease.Frees || o.Verb == Meeting }

// Adopt takes the key for a token of the user's own, which may have it already.
func (k *Kind) Adopt() *Op { return cmp.Or(k.adopt, k.Acquire) }

// Reserve does so for a moment, and holds nothing.
func (k *Kind) Reserve() *Op {
	o := *k.Adopt()
	o.Verb = Reserving
	return &o
}

// Fenced reports whether the kind may carry a fence.
func (o *Op) Fenced() bool { return o.fence != nil }

// Lineless reports whether nodes without scripts take the op, too.
func (o *Op) Lineless() bool { return o.lineless }

// Tells reports whether a node that refuses names the holder.
func (o *Op) Tells() bool { return o.refusal != nil }

// An Ask is a token's question, the same for all nodes.
type Ask struct {
	Op    *Op
	Key   any // the nodes' name, boxed once for all commands
	Token any // likewise: a string
	TTL   any // in the servers' form: see [Milliseconds]
	Old   any // the token of the hand-over, or the other token of a conversion; nil: none
	Sides *Sides
	Waits bool // an acquire also asks for the holder's time left
	Loud  bool // a release is announced
	Fence Fence
	Many  *Many            // the keys, of which Key is the first; nil: a single one
	Line  *Line            // of a try that heeds the line; nil: the try does not
	Back  *Ticket          // of a release: see [Ask.CallNext]
	Cmds  []driver.Command // see [Ask.Encode]
}

// Memory is the memory of an ask's commands, which saves allocations.
type Memory struct {
	cmds [2]driver.Command
	args [10]any
}

// Encode writes the commands for nodes that run scripts, in the memory; nil: in new memory, if there are
// any. A fence comes behind them: see [Ask.Carry].
func (a *Ask) Encode(m *Memory) {
	if a.Op.encode == nil {
		return
	}
	if m == nil {
		m = new(Memory)
	}
	a.Cmds = a.Op.encode(a, m)
}

// RoundUp is d in whole milliseconds, the servers' unit. No lease is shorter than its request. D is at most
// [MaxTTL].
func RoundUp(d time.Duration) time.Duration {
	return (d + time.Millisecond - 1).Truncate(time.Millisecond)
}

// Milliseconds is a rounded time in the servers' form, boxed: see [RoundUp].
func Milliseconds(d time.Duration) any { return strconv.FormatInt(d.Milliseconds(), 10) }

// A Part is an ask at one node.
type Part struct {
	*Ask
	Of    any            // the caller's: the batch does not look at it
	Reply []driver.Reply // to its last sending, in the form of a node that runs scripts

	half *half // the findings of the first sending, if a second one prolongs: see [Dialect.hold]
}

// A half holds the findings of the first sending of a hold without scripts.
type half struct {
	replies []driver.Reply
	doubt   error // why a grant would have been no vote
	idle    bool  // the second has written nothing
}

// Read returns the node's answer to the op itself.
func (p *Part) Read() (Answer, error) { return p.Op.decode(p.Ask, p.Reply) }

// ReadFence returns the answer of a node that has granted the key, its fence included.
func (p *Part) ReadFence() (Answer, error) {
	if p.Fence.Number == 0 || !p.Op.Fenced() {
		return Granted, nil
	}
	return p.Op.fence(p.Ask, p.Reply)
}

// other reads a reply as the token at the key, unless that is the part's own.
func (p *Part) other(reply driver.Reply) (token string, ok bool) {
	if reply.Kind != driver.String || any(reply.Str) == p.Token {
		return "", false
	}
	return reply.Str, true
}

// TimeLeft reads the reply to PTTL; 0: not told.
func TimeLeft(reply driver.Reply) time.Duration {
	if reply.Kind != driver.Integer || reply.Int <= 0 || reply.Int > MaxTTL.Milliseconds() {
		return 0
	}
	// The node counts in whole milliseconds, and goes on while the reply is on its way.
	return time.Duration(reply.Int+1) * time.Millisecond
}

// Refused reports whether the node did not run the part's command.
func (p *Part) Refused() bool { return p.Reply[0].Kind == driver.Failure }

// TookOver reports whether the token in Old had the key.
func (p *Part) TookOver() bool { return p.Reply[0].Int == takenOver }

// Doubts is why a grant would have been no vote at the first of two sendings.
func (p *Part) Doubts() error {
	if p.half == nil {
		return nil
	}
	return p.half.doubt
}

// Doubt notes why a grant would be no vote, if the part is to be sent a second time.
func (p *Part) Doubt(why error) {
	if p.half != nil {
		p.half.doubt = why
	}
}

// Found reports whether a grant is the token of an earlier sending: nothing was written.
func (p *Part) Found() bool { return p.Op.Finds && p.Reply[0].Kind == driver.String }

// Idle reports whether nothing was written because the node has the key for longer.
func (p *Part) Idle() bool { return p.half != nil && p.half.idle }

// Concerns reports whether other is about the token of p: then their order matters.
func (p *Part) Concerns(other *Part) bool { return p.Token == other.Token || p.Token == other.Old }

// Shows reports whether the node has named the token in its replies.
func (p *Part) Shows(token any) bool {
	return slices.ContainsFunc(p.Reply, func(r driver.Reply) bool { return r.Kind == driver.String && any(r.Str) == token })
}

// Tombstone reports whether the node has named a tombstone in its replies.
func (p *Part) Tombstone() bool {
	return slices.ContainsFunc(p.Reply, func(r driver.Reply) bool {
		_, revoked := Revoked(r.Str)
		return r.Kind == driver.String && revoked
	})
}

// SetReply gives the part an answer out of another part's reply: a hand-over is a release as well.
func (p *Part) SetReply(deleted bool) {
	p.Reply = notThere
	if deleted {
		p.Reply = wasDeleted
	}
}

// The bounds of a TTL. Package redlock documents them.
const (
	MinTTL = 10 * time.Millisecond
	MaxTTL = 10 * 365 * 24 * time.Hour
)

// NewOp returns an op of the library's own, about no lock. Each ask brings its commands. Decode says why the
// node has not done it.
func NewOp(name string, once bool, decode func([]driver.Reply) error) *Op {
	return &Op{Verb: &Verb{Name: name}, Once: once, decode: func(_ *Ask, replies []driver.Reply) (Answer, error) {
		if err := decode(replies); err != nil {
			return Failed, err
		}
		return Granted, nil
	}}
}
