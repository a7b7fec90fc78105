package redlock

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/quorumlock/quorumlock/clockdrift"
	"github.com/quorumlock/quorumlock/driver"
)

// WithReplicatedVotes lets a node's vote count only when so many of its replicas have
// it (WAIT), so that a lock outlives the node and the promotion of a replica. Ask for
// all replicas that can be promoted: of some, the one without the vote may be promoted.
// It is 1 or more. By default a vote counts when the node has it in memory.
//
// It also keeps an old master from voting that was cut off and replaced while some clients
// still talk to it (Sentinel's split brain): the promoted replica is missing there. Without
// this option such a node votes twice, which [WithRestartGuard] cannot see either.
//
// A vote that too few replicas have within [WithDurableTimeout] is no vote, and its key
// is taken back. Acquire, Extend, renewal and hand-over wait; a release does not, unless
// it hands the lock over. A Redis Cluster is refused with [ErrNode].
func WithReplicatedVotes(replicas int) Option {
	return option(func(o *lockerOptions) { o.replicated = &replicas })
}

// WithDurableVotes lets a node's vote count only when it is synced in the append-only
// file on the node's own disk, and on the disks of so many of its replicas (WAITAOF), so
// that a lock outlives the loss of power. Ask for all replicas that can be promoted, or
// for 0 if none can. By default a vote counts when the node has it in memory.
//
// Set appendonly yes on the nodes and appendfsync always: under everysec a vote waits for
// the next second, and WAITAOF of Redict 7.3.6, Valkey 8.1.1 and 9.1.2 was seen to answer before
// the sync had ended, so that a power cut took votes that counted. (Under always, and on
// Redis 8.0 under both, it took none.) Measured with five servers on one busy machine of 2 cores, a
// lone acquire took 1.4ms under always and 1.0s under everysec (0.16ms without the option
// and the file), and 64 callers made 1900 and 46 acquires a second (13000).
//
// A vote that is not safe within [WithDurableTimeout] is no vote, and its key is taken
// back. Acquire, Extend, renewal and hand-over wait; a release does not, unless it hands
// the lock over. A node that has no WAITAOF (it is older than Redis 7.2 or Valkey 8.0),
// that keeps no append-only file, or that is a Redis Cluster is refused with [ErrNode].
func WithDurableVotes(replicas int) Option {
	return option(func(o *lockerOptions) { o.synced = &replicas })
}

// WithDurableTimeout sets how long a vote may wait for what [WithReplicatedVotes] or
// [WithDurableVotes] asks for, beside the node time-out. It is a whole number of
// milliseconds, and every TTL must have room for both. The default is 2s, or half of what
// the default TTL leaves beside the node time-out if that is less.
func WithDurableTimeout(d time.Duration) Option {
	return option(func(o *lockerOptions) { o.durableTimeout = d })
}

// checkDurability finds the first setting of durable votes that is not valid.
func (o *lockerOptions) checkDurability() error {
	switch {
	case o.replicated != nil && *o.replicated < 1:
		return &OptionError{"ReplicatedVotes", fmt.Sprintf("%d replicas are fewer than 1", *o.replicated)}
	case o.synced != nil && *o.synced < 0:
		return &OptionError{"DurableVotes", fmt.Sprintf("%d replicas are fewer than 0", *o.synced)}
	case o.replicated != nil && o.synced != nil:
		return &OptionError{"ReplicatedVotes", "it does not go with DurableVotes, which counts replicas too: give all of them there"}
	case o.durableTimeout != byTTL && (o.durableTimeout <= 0 || o.durableTimeout%time.Millisecond != 0):
		return &OptionError{"DurableTimeout", fmt.Sprintf("%v is not a whole number of milliseconds above 0", o.durableTimeout)}
	}
	if d := o.durability(); !d.fits(o, o.acquire.ttl) {
		return &OptionError{"DurableTimeout", fmt.Sprintf("%v and the node time-out of %v leave nothing of the TTL of %v: take a longer TTL or a shorter time-out",
			d.timeout, o.timeout(o.acquire.ttl), o.acquire.ttl)}
	}
	return nil
}

// A durability is what a vote needs besides a node's grant.
type durability struct {
	command  string // WAIT, WAITAOF or, if there is nothing, ""
	replicas int
	timeout  time.Duration // of the command; 0 if there is none
}

// defaultDurableTimeout has room for the two seconds that a busy disk may put off the
// sync of every second.
const defaultDurableTimeout = 2 * time.Second

// durability is what the options ask for.
func (o *lockerOptions) durability() (d durability) {
	switch {
	case o.replicated != nil:
		d.command, d.replicas = "WAIT", *o.replicated
	case o.synced != nil:
		d.command, d.replicas = "WAITAOF", *o.synced
	default:
		return d
	}
	if d.timeout = o.durableTimeout; d.timeout == byTTL {
		ttl := o.acquire.ttl
		half := (ttl - o.timeout(ttl)) / 2
		d.timeout = max(min(defaultDurableTimeout, half).Truncate(time.Millisecond), time.Millisecond)
	}
	return d
}

