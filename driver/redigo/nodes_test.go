package redigo_test

import (
	"strings"
	"testing"

	"github.com/gomodule/redigo/redis"

	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/driver/redigo"
)

func TestNodesAreNamedAndCompared(t *testing.T) {
	pools := []*redis.Pool{newPool(t, "127.0.0.1:1"), newPool(t, "127.0.0.1:2"), newPool(t, "127.0.0.1:3")}
	nodes, err := redigo.Nodes(pools...)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{"node 1", "node 2", "node 3"} {
		if nodes[i].Name != want || nodes[i].Client != pools[i] {
			t.Errorf("Nodes[%d] is %q with the client %p, want %q with the pool %p", i, nodes[i].Name, nodes[i].Client, want, pools[i])
		}
	}

	node, err := redigo.Node(pools[0], redigo.WithName("10.0.0.1:6379"))
	if err != nil || node.Name != "10.0.0.1:6379" || node.Client != pools[0] {
		t.Errorf("Node = %+v, %v, want the name and the pool that it was given", node, err)
	}
}

func TestRefusedSettings(t *testing.T) {
	good := newPool(t, "127.0.0.1:1")
	pools := func(pools ...*redis.Pool) func() ([]driver.Node, error) {
		return func() ([]driver.Node, error) { return redigo.Nodes(pools...) }
	}
	urls := func(urls ...string) func() ([]driver.Node, error) {
		return func() ([]driver.Node, error) { return redigo.Open(urls...) }
	}
	for _, tt := range []struct {
		name  string
		build func() ([]driver.Node, error)
		want  string
	}{
		{"nil pool", pools(good, nil), "redigo: node 2: the pool is nil"},
		{"two nil pools", pools(nil, nil), "redigo: node 1: the pool is nil"},
		{"pool that cannot dial", pools(good, newPool(t, ""), &redis.Pool{}), "redigo: node 3: the pool has neither Dial nor DialContext"},
		{"same pool twice", pools(good, newPool(t, ""), good), "redigo: node 3: its pool is that of node 1"},
		{"empty name", func() ([]driver.Node, error) {
			node, err := redigo.Node(good, redigo.WithName(""))
			return []driver.Node{node}, err
		}, "redigo: WithName: the name is empty"},
		{"URL of another scheme", urls("redis://10.0.0.1", "http://10.0.0.2"), "redigo: node 2: node URL http://10.0.0.2: scheme"},
		{"same address twice", urls("redis://10.0.0.1", "redis://10.0.0.2", "redis://10.0.0.1:6379/1"), "redigo: node 3: its address 10.0.0.1:6379 is that of node 1"},
		{"user without a password", urls("redis://lock@10.0.0.1"), "redigo: node 1: node URL redis://10.0.0.1: a user without a password"},
	} {
		if _, err := tt.build(); err == nil || !strings.HasPrefix(err.Error(), tt.want) {
			t.Errorf("%s: the error is %v, want %s…", tt.name, err, tt.want)
		}
	}
}
