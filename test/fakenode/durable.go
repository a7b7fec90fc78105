package fakenode

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/quorumlock/quorumlock/driver"
)

// A Durable is a [Node] with a disk and replicas. It knows WAIT and WAITAOF, and as real servers do
// it answers for what the connection, here the batch, has written: at once if that is nothing.
//
// Its own fields are read and written within [Durable.ChangeProofs], or while nothing is under way.
type Durable struct {
	*Node

	Sync     time.Duration // until all is safe that was written
	Local    int64         // disks that have it then
	Replicas int64         // replicas that have it then
	Says     string        // an error reply instead
	Breaks   int           // so many batches lose their connection while they wait
	Most     int           // batches with proofs at once

	mu   sync.Mutex
	seen []Proof
	out  int
}

// A Proof is one WAIT or WAITAOF that arrived behind other commands.
type Proof struct {
	Args    []any
	Behind  int  // so many commands
	Wrote   bool // whether one of them has written
	Timeout time.Duration
}

// errNotBlocking is for a driver that would not wait long enough.
var errNotBlocking = errors.New("a command that may take its time is not marked so")

// NewDurable returns a node on which all is safe at once, on its disk and two replicas.
func NewDurable(name string) *Durable {
	return &Durable{Node: New(name), Local: 1, Replicas: 2}
}

// Do makes a Durable a [driver.Driver].
func (f *Durable) Do(ctx context.Context, cmds []driver.Command) ([]driver.Reply, error) {
	at := slices.IndexFunc(cmds, IsProof)
	if at < 0 {
		return f.Node.Do(ctx, cmds)
	}
	proof := cmds[at]
	name := proof.Args[0].(string)
	if !proof.Blocks {
		return []driver.Reply{}, errNotBlocking
	}
	replies, err := f.Node.Do(ctx, cmds[:at])
	if err != nil {
		return replies, err
	}
	ms, _ := strconv.Atoi(proof.Args[len(proof.Args)-1].(string))
	this := Proof{Args: proof.Args, Behind: at, Timeout: time.Duration(ms) * time.Millisecond}
	for i, reply := range replies {
		set := cmds[i].Args[0] == "SET"
		this.Wrote = this.Wrote || set && reply.Kind == driver.Nil || !set && reply.Kind == driver.Integer && reply.Int > 0
	}
	answer, wait, broken := f.prove(name, this)
	if !Sleep(ctx, wait) {
		return nil, ctx.Err()
	}
	f.mu.Lock()
	f.out--
	f.mu.Unlock()
	if broken {
		return replies, ErrCut
	}
	replies = append(replies, answer)
	if at+1 == len(cmds) {
		return replies, nil
	}
	f.Node.mu.Lock()
	defer f.Node.mu.Unlock()
	rest, lost := f.Run(cmds[at+1:]) // the way was paid for
	if lost {
		err = ErrCut
	}
	return append(replies, rest...), err
}

// IsProof reports whether a command is WAIT or WAITAOF.
func IsProof(cmd driver.Command) bool { return cmd.Args[0] == "WAIT" || cmd.Args[0] == "WAITAOF" }

// prove is the answer to a proof, and how long it takes.
func (f *Durable) prove(name string, this Proof) (answer driver.Reply, wait time.Duration, broken bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.out++
	f.Most = max(f.Most, f.out)
	if f.Says != "" {
		return Refusal(f.Says), 0, false
	}
	if this.Behind == 0 {
		return proofReply(name, 0, 0), 0, false // what the node is asked first
	}
	f.seen = append(f.seen, this)
	if broken = f.Breaks > 0; broken {
		f.Breaks--
		return answer, f.Sync / 2, true
	}
	switch {
	case !this.Wrote:
		return proofReply(name, 1, 2), 0, false
	case f.Sync > this.Timeout:
		return proofReply(name, 0, 0), this.Timeout, false
	}
	wanted, _ := strconv.ParseInt(this.Args[len(this.Args)-2].(string), 10, 64)
	if f.Local == 0 || f.Replicas < wanted {
		return proofReply(name, f.Local, f.Replicas), this.Timeout, false
	}
	return proofReply(name, f.Local, f.Replicas), f.Sync, false
}

func proofReply(name string, local, replicas int64) driver.Reply {
	if name == "WAIT" {
		return integer(replicas)
	}
	return array(integer(local), integer(replicas))
}

// ChangeProofs changes how the node proves.
func (f *Durable) ChangeProofs(how func(f *Durable)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	how(f)
}

// Proofs returns what arrived, and forgets it.
func (f *Durable) Proofs() (seen []Proof) {
	f.mu.Lock()
	defer f.mu.Unlock()
	seen, f.seen = f.seen, nil
	return seen
}
