package rueidis_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	client "github.com/redis/rueidis"

	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/driver/rueidis"
	"github.com/quorumlock/quorumlock/test/scripted"
)

func ExampleNodes() {
	var clients []client.Client // those of the service
	for _, addr := range []string{"10.0.0.1:6379", "10.0.0.2:6379", "10.0.0.3:6379"} {
		c, err := client.NewClient(client.ClientOption{
			InitAddress: []string{addr},
			// Only for this example, which has no network:
			DialCtxFn: dialing(scripted.New()), DisableCache: true,
		})
		if err != nil {
			panic(err)
		}
		defer c.Close()
		clients = append(clients, c)
	}

	nodes, err := rueidis.Nodes(clients...) // then redlock.New(nodes)
	if err != nil {
		panic(err)
	}
	for _, node := range nodes {
		fmt.Println(node.Name)
	}

	_, err = rueidis.Nodes(clients[0], clients[1], clients[0])
	fmt.Println(err)
	// Output:
	// 10.0.0.1:6379
	// 10.0.0.2:6379
	// 10.0.0.3:6379
	// rueidis: nodes 1 and 3 (10.0.0.1:6379) are the same client; each node needs one of its own
}

func ExampleNode() {
	c, err := client.NewClient(client.ClientOption{
		InitAddress: []string{"10.0.0.1:6379"},
		// Only for this example, which has no network:
		DialCtxFn: dialing(scripted.New()), DisableCache: true,
	})
	if err != nil {
		panic(err)
	}
	defer c.Close()

	node, err := rueidis.Node(c, rueidis.WithName("paris"))
	fmt.Println(node.Name, err)
	// Output: paris <nil>
}

func ExampleOpen() {
	nodes, err := rueidis.Open(
		"redis://10.0.0.1",
		"redis://locks:secret@10.0.0.2:6380/1",
		"unix:///run/redis.sock",
	)
	if err != nil {
		panic(err)
	}
	for _, node := range nodes {
		fmt.Println(node.Name)
	}

	_, err = rueidis.Open("redis://10.0.0.1", "http://10.0.0.2")
	fmt.Println(err)
	// Output:
	// 10.0.0.1:6379
	// 10.0.0.2:6380
	// /run/redis.sock
	// rueidis: node 2: node URL http://10.0.0.2: scheme "http" is not redis, rediss, unix, redis-sentinel or redis-cluster
}

func ExampleFromOptions() {
	nodes, err := rueidis.FromOptions(
		client.ClientOption{InitAddress: []string{"127.0.0.1:1"}}, // nobody there, and no error here
		client.ClientOption{
			InitAddress: []string{"10.0.0.2:6379"},
			DialCtxFn:   dialing(scripted.New()), // only for this example, which has no network
		},
	)
	if err != nil {
		panic(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	set := driver.Command{Args: []any{"SET", "orders:42", "token", "NX", "PX", "10000"}, FirstKey: 1, Keys: 1}
	for _, node := range nodes {
		defer node.Driver.(io.Closer).Close() // as the Locker does
		replies, err := node.Driver.Do(ctx, []driver.Command{set})
		if errors.Is(err, driver.ErrNotSent) {
			fmt.Println(node.Name, "cannot be reached")
			continue
		}
		fmt.Println(node.Name, "says", replies[0].Str)
	}
	// Output:
	// 127.0.0.1:1 cannot be reached
	// 10.0.0.2:6379 says OK
}
