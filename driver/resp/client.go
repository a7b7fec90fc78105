package resp

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/quorumlock/quorumlock/driver"
)

// Client is a [driver.Driver] without a client library, over any dialer: a batch has a connection
// to itself, is written, and is read.
type Client struct {
	name string
	dial func(context.Context) (net.Conn, error)

	mu     sync.Mutex
	age    context.Context //nolint:containedctx // ends at Renew: what was dialed before is not used again
	renew  context.CancelCauseFunc
	idle   []*Conn
	closed bool
}

var (
	_ driver.Driver     = (*Client)(nil)
	_ driver.Subscriber = (*Client)(nil)
	_ driver.Renewer    = (*Client)(nil)
)

// idleConns is as many as the core has batches out at once.
const idleConns = 8

// NewClient returns a client whose own errors begin with a name.
func NewClient(name string, dial func(context.Context) (net.Conn, error)) *Client {
	c := &Client{name: name, dial: dial}
	c.age, c.renew = context.WithCancelCause(context.Background())
	return c
}

// Do is [driver.Driver]'s.
func (c *Client) Do(ctx context.Context, cmds []driver.Command) ([]driver.Reply, error) {
	if err := c.check(cmds); err != nil {
		return nil, driver.NotSent(err)
	}
	conn, err := c.Take(ctx)
	if err != nil {
		return nil, driver.NotSent(err)
	}
	replies, err := conn.Exchange(ctx, cmds)
	if err != nil || !c.give(ctx, conn) {
		_ = conn.Close() // is being thrown away
	}
	return replies, err
}

// check returns an error where a command cannot be sent.
func (c *Client) check(cmds []driver.Command) error {
	for _, cmd := range cmds {
		for _, arg := range cmd.Args {
			if _, ok := arg.(string); !ok {
				return fmt.Errorf("%s: an argument of %v is a %T, not a string", c.name, cmd.Args[0], arg)
			}
		}
	}
	return nil
}

// Take returns an idle connection, or dials.
func (c *Client) Take(ctx context.Context) (*Conn, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return nil, fmt.Errorf("%s: %w", c.name, driver.ErrClosed)
	}
	if last := len(c.idle) - 1; last >= 0 {
		conn := c.idle[last]
		c.idle = c.idle[:last]
		c.mu.Unlock()
		return conn, nil
	}
	age := c.age
	c.mu.Unlock()
	dialled, err := c.dial(ctx)
	if err != nil {
		return nil, err
	}
	conn := NewConn(dialled)
	conn.age = age
	return conn, nil
}

// give keeps a connection for the next batch, unless the end of its context may have cut it.
func (c *Client) give(ctx context.Context, conn *Conn) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if ctx.Err() != nil || c.closed || conn.age.Err() != nil || len(c.idle) == idleConns {
		return false
	}
	c.idle = append(c.idle, conn)
	return true
}

// Renew is [driver.Renewer]'s.
func (c *Client) Renew() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.renew(driver.ErrRenewed)
	c.age, c.renew = context.WithCancelCause(context.Background())
	c.drop()
}

// Close closes what is idle; a batch that is out ends by its own deadline, and subscriptions go on.
func (c *Client) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	c.drop()
	return nil
}

// drop closes what is idle. c.mu is held.
func (c *Client) drop() {
	for _, conn := range c.idle {
		_ = conn.Close() // is being thrown away
	}
	c.idle = nil
}

// Subscribe is [driver.Subscriber]'s.
func (c *Client) Subscribe(ctx context.Context, onNotice func(driver.Notice)) (driver.Subscription, error) {
	c.mu.Lock()
	closed, age := c.closed, c.age
	c.mu.Unlock()
	if closed {
		return nil, fmt.Errorf("%s: %w", c.name, driver.ErrClosed)
	}
	dialled, err := c.dial(ctx)
	if err != nil {
		return nil, err
	}
	return NewSession(age, c.name, NewConn(dialled), onNotice), nil //nolint:contextcheck // it outlives the call
}

// Conn is one connection. It is a [Wire].
type Conn struct {
	net.Conn
	replies *Reader
	age     context.Context //nolint:containedctx // see [Client]; nil where no Client has dialed it
}

// NewConn returns the connection over a socket.
func NewConn(socket net.Conn) *Conn {
	return &Conn{Conn: socket, replies: NewReader(bufio.NewReader(socket))}
}

// Exchange sends a batch and reads the replies. The context ends it.
func (c *Conn) Exchange(ctx context.Context, cmds []driver.Command) ([]driver.Reply, error) {
	// The context's own timer sets the deadline, so there is no moment in which the
	// connection has timed out and the context has not.
	disarm := context.AfterFunc(ctx, func() { _ = c.SetDeadline(time.Unix(1, 0)) }) // fails on a closed one
	defer disarm()
	replies, err := c.exchange(cmds)
	if err != nil && ctx.Err() != nil {
		err = fmt.Errorf("%w: %w", ctx.Err(), err)
	}
	return replies, err
}

func (c *Conn) exchange(cmds []driver.Command) ([]driver.Reply, error) {
	if n, err := WriteCommands(c, cmds); err != nil {
		if n == 0 {
			err = driver.NotSent(err)
		}
		return nil, err
	}
	replies := make([]driver.Reply, 0, len(cmds))
	for range cmds {
		reply, err := c.Receive()
		if err != nil {
			return replies, err
		}
		replies = append(replies, reply)
	}
	return replies, nil
}

// Send sends commands.
func (c *Conn) Send(cmds []driver.Command) error {
	_, err := WriteCommands(c, cmds)
	return err
}

// Receive returns the next reply.
func (c *Conn) Receive() (driver.Reply, error) { return c.replies.Reply() }

// Cut closes the connection.
func (c *Conn) Cut() { _ = c.Close() } // is being thrown away

// Release does nothing: Cut has done it.
func (*Conn) Release() {}
