package redigo

import (
	"context"
	"fmt"

	"github.com/gomodule/redigo/redis"

	"github.com/quorumlock/quorumlock/driver"
)

var _ driver.Subscriber = (*Driver)(nil)

// Subscribe opens a subscription on one of the pool's connections, which it has to
// itself until it ends, and which is closed then. It fails where the pool has no
// room: see the package's documentation.
func (d *Driver) Subscribe(ctx context.Context, hear func(driver.Notice)) (driver.Subscription, error) {
	s, err := d.subscribe(ctx, hear)
	if err != nil {
		return nil, fmt.Errorf("redigo: %w", err)
	}
	return s, nil
}

func (d *Driver) subscribe(ctx context.Context, hear func(driver.Notice)) (*subscription, error) {
	if err := d.seat(ctx); err != nil {
		return nil, err
	}
	c, err := d.borrow(ctx, d.seats)
	if err != nil {
		return nil, err
	}
	s := newSubscription(d, c, hear)
	if !d.remember(s) {
		_ = c.Close()
		<-d.seats
		return nil, errClosed
	}
	go s.listen()
	return s, nil
}

// seat makes sure that neither the lock's calls nor the application have to wait for
// a connection that a subscription keeps. It waits for nobody: where there is no
// room now, there is none for long.
func (d *Driver) seat(ctx context.Context) error {
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case d.closed.Err() != nil:
		return errClosed
	case cap(d.seats) == 0:
		return fmt.Errorf("the pool's MaxActive is %d; a subscription needs %d", d.pool.MaxActive, seatShare)
	case d.exhausted():
		return fmt.Errorf("no room for a subscription: %w", redis.ErrPoolExhausted)
	}
	select {
	case d.seats <- struct{}{}:
		return nil
	default:
		return fmt.Errorf("subscriptions have all the connections that they may have: %d", cap(d.seats))
	}
}

// remember reports whether the Driver is still there to end s.
func (d *Driver) remember(s *subscription) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed.Err() != nil {
		return false
	}
	d.open[s] = struct{}{}
	return true
}

func (d *Driver) forget(s *subscription) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.open, s)
}

// unsubscribe ends all that is open, and waits until each has said so.
func (d *Driver) unsubscribe() {
	d.mu.Lock()
	var all []*subscription
	for s := range d.open {
		all = append(all, s)
	}
	d.mu.Unlock()
	for _, s := range all {
		s.end(errClosed)
		<-s.done
	}
}
