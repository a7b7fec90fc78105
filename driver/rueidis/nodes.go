package rueidis

import (
	"errors"
	"fmt"

	"github.com/redis/rueidis"

	"github.com/quorumlock/quorumlock/driver"
)

// Nodes makes a node of each client: a single server, a Sentinel's master or a
// Cluster. A node is named after its address, or after its position ("node 1")
// where there are several addresses. It does no I/O. Locks lie in the database that a
// client's SelectDB names: services whose clients name different ones hold independent locks.
// With Sentinel a Locker wants redlock.WithDurability, or an old master that was cut
// off may vote beside its successor.
//
// The clients stay the caller's to close, after the Locker: until that is closed
// it keeps a connection of each.
//
// It refuses a client that is nil or the same as another.
func Nodes(clients ...rueidis.Client) ([]driver.Node, error) {
	nodes := make([]driver.Node, len(clients))
	seen := make(map[rueidis.Client]int, len(clients))
	for i, client := range clients {
		name := fmt.Sprintf("node %d", i+1)
		if client == nil {
			return nil, fmt.Errorf("rueidis: %s: the client is nil", name)
		}
		nodes[i] = newNode(client, name)
		if first, twice := seen[client]; twice {
			return nil, fmt.Errorf("rueidis: nodes %d and %d (%s) are the same client; each node needs one of its own", first+1, i+1, nodes[i].Name)
		}
		seen[client] = i
	}
	return nodes, nil
}

// Node makes a node of one client, as [Nodes] does.
func Node(client rueidis.Client, opts ...Option) (driver.Node, error) {
	if client == nil {
		return driver.Node{}, errors.New("rueidis: the client is nil")
	}
	node := newNode(client, "node 1")
	for _, opt := range opts {
		opt(&node)
	}
	return node, nil
}

// Option is an option of [Node].
type Option func(*driver.Node)

// WithName names the node, in errors and events. The default is its address.
func WithName(name string) Option {
	return func(node *driver.Node) { node.Name = name }
}

func newNode(client rueidis.Client, name string) driver.Node {
	if client.Mode() == rueidis.ClientModeStandalone {
		if addresses := client.Nodes(); len(addresses) == 1 {
			for address := range addresses {
				name = address
			}
		}
	}
	return driver.Node{Name: name, Driver: newDriver(client, nil), Client: client}
}
