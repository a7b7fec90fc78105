package main

import (
	"context"
	"errors"
	"time"

	"github.com/quorumlock/quorumlock/test/integration/server"
)

// Site is a cluster that faults can strike, with a proxy before each node.
type Site struct {
	*Cluster
	delay *Delay
}

func startSite() (*Site, error) {
	cluster, err := startCluster()
	if err != nil {
		return nil, err
	}
	delay, err := startDelay(cluster.Addrs())
	if err != nil {
		return nil, errors.Join(err, cluster.Close())
	}
	return &Site{cluster, delay}, nil
}

// addrs is where clients reach the nodes that a fault is to strike. Where it strikes
// the proxy, they go through it in good health, too, so that what it costs is on both
// sides.
func (s *Site) addrs(f Fault) []string {
	addrs := s.Addrs()
	if f.slow {
		addrs[nodes-1] = s.delay.Addrs()[nodes-1]
	}
	return addrs
}

// Close ends the servers and the proxy.
func (s *Site) Close() error { return errors.Join(s.delay.Close(), s.Cluster.Close()) }

// move makes the way through the proxies longer, to every node.
func (s *Site) move(delay time.Duration) error {
	for i := range nodes {
		if err := s.delay.Set(i, delay); err != nil {
			return err
		}
	}
	return nil
}

// last does something to the last n nodes.
func (s *Site) last(n int, do func(*server.Process) error) error {
	for _, p := range s.processes[nodes-n:] {
		if err := do(p); err != nil {
			return err
		}
	}
	return nil
}

// mend lifts the fault and returns when all nodes answer again.
func (s *Site) mend(ctx context.Context, f Fault) error {
	if err := f.lift(s); err != nil {
		return err
	}
	for _, addr := range s.Addrs() {
		if err := server.Await(ctx, addr); err != nil {
			return err
		}
	}
	return nil
}
