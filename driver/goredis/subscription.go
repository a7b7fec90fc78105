package goredis

import (
	"bufio"
	"context"
	"time"

	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/driver/resp"
)

// subscriber is a wire for a subscription. go-redis has shaken hands on it and does nothing
// more: its PubSub would ping, connect and subscribe again unasked, and hold a mutex while it
// writes to a server that does not read.
type subscriber struct {
	*wire
	replies *resp.Reader
	done    func() // ends the job
}

// subscribe connects on a goroutine of its own, because a dialer may ignore its context. It is
// a job of the server's until the session has ended.
func (s *server) subscribe(ctx context.Context, onNotice func(driver.Notice)) (driver.Subscription, error) {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil, errClosed
	}
	s.jobs.Add(1)
	age := s.age
	s.mu.Unlock()
	sub, err := driver.Await(ctx, func() (*subscriber, error) { return s.subscriber(ctx) }, func(late *subscriber, err error) {
		if err == nil {
			late.Release()
		}
	})
	if err != nil {
		return nil, s.ended(ctx, err)
	}
	return resp.NewSession(age, "goredis", sub, onNotice), nil //nolint:contextcheck // it outlives the call
}

// subscriber connects.
func (s *server) subscriber(ctx context.Context) (*subscriber, error) {
	ctx, cancel := context.WithTimeout(ctx, s.options.DialTimeout)
	defer cancel()
	stop := context.AfterFunc(s.life, cancel) //nolint:contextcheck // close ends it, too
	defer stop()
	w, err := connect(ctx, s.options, s.hooks)
	if err != nil {
		s.jobs.Done()
		return nil, err
	}
	_ = w.socket.SetDeadline(time.Time{}) // the handshake's
	return &subscriber{wire: w, replies: resp.NewReader(bufio.NewReader(w.socket)), done: s.jobs.Done}, nil
}

func (s *subscriber) Send(cmds []driver.Command) error {
	_, err := resp.WriteCommands(s.socket, cmds)
	return err
}

func (s *subscriber) Receive() (driver.Reply, error) { return s.replies.Reply() }

func (s *subscriber) Cut() { cut(s.socket) }

// Release closes the wire off the caller's goroutine: over TLS, the goodbye to a silent server
// may take seconds.
func (s *subscriber) Release() {
	go func() {
		s.close()
		s.done()
	}()
}
