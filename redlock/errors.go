package redlock

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/quorumlock/quorumlock/internal/fault"
	kernel "github.com/quorumlock/quorumlock/internal/lease"
	"github.com/quorumlock/quorumlock/internal/protocol"
	"github.com/quorumlock/quorumlock/internal/quorum"
)

// The errors say what to do next; the structs beside them say what happened. Test for them with errors.Is,
// in this order, for an error may match several; and last for the context's error: the caller gave up, and
// the attempt is undone in the background.
var (
	// ErrOption: an option or an argument is not valid; nothing was sent. See [OptionError].
	ErrOption = fault.ErrOption
	// ErrClosed: the Locker was closed.
	ErrClosed = fault.ErrClosed
	// ErrReleased: this process has released this lock, or the lock with this token, before.
	ErrReleased = fault.ErrReleased
	// ErrDeadlock: the context of the acquire carries a lock of the same Locker on the key (use that lock:
	// see [FromContext]; or release it first); or the acquire waited in the cycle of a [DeadlockError].
	ErrDeadlock = fault.ErrDeadlock
	// ErrLost: the lease ran out, or too many nodes have lost the key. Stop the protected work.
	ErrLost = fault.ErrLost
	// ErrTaken: somebody else has the key. Come back later.
	ErrTaken = fault.ErrTaken
	// ErrContended: several asked for the key at the same moment, and nobody got it. Try again. It is not [ErrTaken].
	ErrContended = fault.ErrContended
	// ErrExpired: a quorum voted after the end of the lease. Take a longer TTL, or find out what is slow.
	ErrExpired = fault.ErrExpired
	// ErrFence: the nodes granted the key, but accepted no fence for it. Try again; the message may name what to correct.
	ErrFence = fault.ErrFence
	// ErrNoQuorum: too few nodes answered to know the holder. A [QuorumError] names them, and [ErrNode] or the like says why.
	ErrNoQuorum = fault.ErrNoQuorum
	// ErrNode: a server cannot be a node, as a replica or one that evicts keys. The message says what to do.
	ErrNode = fault.ErrNode
	// ErrNodeSet: a node is for clients with other nodes, or another longest TTL, than this client. Give all
	// clients the same nodes, [WithNodeSet] and longest TTL ([WithRestartGuard]).
	ErrNodeSet = fault.ErrNodeSet
	// ErrQuarantine: a node may have forgotten votes, or is new, and does not vote for the longest TTL and
	// an eighth of it: see [WithRestartGuard] and [WithClockGuard]. Wait, with the Locker open.
	ErrQuarantine = fault.ErrQuarantine
	// ErrPermits: others count another number of permits for a [Semaphore]. Give all the same number.
	ErrPermits = fault.ErrPermits
	// ErrBusy: as many acquires are under way in this Locker as [WithMaxAcquires] allows, or the acquire had
	// no turn to ask the nodes in its time. Nothing was sent. Refuse the work, or come back later.
	ErrBusy = fault.ErrBusy
)

// OptionError is an invalid option or argument. It matches [ErrOption].
type OptionError struct {
	Option string // its name, as in WithTTL: "TTL"; or "nodes", "options" or "key"
	Reason string // what is wrong, and what is valid
}

func (e *OptionError) Error() string { return "redlock: " + e.Option + ": " + e.Reason }

// Is makes the error match [ErrOption].
func (e *OptionError) Is(target error) bool { return target == ErrOption }

// DeadlockError is a cycle of locks, each of whose work waits for the next: of one Locker, or of several
// processes ([WithDeadlockDetection]). A wait of the cycle has given up: within one Locker the wait that
// closed it, otherwise the youngest. Work for a lock is work under its [Lock.Context]. See [ErrDeadlock].
type DeadlockError struct {
	Cycle []DeadlockWait // the first wait is the acquire that failed
}

