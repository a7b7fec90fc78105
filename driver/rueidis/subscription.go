package rueidis

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/quorumlock/quorumlock/driver"
)

// closeTimeout is how long Close waits for the connection to be closed: less than the
// contract's 50ms.
const closeTimeout = 40 * time.Millisecond

var errClosed = errors.New("the subscription is closed")

// subscription is a [driver.Subscription]. One goroutine, run, sends for it and ends it.
type subscription struct {
	notifier *notifier
	stop     context.CancelFunc // ends run
	done     chan struct{}      // closed when nothing of it is left

	mu      sync.Mutex
	err     error               // why it has ended; nil until then
	added   map[string]struct{} // to SUBSCRIBE
	removed map[string]struct{} // to UNSUBSCRIBE after that
	asked   chan struct{}       // holds one when there are any
}

// Subscribe opens a subscription, as [driver.Subscriber] says. On a Cluster it is on any
// shard, because a message on one reaches all of them.
//
// Connections are opened one at a time, on a goroutine of their own: rueidis connects
// without a context, and what comes about after ctx has ended is closed.
func (d *adapter) Subscribe(ctx context.Context, onNotice func(driver.Notice)) (driver.Subscription, error) {
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
		notifier: &notifier{onNotice: onNotice},
		stop:     stop,
		done:     make(chan struct{}),
		added:    map[string]struct{}{},
		removed:  map[string]struct{}{},
		asked:    make(chan struct{}, 1),
	}
	session, err := driver.Await(ctx, func() (*session, error) {
		defer func() { <-d.opening }()
		return newSession(life, link.client, s.notifier)
	}, func(late *session, err error) {
		if err == nil {
			late.cut()
		}
	})
	if err != nil {
		s.notifier.close()
		stop()
		return nil, fmt.Errorf("rueidis: %w", err)
	}
	d.mu.Lock()
	d.subscriptions[s] = struct{}{} // so that Close and Renew end it
	d.mu.Unlock()
	if link.isRetired() { // a Renew between may not have seen it
		s.end(driver.ErrRenewed)
	}
	go func() {
		s.run(life, session)
		d.mu.Lock()
		delete(d.subscriptions, s)
		d.mu.Unlock()
		close(s.done)
	}()
	return s, nil
}

// Add queues channels for run, so it never waits.
func (s *subscription) Add(_ context.Context, channels ...string) error {
	return s.ask(func() {
		for _, channel := range channels {
			s.added[channel] = struct{}{}
			delete(s.removed, channel)
		}
	})
}

// Remove queues channels to unsubscribe from. One that is still queued by Add is subscribed to
// first, since Add's caller waits for its confirmation.
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
	default: // run has not looked since the last time
	}
	return nil
}

// Close ends the subscription. What is left to do on a silent server is done in the
// background, and Close waits for it.
func (s *subscription) Close() error {
	s.notifier.close()
	s.end(errClosed)
	patience := time.NewTimer(closeTimeout)
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
func (s *subscription) run(ctx context.Context, session *session) {
	s.end(s.serve(ctx, session))
	s.notifier.notify(driver.Notice{Kind: driver.Ended, Err: s.err})
	session.cut()
}

// serve returns why the subscription has ended.
func (s *subscription) serve(ctx context.Context, session *session) error {
	for {
		select {
		case err := <-session.gone:
			return lost(err)
		case <-ctx.Done():
			return ctx.Err()
		case <-s.asked:
		}
		added, removed := s.take()
		if err := session.subscribe(ctx, added); err != nil {
			return err
		}
		if err := session.unsubscribe(ctx, removed); err != nil {
			return err
		}
	}
}

// take returns what has been queued since the last call.
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
