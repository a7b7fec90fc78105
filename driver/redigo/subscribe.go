package redigo

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/gomodule/redigo/redis"

	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/driver/resp"
)

var _ driver.Subscriber = (*adapter)(nil)

// Subscribe opens a subscription on one of the pool's connections, which it has to
// itself until it ends, and which is closed then. It fails where the pool has no
// room: see the package's documentation.
func (d *adapter) Subscribe(ctx context.Context, onNotice func(driver.Notice)) (driver.Subscription, error) {
	s, err := d.subscribe(ctx, onNotice)
	if err != nil {
		return nil, fmt.Errorf("redigo: %w", err)
	}
	return s, nil
}

func (d *adapter) subscribe(ctx context.Context, onNotice func(driver.Notice)) (*resp.Session, error) {
	if err := d.seat(ctx); err != nil {
		return nil, err
	}
	c, err := d.borrow(ctx, d.seats)
	if err != nil {
		return nil, err
	}
	return d.open(c, onNotice)
}

// seat reserves one of the places for subscriptions, so that neither the lock's calls nor the
// application wait for a connection that a subscription keeps. It does not wait: a place is
// taken for long.
func (d *adapter) seat(ctx context.Context) error {
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

// open starts a session, unless the adapter is closed and could not end it.
func (d *adapter) open(c *conn, onNotice func(driver.Notice)) (*resp.Session, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed.Err() != nil {
		_ = c.Close()
		<-d.seats
		return nil, errClosed
	}
	sub := &subscriber{conn: c, d: d}
	sub.session = resp.NewSession(c.age, "redigo", sub, onNotice)
	d.subscribers[sub] = struct{}{}
	return sub.session, nil
}

func (d *adapter) forget(sub *subscriber) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.subscribers, sub)
}

// unsubscribe ends all sessions.
func (d *adapter) unsubscribe() {
	d.mu.Lock()
	all := slices.Collect(maps.Keys(d.subscribers))
	d.mu.Unlock()
	for _, sub := range all {
		sub.session.End(errClosed)
	}
}
