package rueidis

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/quorumlock/quorumlock/driver"
)

// farewell is how long Close waits for the connection to be closed: less than the
// contract's 50ms.
const farewell = 40 * time.Millisecond

var (
	errClosed       = errors.New("the subscription was closed")
	errDriverClosed = errors.New("the driver was closed")
)

// subscription is a [driver.Subscription]. One goroutine, run, sends for it and ends it.
type subscription struct {
	ear  *ear
	stop context.CancelFunc // ends run
	done chan struct{}      // closed when nothing of it is left

	mu      sync.Mutex
	err     error               // why it has ended; nil until then
	added   map[string]struct{} // to be asked for
	removed map[string]struct{} // to be given up after that
	asked   chan struct{}       // holds one when there are some of either
}

// Subscribe opens a subscription, as [driver.Subscriber] says. On a Cluster it is on
// any shard, for what is published on one all of them hear.
//
// Connections are opened one at a time, on a goroutine of their own: rueidis connects
// without a context, and what comes about after ctx has ended is closed.
func (d *Driver) Subscribe(ctx context.Context, hear func(driver.Notice)) (driver.Subscription, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("rueidis: %w", err)
	}
	link, err := d.connected(ctx)
	if err != nil {
		return nil, fmt.Errorf("rueidis: %w", err)
	}
	select {
	case d.opening <- struct{}{}:
	case <-ctx.Done():
		return nil, fmt.Errorf("rueidis: %w", ctx.Err())
	}

	life, stop := context.WithCancel(context.WithoutCancel(ctx))
	s := &subscription{
		ear:     &ear{hear: hear},
		stop:    stop,
		done:    make(chan struct{}),
		added:   map[string]struct{}{},
		removed: map[string]struct{}{},
		asked:   make(chan struct{}, 1),
	}
	opened := make(chan error, 1)
	go func() {
		line, err := newLine(life, link.client, s.ear)
		<-d.opening
		if err == nil {
			d.enlist(s)
		}
		opened <- err
		if err == nil {
			s.run(life, line)
			d.strike(s)
			close(s.done)
		}
	}()
	select {
	case err := <-opened:
		if err != nil {
			stop()
			return nil, fmt.Errorf("rueidis: %w", err)
		}
		return s, nil
	case <-ctx.Done():
		s.ear.close()
		s.end(errClosed)
		return nil, fmt.Errorf("rueidis: %w", ctx.Err())
	}
}

// Add asks for channels. It only leaves word of them, so it never waits.
func (s *subscription) Add(_ context.Context, channels ...string) error {
	return s.ask(func() {
		for _, channel := range channels {
			s.added[channel] = struct{}{}
			delete(s.removed, channel)
		}
	})
}

// Remove gives channels up, in the same way. One that is still to be asked for is asked
// for first, since Add's caller counts on an answer.
func (s *subscription) Remove(_ context.Context, channels ...string) error {
	return s.ask(func() {
		for _, channel := range channels {
			s.removed[channel] = struct{}{}
		}
	})
}

func (s *subscription) ask(note func()) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return s.err
	}
	note()
	select {
	case s.asked <- struct{}{}:
	default: // it has not been looked at since it was asked before
	}
	return nil
}

// Close ends the subscription. What is left to do on a silent server is done in the
// background, and [Driver.Close] waits for it.
func (s *subscription) Close() error {
	s.ear.close()
	s.end(errClosed)
	patience := time.NewTimer(farewell)
	defer patience.Stop()
	select {
	case <-s.done:
	case <-patience.C:
	}
	return nil
}

// end ends the subscription, whose first reason counts.
func (s *subscription) end(err error) {
	s.mu.Lock()
	if s.err == nil {
		s.err = fmt.Errorf("rueidis: %w", err)
	}
	s.mu.Unlock()
	s.stop()
}

// run sends what is asked for until the subscription ends.
func (s *subscription) run(ctx context.Context, line *line) {
	s.end(s.serve(ctx, line))
	s.ear.tell(driver.Notice{Kind: driver.Ended, Err: s.err})
	line.cut()
}

// serve returns why the subscription has ended.
func (s *subscription) serve(ctx context.Context, line *line) error {
	for {
		select {
		case err := <-line.gone:
			return lost(err)
		case <-ctx.Done():
			return ctx.Err()
		case <-s.asked:
		}
		added, removed := s.take()
		if err := line.subscribe(ctx, added); err != nil {
			return err
		}
		if err := line.unsubscribe(ctx, removed); err != nil {
			return err
		}
	}
}

// take returns what has been asked for since it was called before.
func (s *subscription) take() (added, removed []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for channel := range s.added {
		added = append(added, channel)
	}
	for channel := range s.removed {
		removed = append(removed, channel)
	}
	clear(s.added)
	clear(s.removed)
	return added, removed
}

// enlist makes an open subscription one that Close ends.
func (d *Driver) enlist(s *subscription) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.subscriptions[s] = struct{}{}
}

func (d *Driver) strike(s *subscription) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.subscriptions, s)
}
