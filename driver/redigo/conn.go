package redigo

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/quorumlock/quorumlock/driver"
)

// conn is one of the pool's connections.
type conn struct {
	redis.ConnWithTimeout
	snap    func() // breaks the connection
	stop    func() // the same, then closes stopped; for one call of AfterFunc
	stopped chan struct{}
	born    int  // the number of the sweep before it came
	used    bool // since the last sweep

	age context.Context //nolint:containedctx // once it has ended, the connection is not used again
}

func newConn(age context.Context, pooled redis.Conn, born int) *conn {
	c := &conn{ConnWithTimeout: pooled.(redis.ConnWithTimeout), stopped: make(chan struct{}), born: born, age: age}
	c.snap = func() { snap(pooled) } //nolint:contextcheck // its context is expired
	c.stop = func() {
		c.snap()
		close(c.stopped)
	}
	return c
}

// snap breaks a connection. It calls the one method that may be called while another goroutine
// writes: given a context that has expired, it closes the connection and does no more.
func snap(pooled redis.Conn) { _, _ = redis.ReceiveContext(pooled, expired) }

var expired = func() context.Context {
	ctx, cancel := context.WithDeadline(context.Background(), time.Unix(0, 0))
	cancel()
	return ctx
}()

// exchange sends cmds and reads their replies. When ctx ends before that, the
// connection is broken.
func (c *conn) exchange(ctx context.Context, cmds []driver.Command) ([]driver.Reply, error) {
	disarm := context.AfterFunc(ctx, c.stop)
	replies, err := c.roundTrip(cmds)
	if !disarm() {
		<-c.stopped // or it would break the connection in other hands
	}
	if err != nil && ctx.Err() != nil {
		err = ctx.Err()
	}
	return replies, err
}

func (c *conn) send(cmds []driver.Command) (err error) {
	defer c.caught(&err)
	for _, cmd := range cmds {
		if err := c.Send(cmd.Args[0].(string), cmd.Args[1:]...); err != nil {
			return err
		}
	}
	return c.Flush()
}

func (c *conn) roundTrip(cmds []driver.Command) ([]driver.Reply, error) {
	if err := c.send(cmds); err != nil {
		return nil, err
	}
	// Reply by reply, for the client's way to read all at once loses those that
	// came before a cut.
	replies := make([]driver.Reply, 0, len(cmds))
	for range cmds {
		reply, err := c.receive()
		if err != nil {
			return replies, err
		}
		replies = append(replies, reply)
	}
	return replies, nil
}

// caught makes a panic an error, and breaks the connection: the start of the next reply is unknown. The
// client panics over a length that is beyond all memory.
func (c *conn) caught(err *error) {
	if cause := recover(); cause != nil {
		c.snap()
		*err = fmt.Errorf("the client panicked: %v", cause)
	}
}

// receive reads one reply. The context ends it, so it needs no time-out of its own.
func (c *conn) receive() (_ driver.Reply, err error) {
	defer c.caught(&err)
	value, err := c.ReceiveWithTimeout(0)
	if err == nil {
		return reply(value), nil
	}
	var line redis.Error // here, for it is allocated
	if errors.As(err, &line) {
		return reply(line), nil
	}
	return driver.Reply{}, err
}

func reply(value any) driver.Reply {
	switch value := value.(type) {
	case nil:
		return driver.Reply{}
	case int64:
		return driver.Reply{Kind: driver.Integer, Int: value}
	case string:
		return driver.Reply{Kind: driver.String, Str: value}
	case []byte:
		return driver.Reply{Kind: driver.String, Str: string(value)}
	case redis.Error:
		return driver.Reply{Kind: driver.Failure, Str: string(value)}
	case []any:
		elems := make([]driver.Reply, len(value))
		for i, elem := range value {
			elems[i] = reply(elem)
		}
		return driver.Reply{Kind: driver.Array, Elems: elems}
	default: // not of the client's making
		return driver.Reply{Kind: driver.String, Str: fmt.Sprint(value)}
	}
}
