package gate

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/quorumlock/quorumlock/clockdrift"
	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/internal/fault"
	"github.com/quorumlock/quorumlock/internal/protocol"
)

// A Durability is what a vote needs besides a node's grant: see redlock.Durability.
type Durability struct {
	Command  string // WAIT or WAITAOF
	Replicas int
	Timeout  time.Duration // of the command
}

// Wait is for how long a vote may wait at a node, beside the node time-out; 0 if d is nil.
func (d *Durability) Wait() time.Duration {
	if d == nil {
		return 0
	}
	return d.Timeout
}

// Durable lets only such grants of a node be votes.
type Durable struct {
	*Durability
	node Node
}

// wait returns the command, which may take so long.
func (d *Durability) wait(replicas int, timeout time.Duration) driver.Command {
	// 0 would be for ever.
	args := []any{d.Command, strconv.Itoa(replicas), strconv.FormatInt(max(timeout.Milliseconds(), 1), 10)}
	if d.Command == "WAITAOF" {
		args = append([]any{d.Command, "1"}, args[1:]...)
	}
	return driver.Command{Args: args, Blocks: true}
}

// probe finds out whether the node can wait. Its present number of replicas says nothing: they come and go.
func (d *Durable) probe(f *Facts) error {
	if f.Cluster {
		return fmt.Errorf("%w: it is a Redis Cluster, where nobody can wait for durable votes: give masters of their own", fault.ErrNode)
	}
	replies, err := d.node.Beside([]driver.Command{d.wait(0, time.Millisecond)})
	if err != nil {
		return err
	}
	if err := replies[0].Err(); err != nil {
		return d.refused(err)
	}
	return nil
}

// ask returns the command that waits until the votes of a batch are safe. The command counts its own
// connection's writes: on another connection, or after no write, it says yes at once. So it never travels
// without the votes.
func (d *Durable) ask(s *Sending) driver.Command {
	if s.Until == 0 {
		s.Until = s.Sent.Add(d.Timeout)
	}
	return d.wait(d.Replicas, s.Until.Sub(s.Sent))
}

// missing says why the wait failed, by its reply.
func (d *Durability) missing(reply driver.Reply) error {
	if err := reply.Err(); err != nil {
		return d.refused(err)
	}
	replicas := reply
	if d.Command == "WAITAOF" {
		if reply.Kind != driver.Array || len(reply.Elems) != 2 {
			return protocol.Unexpected(driver.Reply{Kind: reply.Kind})
		}
		if synced := reply.Elems[0]; synced.Kind != driver.Integer {
			return protocol.Unexpected(driver.Reply{Kind: synced.Kind})
		} else if synced.Int < 1 {
			return fmt.Errorf("not durable: not synced to the node's disk within %v: set appendfsync always there, or see what the disk is busy with", d.Timeout)
		}
		replicas = reply.Elems[1]
	}
	switch {
	case replicas.Kind != driver.Integer:
		return protocol.Unexpected(driver.Reply{Kind: replicas.Kind})
	case replicas.Int < int64(d.Replicas):
		what := "had it"
		if d.Command == "WAITAOF" {
			what = "had it on disk (they need appendonly yes, too)"
		}
		return fmt.Errorf("not durable: %d of %d replicas %s within %v: see that all are connected and near", replicas.Int, d.Replicas, what, d.Timeout)
	}
	return nil
}

// refused words a server's refusal of the command.
func (d *Durability) refused(err error) error {
	var reply *driver.ServerError
	if !errors.As(err, &reply) {
		return err
	}
	lack, lacks := fault.LackOf(reply)
	switch {
	case lacks && lack.Unknown && d.Command == "WAITAOF":
		return fmt.Errorf("%w: it has no WAITAOF: take Redis 7.2, Valkey 8.0 or later, or a Durability with Replicas and no Disk; if it is one of these, see that no rename-command takes it away: %w", fault.ErrNode, err)
	case lacks, reply.Code == "NOPERM":
		return fmt.Errorf("%w: it waits for no durable votes: %s: %w", fault.ErrNode, fault.Without(err, strings.ToLower(d.Command)), err)
	case strings.Contains(strings.ToLower(reply.Message), "appendonly"):
		return fault.Passing(fmt.Errorf("%w: it keeps no append-only file: set appendonly yes, and appendfsync always: %w", fault.ErrNode, err))
	}
	return fault.Advise(err)
}

// Why a grant is not durable though the wait says nothing of it.
var (
	// errEarlier: an earlier sending had brought the token to the node.
	errEarlier = errors.New("not durable: the connection broke behind the vote, and on another one nobody can ask about it; the next try can")
	// errLonger: without scripts, nothing had to be prolonged.
	errLonger = errors.New("not durable: the node has the key for longer already, so nothing was written that it could prove: take a longer TTL, or let the node run scripts (EVAL, EVALSHA)")
)

// Unwritten says why a grant without a write on this connection is no vote, for the wait says nothing of it;
// nil: there was a write, or nobody waits. A SET that finds our own token writes nothing, nor does a hold
// without scripts where the node has the key for longer. The script always writes.
func (g *Gates) Unwritten(p *protocol.Part) error {
	switch {
	case g.durable == nil:
		return nil
	case p.Found():
		return errEarlier
	case p.Idle():
		return errLonger
	}
	return nil
}

// Fits reports whether a lease of ttl has room for a vote that takes all its time, with the node time-out
// beside it.
func (d *Durability) Fits(ttl, nodeTimeout time.Duration, drift float64) bool {
	return d == nil || clockdrift.Deadline(0, ttl, drift) > clockdrift.Instant(nodeTimeout).Add(d.Timeout)
}
