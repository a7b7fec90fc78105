package redigo

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/quorumlock/quorumlock/driver"
)

const (
	// maxCalls is how many calls may have a connection, or be waiting for the
	// pool to give one: the most that an adapter can leave behind.
	maxCalls = 8

	// maxSeats is the same for subscriptions. Each Locker has one, for long.
	maxSeats = 64

	// Of a pool with MaxActive, calls have one connection in callShare, and
	// subscriptions, which keep theirs, one in seatShare.
	callShare, seatShare = 2, 4

	// connectTime is how long a connection may take, even if the call that asked
	// for it has gone: a server whose handshake takes longer than a call would
	// otherwise never be reached.
	connectTime = 2 * time.Second

	// sweepTime is how often idle connections are looked for while any is kept.
	sweepTime = time.Second

	// busyTime is how long a busy connection is kept at most, so that the pool's
	// own rules (its Close, TestOnBorrow, MaxConnLifetime) get to see it.
	busyTime = time.Minute
)

var errClosed = driver.ErrClosed

// adapter is one node behind a pool. Make it with [Nodes], [Node] or [Open].
type adapter struct {
	pool      *redis.Pool
	keeps     int           // how many connections are kept between calls, at most
	maxSweeps int           // a connection that has seen so many goes back to the pool
	calls     chan struct{} // holds one for each call that has a connection or waits for the pool
	seats     chan struct{} // the same for subscriptions
	checked   atomic.Bool   // the pool's connections can be stopped

	tardy sync.Mutex // one at a time is put back that came too late for a subscription

	mu        sync.Mutex
	kept      []*conn   // the one used last is last
	sweeps    int       // so far
	sweeping  bool      // the next sweep is set
	suspicion time.Time // when a connection was last found dead
	late      error     // why the last connection failed, if its call had gone by then
	stale     bool      // what is idle in the pool may have been dialed before the last Renew

	age   context.Context //nolint:containedctx // ends at Renew, and with it the use of what was connected before
	renew context.CancelCauseFunc

	subscribers map[*subscriber]struct{}

	// Of a pool that was made here.
	own    bool
	closed context.Context //nolint:containedctx // its end ends all that is being connected
	end    context.CancelFunc
	once   sync.Once
}

var (
	_ driver.Driver  = (*adapter)(nil)
	_ driver.Renewer = (*adapter)(nil)
)

func newDriver(pool *redis.Pool) *adapter {
	calls, seats, keeps, busy := maxCalls, maxSeats, maxCalls, busyTime
	if pool.MaxActive > 0 {
		calls = max(1, min(calls, pool.MaxActive/callShare))
		seats = min(seats, pool.MaxActive/seatShare)
		keeps = min(keeps, pool.MaxActive/8)
	}
	if pool.MaxConnLifetime > 0 {
		busy = min(busy, pool.MaxConnLifetime)
	}
	d := &adapter{
		pool:      pool,
		keeps:     keeps,
		maxSweeps: int(max(busy/sweepTime, 1)),
		calls:     make(chan struct{}, calls),
		seats:     make(chan struct{}, seats),
		closed:    context.Background(),

		subscribers: map[*subscriber]struct{}{},
	}
	d.age, d.renew = context.WithCancelCause(context.Background())
	return d
}

// newOwner returns an adapter that closes the pool with itself.
func newOwner(pool *redis.Pool) *adapter {
	d := newDriver(pool)
	d.own = true
	d.closed, d.end = context.WithCancel(context.Background())
	return d
}

// Do sends cmds on one of the pool's connections. An error for which nothing was
// sent (no connection in time, ErrPoolExhausted, a refused password) wraps
// [driver.ErrNotSent]; a refusal is a [*driver.ServerError] besides.
func (d *adapter) Do(ctx context.Context, cmds []driver.Command) ([]driver.Reply, error) {
	c, err := d.take(ctx)
	if err != nil {
		return nil, fmt.Errorf("redigo: %w", driver.NotSent(err))
	}
	replies, err := c.exchange(ctx, cmds)
	if err != nil && ctx.Err() == nil {
		d.suspect()
	}
	d.give(c)
	if err != nil {
		err = fmt.Errorf("redigo: %w", err)
	}
	return replies, err
}

