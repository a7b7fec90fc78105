package redlock

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/quorumlock/quorumlock/internal/fault"
	"github.com/quorumlock/quorumlock/internal/protocol"
	"github.com/quorumlock/quorumlock/internal/quorum"
)

// The errors say what to do next; the structs beside them say what happened. Test for them with
// errors.Is, in this order, for one error may match several; and last for the context's error: the
// caller gave up, and the attempt is undone in the background.
var (
	// ErrOption: an option or an argument is not valid; nothing was sent. See [OptionError].
	ErrOption = fault.ErrOption
	// ErrClosed: the Locker was closed.
	ErrClosed = fault.ErrClosed
	// ErrReleased: this process has released this lock, or the lock with this token, before.
	ErrReleased = fault.ErrReleased
	// ErrDeadlock: the context of the acquire carries a lock of the same Locker that has the key
	// (use that, acquire it [WithReentry], or release it first); or it waited in the ring of a
	// [DeadlockError].
	ErrDeadlock = fault.ErrDeadlock
	// ErrLost: the lease ran out, or too many nodes have lost the key. Stop the work that it
	// protected.
	ErrLost = fault.ErrLost
	// ErrTaken: somebody else has the key. Come back later.
	ErrTaken = fault.ErrTaken
	// ErrContended: several asked for the key at the same moment, and nobody got it. Try again; do
	// not take it for [ErrTaken]. See [Locker.TryAcquire].
	ErrContended = fault.ErrContended
	// ErrExpired: a quorum voted after the end of the lease. Take a longer TTL, or find out what is
	// slow.
	ErrExpired = fault.ErrExpired
	// ErrFence: the nodes have granted the key, but accepted no fence for it. Try again; the
	// message says if something has to be corrected first.
	ErrFence = fault.ErrFence
	// ErrNoQuorum: too few nodes answered, so nobody can say who has the key: the [QuorumError]
	// beside it names them, and ErrNode, ErrNodeSet or ErrQuarantine says why.
	ErrNoQuorum = fault.ErrNoQuorum
	// ErrNode: a server cannot be a node: it is a replica, evicts keys, or is another node already.
	// The message says what to do.
	ErrNode = fault.ErrNode
	// ErrNodeSet: a node is for clients with other nodes, or another longest TTL, than this one. Give all
	// clients the same nodes, [WithNodeSet] and [WithLongestTTL].
	ErrNodeSet = fault.ErrNodeSet
	// ErrQuarantine: a node may have forgotten votes, or is new, and does not vote for the longest TTL
	// and an eighth of it: see [WithRestartGuard] and [WithClockGuard]. Wait, with the Locker open.
	ErrQuarantine = fault.ErrQuarantine
	// ErrPermits: others count another number of permits for a [Semaphore]. Give all the same
	// number.
	ErrPermits = fault.ErrPermits
	// ErrBusy: as many acquires are under way in this Locker as [WithMaxAcquires] allows, or one had no
	// turn to ask the nodes before its context ended, or [WithMaxWait]; nothing was sent. Refuse the
	// work, or come back later.
	ErrBusy = fault.ErrBusy
)

// OptionError is an option or an argument that is not valid. It matches [ErrOption].
type OptionError struct {
	Option string // its name, as in WithTTL: "TTL"; or "nodes", "options" or "key"
	Reason string // what is wrong, and what is valid
}

func (e *OptionError) Error() string { return "redlock: " + e.Option + ": " + e.Reason }

// Is makes the error match [ErrOption].
func (e *OptionError) Is(target error) bool { return target == ErrOption }

// DeadlockError is a ring of locks, each of whose work waits for the next: of one Locker, or of
// several processes ([WithDeadlockDetection]). One wait of it has given up: within one Locker that
// which closed the ring, otherwise the youngest. What works for a lock is what runs under its
// [Lock.Context]: see [Detach]. It matches [ErrDeadlock].
type DeadlockError struct {
	Cycle []DeadlockWait // that of the acquire which failed first
}

