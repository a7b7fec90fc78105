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
	// Release closes the connection. It is called once, after all other calls, and does not
	// wait for the server.
	Release()
}

// Session is a [driver.Subscription] over a connection of its own.
type Session struct {
	client   string
	wire     Wire
	onNotice func(driver.Notice)
	life     context.Context //nolint:containedctx // its cause is why the session has ended
	end      context.CancelCauseFunc
	turn     chan struct{} // holds one during a send; not a mutex, for a send may wait for the server
	cut      chan struct{} // closed when Cut has returned
	done     chan struct{} // closed at the end of listen
}

var errUnsubscribed = errors.New("the subscription is closed")

// NewSession starts a session on wire. When life ends, the session ends for life's cause.
// Errors begin with the client's name.
func NewSession(life context.Context, client string, wire Wire, onNotice func(driver.Notice)) *Session {
	s := &Session{
		client: client, wire: wire, onNotice: onNotice,
		turn: make(chan struct{}, 1), cut: make(chan struct{}), done: make(chan struct{}),
	}
	s.life, s.end = context.WithCancelCause(life)
	context.AfterFunc(s.life, func() { //nolint:contextcheck // life is its context
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

// Close ends the session, and waits until wire is released.
func (s *Session) Close() error {
	s.End(errUnsubscribed)
	return nil
}

// End closes the session for a cause, which onNotice receives in an Ended.
func (s *Session) End(cause error) {
	s.end(cause)
	<-s.done
}

// send ends the session if it fails, because half a command may have left.
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
			s.onNotice(notice)
		}
	}
	<-s.cut
	s.turn <- struct{}{} // for good: no more sends
	s.wire.Release()
	if cause := s.cause(); !errors.Is(cause, errUnsubscribed) {
		s.onNotice(driver.Notice{Kind: driver.Ended, Err: cause})
	}
}

// noticeOf returns the notice that a reply is, or one without a kind.
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
