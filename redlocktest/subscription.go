package redlocktest

import (
	"bufio"
	"context"

	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/driver/resp"
)

var _ driver.Subscriber = (*client)(nil)

// Subscribe is [driver.Subscriber]'s. The subscription outlives Close of the driver.
func (c *client) Subscribe(ctx context.Context, onNotice func(driver.Notice)) (driver.Subscription, error) {
	c.mu.Lock()
	closed := c.closed
	c.mu.Unlock()
	if closed {
		return nil, errClosed
	}
	dialled, err := c.dial(ctx)
	if err != nil {
		return nil, err
	}
	sub := &subscriber{&conn{dialled, resp.NewReader(bufio.NewReader(dialled))}}
	return resp.NewSession(context.WithoutCancel(ctx), "redlocktest", sub, onNotice), nil
}

// subscriber is a connection for a subscription.
type subscriber struct{ *conn }

func (s *subscriber) Send(cmds []driver.Command) error {
	_, err := resp.WriteCommands(s.conn, cmds)
	return err
}

func (s *subscriber) Receive() (driver.Reply, error) { return s.replies.Reply() }

func (s *subscriber) Cut() { _ = s.Close() } // is being thrown away

func (*subscriber) Release() {} // Cut has done it
