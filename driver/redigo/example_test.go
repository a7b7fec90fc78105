package redigo_test

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/driver/redigo"
	"github.com/quorumlock/quorumlock/test/scripted"
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

// What the lock does with a node.
func Example_do() {
	server := scripted.New() // as there is no network here
	defer server.Close()
	pool := &redis.Pool{Dial: dialing(server)}
	defer func() { _ = pool.Close() }()
	node, err := redigo.Node(pool)
	if err != nil {
		fmt.Println(err)
		return
	}

	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	set := driver.Command{Args: []any{"SET", "orders:42", "token", "NX", "PX", "10000"}, FirstKey: 1, Keys: 1}
	replies, err := node.Driver.Do(ctx, []driver.Command{set, set})
	fmt.Println(replies[0].Str, replies[1].Kind == driver.Nil, err)
	// Output: OK true <nil>
}

// How a waiter is notified of a release.
func Example_subscribe() {
	server := scripted.New() // as there is no network here
	defer server.Close()
	pool := &redis.Pool{Dial: dialing(server)}
	defer func() { _ = pool.Close() }()
	node, err := redigo.Node(pool)
	if err != nil {
		fmt.Println(err)
		return
	}

	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	notices := make(chan driver.Notice, 10)
	subscription, err := node.Driver.(driver.Subscriber).Subscribe(ctx, func(n driver.Notice) { notices <- n })
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := subscription.Add(ctx, "orders:42"); err != nil {
		fmt.Println(err)
		return
	}
	confirmed := <-notices
	fmt.Println(confirmed.Kind, confirmed.Channel)
	server.Publish("orders:42", "released")
	message := <-notices
	fmt.Println(message.Kind, message.Channel, message.Payload)
	fmt.Println(subscription.Close())
	// Output:
	// confirmed orders:42
	// message orders:42 released
	// <nil>
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
