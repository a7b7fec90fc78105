package integration

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	redigolib "github.com/gomodule/redigo/redis"
	"github.com/redis/go-redis/v9"
	rueidislib "github.com/redis/rueidis"
	"github.com/valkey-io/valkey-go"

	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/driver/goredis"
	"github.com/quorumlock/quorumlock/driver/redigo"
	"github.com/quorumlock/quorumlock/driver/rueidis"
	"github.com/quorumlock/quorumlock/driver/valkeygo"
	"github.com/quorumlock/quorumlock/redlocktest"
	"github.com/quorumlock/quorumlock/test/integration/container"
	"github.com/quorumlock/quorumlock/test/integration/server"
)

// A client is one of the libraries below the lock.
type client struct {
	name string
	// nodes makes clients as an application has them, with their library's defaults,
	// and nodes of them. The test closes the clients.
	nodes func(t *testing.T, addrs []string) []driver.Node
	open  func(urls ...string) ([]driver.Node, error)
}

// clients has valkeygo in the matrix alone: its driver is that of rueidis with other names, and shows in its own module what
// it does over real servers.
var clients = func() []client {
	all := []client{
		{"goredis", goredisNodes, goredis.Open},
		{"redigo", redigoNodes, redigo.Open},
		{"rueidis", rueidisNodes, rueidis.Open},
	}
	if os.Getenv("QUORUMLOCK_ONLY") != "" {
		all = append(all, client{"valkeygo", valkeygoNodes, valkeygo.Open})
	}
	return all
}()

// reach opens nodes by their URLs.
func (c client) reach(t *testing.T, urls ...string) []driver.Node {
	t.Helper()
	nodes, err := c.open(urls...)
	must(t, err)
	return nodes
}

func goredisNodes(t *testing.T, addrs []string) []driver.Node {
	t.Helper()
	return overClients(t, addrs, goredis.Nodes, func(addr string) (redis.UniversalClient, func(), error) {
		c := redis.NewClient(&redis.Options{Addr: addr})
		return c, func() { _ = c.Close() }, nil
	})
}

func redigoNodes(t *testing.T, addrs []string) []driver.Node {
	t.Helper()
	return overClients(t, addrs, redigo.Nodes, func(addr string) (*redigolib.Pool, func(), error) {
		pool := &redigolib.Pool{Dial: func() (redigolib.Conn, error) { return redigolib.Dial("tcp", addr) }}
		return pool, func() { _ = pool.Close() }, nil
	})
}

func rueidisNodes(t *testing.T, addrs []string) []driver.Node {
	t.Helper()
	return overClients(t, addrs, rueidis.Nodes, func(addr string) (rueidislib.Client, func(), error) {
		c, err := rueidislib.NewClient(rueidislib.ClientOption{InitAddress: []string{addr}, DisableCache: true}) // embedded nodes have no CLIENT TRACKING
		if err != nil {
			return nil, nil, err
		}
		return c, c.Close, nil
	})
}

func valkeygoNodes(t *testing.T, addrs []string) []driver.Node {
	t.Helper()
	return overClients(t, addrs, valkeygo.Nodes, func(addr string) (valkey.Client, func(), error) {
		c, err := valkey.NewClient(valkey.ClientOption{InitAddress: []string{addr}, DisableCache: true}) // likewise
		if err != nil {
			return nil, nil, err
		}
		return c, c.Close, nil
	})
}

// overClients makes a node of each server or Cluster, by a client that is ended after the test.
func overClients[S, C any](t *testing.T, servers []S, nodes func(...C) ([]driver.Node, error), connect func(to S) (C, func(), error)) []driver.Node {
	t.Helper()
	var clients []C
	for _, to := range servers {
		c, end, err := connect(to)
		must(t, err)
		t.Cleanup(end)
		clients = append(clients, c)
	}
	made, err := nodes(clients...)
	must(t, err)
	return made
}

// five is how many nodes a kind has.
const five = 5

