package goredis

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/quorumlock/quorumlock/driver"
)

// Nodes makes each client a node: nodes, err := goredis.Nodes(clients...) takes a []*redis.Client
// as well as a []redis.UniversalClient. It does no I/O, and the first client that cannot be a node
// is the error. Locks lie in the database that a client's DB names: services whose clients name
// different ones hold independent locks.
func Nodes[Client redis.UniversalClient](clients ...Client) ([]driver.Node, error) {
	nodes := make([]driver.Node, len(clients))
	for i, client := range clients {
		node, err := newNode(client, i+1)
		if err != nil {
			return nil, err
		}
		if first := slices.IndexFunc(nodes[:i], func(n driver.Node) bool { return n.Client == node.Client }); first >= 0 {
			return nil, fmt.Errorf("goredis: node %d (%s) is the same client as node %d: one server has one vote", i+1, node.Name, first+1)
		}
		nodes[i] = node
	}
	return nodes, nil
}

// Node makes one client a node, with options.
func Node(client redis.UniversalClient, opts ...Option) (driver.Node, error) {
	return newNode(client, 1, opts...)
}

// Option is an option of [Node].
type Option func(*settings)

type settings struct {
	name  string
	hooks []redis.Hook
}

// WithName sets the name of the node in errors and events. The default is its
// address; or "node 1" and so on, by position, where Sentinel finds the address.
func WithName(name string) Option {
	return func(s *settings) { s.name = name }
}

// WithHooks hands hooks (tracing, metrics) on to the node's own connections, on a
// Cluster to those to each master. They see batches as the core sends them, from
// many callers, and an error reply of the server as a success. Of a subscription they
// see that it connects.
func WithHooks(hooks ...redis.Hook) Option {
	return func(s *settings) { s.hooks = append(s.hooks, hooks...) }
}

// newNode makes a node of the client at the given position, from 1.
func newNode(client redis.UniversalClient, position int, opts ...Option) (driver.Node, error) {
	s := settings{name: fmt.Sprintf("node %d", position)}
	var to transport
	switch client := client.(type) {
	case nil:
		return driver.Node{}, fmt.Errorf("goredis: node %d is nil: want a client", position)
	case *redis.Client:
		if client == nil {
			return driver.Node{}, fmt.Errorf("goredis: node %d is a nil *redis.Client", position)
		}
		if addr := client.Options().Addr; addr != failoverAddr {
			s.name = addr
		}
		s.apply(opts)
		to = newServer(mend(client.Options()), s.hooks)
	case *redis.ClusterClient:
		if client == nil {
			return driver.Node{}, fmt.Errorf("goredis: node %d is a nil *redis.ClusterClient", position)
		}
		if addrs := client.Options().Addrs; len(addrs) > 0 {
			s.name = strings.Join(addrs, ",")
		}
		s.apply(opts)
		to = newCluster(mendCluster(client.Options()), s.hooks)
	case *redis.Ring:
		return driver.Node{}, fmt.Errorf("goredis: node %d is a Ring, which spreads keys over servers that fail one by one: give the client of each server as a node of its own", position)
	default:
		return driver.Node{}, fmt.Errorf("goredis: node %d is a %T, whose MaxRetries and ContextTimeoutEnabled cannot be set: give the *redis.Client or *redis.ClusterClient that it stands for", position, client)
	}
	return driver.Node{Name: s.name, Driver: &adapter{to: to}, Client: client}, nil
}

// failoverAddr is what go-redis calls the address that Sentinel knows.
const failoverAddr = "FailoverClient"

func (s *settings) apply(opts []Option) {
	for _, opt := range opts {
		opt(s)
	}
}

// Open makes each URL a node, in the form that [driver.ParseURL] says. It does no I/O but to read
// the files that a URL names. Its connections have the name [driver.ClientName], where the user may
// set one (CLIENT SETNAME). Locks lie in the database that a URL's path names: services whose URLs
// name different ones hold independent locks.
func Open(urls ...string) ([]driver.Node, error) {
	nodes := make([]driver.Node, len(urls))
	for i, url := range urls {
		end, err := driver.ParseURL(url)
		if err != nil {
			return nil, fmt.Errorf("goredis: node %d: %w", i+1, err)
		}
		nodes[i] = driver.Node{Name: end.Addr, Driver: &adapter{to: reach(end)}}
		if end.Master != "" {
			nodes[i].Name = end.Master + "@" + end.Addr
		}
	}
	return nodes, nil
}

// reach makes the connections to the node of a URL.
func reach(end *driver.Endpoint) transport {
	name := func(ctx context.Context, cn *redis.Conn) error {
		_ = cn.ClientSetName(ctx, driver.ClientName).Err() // a user who may not has no name
		return nil
	}
	switch {
	case end.Seeds != nil:
		return newCluster(mendCluster(&redis.ClusterOptions{
			Addrs: end.Seeds, Username: end.Username, Password: end.Password, TLSConfig: end.TLS, OnConnect: name,
		}), nil)
	case end.Master != "":
		client := redis.NewFailoverClient(&redis.FailoverOptions{
			MasterName: end.Master, SentinelAddrs: end.Sentinels, SentinelUsername: end.SentinelUsername, SentinelPassword: end.SentinelPassword,
			Username: end.Username, Password: end.Password, DB: end.DB, TLSConfig: end.TLS, OnConnect: name,
		})
		return found{newServer(mend(client.Options()), nil), client}
	}
	dial := new(net.Dialer).DialContext
	if end.TLS != nil {
		dial = (&tls.Dialer{Config: end.TLS}).DialContext
	}
	return newServer(mend(&redis.Options{
		Network: end.Network, Addr: end.Addr, Username: end.Username, Password: end.Password, DB: end.DB, Dialer: dial, OnConnect: name,
	}), nil)
}

// found is the connections to a master that a client of our own finds by Sentinel.
type found struct {
	*server
	finder *redis.Client
}

func (f found) close() error { return errors.Join(f.server.close(), f.finder.Close()) }