// fits reports whether a lease of ttl has room for a vote that takes all its time.
func (d *durability) fits(o *lockerOptions, ttl time.Duration) bool {
	return d.command == "" || clockdrift.Deadline(0, ttl, o.drift) > clockdrift.Instant(o.timeout(ttl)).Add(d.timeout)
}

// waits returns the command, which may take so long.
func (d *durability) waits(replicas int, timeout time.Duration) driver.Command {
	// 0 would be for ever.
	args := []any{d.command, strconv.Itoa(replicas), strconv.FormatInt(max(timeout.Milliseconds(), 1), 10)}
	if d.command == "WAITAOF" {
		args = append([]any{d.command, "1"}, args[1:]...)
	}
	return driver.Command{Args: args, Blocks: true}
}

// A proof says whether the votes of a batch are safe.
type proof struct {
	ends  clockdrift.Instant // it has until then, however often the batch is sent
	fault error              // why they are not
}

// prove appends the command that waits until the votes of a batch are safe. That counts
// what its own connection has written: on another one, or where nothing was written, it
// says yes at once. So it never travels without them.
func (b *batch) prove(cmds []driver.Command, now clockdrift.Instant) []driver.Command {
	d := &b.node.locker.durability
	if b.proof.ends == 0 {
		b.proof.ends = now.Add(d.timeout)
	}
	return append(cmds, d.waits(d.replicas, b.proof.ends.Sub(now)))
}

// errEarlier is the fate of a vote that an earlier sending had brought to the node.
var errEarlier = errors.New("not durable: the connection broke behind the vote, and on another one nobody can ask about it; the next try can")

// errLonger is the fate of a vote without scripts where nothing had to be prolonged.
var errLonger = errors.New("not durable: the node has the key for longer already, so nothing was written that it could prove: take a longer TTL, or allow +eval +evalsha")

// unproved says why the grant that r has is no vote: fault, which its batch has, or that
// nothing was written on this connection, so that the proof says nothing of it. A SET
// that finds our own token writes nothing, nor does a hold without scripts where the node
// has the key for longer. The script always writes.
func (r *request) unproved(fault error) error {
	switch proves := r.node.line(r.op).proves; {
	case proves && r.op.task.finds && r.reply[0].Kind == driver.String:
		return errEarlier
	case proves && r.half != nil && r.half.idle:
		return errLonger
	}
	return fault
}

// judge says what is missing by the reply to the command.
func (d *durability) judge(reply driver.Reply) error {
	if err := reply.Err(); err != nil {
		return d.refused(err)
	}
	replicas := reply
	if d.command == "WAITAOF" {
		if reply.Kind != driver.Array || len(reply.Elems) != 2 {
			return unexpected(driver.Reply{Kind: reply.Kind})
		}
		if synced := reply.Elems[0]; synced.Kind != driver.Integer {
			return unexpected(driver.Reply{Kind: synced.Kind})
		} else if synced.Int < 1 {
			return fmt.Errorf("not durable: not synced to the node's disk within %v: set appendfsync always there, or see what the disk is busy with", d.timeout)
		}
		replicas = reply.Elems[1]
	}
	switch {
	case replicas.Kind != driver.Integer:
		return unexpected(driver.Reply{Kind: replicas.Kind})
	case replicas.Int < int64(d.replicas):
		what := "had it"
		if d.command == "WAITAOF" {
			what = "had it on disk (they need appendonly yes, too)"
		}
		return fmt.Errorf("not durable: %d of %d replicas %s within %v: see that all are connected and near", replicas.Int, d.replicas, what, d.timeout)
	}
	return nil
}

// refused words a server's refusal of the command.
func (d *durability) refused(err error) error {
	var reply *driver.ServerError
	if !errors.As(err, &reply) {
		return err
	}
	switch text := strings.ToLower(reply.Message); {
	case reply.Code == "NOPERM":
		return fmt.Errorf("%w: its user may not wait for durable votes: allow +%s: %w", ErrNode, strings.ToLower(d.command), err)
	case strings.Contains(text, "unknown command"):
		return fmt.Errorf("%w: it has no %s: take Redis 7.2, Valkey 8.0 or later, or WithReplicatedVotes: %w", ErrNode, d.command, err)
	case strings.Contains(text, "appendonly"):
		return fmt.Errorf("%w: it keeps no append-only file: set appendonly yes, and appendfsync always: %w", ErrNode, err)
	}
	return advised(err)
}

// tryProof finds out whether the node can give proofs. How many replicas it has now says
// nothing: they come and go.
func (n *node) tryProof(ctx context.Context, found finding) error {
	d := &n.locker.durability
	switch {
	case d.command == "":
		return nil
	case found.cluster:
		return fmt.Errorf("%w: it is a Redis Cluster, where nobody can wait for durable votes: give masters of their own", ErrNode)
	}
	replies, err := n.do(ctx, []driver.Command{d.waits(0, time.Millisecond)})
	if err != nil {
		return n.explain(ctx, err, n.locker.timeout)
	}
	if err := replies[0].Err(); err != nil {
		return d.refused(err)
	}
	return nil
}