// A kind is a way to have five nodes. All tests share the five, and repair what they
// break.
type kind struct {
	name    string
	real    bool // a real server, which knows INFO commandstats, ACLs and the like
	prepare func(ctx context.Context) error
	launch  func(ctx context.Context, i int) (server.Node, error)

	nodes   []server.Node
	title   string // the name, and which servers they are
	missing error  // why it cannot run here
	broken  error  // why it could not be started, though it should
}

var kinds = []*kind{
	{
		name:    "embedded",
		prepare: func(context.Context) error { return nil },
		launch:  func(context.Context, int) (server.Node, error) { return node(launchEmbedded()) },
	},
	{
		name:    "processes",
		real:    true,
		prepare: func(context.Context) error { _, err := server.Find(); return err },
		launch:  func(context.Context, int) (server.Node, error) { return node(server.Launch()) },
	},
	{
		name:    "containers",
		real:    true,
		prepare: container.Prepare,
		launch: func(ctx context.Context, i int) (server.Node, error) {
			images := container.Images()
			return node(container.Launch(ctx, images[i%len(images)]))
		},
	},
}

// node is what a launch has started. Where that failed there is none: a nil pointer in the
// interface would be one.
func node[N server.Node](started N, err error) (server.Node, error) {
	if err != nil {
		return nil, err
	}
	return started, nil
}

func (k *kind) start(ctx context.Context) {
	if only := os.Getenv("QUORUMLOCK_ONLY"); only != "" && !strings.Contains(only, k.name) {
		k.missing = errors.New("QUORUMLOCK_ONLY is " + only)
		return
	}
	if k.missing = k.prepare(ctx); k.missing != nil {
		return
	}
	k.nodes = make([]server.Node, five)
	errs := make([]error, five)
	var starting sync.WaitGroup
	for i := range five {
		starting.Go(func() {
			k.nodes[i], errs[i] = k.launch(ctx, i)
		})
	}
	starting.Wait()
	k.title = k.name
	if k.broken = errors.Join(errs...); k.broken == nil && k.real {
		names, err := k.servers(ctx)
		k.title += " (" + strings.Join(names, ", ") + ")"
		k.broken = err
	}
}

func (k *kind) close() error {
	var errs []error
	for _, node := range k.nodes {
		if node != nil {
			errs = append(errs, node.Close())
		}
	}
	return errors.Join(errs...)
}

// servers names the server that runs at each of a real kind's nodes, as it calls itself.
func (k *kind) servers(ctx context.Context) ([]string, error) {
	var names []string
	for _, node := range k.nodes {
		look := redis.NewClient(&redis.Options{Addr: node.Addr(), MaxRetries: -1, DisableIdentity: true, Protocol: 2})
		info, err := look.Info(ctx, "server").Result()
		if err = errors.Join(err, look.Close()); err != nil {
			return nil, err
		}
		// Servers that descend from Redis also say which Redis they are like.
		name := "redis"
		for _, descendant := range []string{"valkey", "redict"} {
			if strings.Contains(info, descendant+"_version:") {
				name = descendant
			}
		}
		_, version, _ := strings.Cut(info, name+"_version:")
		version, _, _ = strings.Cut(version, "\r\n")
		if name += " " + version; !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names, nil
}

// An embedded node forgets all when it is killed, as the others do.
type embedded struct{ *redlocktest.Node }

var _ server.Node = embedded{}

func launchEmbedded() (embedded, error) {
	nodes, err := redlocktest.New(1)
	if err != nil {
		return embedded{}, err
	}
	return embedded{nodes[0]}, nil
}

func (e embedded) Kill() error     { e.Stop(); return nil }
func (e embedded) Start() error    { return e.RestartEmpty() }
func (e embedded) Pause() error    { e.Hang(); return nil }
func (e embedded) Continue() error { e.Resume(); return nil }
func (e embedded) Close() error    { redlocktest.Nodes{e.Node}.Close(); return nil }