// A DeadlockWait is one part of a [DeadlockError].
type DeadlockWait struct {
	Holds    string // the key that it works under
	WaitsFor string // the key that the next one has
	Owner    string // of the key that it holds, by [WithOwner]
}

func (w DeadlockWait) String() string {
	if w.Owner != "" {
		return fmt.Sprintf("%s, who holds %q, waits for %q", w.Owner, w.Holds, w.WaitsFor)
	}
	return fmt.Sprintf("the holder of %q waits for %q", w.Holds, w.WaitsFor)
}

func (e *DeadlockError) Error() string {
	waits := make([]string, len(e.Cycle))
	for i, w := range e.Cycle {
		waits[i] = w.String()
	}
	return fmt.Sprintf("deadlock: %s: acquire these keys in one order everywhere, or release the first before the second", strings.Join(waits, "; "))
}

// Is makes the error match [ErrDeadlock].
func (e *DeadlockError) Is(target error) bool { return target == ErrDeadlock }

// WaitError is an acquire that has waited in vain. It matches what was wrong at the last try, and
// the context's error or [ErrClosed] if that ended the waiting.
type WaitError struct {
	Tries  int           // how often nodes were asked; 0: never, because others wait before it in this process
	Waited time.Duration // since the call

	last, end error
}

func (e *WaitError) Error() string {
	tries := "1 try"
	if e.Tries != 1 {
		tries = fmt.Sprintf("%d tries", e.Tries)
	}
	text := fmt.Sprintf("%v (%s in %v)", e.last, tries, e.Waited.Round(time.Millisecond))
	if e.end != nil {
		text += ": " + e.end.Error()
	}
	return text
}

// Unwrap makes the error match both.
func (e *WaitError) Unwrap() []error {
	if e.end == nil {
		return []error{e.last}
	}
	return []error{e.last, e.end}
}

// CloseError names the keys whose release no quorum has confirmed to [Locker.Close]. It matches
// [ErrNoQuorum]. Nothing has to be done: each key expires one TTL after its nodes answer again at
// the latest.
type CloseError struct {
	Keys []UnreleasedKey // in order
}

// UnreleasedKey is a key that no quorum has released, without its prefix.
type UnreleasedKey struct {
	Key   string
	Nodes []string // the names of those that may have it
}

func (e *CloseError) Error() string {
	const most = 3
	var some []string
	for _, k := range e.Keys[:min(most, len(e.Keys))] {
		some = append(some, fmt.Sprintf("%q at %s", k.Key, strings.Join(k.Nodes, ", ")))
	}
	if more := len(e.Keys) - len(some); more > 0 {
		some = append(some, fmt.Sprintf("and %d more", more))
	}
	return fmt.Sprintf("redlock: close: no quorum has confirmed the release of these keys: %s; they go away by themselves, one TTL after their nodes answer again at the latest",
		strings.Join(some, "; "))
}

// Is makes the error match [ErrNoQuorum].
func (e *CloseError) Is(target error) bool { return target == ErrNoQuorum }

// Answer is what one node said to an operation.
type Answer uint8

// The answers. Granted means, by operation, that the node set, prolonged, deleted, or has the key.
const (
	Pending Answer = iota // none yet: the operation was decided without it
	Granted               // it agreed
	Taken                 // another token has the key
	Absent                // our token is not there
	Failed                // it refused, or gave no answer: see Vote.Err
	Outbid                // it set the key, but has accepted an equal or greater fence before
)

func (a Answer) String() string {
	return protocol.Answer(a).String()
}

// Vote is one node's part in an operation.
type Vote struct {
	Node    string        // its name
	Answer  Answer        // what it said
	Latency time.Duration // from the call to the answer, waiting in queues included
	Err     error         // why it Failed: a *driver.ServerError is among it if the server refused
	Owner   string        // of what Taken means: who has the key, by [WithOwner]; "": not known
	Since   time.Time     // when that one took it, by its own clock; zero: not known
	Key     string        // which of several keys was in the way; "": there is one, or none was
}

