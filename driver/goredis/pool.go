package goredis

import (
	"context"
	"slices"
	"time"
)

// cutAgain is how long after a cut a wire is cut once more, if its batch has not ended.
const cutAgain = 10 * time.Millisecond

// waiter is a caller that found no idle wire.
type waiter struct {
	ctx   context.Context //nolint:containedctx // of the batch that waits
	offer chan offer      // takes one without blocking
}

type offer struct {
	wire *wire
	err  error
}

// get takes a wire out of the pool: an idle one, or else the next that comes free or is
// connected. The caller puts it back.
func (s *server) get(ctx context.Context) (w *wire, wasIdle bool, err error) {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil, false, errClosed
	}
	for last := len(s.idle) - 1; last >= 0; last-- {
		w, s.idle = s.idle[last], s.idle[:last]
		if s.expired(w) {
			s.retire(w) //nolint:contextcheck // a connection serves whoever waits
			continue
		}
		w.ctx = ctx //nolint:fatcontext // of one batch, and no parent of the next
		s.mu.Unlock()
		return w, true, nil
	}
	me := &waiter{ctx: ctx, offer: make(chan offer, 1)}
	s.waiting = append(s.waiting, me)
	s.grow() //nolint:contextcheck // likewise
	s.mu.Unlock()

	select {
	case got := <-me.offer:
		return got.wire, false, got.err
	case <-ctx.Done():
	}
	s.mu.Lock()
	i := slices.Index(s.waiting, me)
	if i >= 0 {
		s.waiting = slices.Delete(s.waiting, i, i+1)
	}
	s.mu.Unlock()
	if i < 0 { // the offer came at the same moment
		if got := <-me.offer; got.wire != nil {
			s.put(got.wire, false) //nolint:contextcheck // likewise
		}
	}
	return nil, false, ctx.Err()
}

// expired reports whether an idle wire is too old by the client's settings.
func (s *server) expired(w *wire) bool {
	now, o := time.Now(), s.options
	return o.ConnMaxIdleTime > 0 && now.Sub(w.since) > o.ConnMaxIdleTime ||
		o.ConnMaxLifetime > 0 && now.Sub(w.born) > o.ConnMaxLifetime
}

// put returns a wire: to the first waiter, to the idle ones, or out of use.
func (s *server) put(w *wire, broken bool) {
	s.mu.Lock()
	w.ctx = nil
	switch {
	case s.closed:
		s.mu.Unlock()
		w.close()
		return
	case broken, w.cut, w.age.Err() != nil:
		s.retire(w)
	default:
		s.hand(w)
	}
	s.mu.Unlock()
}

// retire closes a wire on a goroutine of its own: over TLS, the goodbye to a silent server
// may take seconds. Until then it counts. The caller holds the mutex, here and in hand, cut,
// grow and refuse.
func (s *server) retire(w *wire) {
	s.jobs.Go(func() {
		w.close()
		s.mu.Lock()
		defer s.mu.Unlock()
		s.wires = slices.DeleteFunc(s.wires, func(other *wire) bool { return other == w })
		s.grow()
	})
}

// hand passes a wire to the first waiter or to the idle ones.
func (s *server) hand(w *wire) {
	if len(s.waiting) == 0 {
		w.since = time.Now()
		s.idle = append(s.idle, w)
		return
	}
	first := s.waiting[0]
	s.waiting = slices.Delete(s.waiting, 0, 1)
	w.ctx = first.ctx
	first.offer <- offer{wire: w}
}

// over cuts w if the context of the batch that is out on it has ended.
func (s *server) over(w *wire) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if w.ctx != nil && w.ctx.Err() != nil {
		s.cut(w)
	}
}

// cut ends the batch that is out on w, which is not used again. It does so until w is put back,
// because go-redis sets the deadline between writing and reading.
func (s *server) cut(w *wire) {
	w.cut = true
	cut(w.socket)
	time.AfterFunc(cutAgain, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if w.ctx != nil {
			s.cut(w)
		}
	})
}