// Close ends the subscriptions that are open, and gives the kept connections back to
// the pool. If [Open] made the pool, Close also waits for the calls under way and
// closes it, and then the adapter is of no more use; otherwise it is as it was.
func (d *adapter) Close() error {
	if !d.own {
		d.unsubscribe()
		giveBack(d.drop())
		return nil
	}
	d.once.Do(func() {
		d.end()
		d.unsubscribe()
		for _, places := range []chan struct{}{d.calls, d.seats} {
			for range cap(places) {
				places <- struct{}{}
			}
		}
		giveBack(d.drop())
		_ = d.pool.Close() // returns no error
	})
	return nil
}

// Renew keeps the contract of [driver.Renewer]. What is idle in the pool is closed as well. Of a
// pool that the application uses, too, connections remain that it has out at that moment.
func (d *adapter) Renew() {
	d.mu.Lock()
	d.renew(driver.ErrRenewed)
	d.age, d.renew = context.WithCancelCause(context.Background())
	d.stale = true
	d.mu.Unlock()
	for _, c := range d.drop() {
		c.snap()
		_ = c.Close()
	}
}

// take returns a kept connection, or else one of the pool's.
func (d *adapter) take(ctx context.Context) (*conn, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	select {
	case d.calls <- struct{}{}:
	default:
		select {
		case d.calls <- struct{}{}:
		case <-ctx.Done():
			return nil, d.noConnection(ctx)
		case <-d.closed.Done():
			return nil, errClosed
		}
	}
	d.mu.Lock()
	if last := len(d.kept) - 1; last >= 0 {
		c := d.kept[last]
		d.kept = d.kept[:last]
		d.mu.Unlock()
		return c, nil
	}
	d.mu.Unlock()
	return d.borrow(ctx, d.calls)
}

// borrow takes a connection from the pool, whose Dial and TestOnBorrow may block for any
// time. A connection that comes too late for this call serves the next one. Without a
// connection, the caller's place among the calls or the seats is free again.
func (d *adapter) borrow(ctx context.Context, places chan struct{}) (*conn, error) {
	c, err := driver.Await(ctx, func() (c *conn, err error) {
		defer func() {
			if c == nil {
				<-places
			}
		}()
		return d.connect(ctx)
	}, func(late *conn, err error) {
		if err != nil {
			d.mu.Lock()
			d.late = err
			d.mu.Unlock()
			return
		}
		if places == d.seats {
			d.putOne(late)
		} else {
			d.put(late)
		}
		<-places
	})
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		return nil, d.noConnection(ctx)
	}
	return c, err
}

// putOne keeps a connection that came too late for a subscription, unless there is one already
// for the next call: a stalled server has many that come late, and the pool would keep them.
func (d *adapter) putOne(c *conn) {
	d.tardy.Lock()
	defer d.tardy.Unlock()
	spare := len(d.calls) > 0 // a call has it, or waits for one of its own
	d.mu.Lock()
	spare = spare || len(d.kept) > 0
	d.mu.Unlock()
	if spare || d.pool.IdleCount() > 0 || len(d.calls) > 0 {
		c.snap()
	}
	d.put(c)
}

// noConnection returns the error of a call whose time is up. It includes why the connection
// before failed: a password may be refused only after the call's end.
func (d *adapter) noConnection(ctx context.Context) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.late != nil {
		return fmt.Errorf("the pool had no connection in time: %w; the last one came to nothing: %w", ctx.Err(), d.late)
	}
	return fmt.Errorf("the pool had no connection in time: %w", ctx.Err())
}

// give returns a connection and ends its call.
func (d *adapter) give(c *conn) {
	d.put(c)
	<-d.calls
}

func (d *adapter) put(c *conn) {
	if c.age.Err() != nil {
		c.snap()
	}
	if !d.keep(c) {
		_ = c.Close() // to the pool, which drops it if it is broken
	}
}
