// Package shards runs Redis Clusters of local processes: each is one node of a lock.
package shards

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/quorumlock/quorumlock/test/integration/server"
	"github.com/quorumlock/quorumlock/test/redisserver"
)

const slots = 16384

// A Cluster is a Redis Cluster. Its methods are called by one goroutine at a time.
type Cluster struct {
	// Masters have the same share of the slots each, in their order, until slots are moved.
	Masters []*server.Process
	// Replica follows the first master; nil: there is none.
	Replica *server.Process

	ids []string
}

// Start starts so many masters and, if it is wanted, a replica of the first. It returns when all of
// them agree that the cluster is there.
func Start(masters int, replica bool) (*Cluster, error) {
	c := &Cluster{}
	err := c.start(masters, replica)
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

func (c *Cluster) start(masters int, replica bool) error {
	for i := range masters {
		p, err := launch()
		if err != nil {
			return err
		}
		c.Masters = append(c.Masters, p)
		id, err := p.Do("CLUSTER", "MYID")
		if err != nil {
			return err
		}
		c.ids = append(c.ids, id)
		for _, words := range [][]string{
			{"CLUSTER", "SET-CONFIG-EPOCH", strconv.Itoa(i + 1)},
			{"CLUSTER", "ADDSLOTSRANGE", strconv.Itoa(i * slots / masters), strconv.Itoa((i+1)*slots/masters - 1)},
		} {
			if _, err := p.Do(words...); err != nil {
				return err
			}
		}
	}
	if replica {
		p, err := launch()
		if err != nil {
			return err
		}
		c.Replica = p
	}
	for _, p := range c.all()[1:] {
		if err := c.meet(p); err != nil {
			return err
		}
	}
	if err := c.await("cluster_state:ok", c.all()); err != nil {
		return err
	}
	if !replica {
		return nil
	}
	if err := eventually(func() error { _, err := c.Replica.Do("CLUSTER", "REPLICATE", c.ids[0]); return err }); err != nil {
		return err
	}
	return eventually(func() error {
		if info, err := c.Replica.Do("INFO", "replication"); err != nil || !strings.Contains(info, "master_link_status:up") {
			return fmt.Errorf("the replica does not follow: %w", err)
		}
		return nil
	})
}

// launch starts a server whose second port is one that nobody else is given.
func launch() (*server.Process, error) {
	bus, err := redisserver.FreePort()
	if err != nil {
		return nil, err
	}
	return server.Launch("--cluster-enabled", "yes", "--cluster-port", strconv.Itoa(bus), "--cluster-node-timeout", "1000", "--cluster-allow-replica-migration", "no")
}

// meet makes p known to the first master.
func (c *Cluster) meet(p *server.Process) error {
	bus, err := p.Do("CONFIG", "GET", "cluster-port")
	if err != nil {
		return err
	}
	_, err = c.Masters[0].Do("CLUSTER", "MEET", "127.0.0.1", strconv.Itoa(p.Port()), strings.TrimPrefix(bus, "cluster-port\n"))
	return err
}

func (c *Cluster) all() []*server.Process {
	all := slices.Clone(c.Masters)
	if c.Replica != nil {
		all = append(all, c.Replica)
	}
	return all
}

// Addrs are the addresses of the masters, as they were at the start.
func (c *Cluster) Addrs() (addrs []string) {
	for _, p := range c.Masters {
		addrs = append(addrs, p.Addr())
	}
	return addrs
}

// Home returns the place among the masters of the one that has the key.
func (c *Cluster) Home(key string) (place, slot int, err error) {
	text, err := c.Masters[0].Do("CLUSTER", "KEYSLOT", key)
	if err != nil {
		return 0, 0, err
	}
	if slot, err = strconv.Atoi(text); err != nil {
		return 0, 0, err
	}
	for i, p := range c.Masters {
		// A master that has the slot takes the command; others answer MOVED.
		if _, err := p.Do("GET", key); err == nil || !strings.Contains(err.Error(), "MOVED") {
			return i, slot, nil
		}
	}
	return 0, 0, fmt.Errorf("nobody has slot %d", slot)
}

// Open begins to move the key's slot to another master: keys that are missing at the first are
// asked for there (ASK).
func (c *Cluster) Open(key string) (m *Move, err error) {
	from, slot, err := c.Home(key)
	if err != nil {
		return nil, err
	}
	m = &Move{cluster: c, slot: strconv.Itoa(slot), from: from, to: (from + 1) % len(c.Masters)}
	if _, err = c.Masters[m.to].Do("CLUSTER", "SETSLOT", m.slot, "IMPORTING", c.ids[m.from]); err != nil {
		return nil, err
	}
	_, err = c.Masters[m.from].Do("CLUSTER", "SETSLOT", m.slot, "MIGRATING", c.ids[m.to])
	return m, err
}

// A Move is a slot on its way to another master.
type Move struct {
	cluster  *Cluster
	slot     string
	from, to int
}

// Keys moves the keys that are in the slot now, but for some that stay.
func (m *Move) Keys(stay ...string) error {
	for {
		left, err := m.Left()
		keys := slices.DeleteFunc(left, func(key string) bool { return slices.Contains(stay, key) })
		if err != nil || len(keys) == 0 {
			return err
		}
		words := []string{"MIGRATE", "127.0.0.1", strconv.Itoa(m.cluster.Masters[m.to].Port()), "", "0", "1000", "KEYS"}
		if _, err := m.cluster.Masters[m.from].Do(append(words, keys...)...); err != nil {
			return err
		}
	}
}

// Left returns up to 100 keys of the slot that have not moved.
func (m *Move) Left() (keys []string, err error) {
	text, err := m.cluster.Masters[m.from].Do("CLUSTER", "GETKEYSINSLOT", m.slot, "100")
	if text != "" {
		keys = strings.Split(text, "\n")
	}
	return keys, err
}

// End moves what is left, and the slot (MOVED).
func (m *Move) End() error {
	if err := m.Keys(); err != nil {
		return err
	}
	for _, place := range []int{m.to, m.from} {
		if _, err := m.cluster.Masters[place].Do("CLUSTER", "SETSLOT", m.slot, "NODE", m.cluster.ids[m.to]); err != nil {
			return err
		}
	}
	return nil
}

// FailOver kills the first master, and returns when its replica has its place.
func (c *Cluster) FailOver() error {
	if err := c.Masters[0].Kill(); err != nil {
		return err
	}
	return eventually(func() error {
		if info, err := c.Replica.Do("INFO", "replication"); err != nil || !strings.Contains(info, "role:master") {
			return fmt.Errorf("the replica is not promoted: %w", err)
		}
		return c.await("cluster_state:ok", []*server.Process{c.Replica})
	})
}

// await waits until servers say so of the cluster.
func (c *Cluster) await(what string, servers []*server.Process) error {
	for _, p := range servers {
		err := eventually(func() error {
			info, err := p.Do("CLUSTER", "INFO")
			switch known := fmt.Sprintf("cluster_known_nodes:%d\r", len(c.all())); {
			case err != nil:
				return err
			case !strings.Contains(info, what), !strings.Contains(info, known):
				return fmt.Errorf("%s does not say %s: %s", p.Addr(), what, info)
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// eventually asks until there is no error, for a while.
func eventually(ask func() error) error {
	for end := time.Now().Add(5 * time.Minute); ; {
		err := ask()
		if err == nil || time.Now().After(end) {
			return err
		}
		time.Sleep(5 * time.Millisecond) // between two questions
	}
}

// Close ends all servers.
func (c *Cluster) Close() error {
	errs := make([]error, len(c.all()))
	var group sync.WaitGroup
	for i, p := range c.all() {
		group.Go(func() { errs[i] = p.Close() })
	}
	group.Wait()
	return errors.Join(errs...)
}
