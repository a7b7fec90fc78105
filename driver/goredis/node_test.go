package goredis_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/driver/goredis"
	"github.com/quorumlock/quorumlock/test/redisserver"
	"github.com/quorumlock/quorumlock/test/servertest"
)

func TestNodesRefuses(t *testing.T) {
	good := redis.NewClient(&redis.Options{Addr: "10.0.0.1:6379"})
	defer func() { _ = good.Close() }()
	ring := redis.NewRing(&redis.RingOptions{Addrs: map[string]string{"a": "10.0.0.2:6379"}})
	defer func() { _ = ring.Close() }()
	wrapped := struct{ redis.UniversalClient }{good}

	tests := []struct {
		name    string
		clients []redis.UniversalClient
		want    string
	}{
		{"nil", []redis.UniversalClient{good, nil}, "node 2 is nil"},
		{"a nil client", []redis.UniversalClient{(*redis.Client)(nil)}, "node 1 is a nil *redis.Client"},
		{"a nil cluster client", []redis.UniversalClient{(*redis.ClusterClient)(nil)}, "node 1 is a nil *redis.ClusterClient"},
		{"a ring", []redis.UniversalClient{good, ring}, "node 2 is a Ring"},
		{"another implementation", []redis.UniversalClient{wrapped}, "give the *redis.Client or *redis.ClusterClient"},
		{"the same client twice", []redis.UniversalClient{good, good}, "node 2 (10.0.0.1:6379) is the same client as node 1"},
	}
	for _, tt := range tests {
		nodes, err := goredis.Nodes(tt.clients...)
		if err == nil || nodes != nil || !strings.HasPrefix(err.Error(), "goredis: ") || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: Nodes = %v, %v, want an error that says %q", tt.name, nodes, err, tt.want)
		}
	}
}

func TestNames(t *testing.T) {
	single := redis.NewClient(&redis.Options{Addr: "10.0.0.1:6379"})
	sentinel := redis.NewFailoverClient(&redis.FailoverOptions{MasterName: "locks", SentinelAddrs: []string{"10.0.0.2:26379"}})
	cluster := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{"10.0.0.3:7000", "10.0.0.4:7000"}})
	clients := []redis.UniversalClient{single, sentinel, cluster}
	nodes, err := goredis.Nodes(clients...)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{"10.0.0.1:6379", "node 2", "10.0.0.3:7000,10.0.0.4:7000"} {
		if nodes[i].Name != want || nodes[i].Client != clients[i] {
			t.Errorf("node %d is %q of the client %v, want %q of %v", i+1, nodes[i].Name, nodes[i].Client, want, clients[i])
		}
		servertest.Closing(t, nodes[i].Driver)
		defer func() { _ = clients[i].Close() }()
	}
	named, err := goredis.Node(single, goredis.WithName("the first"))
	if err != nil || named.Name != "the first" {
		t.Errorf("Node with a name = %q, %v", named.Name, err)
	}
	servertest.Closing(t, named.Driver)
}

func TestOpenRefuses(t *testing.T) {
	nodes, err := goredis.Open("redis://10.0.0.1", "http://u:secret@10.0.0.2")
	if err == nil || nodes != nil || !strings.HasPrefix(err.Error(), "goredis: node 2: ") || strings.Contains(err.Error(), "secret") {
		t.Errorf("Open = %v, %v, want an error about node 2 without the password", nodes, err)
	}
}

// counter counts what a hook sees.
type counter struct{ dials, singles, batches int }

func (c *counter) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		c.dials++
		return next(ctx, network, addr)
	}
}

func (c *counter) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if cmd.FullName() == "set" && fmt.Sprint(cmd.Args()...) == "SETkeyvalue" && cmd.String() == "SET key value" {
			c.singles++
		}
		return next(ctx, cmd)
	}
}

func (c *counter) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		if len(cmds) == 3 {
			c.batches++
		}
		return next(ctx, cmds)
	}
}

func TestHooks(t *testing.T) {
	addr := redisserver.Start(t).Addr
	for name, client := range map[string]redis.UniversalClient{
		"a client":         redis.NewClient(&redis.Options{Addr: addr}),
		"a cluster client": clusterOf(nil, addr),
	} {
		var seen counter
		d := open(t, client, goredis.WithHooks(&seen))
		set := servertest.Command("SET", "key", "value")
		servertest.Do(t, d, set)
		servertest.Do(t, d, set, set, set)
		servertest.Subscribe(t, d) // they see that it connects
		if want := (counter{2, 1, 1}); seen != want {
			t.Errorf("hooks of %s saw %+v, want %+v", name, seen, want)
		}
	}
}

// refusing is a hook that lets nothing through.
type refusing struct{ counter }

var errRefused = errors.New("refused by a hook")

func (*refusing) ProcessPipelineHook(redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(context.Context, []redis.Cmder) error { return errRefused }
}

func TestHookThatRefuses(t *testing.T) {
	d := open(t, redis.NewClient(&redis.Options{Addr: redisserver.Start(t).Addr}), goredis.WithHooks(&refusing{}))
	set := servertest.Command("SET", "key", "value")
	replies, err := d.Do(servertest.Within(t, servertest.Patience), []driver.Command{set, set})
	if len(replies) != 0 || !errors.Is(err, errRefused) {
		t.Errorf("Do = %v, %v, want the hook's error", replies, err)
	}
}
