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

func sendsAgain(ctx context.Context, p *pool, cmds []driver.Command) ([]driver.Reply, error) {
	replies, err := p.Do(ctx, cmds)
	if err != nil && ctx.Err() == nil {
		return p.Do(ctx, cmds)
	}
	return replies, err
}

func ignoresContext(ctx context.Context, p *pool, cmds []driver.Command) ([]driver.Reply, error) {
	return p.Do(context.WithoutCancel(ctx), cmds)
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

func ignoresCancel(ctx context.Context, p *pool, cmds []driver.Command) ([]driver.Reply, error) {
	deadline, _ := ctx.Deadline()
	closed, cancel := context.WithDeadline(context.WithoutCancel(ctx), deadline)
	defer cancel()
	return p.Do(closed, cmds)
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

// keepsConnection has one connection and leaves late replies in it.
func keepsConnection(p *pool) driver.Driver {
	return keeps(p, func(ctx context.Context, conn *resp.Conn, cmds []driver.Command) (replies []driver.Reply, err error) {
		_ = conn.SetDeadline(time.Time{})
		stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Now()) })
		defer stop()
		if err := conn.Send(cmds); err != nil {
			return nil, err
		}
		for range cmds {
			reply, err := conn.Receive()
			if err != nil {
				return replies, errors.Join(err, ctx.Err())
			}
			replies = append(replies, reply)
		}
		return replies, nil
	})
}

// keepsDead goes on with the connection that it has, whatever became of it.
func keepsDead(p *pool) driver.Driver {
	return keeps(p, func(ctx context.Context, conn *resp.Conn, cmds []driver.Command) ([]driver.Reply, error) {
		return conn.Exchange(ctx, cmds)
	})
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

// keepsCommands shakes hands with every call, and comes to the commands when that
// has been answered, however late.
func keepsCommands(ctx context.Context, p *pool, cmds []driver.Command) ([]driver.Reply, error) {
	return driver.Await(ctx, func() ([]driver.Reply, error) {
		return shakesHandsFirst(context.WithoutCancel(ctx), p, cmds)
	}, func([]driver.Reply, error) {})
}

func shakesHandsFirst(ctx context.Context, p *pool, cmds []driver.Command) ([]driver.Reply, error) {
	if _, err := p.Do(context.WithoutCancel(ctx), []driver.Command{keyless("PING")}); err != nil {
		return nil, err
	}
	return p.Do(ctx, cmds)
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

func dialsAgain(ctx context.Context, p *pool, cmds []driver.Command) ([]driver.Reply, error) {
	replies, err := p.Do(ctx, cmds)
	for range 5 {
		if !errors.Is(err, driver.ErrNotSent) {
			break
		}
		time.Sleep(200 * time.Millisecond) //nolint:forbidigo // as clients do between dials
		replies, err = p.Do(ctx, cmds)
	}
	return replies, err
}

func reorders(ctx context.Context, p *pool, cmds []driver.Command) ([]driver.Reply, error) {
	cmds = slices.Clone(cmds)
	slices.Reverse(cmds)
	replies, err := p.Do(ctx, cmds)
	slices.Reverse(replies)
	return replies, err
}

func splits(ctx context.Context, p *pool, cmds []driver.Command) ([]driver.Reply, error) {
	other := newPool(p.addr)
	defer func() { _ = other.Close() }()
	half := len(cmds) / 2
	replies, err := p.Do(ctx, cmds[:half])
	if err != nil {
		return replies, err
	}
	more, err := other.Do(ctx, cmds[half:])
	return append(replies, more...), err
}

func repeatsRefused(ctx context.Context, p *pool, cmds []driver.Command) ([]driver.Reply, error) {
	replies, err := p.Do(ctx, cmds)
	if slices.ContainsFunc(replies, func(r driver.Reply) bool { return strings.HasPrefix(r.Str, "LOADING ") }) {
		return p.Do(ctx, cmds)
	}
	return replies, err
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

func hidesContext(error) error { return errors.New("something went wrong") }

func deniesSending(err error) error { return fmt.Errorf("%w: %w", driver.ErrNotSent, err) }

// changes is a driver that changes what it returns.
func changes(change func(cmds []driver.Command, replies []driver.Reply, err error) ([]driver.Reply, error)) func(p *pool) driver.Driver {
	return mutation(func(ctx context.Context, p *pool, cmds []driver.Command) ([]driver.Reply, error) {
		replies, err := p.Do(ctx, cmds)
		return change(cmds, replies, err)
	}).over
}

func reordersReplies(_ []driver.Command, replies []driver.Reply, err error) ([]driver.Reply, error) {
	slices.Reverse(replies)
	return replies, err
}

func failsOnRefusal(_ []driver.Command, replies []driver.Reply, err error) ([]driver.Reply, error) {
	for _, r := range replies {
		err = errors.Join(err, r.Err())
	}
	return replies, err
}

func dropsReplies(_ []driver.Command, replies []driver.Reply, err error) ([]driver.Reply, error) {
	if err != nil {
		return nil, err
	}
	return replies, nil
}

func padsReplies(cmds []driver.Command, replies []driver.Reply, err error) ([]driver.Reply, error) {
	return append(replies, make([]driver.Reply, len(cmds)-len(replies))...), err
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

func roundsIntegers(r *driver.Reply) { r.Int = int64(float64(r.Int)) }

func losesNil(r *driver.Reply) {
	if r.Kind == driver.Nil {
		r.Kind = driver.String
	}
}

func trimsValues(r *driver.Reply) { r.Str = strings.TrimSpace(r.Str) }
