package goredis_test

import (
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/quorumlock/quorumlock/driver/goredis"
)

// Five clients that a service has already become five nodes.
func ExampleNodes() {
	var clients []redis.UniversalClient
	for i := 1; i <= 5; i++ {
		client := redis.NewClient(&redis.Options{Addr: fmt.Sprintf("10.0.0.%d:6379", i)})
		defer func() { _ = client.Close() }()
		clients = append(clients, client)
	}
	nodes, err := goredis.Nodes(clients...)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, node := range nodes {
		fmt.Println(node.Name)
	}
	// Output:
	// 10.0.0.1:6379
	// 10.0.0.2:6379
	// 10.0.0.3:6379
	// 10.0.0.4:6379
	// 10.0.0.5:6379
}

// What cannot be a node is refused before it could do harm.
func ExampleNodes_refused() {
	ring := redis.NewRing(&redis.RingOptions{Addrs: map[string]string{"a": "10.0.0.1:6379", "b": "10.0.0.2:6379"}})
	defer func() { _ = ring.Close() }()
	_, err := goredis.Nodes(ring)
	fmt.Println(err)
	// Output:
	// goredis: node 1 is a Ring, which spreads keys over servers that fail one by one: give the client of each server as a node of its own
}

// A node may have a name for errors and events, and tracing hooks.
func ExampleNode() {
	client := redis.NewClient(&redis.Options{Addr: "10.0.0.1:6379"})
	defer func() { _ = client.Close() }()
	var hooks []redis.Hook // those that were added to client
	node, err := goredis.Node(client, goredis.WithName("north"), goredis.WithHooks(hooks...))
	fmt.Println(node.Name, err)
	// Output: north <nil>
}

// Without clients, URLs will do.
func ExampleOpen() {
	nodes, err := goredis.Open(
		"redis://10.0.0.1",
		"rediss://locker:secret@redis.example.com:6380/3",
		"unix:///run/redis.sock",
	)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, node := range nodes {
		fmt.Println(node.Name)
	}
	// Output:
	// 10.0.0.1:6379
	// redis.example.com:6380
	// /run/redis.sock
}
