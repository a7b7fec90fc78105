package redlocktest

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/driver/resp"
)

// client is the driver behind [Nodes.Drivers]: a batch has a connection to itself,
// is written, and is read. It works over any dialer.
type client struct {
	dial func(context.Context) (net.Conn, error)

	mu     sync.Mutex
	idle   []*conn
	closed bool
}

type conn struct {
	net.Conn
	replies *resp.Reader
}

var _ driver.Driver = (*client)(nil)

// idleConns is as many as the core has batches out at once.
const idleConns = 8

func newClient(dial func(context.Context) (net.Conn, error)) *client {
	return &client{dial: dial}
}

func (c *client) Do(ctx context.Context, cmds []driver.Command) ([]driver.Reply, error) {
	if err := checkArgs(cmds); err != nil {
		return nil, driver.NotSent(err)
	}
	conn, err := c.take(ctx)
	if err != nil {
		return nil, driver.NotSent(err)
	}
	// The context's own timer sets the deadline, so there is no moment in which the
	// connection has timed out and the context has not.
	disarm := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) }) // fails on a closed one
	replies, err := conn.exchange(cmds)
	if armed := disarm(); err == nil && armed {
		c.give(conn)
		return replies, nil
	}
	_ = conn.Close() // is being thrown away
	if err != nil && ctx.Err() != nil {
		err = fmt.Errorf("%w: %w", ctx.Err(), err)
	}
	return replies, err
}

func (c *conn) exchange(cmds []driver.Command) ([]driver.Reply, error) {
	if n, err := resp.WriteCommands(c, cmds); err != nil {
		if n == 0 {
			err = driver.NotSent(err)
		}
		return nil, err
	}
	replies := make([]driver.Reply, 0, len(cmds))
	for range cmds {
		reply, err := c.replies.Reply()
		if err != nil {
			return replies, err
		}
		replies = append(replies, reply)
	}
	return replies, nil
}

func (c *client) take(ctx context.Context) (*conn, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return nil, errClosed
	}
	if last := len(c.idle) - 1; last >= 0 {
		conn := c.idle[last]
		c.idle = c.idle[:last]
		c.mu.Unlock()
		return conn, nil
	}
	c.mu.Unlock()
	dialled, err := c.dial(ctx)
	if err != nil {
		return nil, err
	}
	return &conn{dialled, resp.NewReader(bufio.NewReader(dialled))}, nil
}

var errClosed = fmt.Errorf("redlocktest: %w", driver.ErrClosed)

func (c *client) give(conn *conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed || len(c.idle) == idleConns {
		_ = conn.Close() // is being thrown away
		return
	}
	c.idle = append(c.idle, conn)
}

// Close closes what is idle; a batch that is out ends by its own deadline.
func (c *client) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	for _, conn := range c.idle {
		_ = conn.Close() // is being thrown away
	}
	c.idle = nil
	return nil
}

// checkArgs returns an error where a command cannot be sent.
func checkArgs(cmds []driver.Command) error {
	for _, cmd := range cmds {
		for _, arg := range cmd.Args {
			if _, ok := arg.(string); !ok {
				return fmt.Errorf("redlocktest: an argument of %v is a %T, not a string", cmd.Args[0], arg)
			}
		}
	}
	return nil
}
