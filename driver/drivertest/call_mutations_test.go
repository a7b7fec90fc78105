package drivertest

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/driver/resp"
)

// do is a driver that is a function.
type do func(ctx context.Context, cmds []driver.Command) ([]driver.Reply, error)

func (d do) Do(ctx context.Context, cmds []driver.Command) ([]driver.Reply, error) {
	return d(ctx, cmds)
}

// mutation is a Do over a pool that is wrong in one thing.
type mutation func(ctx context.Context, p *pool, cmds []driver.Command) ([]driver.Reply, error)

func (m mutation) over(p *pool) driver.Driver {
	return do(func(ctx context.Context, cmds []driver.Command) ([]driver.Reply, error) { return m(ctx, p, cmds) })
}

func late(delay time.Duration) mutation {
	return func(ctx context.Context, p *pool, cmds []driver.Command) ([]driver.Reply, error) {
		later, cancel := context.WithCancel(context.WithoutCancel(ctx))
		defer cancel()
		stop := context.AfterFunc(ctx, func() { time.AfterFunc(delay, cancel) })
		defer stop()
		replies, err := p.Do(later, cmds)
		return replies, errors.Join(err, ctx.Err())
	}
}

var errFull = errors.New("too many calls have been left behind")

// leaves is a driver that leaves up to a number of calls behind, each of which lasts
// until the server answers it or goes. Further calls fail at once, or wait for room.
func leaves(most int, wait bool) func(p *pool) driver.Driver {
	return func(p *pool) driver.Driver {
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
			cmds = slices.Clone(cmds)
			return driver.Await(ctx, func() ([]driver.Reply, error) {
				defer func() { <-room }()
				return p.Do(context.WithoutCancel(ctx), cmds)
			}, func([]driver.Reply, error) {})
		})
	}
}

// keeps is a driver that has one connection.
func keeps(p *pool, exchange func(context.Context, *resp.Conn, []driver.Command) ([]driver.Reply, error)) driver.Driver {
	var conn *resp.Conn
	return do(func(ctx context.Context, cmds []driver.Command) (_ []driver.Reply, err error) {
		if conn == nil {
			if conn, err = p.dial(ctx); err != nil {
				return nil, err
			}
		}
		return exchange(ctx, conn, cmds)
	})
}

func shakesHandsFirst(ctx context.Context, p *pool, cmds []driver.Command) ([]driver.Reply, error) {
	if _, err := p.Do(context.WithoutCancel(ctx), []driver.Command{keyless("PING")}); err != nil {
		return nil, err
	}
	return p.Do(ctx, cmds)
}

// fails is a driver that changes its errors.
func fails(change func(err error) error) func(p *pool) driver.Driver {
	return changes(func(_ []driver.Command, replies []driver.Reply, err error) ([]driver.Reply, error) {
		if err != nil {
			err = change(err)
		}
		return replies, err
	})
}

// changes is a driver that changes what it returns.
func changes(change func(cmds []driver.Command, replies []driver.Reply, err error) ([]driver.Reply, error)) func(p *pool) driver.Driver {
	return mutation(func(ctx context.Context, p *pool, cmds []driver.Command) ([]driver.Reply, error) {
		replies, err := p.Do(ctx, cmds)
		return change(cmds, replies, err)
	}).over
}

// hidesRefusal hides the one error reply of a server that hangs up behind it, or not.
func hidesRefusal(hangsUp bool) func(p *pool) driver.Driver {
	return changes(func(_ []driver.Command, replies []driver.Reply, err error) ([]driver.Reply, error) {
		if hangsUp == (err != nil) && len(replies) > 0 && replies[0].Kind == driver.Failure {
			return nil, errors.New("cannot connect")
		}
		return replies, err
	})
}

// alters is a driver that changes each reply.
func alters(change func(r *driver.Reply)) func(p *pool) driver.Driver {
	return changes(func(_ []driver.Command, replies []driver.Reply, err error) ([]driver.Reply, error) {
		for i := range replies {
			change(&replies[i])
		}
		return replies, err
	})
}
