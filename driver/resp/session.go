package resp

import (
	"context"
	"errors"
	"fmt"

	"github.com/quorumlock/quorumlock/driver"
)

// Wire is the connection of a [Session].
type Wire interface {
	// Send sends commands. There is one call at a time.
	Send(cmds []driver.Command) error
	// Receive returns the next reply.
	Receive() (driver.Reply, error)
	// Cut ends Send and Receive, those under way too. It is called once.
	Cut()
	// Release gives the connection up. It is called once, behind all other calls, and does not
	// wait for the server.
	Release()
}

// Session is a [driver.Subscription] over a connection of its own.
type Session struct {
	client string
	wire   Wire
	hear   func(driver.Notice)
	life   context.Context //nolint:containedctx // its cause is why the session has ended
	end    context.CancelCauseFunc
	turn   chan struct{} // holds one while somebody sends; not a mutex, for that may wait for the server
	cut    chan struct{} // closed when Cut has returned
	done   chan struct{} // closed when nothing is left
}

var errUnsubscribed = errors.New("the subscription is closed")

// NewSession starts a session on wire, which ends at the latest with life, for its cause. Errors
// begin with the client's name.
func NewSession(life context.Context, client string, wire Wire, hear func(driver.Notice)) *Session {
	s := &Session{
		client: client, wire: wire, hear: hear,
		turn: make(chan struct{}, 1), cut: make(chan struct{}), done: make(chan struct{}),
	}
	s.life, s.end = context.WithCancelCause(life)
	context.AfterFunc(s.life, func() {
		wire.Cut()
		close(s.cut)
	})
	go s.listen()
	return s
}

// Add sends a SUBSCRIBE for each channel, and returns when they are written.
func (s *Session) Add(ctx context.Context, channels ...string) error {
	return s.send(ctx, "SUBSCRIBE", channels)
}

// Remove sends an UNSUBSCRIBE for each channel.
func (s *Session) Remove(ctx context.Context, channels ...string) error {
	return s.send(ctx, "UNSUBSCRIBE", channels)
}

// Close ends the session, and waits until nothing of it is left.
func (s *Session) Close() error {
	s.End(errUnsubscribed)
	return nil
}

// End is Close for another cause than the subscriber's wish: hear gets an Ended with it.
func (s *Session) End(cause error) {
	s.end(cause)
	<-s.done
}

// send ends the session where it fails: it may have left half a command behind.
func (s *Session) send(ctx context.Context, name string, channels []string) error {
	disarm := context.AfterFunc(ctx, func() { s.end(ctx.Err()) })
	err := s.write(name, channels)
	if !disarm() {
		err = ctx.Err()
	}
	if err != nil {
		s.end(err) // of several causes the first counts
	}
	return s.cause()
}

func (s *Session) write(name string, channels []string) error {
	cmds := make([]driver.Command, len(channels))
	for i, channel := range channels {
		cmds[i] = driver.Command{Args: []any{name, channel}}
	}
	select {
	case s.turn <- struct{}{}:
		defer func() { <-s.turn }()
	case <-s.life.Done():
	}
	if s.life.Err() != nil {
		return nil
	}
	return s.wire.Send(cmds)
}

// cause returns why the session has ended, and nil before.
func (s *Session) cause() error {
	if s.life.Err() == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", s.client, context.Cause(s.life))
}

func (s *Session) listen() {
	defer close(s.done)
	for s.life.Err() == nil {
		reply, err := s.wire.Receive()
		if err != nil {
			s.end(err)
		} else if notice := noticeOf(reply); notice.Kind != 0 {
			s.hear(notice)
		}
	}
	<-s.cut
	s.turn <- struct{}{} // for good: nobody sends any more
	s.wire.Release()
	if cause := s.cause(); !errors.Is(cause, errUnsubscribed) {
		s.hear(driver.Notice{Kind: driver.Ended, Err: cause})
	}
}

// noticeOf returns what a reply means to a subscriber. It has no kind where that is nothing.
func noticeOf(reply driver.Reply) driver.Notice {
	if err := reply.Err(); err != nil {
		return driver.Notice{Kind: driver.Refused, Err: err}
	}
	if len(reply.Elems) != 3 {
		return driver.Notice{}
	}
	channel := reply.Elems[1].Str
	switch reply.Elems[0].Str {
	case "subscribe":
		return driver.Notice{Kind: driver.Confirmed, Channel: channel}
	case "message":
		return driver.Notice{Kind: driver.Message, Channel: channel, Payload: reply.Elems[2].Str}
	}
	return driver.Notice{}
}
