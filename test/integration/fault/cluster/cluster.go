// Package cluster has the servers that faults happen to: five nodes, each behind a bad
// network of its own for every client.
package cluster

import (
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/quorumlock/quorumlock/test/integration/fault/schedule"
	"github.com/quorumlock/quorumlock/test/integration/server"
	"github.com/quorumlock/quorumlock/test/proxy"
)

// A Cluster is a few masters, of which some have replicas. Its methods are safe for
// concurrent use, but for Close.
type Cluster struct {
	nodes []*node
	empty *server.Process // a server without data; or nil
	kinds []schedule.Kind

	mu      sync.Mutex
	retries []Retry
}

// A node is a server, and the links of all clients to it.
type node struct {
	mu      sync.Mutex // held while a fault lasts
	server  server.Node
	replica *server.Process // or nil
	links   []*proxy.Proxy  // of each client
}

// replicas is how many of the nodes have one.
const replicas = 2

// Processes starts a cluster of processes for so many clients: those nodes that are
// durable find what they knew when they are started again.
func Processes(durable []bool, clients int) (*Cluster, error) {
	empty, err := server.Launch("--repl-diskless-sync-delay", "0")
	if err != nil {
		return nil, err
	}
	c := &Cluster{kinds: schedule.Kinds(), empty: empty}
	return c.launch(len(durable), clients, func(i int, n *node) error {
		setup := server.Setup{Args: append(Arguments(durable[i]), "--repl-diskless-sync-delay", "0"), Clock: true}
		master, err := setup.Launch()
		if err != nil {
			return err
		}
		n.server = master
		if i >= replicas {
			return nil
		}
		if n.replica, err = setup.Launch(); err != nil {
			return err
		}
		return n.replica.Follow(master)
	})
}

// Arguments are those of a server that keeps what it knows on its disk, or does not.
func Arguments(durable bool) []string {
	return []string{"--appendonly", map[bool]string{true: "yes", false: "no"}[durable]}
}

// Of makes a cluster of nodes that start starts: they have the machine's clock, and no
// replicas.
func Of[N server.Node](nodes, clients int, start func(i int) (N, error)) (*Cluster, error) {
	kinds := slices.DeleteFunc(schedule.Kinds(), func(k schedule.Kind) bool {
		switch k {
		case schedule.StepForward, schedule.StepBack, schedule.StepForwardInVote, schedule.StepBackInVote,
			schedule.Failover, schedule.Promote, schedule.Copy, schedule.TurnInVote:
			return true
		}
		return false
	})
	c := &Cluster{kinds: kinds}
	return c.launch(nodes, clients, func(i int, n *node) error {
		started, err := start(i)
		if err != nil {
			return err // n.server stays nil: with a nil pointer in it, it would not be
		}
		n.server = started
		return nil
	})
}

func (c *Cluster) launch(nodes, clients int, start func(i int, n *node) error) (*Cluster, error) {
	for range nodes {
		c.nodes = append(c.nodes, new(node))
	}
	err := each(c.nodes, func(i int, n *node) error {
		if err := start(i, n); err != nil {
			return err
		}
		for range clients {
			link, err := proxy.New(n.server.Addr())
			if err != nil {
				return err
			}
			n.links = append(n.links, link)
		}
		return nil
	})
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// Kinds returns the faults that can be made here.
func (c *Cluster) Kinds() []schedule.Kind { return c.kinds }

// Replicas is how many of the first nodes have a replica.
func (c *Cluster) Replicas() int {
	return len(slices.DeleteFunc(slices.Clone(c.nodes), func(n *node) bool { return n.replica == nil }))
}

// Retries returns the tokens that were released again at a node that stalled.
func (c *Cluster) Retries() []Retry {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.retries)
}

func (c *Cluster) retried(r Retry) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.retries = append(c.retries, r)
}

// Links returns where a client reaches the nodes.
func (c *Cluster) Links(client int) []string {
	addrs := make([]string, 0, len(c.nodes))
	for _, n := range c.nodes {
		addrs = append(addrs, n.links[client].Addr())
	}
	return addrs
}

// Masters returns where the nodes themselves are.
func (c *Cluster) Masters() []string {
	addrs := make([]string, 0, len(c.nodes))
	for _, n := range c.nodes {
		addrs = append(addrs, n.server.Addr())
	}
	return addrs
}

// Close ends all servers and links.
func (c *Cluster) Close() error {
	err := each(c.nodes, func(_ int, n *node) error {
		var errs []error
		for _, link := range n.links {
			errs = append(errs, link.Close())
		}
		if n.replica != nil {
			errs = append(errs, n.replica.Close())
		}
		if n.server != nil {
			errs = append(errs, n.server.Close())
		}
		return errors.Join(errs...)
	})
	if c.empty != nil {
		err = errors.Join(err, c.empty.Close())
	}
	return err
}

// each does it with all nodes at the same time.
func each(nodes []*node, do func(i int, n *node) error) error {
	errs := make([]error, len(nodes))
	var doing sync.WaitGroup
	for i, n := range nodes {
		doing.Go(func() {
			if err := do(i, n); err != nil {
				errs[i] = fmt.Errorf("node %d: %w", i+1, err)
			}
		})
	}
	doing.Wait()
	return errors.Join(errs...)
}
