package redigo_test

import (
	"context"
	"fmt"
	"io"

	"github.com/gomodule/redigo/redis"

	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/driver/redigo"
)

// Five pools, as the application has them, become five nodes.
func ExampleNodes() {
	var pools []*redis.Pool
	for _, addr := range []string{"10.0.0.1:6379", "10.0.0.2:6379", "10.0.0.3:6379", "10.0.0.4:6379", "10.0.0.5:6379"} {
		pools = append(pools, &redis.Pool{
			MaxIdle: 3,
			Dial:    func() (redis.Conn, error) { return redis.Dial("tcp", addr) },
		})
	}
	nodes, err := redigo.Nodes(pools...)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, node := range nodes {
		fmt.Println(node.Name)
	}
	// Output:
	// node 1
	// node 2
	// node 3
	// node 4
	// node 5
}

// A pool does not tell its address, but errors should.
func ExampleNode() {
	addr := "10.0.0.1:6379"
	pool := &redis.Pool{Dial: func() (redis.Conn, error) { return redis.Dial("tcp", addr) }}
	node, err := redigo.Node(pool, redigo.WithName(addr))
	fmt.Println(node.Name, err)
	// Output: 10.0.0.1:6379 <nil>
}

func ExampleOpen() {
	nodes, err := redigo.Open("redis://10.0.0.1", "rediss://lock:secret@redis.example:7000/1")
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, node := range nodes {
		fmt.Println(node.Name)
	}

	_, err = redigo.Open("redis://10.0.0.1", "redis://10.0.0.1/1")
	fmt.Println(err)
	// Output:
	// 10.0.0.1:6379
	// redis.example:7000
	// redigo: node 2: its address 10.0.0.1:6379 is that of node 1; want one URL for each server
}

// Close gives the connections that were kept back to the pool.
func Example_close() {
	nodes, err := redigo.Open("redis://10.0.0.1")
	if err != nil {
		fmt.Println(err)
		return
	}
	d := nodes[0].Driver
	fmt.Println(d.(io.Closer).Close())
	_, err = d.Do(context.Background(), []driver.Command{{Args: []any{"PING"}}})
	fmt.Println(err)
	// Output:
	// <nil>
	// redigo: the driver is closed
}
