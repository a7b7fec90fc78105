package integration

import (
	"testing"

	redigolib "github.com/gomodule/redigo/redis"
	"github.com/redis/go-redis/v9"
	rueidislib "github.com/redis/rueidis"

	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/driver/goredis"
	"github.com/quorumlock/quorumlock/driver/redigo"
	"github.com/quorumlock/quorumlock/driver/rueidis"
)

// A client is one of the libraries below the lock.
type client struct {
	name string
	// nodes makes clients as an application has them, with their library's defaults,
	// and nodes of them. The test closes the clients.
	nodes func(t *testing.T, addrs []string) []driver.Node
	open  func(urls ...string) ([]driver.Node, error)
}

var clients = []client{
	{"goredis", goredisNodes, goredis.Open},
	{"redigo", redigoNodes, redigo.Open},
	{"rueidis", rueidisNodes, rueidis.Open},
}

func goredisNodes(t *testing.T, addrs []string) []driver.Node {
	t.Helper()
	var made []redis.UniversalClient
	for _, addr := range addrs {
		c := redis.NewClient(&redis.Options{Addr: addr})
		t.Cleanup(func() { _ = c.Close() })
		made = append(made, c)
	}
	nodes, err := goredis.Nodes(made...)
	if err != nil {
		t.Fatal(err)
	}
	return nodes
}

func redigoNodes(t *testing.T, addrs []string) []driver.Node {
	t.Helper()
	var pools []*redigolib.Pool
	for _, addr := range addrs {
		pool := &redigolib.Pool{Dial: func() (redigolib.Conn, error) { return redigolib.Dial("tcp", addr) }}
		t.Cleanup(func() { _ = pool.Close() })
		pools = append(pools, pool)
	}
	nodes, err := redigo.Nodes(pools...)
	if err != nil {
		t.Fatal(err)
	}
	return nodes
}

func rueidisNodes(t *testing.T, addrs []string) []driver.Node {
	t.Helper()
	var made []rueidislib.Client
	for _, addr := range addrs {
		c, err := rueidislib.NewClient(rueidislib.ClientOption{
			InitAddress:  []string{addr},
			DisableCache: true, // embedded nodes have no CLIENT TRACKING
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(c.Close)
		made = append(made, c)
	}
	nodes, err := rueidis.Nodes(made...)
	if err != nil {
		t.Fatal(err)
	}
	return nodes
}
