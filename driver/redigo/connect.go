package redigo

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/quorumlock/quorumlock/driver"
)

// connect takes a connection from the pool. It has connectTime, or all of the
// call's time where that is longer.
func (d *adapter) connect(call context.Context) (*conn, error) {
	limit := connectTime
	if deadline, ok := call.Deadline(); ok {
		limit = max(limit, time.Until(deadline))
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(call), limit)
	defer cancel()
	defer context.AfterFunc(d.closed, cancel)() //nolint:contextcheck // the adapter's end, beside the call's

	d.mu.Lock()
	age, stale := d.age, d.stale
	d.mu.Unlock()
	idle := d.pool.IdleCount()
	pooled, err := d.pool.GetContext(ctx)
	for err == nil && idle > 0 && (stale || d.suspects() && !alive(ctx, pooled)) {
		snap(pooled) //nolint:contextcheck // its context is expired
		_ = pooled.Close()
		idle = min(idle-1, d.pool.IdleCount())
		pooled, err = d.pool.GetContext(ctx)
	}
	if err == nil {
		err = d.check(ctx, pooled)
	}
	if err != nil {
		_ = pooled.Close()
		if d.closed.Err() != nil {
			err = errClosed
		}
		return nil, refusal(err)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.late = nil
	d.stale = d.stale && d.age != age          // else nothing is idle that is older
	return newConn(age, pooled, d.sweeps), nil //nolint:contextcheck // a call brings its context to exchange
}

// suspect is called when a connection was found dead: the server, or something on
// the way, has closed it. The others that were idle as long are dead too, and the
// second try of a command must not meet the next of them: for a second from now,
// connections are tried out before they are used.
func (d *adapter) suspect() {
	d.mu.Lock()
	d.suspicion = time.Now()
	d.mu.Unlock()
	giveBack(d.drop())
}

func (d *adapter) suspects() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return time.Since(d.suspicion) < time.Second
}

func alive(ctx context.Context, pooled redis.Conn) bool {
	_, _ = redis.DoContext(pooled, ctx, "PING") // an error reply is a sign of life
	return pooled.Err() == nil
}

// check refuses connections that cannot be stopped. The pool's own type has all
// methods, so only a call tells what is inside; without a command it does nothing.
func (d *adapter) check(ctx context.Context, pooled redis.Conn) error {
	if d.checked.Load() {
		return nil
	}
	if _, err := redis.DoContext(pooled, ctx, ""); err != nil {
		return fmt.Errorf("what the pool's Dial returns must implement redis.ConnWithContext: %w", err)
	}
	if _, err := redis.DoWithTimeout(pooled, 0, ""); err != nil {
		return fmt.Errorf("what the pool's Dial returns must implement redis.ConnWithTimeout: %w", err)
	}
	d.checked.Store(true)
	return nil
}

// refusal keeps the code word of a server that refused the handshake.
func refusal(err error) error {
	var line redis.Error
	if errors.As(err, &line) {
		return driver.Refusal(string(line))
	}
	return err
}
