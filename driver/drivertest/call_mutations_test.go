package drivertest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/quorumlock/quorumlock/driver"
)

func sendsAgain(p *pool) driver.Driver {
	return do(func(ctx context.Context, cmds []driver.Command) ([]driver.Reply, error) {
		replies, err := p.Do(ctx, cmds)
		if err != nil && ctx.Err() == nil {
			return p.Do(ctx, cmds)
		}
		return replies, err
	})
}

func ignoresContext(p *pool) driver.Driver {
	return do(func(ctx context.Context, cmds []driver.Command) ([]driver.Reply, error) {
		return p.Do(context.WithoutCancel(ctx), cmds)
	})
}

func returnsLate(p *pool) driver.Driver { return late(p, 700*time.Millisecond) }

func returnsSlightlyLate(p *pool) driver.Driver { return late(p, 100*time.Millisecond) }

func late(p *pool, delay time.Duration) driver.Driver {
	return do(func(ctx context.Context, cmds []driver.Command) ([]driver.Reply, error) {
		later, cancel := context.WithCancel(context.WithoutCancel(ctx))
		defer cancel()
		stop := context.AfterFunc(ctx, func() { time.AfterFunc(delay, cancel) })
		defer stop()
		replies, err := p.Do(later, cmds)
		return replies, errors.Join(err, ctx.Err())
	})
}

func ignoresCancel(p *pool) driver.Driver {
	return do(func(ctx context.Context, cmds []driver.Command) ([]driver.Reply, error) {
		deadline, _ := ctx.Deadline()
		closed, cancel := context.WithDeadline(context.WithoutCancel(ctx), deadline)
		defer cancel()
		return p.Do(closed, cmds)
	})
}

func hidesContext(p *pool) driver.Driver {
	return do(func(ctx context.Context, cmds []driver.Command) ([]driver.Reply, error) {
		replies, err := p.Do(ctx, cmds)
		if err != nil {
			err = errors.New("something went wrong")
		}
		return replies, err
	})
}

func leavesAll(p *pool) driver.Driver { return leaves(p, 1000, false) }

func waitsForRoom(p *pool) driver.Driver { return leaves(p, mayRemain, true) }

var errFull = errors.New("too many calls have been left behind")

// leaves is a driver that leaves up to a number of calls behind, each of which lasts
// until the server answers it or goes. Further calls fail at once, or wait for room.
func leaves(p *pool, most int, wait bool) driver.Driver {
	room := make(chan struct{}, most)
	return do(func(ctx context.Context, cmds []driver.Command) ([]driver.Reply, error) {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		select {
		case room <- struct{}{}:
		default:
			if !wait {
				return nil, errFull
			}
			room <- struct{}{}
		}
		done := make(chan outcome, 1)
		go func() {
			defer func() { <-room }()
			replies, err := p.Do(context.WithoutCancel(ctx), slices.Clone(cmds))
			done <- outcome{replies: replies, err: err}
		}()
		select {
		case out := <-done:
			return out.replies, out.err
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	})
}

// keepsConnection has one connection and leaves late replies in it.
func keepsConnection(p *pool) driver.Driver {
	var w *wire
	return do(func(ctx context.Context, cmds []driver.Command) ([]driver.Reply, error) {
		if w == nil {
			var err error
			if w, err = dial(ctx, p.addr); err != nil {
				return nil, err
			}
		}
		_ = w.SetDeadline(time.Time{})
		stop := context.AfterFunc(ctx, func() { _ = w.SetDeadline(time.Now()) })
		defer stop()
		if err := w.Send(cmds); err != nil {
			return nil, err
		}
		var replies []driver.Reply
		for range cmds {
			reply, err := w.Receive()
			if err != nil {
				return replies, errors.Join(err, ctx.Err())
			}
			replies = append(replies, reply)
		}
		return replies, nil
	})
}

// keepsCommands shakes hands with every call, and comes to the commands when that
// has been answered, however late.
func keepsCommands(p *pool) driver.Driver {
	return do(func(ctx context.Context, cmds []driver.Command) ([]driver.Reply, error) {
		done := make(chan outcome, 1)
		go func() {
			_, err := p.Do(context.WithoutCancel(ctx), []driver.Command{keyless("PING")})
			if err != nil {
				done <- outcome{err: err}
				return
			}
			replies, err := p.Do(context.WithoutCancel(ctx), cmds)
			done <- outcome{replies: replies, err: err}
		}()
		select {
		case out := <-done:
			return out.replies, out.err
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	})
}

// changesCommands takes one call at a time, so that it is not the race detector that
// finds it.
func changesCommands(p *pool) driver.Driver {
	var mu sync.Mutex
	return do(func(ctx context.Context, cmds []driver.Command) ([]driver.Reply, error) {
		mu.Lock()
		defer mu.Unlock()
		cmds[0].Args[0] = strings.ToLower(cmds[0].Args[0].(string))
		return p.Do(ctx, cmds)
	})
}

func deniesSending(p *pool) driver.Driver {
	return do(func(ctx context.Context, cmds []driver.Command) ([]driver.Reply, error) {
		replies, err := p.Do(ctx, cmds)
		if err != nil {
			err = fmt.Errorf("%w: %w", driver.ErrNotSent, err)
		}
		return replies, err
	})
}

func connectsForEver(p *pool) driver.Driver {
	return do(func(ctx context.Context, cmds []driver.Command) ([]driver.Reply, error) {
		if _, err := p.Do(context.WithoutCancel(ctx), []driver.Command{keyless("PING")}); err != nil {
			return nil, err
		}
		return p.Do(ctx, cmds)
	})
}

func dialsAgain(p *pool) driver.Driver {
	return do(func(ctx context.Context, cmds []driver.Command) ([]driver.Reply, error) {
		replies, err := p.Do(ctx, cmds)
		for range 5 {
			if !errors.Is(err, driver.ErrNotSent) {
				break
			}
			time.Sleep(200 * time.Millisecond) // as clients do between dials
			replies, err = p.Do(ctx, cmds)
		}
		return replies, err
	})
}

// keepsDead goes on with the connection that it has, whatever became of it.
func keepsDead(p *pool) driver.Driver {
	var w *wire
	return do(func(ctx context.Context, cmds []driver.Command) (_ []driver.Reply, err error) {
		if w == nil {
			if w, err = p.take(ctx); err != nil {
				return nil, err
			}
		}
		return exchange(ctx, w, cmds)
	})
}
