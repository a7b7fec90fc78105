package goredis

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/quorumlock/quorumlock/driver"
)

// subscription is a wire that only hears. go-redis has shaken hands on it and does
// nothing more: its PubSub would ping, connect and subscribe again unasked, and hold
// a mutex while it writes to a server that does not read.
type subscription struct {
	wire *wire
	life context.Context //nolint:containedctx // its cause is why the subscription ended
	end  context.CancelCauseFunc
	done chan struct{} // closed when hear is not called any more
}

// largeWrite is when a write gets too large to be put off for what else there is.
const largeWrite = 64 << 10

var errUnsubscribed = errors.New("the subscription is closed")

// subscribe connects and listens on a goroutine of the server's: a dialer may ignore
// its context, and then nobody waits any more.
func (s *server) subscribe(ctx context.Context, hear func(driver.Notice)) (driver.Subscription, error) {
	type offer struct {
		subscription *subscription
		err          error
	}
	offers := make(chan offer)
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil, errClosed
	}
	s.jobs.Go(func() {
		sub, err := s.listener(ctx)
		select {
		case offers <- offer{sub, err}:
			if err == nil {
				sub.listen(hear)
			}
		case <-ctx.Done():
			if err == nil {
				sub.end(ctx.Err())
				sub.wire.close()
			}
		}
	})
	s.mu.Unlock()

	select {
	case got := <-offers:
		if got.err != nil {
			return nil, s.ended(ctx, got.err)
		}
		return got.subscription, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// listener connects.
func (s *server) listener(ctx context.Context) (*subscription, error) {
	ctx, cancel := context.WithTimeout(ctx, s.options.DialTimeout)
	defer cancel()
	stop := context.AfterFunc(s.life, cancel) //nolint:contextcheck // close ends it, too
	defer stop()
	w, err := connect(ctx, s.options, s.hooks)
	if err != nil {
		return nil, err
	}
	_ = w.socket.SetDeadline(time.Time{}) // the handshake's
	sub := &subscription{wire: w, done: make(chan struct{})}
	sub.life, sub.end = context.WithCancelCause(s.life)
	return sub, nil
}

func (s *subscription) Add(ctx context.Context, channels ...string) error {
	return s.send(ctx, "SUBSCRIBE", channels)
}

func (s *subscription) Remove(ctx context.Context, channels ...string) error {
	return s.send(ctx, "UNSUBSCRIBE", channels)
}

// send sends a command for each channel, as many as there are in one write, which a
// connection keeps apart from those of others. One that was given up may have left
// half a command behind, so that nothing can follow it.
func (s *subscription) send(ctx context.Context, name string, channels []string) error {
	if err := s.why(); err != nil {
		return err // go-redis, when it closes the connection, lets it be written to again
	}
	stop := context.AfterFunc(ctx, func() { s.end(ctx.Err()) })
	var commands []byte
	var err error
	for i, channel := range channels {
		commands = fmt.Appendf(commands, "*2\r\n$%d\r\n%s\r\n$%d\r\n%s\r\n", len(name), name, len(channel), channel)
		if len(commands) < largeWrite && i < len(channels)-1 {
			continue
		}
		if _, err = s.wire.socket.Write(commands); err != nil {
			break
		}
		commands = commands[:0]
	}
	if !stop() {
		err = ctx.Err()
	}
	if err != nil {
		s.end(err)
	}
	return s.why()
}

func (s *subscription) Close() error {
	s.end(errUnsubscribed)
	<-s.done
	return nil
}

// why says why the subscription has ended, if it has.
func (s *subscription) why() error {
	if s.life.Err() == nil {
		return nil
	}
	return fmt.Errorf("goredis: %w", context.Cause(s.life))
}

// listen hears until the connection is gone. What ends the subscription cuts it, and
// so what is being read and written. The wire is closed when nobody waits for that any
// more: over TLS, the goodbye to a silent server may take seconds.
func (s *subscription) listen(hear func(driver.Notice)) {
	defer s.wire.close()
	defer close(s.done)
	context.AfterFunc(s.life, func() { cut(s.wire.socket) })
	in := bufio.NewReader(s.wire.socket)
	for {
		reply, err := receive(in)
		if err != nil {
			s.end(err)
			break
		}
		if heard := notice(reply); heard.Kind != 0 {
			hear(heard)
		}
	}
	if why := s.why(); !errors.Is(why, errUnsubscribed) {
		hear(driver.Notice{Kind: driver.Ended, Err: why})
	}
}

// notice returns what a reply to a subscriber means, which is nothing if it confirms
// that a channel was given up.
func notice(reply driver.Reply) driver.Notice {
	if err := reply.Err(); err != nil {
		return driver.Notice{Kind: driver.Refused, Err: err}
	}
	if len(reply.Elems) != 3 {
		return driver.Notice{}
	}
	channel, payload := reply.Elems[1].Str, reply.Elems[2].Str
	switch reply.Elems[0].Str {
	case "subscribe":
		return driver.Notice{Kind: driver.Confirmed, Channel: channel}
	case "message":
		return driver.Notice{Kind: driver.Message, Channel: channel, Payload: payload}
	}
	return driver.Notice{}
}
