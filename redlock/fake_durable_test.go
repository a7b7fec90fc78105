package redlock

import (
	"context"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/quorumlock/quorumlock/driver"
)

// A proofNode is a fake node with a disk and replicas. It knows WAIT and WAITAOF, and as
// real servers do it answers for what the connection, here the batch, has written: at
// once if that is nothing.
type proofNode struct {
	*fakeNode

	mu       sync.Mutex
	sync     time.Duration // until all is safe that was written
	local    int64         // disks that have it then
	replicas int64         // replicas that have it then
	says     string        // an error reply instead
	breaks   int           // so many batches lose their connection while they wait
	seen     []proofSeen
	out      int
	most     int // batches with proofs at once
}

// A proofSeen is one WAIT or WAITAOF that arrived behind others.
type proofSeen struct {
	args    []any
	behind  int // commands
	wrote   bool
	timeout time.Duration
}

// proofNodes returns n nodes on which all is safe at once.
func proofNodes(n int) []*proofNode {
	plain, _ := fakeNodes(n)
	nodes := make([]*proofNode, n)
	for i := range nodes {
		nodes[i] = &proofNode{fakeNode: plain[i], local: 1, replicas: 2}
	}
	return nodes
}

func (f *proofNode) Do(ctx context.Context, cmds []driver.Command) ([]driver.Reply, error) {
	at := slices.IndexFunc(cmds, waits)
	if at < 0 {
		return f.fakeNode.Do(ctx, cmds)
	}
	proof := cmds[at]
	name := proof.Args[0].(string)
	if !proof.Blocks {
		return []driver.Reply{}, errNotBlocking
	}
	replies, err := f.fakeNode.Do(ctx, cmds[:at])
	if err != nil {
		return replies, err
	}
	ms, _ := strconv.Atoi(proof.Args[len(proof.Args)-1].(string))
	this := proofSeen{args: proof.Args, behind: at, timeout: time.Duration(ms) * time.Millisecond}
	for i, reply := range replies {
		set := cmds[i].Args[0] == "SET"
		this.wrote = this.wrote || set && reply.Kind == driver.Nil || !set && reply.Kind == driver.Integer && reply.Int > 0
	}
	answer, wait, broken := f.prove(name, this)
	if !sleep(ctx, wait) {
		return nil, ctx.Err()
	}
	f.mu.Lock()
	f.out--
	f.mu.Unlock()
	if broken {
		return replies, errCut
	}
	replies = append(replies, answer)
	if at+1 == len(cmds) {
		return replies, nil
	}
	f.fakeNode.mu.Lock()
	defer f.fakeNode.mu.Unlock()
	rest, lost := f.run(cmds[at+1:]) // the way was paid for
	if lost {
		err = errCut
	}
	return append(replies, rest...), err
}

// waits reports whether a command is WAIT or WAITAOF.
func waits(cmd driver.Command) bool { return cmd.Args[0] == "WAIT" || cmd.Args[0] == "WAITAOF" }

// prove is the answer to a proof, and how long it takes.
func (f *proofNode) prove(name string, this proofSeen) (answer driver.Reply, wait time.Duration, broken bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.out++
	f.most = max(f.most, f.out)
	if f.says != "" {
		return refusal(f.says), 0, false
	}
	if this.behind == 0 {
		return proofReply(name, 0, 0), 0, false // what the node is asked first
	}
	f.seen = append(f.seen, this)
	if broken = f.breaks > 0; broken {
		f.breaks--
		return answer, f.sync / 2, true
	}
	switch {
	case !this.wrote:
		return proofReply(name, 1, 2), 0, false
	case f.sync > this.timeout:
		return proofReply(name, 0, 0), this.timeout, false
	}
	if enough := f.local > 0 && f.replicas >= int64(atoi(this.args[len(this.args)-2])); !enough {
		return proofReply(name, f.local, f.replicas), this.timeout, false
	}
	return proofReply(name, f.local, f.replicas), f.sync, false
}

func atoi(arg any) int {
	n, _ := strconv.Atoi(arg.(string))
	return n
}

func proofReply(name string, local, replicas int64) driver.Reply {
	if name == "WAIT" {
		return integer(replicas)
	}
	return array(integer(local), integer(replicas))
}

// set changes how the node proves.
func (f *proofNode) set(how func(f *proofNode)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	how(f)
}

// proofs returns what arrived, and forgets it.
func (f *proofNode) proofs() (seen []proofSeen) {
	f.mu.Lock()
	defer f.mu.Unlock()
	seen, f.seen = f.seen, nil
	return seen
}

// plainNodes are the nodes as the helpers of other tests want them.
func plainNodes(nodes []*proofNode) []*fakeNode {
	plain := make([]*fakeNode, len(nodes))
	for i, n := range nodes {
		plain[i] = n.fakeNode
	}
	return plain
}
