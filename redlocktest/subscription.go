package redlocktest

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"sync"

	"github.com/quorumlock/quorumlock/driver"
)

// subscription is a connection on which the node is only listened to.
type subscription struct {
	conn net.Conn
	hear func(driver.Notice)

	turn    chan struct{} // full: somebody writes
	closing chan struct{} // closed by Close
	close   sync.Once
	reader  sync.WaitGroup
}

var _ driver.Subscriber = (*client)(nil)

// Subscribe is [driver.Subscriber]'s. The subscription outlives Close of the driver.
func (c *client) Subscribe(ctx context.Context, hear func(driver.Notice)) (driver.Subscription, error) {
	c.mu.Lock()
	closed := c.closed
	c.mu.Unlock()
	if closed {
		return nil, errClosed
	}
	conn, err := c.dial(ctx)
	if err != nil {
		return nil, err
	}
	s := &subscription{conn: conn, hear: hear, turn: make(chan struct{}, 1), closing: make(chan struct{})}
	s.reader.Go(s.read)
	return s, nil
}

func (s *subscription) Add(ctx context.Context, channels ...string) error {
	return s.send(ctx, "SUBSCRIBE", channels)
}

func (s *subscription) Remove(ctx context.Context, channels ...string) error {
	return s.send(ctx, "UNSUBSCRIBE", channels)
}

// send writes a command for each channel. A failure ends the connection, since nobody
// knows how much of it has left.
func (s *subscription) send(ctx context.Context, name string, channels []string) error {
	cmds := make([]driver.Command, len(channels))
	for i, channel := range channels {
		cmds[i] = driver.Command{Args: []any{name, channel}}
	}
	disarm := context.AfterFunc(ctx, func() { _ = s.conn.Close() }) // and with it the wait for a node that does not read
	err := s.write(ctx, cmds)
	if !disarm() {
		err = ctx.Err()
	}
	if err != nil {
		_ = s.conn.Close() // is being thrown away
		return fmt.Errorf("redlocktest: %s: %w", name, err)
	}
	return nil
}

// write waits for the others that write.
func (s *subscription) write(ctx context.Context, cmds []driver.Command) error {
	select {
	case s.turn <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-s.turn }()
	_, err := writeCommands(s.conn, cmds)
	return err
}

// read hears the node until the connection ends.
func (s *subscription) read() {
	replies := bufio.NewReader(s.conn)
	for {
		reply, err := readReply(replies)
		var heard driver.Notice
		if err == nil {
			heard, err = notice(reply)
		}
		select {
		case <-s.closing:
			return
		default:
		}
		if err != nil {
			_ = s.conn.Close() // is being thrown away
			s.hear(driver.Notice{Kind: driver.Ended, Err: fmt.Errorf("redlocktest: the subscription has ended: %w", err)})
			return
		}
		if heard.Kind != 0 {
			s.hear(heard)
		}
	}
}

// notice tells what the node has said. It has no kind where nobody needs to hear of it.
func notice(reply driver.Reply) (driver.Notice, error) {
	if reply.Kind == driver.Failure {
		return driver.Notice{Kind: driver.Refused, Err: reply.Err()}, nil
	}
	if len(reply.Elems) != 3 {
		return driver.Notice{}, errNoNotice
	}
	channel := reply.Elems[1].Str
	switch reply.Elems[0].Str {
	case "subscribe":
		return driver.Notice{Kind: driver.Confirmed, Channel: channel}, nil
	case "message":
		return driver.Notice{Kind: driver.Message, Channel: channel, Payload: reply.Elems[2].Str}, nil
	case "unsubscribe":
		return driver.Notice{}, nil
	}
	return driver.Notice{}, errNoNotice
}

var errNoNotice = errors.New("redlocktest: that is not what a subscriber is told")

// Close ends what waits for the node as well.
func (s *subscription) Close() error {
	s.close.Do(func() { close(s.closing) })
	_ = s.conn.Close() // is being thrown away
	s.reader.Wait()
	return nil
}
