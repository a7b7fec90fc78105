package redigo

import (
	"context"
	"errors"
	"fmt"

	"github.com/quorumlock/quorumlock/driver"
)

var errUnsubscribed = errors.New("the subscription is closed")

// subscription is a connection that hears of channels. The end of its life, whoever
// asks for it, breaks the connection: the pool's Close of a connection that
// subscribes would otherwise wait for the server.
type subscription struct {
	d    *Driver
	c    *conn
	hear func(driver.Notice)
	life context.Context //nolint:containedctx // its end, with the reason, is the subscription's
	end  context.CancelCauseFunc
	turn chan struct{} // holds one while somebody writes; not a mutex, for that may wait for the server
	done chan struct{} // closed when nothing is left
}

func newSubscription(d *Driver, c *conn, hear func(driver.Notice)) *subscription {
	s := &subscription{d: d, c: c, hear: hear, turn: make(chan struct{}, 1), done: make(chan struct{})}
	s.life, s.end = context.WithCancelCause(context.Background())
	context.AfterFunc(s.life, c.stop)
	return s
}

func (s *subscription) Add(ctx context.Context, channels ...string) error {
	return s.send(ctx, "SUBSCRIBE", channels)
}

func (s *subscription) Remove(ctx context.Context, channels ...string) error {
	return s.send(ctx, "UNSUBSCRIBE", channels)
}

func (s *subscription) Close() error {
	s.end(errUnsubscribed)
	<-s.done
	return nil
}

// send sends a command for each channel. When ctx ends before that, so does the
// subscription.
func (s *subscription) send(ctx context.Context, name string, channels []string) error {
	disarm := context.AfterFunc(ctx, func() { s.end(ctx.Err()) })
	err := s.write(name, channels)
	if !disarm() {
		err = ctx.Err()
	}
	if err != nil {
		return fmt.Errorf("redigo: %w", err)
	}
	return nil
}

func (s *subscription) write(name string, channels []string) error {
	select {
	case s.turn <- struct{}{}:
	case <-s.life.Done():
		return context.Cause(s.life)
	}
	defer func() { <-s.turn }()
	for _, channel := range channels {
		if err := s.c.Send(name, channel); err != nil {
			return s.fail(err)
		}
	}
	if err := s.c.Flush(); err != nil {
		return s.fail(err)
	}
	return nil
}

// fail returns what was first to go wrong: a connection that was broken on purpose
// only says that it is closed.
func (s *subscription) fail(err error) error {
	s.end(err)
	return context.Cause(s.life)
}

// listen reads until the connection ends, and then gives it up.
func (s *subscription) listen() {
	defer close(s.done)
	defer s.d.forget(s)
	for s.life.Err() == nil {
		reply, err := s.c.receive()
		if err == nil {
			s.tell(reply)
			continue
		}
		if s.life.Err() == nil {
			s.d.suspect()
		}
		s.end(err)
	}
	<-s.c.stopped
	s.turn <- struct{}{} // for good: the connection is not ours any more
	_ = s.c.Close()
	<-s.d.seats
	if why := context.Cause(s.life); !errors.Is(why, errUnsubscribed) {
		s.hear(driver.Notice{Kind: driver.Ended, Err: fmt.Errorf("redigo: %w", why)})
	}
}

func (s *subscription) tell(reply driver.Reply) {
	if err := reply.Err(); err != nil {
		s.hear(driver.Notice{Kind: driver.Refused, Err: err})
		return
	}
	if len(reply.Elems) != 3 {
		return
	}
	switch channel := reply.Elems[1].Str; reply.Elems[0].Str {
	case "subscribe":
		s.hear(driver.Notice{Kind: driver.Confirmed, Channel: channel})
	case "message":
		s.hear(driver.Notice{Kind: driver.Message, Channel: channel, Payload: reply.Elems[2].Str})
	}
}
