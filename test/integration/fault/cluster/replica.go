package cluster

import (
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/quorumlock/quorumlock/test/integration/server"
)

// patience is how long a replication may take to settle.
const patience = 30 * time.Second

// failover has the node's replica take over, with all that the master has, and back.
func failover(h *harmed) (func() error, error) {
	return func() error { return h.handOver(h.replica, h.master()) }, h.handOver(h.master(), h.replica)
}

// promote has the replica take over from a master that crashed, with what it has got.
func promote(h *harmed) (func() error, error) {
	back := func() error {
		if err := h.master().Start(); err != nil {
			return err
		}
		if err := h.master().Follow(h.replica); err != nil {
			return err
		}
		return h.handOver(h.replica, h.master())
	}
	if err := h.master().Kill(); err != nil {
		return nil, err
	}
	if err := h.replica.Promote(); err != nil {
		return back, err
	}
	h.move(h.replica)
	return back, nil
}

// copyAnother makes the node a replica of another one, and then a master again: its
// votes are the other's.
func copyAnother(h *harmed) (func() error, error) {
	host, port, err := net.SplitHostPort(h.nodes[h.fault.Other].server.Addr())
	if err != nil {
		return nil, err
	}
	return h.master().Promote, h.do("REPLICAOF", host, port)
}

func (h *harmed) master() *server.Process { return h.server.(*server.Process) }

func (h *harmed) move(to *server.Process) {
	for _, link := range h.links {
		link.Move(to.Addr())
	}
}

// handOver has a master hand over to its replica, and moves the links.
func (h *harmed) handOver(from, to *server.Process) error {
	said := errors.New("not asked")
	err := until(func() (done bool, err error) {
		info, err := to.Do("INFO", "replication")
		if err != nil || strings.Contains(info, "role:master") {
			return err == nil, err
		}
		// A master that cannot hand over yet, or gives up, is asked again.
		info, err = from.Do("INFO", "replication")
		if err == nil && strings.Contains(info, "master_failover_state:no-failover") {
			if _, err := from.Do("FAILOVER"); err != nil {
				said = err
			}
		}
		return false, err
	})
	if err != nil {
		return fmt.Errorf("%s does not hand over to %s: %w (FAILOVER: %w)", from.Addr(), to.Addr(), err, said)
	}
	h.move(to)
	return nil
}

// until asks until it is done.
func until(ask func() (done bool, err error)) error {
	for deadline := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		if done, err := ask(); err != nil || done {
			return err
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("not done after %v", patience)
		}
	}
}
