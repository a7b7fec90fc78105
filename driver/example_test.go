package driver_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"

	"github.com/quorumlock/quorumlock/driver"
)

func ExampleParseURL() {
	end, err := driver.ParseURL("rediss://locker:p%40ss@redis.example.com/3?servername=node-1.internal")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(end.Network, end.Addr, end.DB)
	fmt.Println(end.Username, end.Password)
	fmt.Println(end.TLS.ServerName)
	// Output:
	// tcp redis.example.com:6379 3
	// locker p@ss
	// node-1.internal
}

// An error can be logged: it does not show the password, not even where the password
// was not percent-encoded.
func ExampleParseURL_error() {
	_, err := driver.ParseURL("redis://locker:secret@10.0.0.1/orders")
	fmt.Println(err)
	_, err = driver.ParseURL("redis://locker:top/secret@10.0.0.1")
	fmt.Println(err)
	// Output:
	// node URL redis://10.0.0.1: database "orders" is not a number from 0 up
	// node URL: cannot be parsed; want redis://user:password@host:port/database, with special characters in the password percent-encoded
}

// A server that refuses a command has answered, so this is a Reply, and the error of
// Do is nil.
func ExampleReply_Err() {
	reply := driver.Reply{Kind: driver.Failure, Str: "READONLY You can't write against a read only replica."}

	var server *driver.ServerError
	if errors.As(reply.Err(), &server) {
		fmt.Println(server.Code)
	}
	fmt.Println(reply.Err())
	fmt.Println(driver.Reply{Kind: driver.Nil}.Err())
	// Output:
	// READONLY
	// READONLY You can't write against a read only replica.
	// <nil>
}

// counters is a Driver in its smallest form: here over a map, as a rule over a client.
type counters struct {
	mu   sync.Mutex
	keys map[string]int64
}

func (c *counters) Do(ctx context.Context, cmds []driver.Command) ([]driver.Reply, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("%w: %w", driver.ErrNotSent, err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	replies := make([]driver.Reply, len(cmds))
	for i, cmd := range cmds {
		replies[i] = c.run(cmd)
	}
	return replies, nil
}

func (c *counters) run(cmd driver.Command) driver.Reply {
	key := cmd.Args[cmd.FirstKey].(string) // every argument is a string
	switch cmd.Args[0] {
	case "INCR":
		c.keys[key]++
		return driver.Reply{Kind: driver.Integer, Int: c.keys[key]}
	case "GET":
		if n, ok := c.keys[key]; ok {
			return driver.Reply{Kind: driver.String, Str: strconv.FormatInt(n, 10)}
		}
		return driver.Reply{Kind: driver.Nil}
	}
	return driver.Reply{Kind: driver.Failure, Str: "ERR unknown command"}
}

var _ driver.Driver = (*counters)(nil)

// A driver answers every command in its place. An error reply does not end the batch;
// a context that has ended before anything left is an error that says so.
func ExampleDriver() {
	node := driver.Node{Name: "10.0.0.1:6379", Driver: &counters{keys: map[string]int64{}}}
	cmds := []driver.Command{
		{Args: []any{"INCR", "visits"}, FirstKey: 1, Keys: 1},
		{Args: []any{"OOPS", "visits"}, FirstKey: 1, Keys: 1},
		{Args: []any{"GET", "visits"}, FirstKey: 1, Keys: 1},
	}
	ctx, cancel := context.WithCancel(context.Background())
	replies, err := node.Driver.Do(ctx, cmds)
	fmt.Println(replies[0].Int, replies[1].Err(), replies[2].Str, err)

	cancel()
	_, err = node.Driver.Do(ctx, cmds)
	fmt.Println(errors.Is(err, driver.ErrNotSent), errors.Is(err, context.Canceled))
	// Output:
	// 1 ERR unknown command 1 <nil>
	// true true
}