// A DeadlockWait is a part of a [DeadlockError].
type DeadlockWait struct {
	Holds    string // the key under which the wait works
	WaitsFor string // the key of the next wait
	Owner    string // of Holds, by [WithOwner]
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

// waitError is an acquire that has waited in vain. It matches the last try's error, and the context's error
// or [ErrClosed] if these ended the waiting.
type waitError struct {
	Tries  int           // how often nodes were asked; 0: never, because others wait before in this process
	Waited time.Duration // since the call

	last, end error
}

func (e *waitError) Error() string {
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
func (e *waitError) Unwrap() []error {
	if e.end == nil {
		return []error{e.last}
	}
	return []error{e.last, e.end}
}

// closeError names the keys whose release no quorum has confirmed to [Locker.Close]. It matches
// [ErrNoQuorum]. Nothing has to be done: each key expires one TTL after its nodes answer again at the
// latest.
type closeError struct {
	Keys []unreleasedKey // in order
}

// unreleasedKey is a key that no quorum has released, without its prefix.
type unreleasedKey struct {
	Key   string
	Nodes []string // the nodes that may have the key
}

func (e *closeError) Error() string {
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
func (e *closeError) Is(target error) bool { return target == ErrNoQuorum }

// The answers of nodes, in the order of [kernel.Answer].
const pendingVote, grantedVote, takenVote, absentVote, failedVote, outbidVote = "pending", "granted", "taken", "absent", "failed", "outbid"

var answers = [...]string{pendingVote, grantedVote, takenVote, absentVote, failedVote, outbidVote}

// Vote is a node's part in an operation.
type Vote struct {
	Node string // its name
	// Answer is "granted", the node did as asked; "taken", another token has the key; "absent", our token is
	// not there; "failed", a refusal or no answer; "outbid", the key was set, but the node had accepted an
	// equal or greater fence before; "pending", the operation was decided without the node.
	Answer  string
	Latency time.Duration // from the call to the answer, waiting in queues included
	Err     error         // why the vote failed: with a *driver.ServerError if the server refused
	Owner   string        // of "taken": the holder, by [WithOwner]; "": not known
	Since   time.Time     // when Owner took the key, by its own clock; zero: not known
	Key     string        // of several keys, the key in the way; "": a single key, or none
	InLine  bool          // of "taken": nobody has the key, and the node keeps it for the first in line, who waits for it
}

func (v Vote) String() string {
	if v.InLine {
		return v.text("kept for the first in line")
	}
	if v.Answer == takenVote && v.Owner != "" {
		who := v.Owner
		if !v.Since.IsZero() {
			who += " since " + v.Since.Format(time.RFC3339)
		}
		return v.text("taken by " + who)
	}
	if i := slices.Index(answers[:], cmp.Or(v.Answer, pendingVote)); i >= 0 {
		return v.text(kernel.Answer(i).String()) //nolint:gosec // there are six
	}
	return v.text(v.Answer)
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

// QuorumError is an operation to which too few nodes agreed, with each node's answer. It matches the
// sentinel that says why, and whatever the nodes' errors match.
type QuorumError struct {
	Op     string // acquire, extend, renew, release, confirm or check
	Key    string // "" of a check
	Need   int    // votes that make a quorum
	Votes  []Vote
	Reason error // the sentinel, or an error that wraps two
}

func (e *QuorumError) Error() string {
	var lines []string
	for _, vote := range e.Votes {
		switch {
		case vote.Answer != grantedVote:
			lines = append(lines, vote.String())
		case e.Op == protocol.Exclusive.Release.Name:
			lines = append(lines, vote.text("deleted"))
		case e.Op != protocol.Check.Name: // which is about the others
			lines = append(lines, vote.String())
		}
	}
	return fmt.Sprintf("%s (%d of %d nodes must agree): %s", e.summary(), e.Need, len(e.Votes), strings.Join(lines, "; "))
}

// summary is the text without the nodes' answers.
func (e *QuorumError) summary() string {
	reason := e.Reason.Error()
	if owner := e.Owner(); owner != "" && e.Reason == ErrTaken { //nolint:errorlint // an error that wraps the sentinel has a text of its own
		reason = "taken by " + owner
	}
	kept := 0
	for _, vote := range e.Votes {
		if vote.InLine {
			kept++
		}
	}
	if kept >= e.Need && e.Reason == ErrTaken { //nolint:errorlint // likewise
		reason = ErrTaken.Error() + ", who waits for it"
	}
	if e.Op == protocol.Check.Name {
		return fmt.Sprintf("redlock: %s: %s", e.Op, reason)
	}
	return fmt.Sprintf("redlock: %s %q: %s", e.Op, e.Key, reason)
}

// Owner returns the holder, by [WithOwner], if a quorum of the nodes names it; "": none does, or the holder
// has no name.
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

// votes returns the nodes' answers.
func votes(t quorum.Tally) []Vote {
	votes := make([]Vote, len(t.Votes))
	for i, v := range t.Votes {
		votes[i] = Vote{Node: v.Node.Name(), Answer: answers[v.Answer], Latency: v.Latency, Err: v.Err, Owner: protocol.Owner(v.Refusal.Holder), Since: protocol.Since(v.Refusal.Holder), InLine: protocol.Kept(v.Refusal.Holder)}
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