func (v Vote) String() string {
	if v.Answer == Taken && v.Owner != "" {
		who := v.Owner
		if !v.Since.IsZero() {
			who += " since " + v.Since.Format(time.RFC3339)
		}
		return v.text("taken by " + who)
	}
	return v.text(v.Answer.String())
}

// text words the vote, with a word for its answer.
func (v Vote) text(answer string) string {
	text := v.Node + ": " + answer
	if v.Key != "" {
		text = fmt.Sprintf("%s: %q %s", v.Node, v.Key, answer)
	}
	if v.Err != nil {
		text = fmt.Sprintf("%s: %v", v.Node, v.Err)
	}
	if v.Latency > 0 {
		text += fmt.Sprintf(" (%v)", v.Latency.Round(10*time.Microsecond))
	}
	return text
}

// QuorumError is an operation that too few nodes agreed to, with each node's answer. It matches the
// sentinel that says why, and what the nodes' errors match.
type QuorumError struct {
	Op     string // acquire, extend, renew, release or confirm
	Key    string
	Need   int // the votes that make a quorum
	Votes  []Vote
	Reason error // the sentinel, or what wraps two
}

func (e *QuorumError) Error() string {
	lines := make([]string, len(e.Votes))
	for i, vote := range e.Votes {
		lines[i] = vote.String()
		if e.Op == protocol.Exclusive.Release.Name && vote.Answer == Granted {
			lines[i] = vote.text("deleted")
		}
	}
	return fmt.Sprintf("%s (%d of %d nodes must agree): %s", e.summary(), e.Need, len(e.Votes), strings.Join(lines, "; "))
}

// summary is the text without the nodes' answers.
func (e *QuorumError) summary() string {
	reason := e.Reason.Error()
	if owner := e.Owner(); owner != "" && e.Reason == ErrTaken { //nolint:errorlint // one that wraps it has a text of its own
		reason = "taken by " + owner
	}
	return fmt.Sprintf("redlock: %s %q: %s", e.Op, e.Key, reason)
}

// Owner returns who has the key, by [WithOwner], if a quorum of the nodes says so; "" if none
// does, or if the holder has no name.
func (e *QuorumError) Owner() string {
	count := make(map[string]int)
	for _, vote := range e.Votes {
		if count[vote.Owner]++; vote.Owner != "" && count[vote.Owner] >= e.Need {
			return vote.Owner
		}
	}
	return ""
}

// Unwrap makes the error match its reason and the errors of the nodes.
func (e *QuorumError) Unwrap() []error {
	all := []error{e.Reason}
	for _, vote := range e.Votes {
		if vote.Err != nil {
			all = append(all, vote.Err)
		}
	}
	return all
}

// votes returns what every node has said.
func votes(t quorum.Tally) []Vote {
	votes := make([]Vote, len(t.Votes))
	for i, v := range t.Votes {
		votes[i] = Vote{Node: v.Node.Name(), Answer: Answer(v.Answer), Latency: v.Latency, Err: v.Err, Owner: protocol.Owner(v.Holder), Since: protocol.Since(v.Holder)}
		if v.Reply != nil && v.Answer == protocol.Taken {
			votes[i].Key, _ = v.Reply.InTheWay()
		}
	}
	return votes
}

// failure returns an operation as an error; nil: for the reason that its votes give.
func failure(op *quorum.Operation, reason error) error {
	t := op.Tally()
	return tallied(op, &t, cmp.Or(reason, t.Reason))
}

// tallied returns an operation with these votes as an error.
func tallied(op *quorum.Operation, t *quorum.Tally, reason error) error {
	name := op.Op.Name
	if op.Attempt > 0 {
		name = "renew"
	}
	return &QuorumError{Op: name, Key: op.Hold.Key, Need: t.Need, Votes: votes(*t), Reason: reason}
}

// failed says why an operation has failed.
func failed(op *quorum.Operation) error { return failure(op, nil) }
