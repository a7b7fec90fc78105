// Package redigo lets a lock reach its nodes through the connection pools of
// github.com/gomodule/redigo.
//
//	nodes, err := redigo.Nodes(pools...)
//
// Any pool will do, made as its own documentation shows: it needs no time-outs
// and no TestOnBorrow. Whatever a Dial or a TestOnBorrow does, a call returns by
// its deadline; one that never ends occupies one of the node's connections.
//
// # Connections
//
// A node uses as many connections as the lock has batches under way there: one to
// a near node, and never more than 8. Of a pool with MaxActive these are never more
// than half (but at least one), so that the application finds the rest free. Below
// a MaxActive of 4 that is a single one, and a batch that waits for replicas holds
// up the others.
//
// A Locker with waiters uses one more connection a node, subscribed to releases: of a
// pool with MaxActive a quarter at most, so none below 4, and none while the pool is
// exhausted. There the waiters ask again and again instead. A node has at most 64 such
// connections. They are not bound by the pool's MaxConnLifetime or the connections'
// ReadTimeout, and are closed after use.
//
// Connections are kept between calls, and given back to the pool after one to two
// idle seconds, or a minute under load; the pool counts them as active for so
// long. Of a pool with MaxActive at most an eighth is kept, and none while it is
// exhausted: below 8 each call takes its connection anew, which costs some tens of
// microseconds. Where such a pool is exhausted and does not Wait, the call fails,
// and nothing was sent.
//
// # Servers that leave the protocol
//
// A connection of [Open] ends when the server leaves the protocol, and takes no memory for
// announced lengths. A pool's own connections trust the server:
//
//	the server sends         redigo 1.9.3
//	$9223372036854775807     panics: a failed call, but in a Dial that logs in the end of the process
//	$99999999999             allocates that, which is beyond most machines: the end of the process
//	a million arrays         reads them by recursion: at some tens of MB the end of the process
//	in each other
//	a reply too many         is the reply to the next command, and so on
package redigo

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/quorumlock/quorumlock/driver"
)

// Nodes makes a node of each pool, named "node 1", "node 2" and so on, for a pool
// does not tell its address. The pools stay the caller's, to use and to close. Locks lie in
// the database that a pool's Dial selects: services that select different ones hold
// independent locks.
//
// A pool that is nil, or is there twice, or cannot dial, is an error.
func Nodes(pools ...*redis.Pool) ([]driver.Node, error) {
	nodes := make([]driver.Node, len(pools))
	position := make(map[*redis.Pool]int, len(pools))
	for i, pool := range pools {
		name := nodeName(i)
		if first, twice := position[pool]; twice && pool != nil {
			return nil, fmt.Errorf("redigo: %s: its pool is that of %s; want one pool for each server", name, nodeName(first))
		}
		position[pool] = i
		node, err := Node(pool, WithName(name))
		if err != nil {
			return nil, err
		}
		nodes[i] = node
	}
	return nodes, nil
}

// An Option sets what [Node] cannot know.
type Option func(*driver.Node)

// WithName sets the node's name, which errors and events show: its address, best.
// The default is "node 1", so where there are several nodes, each needs a name.
func WithName(name string) Option {
	return func(node *driver.Node) { node.Name = name }
}

// Node makes one node of a pool. The pool stays the caller's.
func Node(pool *redis.Pool, opts ...Option) (driver.Node, error) {
	node := driver.Node{Name: nodeName(0), Client: pool}
	for _, opt := range opts {
		opt(&node)
	}
	switch {
	case node.Name == "":
		return driver.Node{}, errors.New("redigo: WithName: the name is empty")
	case pool == nil:
		return driver.Node{}, fmt.Errorf("redigo: %s: the pool is nil", node.Name)
	case pool.Dial == nil && pool.DialContext == nil:
		return driver.Node{}, fmt.Errorf("redigo: %s: the pool has neither Dial nor DialContext; it needs one", node.Name)
	}
	node.Driver = newDriver(pool)
	return node, nil
}

// Open makes a node of each URL, in the form that [driver.ParseURL] describes, and
// names it by its address. It does no I/O: a server that is down is no error here. Connections
// have the name [driver.ClientName], where the user may set one (CLIENT SETNAME). Locks
// lie in the database that a URL's path names: services whose URLs name different ones hold
// independent locks.
//
// The pools are the nodes' own: closing a node's Driver closes its pool.
func Open(urls ...string) ([]driver.Node, error) {
	nodes := make([]driver.Node, len(urls))
	position := make(map[string]int, len(urls))
	for i, raw := range urls {
		end, err := driver.ParseURL(raw)
		if err != nil {
			return nil, fmt.Errorf("redigo: %s: %w", nodeName(i), err)
		}
		if end.Master != "" || end.Seeds != nil {
			return nil, fmt.Errorf("redigo: %s (%s): redigo finds no servers by Sentinel or Cluster: use the driver goredis, rueidis or valkeygo for this URL, or give Nodes a pool whose Dial finds the master", nodeName(i), end.Addr)
		}
		if first, twice := position[end.Addr]; twice {
			return nil, fmt.Errorf("redigo: %s: its address %s is that of %s; want one URL for each server", nodeName(i), end.Addr, nodeName(first))
		}
		position[end.Addr] = i
		nodes[i] = driver.Node{Name: end.Addr, Driver: newOwner(newPool(end))}
	}
	return nodes, nil
}

func newPool(end *driver.Endpoint) *redis.Pool {
	dial := new(net.Dialer).DialContext
	if end.TLS != nil {
		// The client's own handshake over TLS ignores the context.
		dial = (&tls.Dialer{Config: end.TLS}).DialContext
	}
	options := []redis.DialOption{
		redis.DialUsername(end.Username),
		redis.DialPassword(end.Password),
		redis.DialDatabase(end.DB),
		redis.DialContextFunc(func(ctx context.Context, network, addr string) (net.Conn, error) {
			socket, err := dial(ctx, network, addr)
			if err != nil {
				return nil, err
			}
			return driver.CheckReplies(socket).Strictly(), nil
		}),
	}
	return &redis.Pool{
		MaxIdle:     maxCalls,
		IdleTimeout: 4 * time.Minute, // below the 5 that servers and firewalls often have
		DialContext: func(ctx context.Context) (redis.Conn, error) {
			conn, err := redis.DialContext(ctx, end.Network, end.Addr, options...)
			if err != nil {
				return nil, err
			}
			_, err = redis.DoContext(conn, ctx, "CLIENT", "SETNAME", driver.ClientName)
			var refused redis.Error // a user who may not has no name
			if err != nil && !errors.As(err, &refused) {
				_ = conn.Close()
				return nil, err
			}
			return conn, nil
		},
	}
}

func nodeName(i int) string { return fmt.Sprintf("node %d", i+1) }
