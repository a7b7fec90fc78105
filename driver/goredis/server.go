package goredis

import (
	"context"
	"errors"
	"os"
	"slices"
	"sync"

	"github.com/redis/go-redis/v9"

	"github.com/quorumlock/quorumlock/driver"
)

// maxWires bounds the connections to one server, those being made included. It is as
// many batches as the core keeps out at once.
const maxWires = 8

var errClosed = driver.ErrClosed

// server is one address and the connections to it.
//
// Connecting runs off the caller's goroutine and on a time-out of its own, the
// client's DialTimeout: a caller waits for it no longer than its context says, and
// a connection that took longer than that serves the next batch.
type server struct {
	options *redis.Options
	hooks   []redis.Hook
	life    context.Context //nolint:containedctx // ends at close, and with it all that connects or subscribes
	end     context.CancelCauseFunc
	jobs    sync.WaitGroup // connecting, subscriptions and closing

	mu      sync.Mutex
	age     context.Context //nolint:containedctx // ends at renew, and with it the use of what was dialed before
	renewed context.CancelCauseFunc
	closed  bool
	wires   []*wire // all that are connected
	idle    []*wire // those without a batch; the last used comes first
	pending int     // being connected
	waiting []*waiter
}

func newServer(options *redis.Options, hooks []redis.Hook) *server {
	s := &server{options: options, hooks: hooks}
	s.life, s.end = context.WithCancelCause(context.Background())
	s.age, s.renewed = context.WithCancelCause(s.life)
	return s
}

// renew gives up all wires. Those with a batch close when they are put back.
func (s *server) renew() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.renewed(driver.ErrRenewed)
	s.age, s.renewed = context.WithCancelCause(s.life)
	for _, w := range s.idle {
		s.retire(w)
	}
	s.idle = nil
}

// do sends a batch. Where the server has closed an idle connection, nothing was sent, and the
// batch goes out on another.
func (s *server) do(ctx context.Context, cmds []driver.Command) ([]driver.Reply, error) {
	for {
		w, wasIdle, err := s.get(ctx)
		if err != nil {
			return nil, driver.NotSent(err)
		}
		disarm := context.AfterFunc(ctx, w.over)
		replies, err := w.send(ctx, cmds)
		disarm()
		s.put(w, err != nil) //nolint:contextcheck // what it may connect serves whoever waits
		switch {
		case err == nil:
			return replies, nil
		case !wasIdle || ctx.Err() != nil || !errors.Is(err, driver.ErrNotSent):
			return replies, s.ended(ctx, err)
		}
	}
}

// ended returns why a batch failed, where the reason is not the server.
// The connection's deadline is the context's, and may be the first to notice.
func (s *server) ended(ctx context.Context, err error) error {
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case s.life.Err() != nil:
		return errClosed
	case errors.Is(err, os.ErrDeadlineExceeded):
		return context.DeadlineExceeded
	}
	return err
}

// grow connects as many wires as there are callers waiting, up to the bound.
func (s *server) grow() {
	for !s.closed && s.pending < len(s.waiting) && len(s.wires)+s.pending < maxWires {
		s.pending++
		age := s.age
		s.jobs.Go(func() { s.connect(age) })
	}
}

// connect makes a wire of this age.
func (s *server) connect(age context.Context) {
	ctx, cancel := context.WithTimeout(age, s.options.DialTimeout)
	defer cancel()
	w, err := connect(ctx, s.options, s.hooks)

	s.mu.Lock()
	defer s.mu.Unlock()
	s.pending--
	if err == nil && age.Err() != nil {
		s.jobs.Go(w.close)
	}
	switch {
	case age.Err() != nil: // who waits gets one of the next age; after close nobody waits
		s.grow() //nolint:contextcheck // likewise
	case err == nil:
		w.age, w.over = age, func() { s.over(w) }
		s.wires = append(s.wires, w)
		s.hand(w)
	case len(s.wires)+s.pending == 0: // else another may end the wait
		s.refuse(err)
	}
}

// refuse ends the wait of all.
func (s *server) refuse(err error) {
	for _, w := range s.waiting {
		w.offer <- offer{err: err}
	}
	s.waiting = nil
}

// close closes all connections. Those with a batch are cut and close when they are
// put back. It waits for what is being connected and closed, and for subscriptions.
func (s *server) close() error {
	s.mu.Lock()
	s.closed = true
	s.end(errClosed) // before cut: ended says why what is out has failed
	idle := s.idle
	s.idle = nil
	s.wires = slices.DeleteFunc(s.wires, func(w *wire) bool { return w.ctx == nil })
	for _, w := range s.wires {
		s.cut(w)
	}
	s.refuse(errClosed)
	s.mu.Unlock()
	for _, w := range idle {
		w.close()
	}
	s.jobs.Wait()
	return nil
}
