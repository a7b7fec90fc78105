package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	goredis "github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"

	ourgoredis "github.com/quorumlock/quorumlock/driver/goredis"
	ourrueidis "github.com/quorumlock/quorumlock/driver/rueidis"
	"github.com/quorumlock/quorumlock/test/integration/server"
	"github.com/quorumlock/quorumlock/test/integration/shards"
)

// scale shows how cost grows with what is at the nodes, and with their number.
var scale = Case{
	Name:    "scale",
	About:   "the same cycles on more and fewer nodes, on nodes that are Redis Clusters of three masters, and beside a million keys of others on each node",
	Columns: slices.Concat(loadColumns[:4], throughputColumns),
	Apart:   true,
	Run:     runScale,
}

// counts are the numbers of nodes.
var counts = []int{1, 3, 5, 7, 9, 15}

func nodesTitle(count int) string {
	if count == 1 {
		return "1 node"
	}
	return fmt.Sprintf("%d nodes", count)
}

// others is how many keys others have on each node.
const others = 1_000_000

// A place is where a contender of ours is measured.
type place struct {
	name       string
	contenders []Contender
	addrs      func() []string
	cpu        *Cluster
	flush      func() error // nil: the place ends
}

func runScale(ctx context.Context, b *Bench, t *Table) error {
	over := find("redlock", "go-redis", "")
	for _, count := range counts {
		if err := onNodes(count, func(c *Cluster) error { //nolint:contextcheck // Close ends them
			return measurePlace(ctx, b, t, place{name: nodesTitle(count), contenders: []Contender{over}, addrs: c.Addrs, cpu: c, flush: c.Flush})
		}); err != nil {
			return err
		}
	}
	if err := onNodes(nodes, func(c *Cluster) error { //nolint:contextcheck // likewise
		for _, p := range c.processes {
			for part := range 10 { // for which no machine is too slow
				if _, err := p.Do("DEBUG", "POPULATE", fmt.Sprint(b.atMost(others)/10), fmt.Sprint("other", part), "32"); err != nil { //nolint:contextcheck // bounded by itself
					return err
				}
			}
		}
		name := fmt.Sprintf("%d nodes, %d keys of others on each", nodes, b.atMost(others))
		return measurePlace(ctx, b, t, place{name: name, contenders: []Contender{over}, addrs: c.Addrs, cpu: c})
	}); err != nil {
		return err
	}
	return onClusters(func(clusters []*shards.Cluster) error {
		all := &Cluster{}
		for _, c := range clusters {
			all.processes = append(all.processes, c.Masters...)
		}
		return measurePlace(ctx, b, t, place{
			name: fmt.Sprintf("%d Redis Clusters of %d masters", nodes, mastersEach), contenders: overClusters(clusters), cpu: all, flush: all.Flush,
			addrs: func() []string { return nil },
		})
	})
}

// atMost is n, or little of it where it must be quick.
func (b *Bench) atMost(n int) int {
	if b.Quick {
		return n / 100
	}
	return n
}

func measurePlace(ctx context.Context, b *Bench, t *Table, p place) error {
	some := *b
	some.Contenders = p.contenders
	return some.turns(ctx, t, b.Rounds, []int{1, 128}, func(c Contender, goroutines int) error {
		session, err := c.Open(p.addrs(), Setup{Goroutines: goroutines, TTL: ttl})
		if err != nil {
			return err
		}
		key := Key{Contender: c.Name(), Goroutines: goroutines, Situation: p.name}
		if err = measureThroughput(ctx, b, t, key, session, p.cpu); err == nil && p.flush != nil {
			err = p.flush()
		}
		return err
	})
}

// onNodes calls do with so many servers.
func onNodes(count int, do func(*Cluster) error) error {
	c := &Cluster{}
	for range count {
		p, err := server.Launch("--enable-debug-command", "local")
		if err != nil {
			return errors.Join(err, c.Close())
		}
		c.processes = append(c.processes, p)
	}
	return errors.Join(do(c), c.Close())
}

const mastersEach = 3

// onClusters calls do with five Redis Clusters.
func onClusters(do func([]*shards.Cluster) error) error {
	clusters, errs := make([]*shards.Cluster, nodes), make([]error, nodes)
	var group sync.WaitGroup
	for i := range clusters {
		group.Go(func() { clusters[i], errs[i] = shards.Start(mastersEach, false) })
	}
	group.Wait()
	err := errors.Join(errs...)
	if err == nil {
		err = do(clusters)
	}
	for _, c := range clusters {
		if c != nil {
			err = errors.Join(err, c.Close())
		}
	}
	return err
}

// overClusters is our library over each client that can have a Redis Cluster for a node.
func overClusters(clusters []*shards.Cluster) []Contender {
	return []Contender{
		{Library: "redlock", Client: "go-redis", Open: func(_ []string, setup Setup) (Session, error) {
			var clients []*goredis.ClusterClient
			var owned closers
			for _, c := range clusters {
				client := goredis.NewClusterClient(&goredis.ClusterOptions{Addrs: c.Addrs()})
				clients, owned = append(clients, client), append(owned, client)
			}
			nodes, err := ourgoredis.Nodes(clients...)
			return newRedlockSession(nodes, err, owned, setup)
		}},
		{Library: "redlock", Client: "rueidis", Open: func(_ []string, setup Setup) (Session, error) {
			var clients []rueidis.Client
			var owned closers
			for _, c := range clusters {
				client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: c.Addrs(), DisableCache: true})
				if err != nil {
					return nil, errors.Join(err, owned.Close())
				}
				clients, owned = append(clients, client), append(owned, rueidisCloser{client})
			}
			nodes, err := ourrueidis.Nodes(clients...)
			return newRedlockSession(nodes, err, owned, setup)
		}},
	}
}
