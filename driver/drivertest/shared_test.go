package drivertest

import (
	"context"
	"sync"

	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/driver/resp"
)

// shared is a driver whose callers share one connection, as clients with automatic
// pipelining do. It gives up a call by leaving its replies to nobody; a selfish one
// closes the connection instead.
type shared struct {
	pool    *pool
	selfish bool

	mu      sync.Mutex
	wire    *resp.Conn
	waiting chan *sharedCall // in the order in which they were sent
	readers sync.WaitGroup
}

// sharedCall takes the replies of one call. What is sent to it may stay there.
type sharedCall struct {
	size int
	done chan outcome
}

func (s *shared) Do(ctx context.Context, cmds []driver.Command) ([]driver.Reply, error) {
	call := &sharedCall{size: len(cmds), done: make(chan outcome, 1)}
	w, err := s.send(ctx, cmds, call)
	if err != nil {
		return nil, err
	}
	select {
	case out := <-call.done:
		return out.replies, out.err
	case <-ctx.Done():
		if s.selfish {
			_ = w.Close()
		}
		return nil, ctx.Err()
	}
}

func (s *shared) send(ctx context.Context, cmds []driver.Command, call *sharedCall) (*resp.Conn, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.wire == nil {
		var err error
		if s.wire, err = s.pool.dial(ctx); err != nil {
			return nil, err
		}
		s.waiting = make(chan *sharedCall, 1000)
		w, waiting := s.wire, s.waiting
		s.readers.Go(func() { s.read(w, waiting) })
	}
	if err := s.wire.Send(cmds); err != nil {
		return nil, err
	}
	s.waiting <- call
	return s.wire, nil
}

// read gives each call its replies, until the connection ends.
func (s *shared) read(w *resp.Conn, waiting chan *sharedCall) {
	var broken error
	for call := range waiting {
		out := outcome{err: broken}
		for len(out.replies) < call.size && out.err == nil {
			var reply driver.Reply
			if reply, out.err = w.Receive(); out.err == nil {
				out.replies = append(out.replies, reply)
			}
		}
		if broken == nil && out.err != nil {
			broken = out.err
			s.forget(w)
		}
		call.done <- out
	}
}

// forget closes the connection, so that the next call makes another.
func (s *shared) forget(w *resp.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.wire == w {
		s.wire = nil
		close(s.waiting)
	}
	_ = w.Close()
}

// Close ends the connection and waits for its reader.
func (s *shared) Close() {
	s.mu.Lock()
	w := s.wire
	s.mu.Unlock()
	if w != nil {
		s.forget(w)
	}
	s.readers.Wait()
}
