package main

import (
	"cmp"
	"context"
	"regexp"
	"strconv"
	"strings"

	"github.com/quorumlock/quorumlock/test/integration/server"
)

// nodes is how many servers a cluster has, where nothing else is said.
const nodes = 5

// Cluster is servers on this machine.
type Cluster []*server.Process

func startCluster(count int, setup server.Setup) (c Cluster) {
	for range count {
		c = append(c, must(setup.Launch()))
	}
	return c
}

func (c Cluster) Close() {
	for _, p := range c {
		check(p.Close())
	}
}

func (c Cluster) Addrs() (addrs []string) {
	for _, p := range c {
		addrs = append(addrs, p.Addr())
	}
	return addrs
}

// Flush empties the servers. The second time takes what a server that was stopped
// has found in its buffers.
func (c Cluster) Flush() {
	for _, p := range c {
		must(p.Do("FLUSHALL"))
		must(p.Do("FLUSHALL"))
	}
}

// Keys counts the keys that have not expired.
func (c Cluster) Keys() (count int) {
	for _, p := range c {
		count += len(strings.Fields(must(p.Do("KEYS", "*"))))
	}
	return count
}

// Info is what a server says of itself, on average.
func (c Cluster) Info(field string) (average float64) {
	for _, p := range c {
		average += must(strconv.ParseFloat(infoField(must(p.Do("INFO")), field), 64)) / float64(len(c))
	}
	return average
}

// CPU is the seconds of processor time that the servers have taken so far.
func (c Cluster) CPU() float64 {
	return (c.Info("used_cpu_sys") + c.Info("used_cpu_user")) * float64(len(c))
}

// commandsDuring is how many commands a server runs during work, those of scripts included. The
// first of the bench's own two questions is among them, and taken off.
func (c Cluster) commandsDuring(work func()) float64 {
	const field = "total_commands_processed"
	before := c.Info(field)
	work()
	return c.Info(field) - before - 1
}

func (c Cluster) Version() string {
	info := must(c[0].Do("INFO"))
	return cmp.Or(infoField(info, "server_name"), "redis") + " " + cmp.Or(infoField(info, "valkey_version"), infoField(info, "redis_version"))
}

func infoField(info, name string) string {
	found := regexp.MustCompile(`(?m)^` + name + `:(.*)$`).FindStringSubmatch(info)
	if found == nil {
		return ""
	}
	return strings.TrimSpace(found[1])
}

// Site is a cluster that can be in trouble, with a proxy before each node.
type Site struct {
	Cluster
	proxies *Proxies
}

func startSite() *Site {
	cluster := startCluster(nodes, server.Setup{})
	return &Site{cluster, startProxies(cluster.Addrs())}
}

func (s *Site) Close() {
	s.proxies.Close()
	s.Cluster.Close()
}

// mend lifts the trouble and returns when all nodes answer again.
func (s *Site) mend(ctx context.Context, t Trouble) {
	check(t.lift(s))
	for _, addr := range s.Addrs() {
		check(server.Await(ctx, addr))
	}
}
