package drivertest

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/quorumlock/quorumlock/driver"
)

// renewing is a driver whose connections are given up, correct but for what its fields say.
type renewing struct {
	*pool
	do        mutation // nil: that of the pool
	subscribe func(ctx context.Context, onNotice func(driver.Notice)) (driver.Subscription, error)
	renew     func() // behind the pool's
}

func (r *renewing) Do(ctx context.Context, cmds []driver.Command) ([]driver.Reply, error) {
	if r.do != nil {
		return r.do(ctx, r.pool, cmds)
	}
	return r.pool.Do(ctx, cmds)
}

func (r *renewing) Subscribe(ctx context.Context, onNotice func(driver.Notice)) (driver.Subscription, error) {
	if r.subscribe != nil {
		return r.subscribe(ctx, onNotice)
	}
	return r.pool.Subscribe(ctx, onNotice)
}

func (r *renewing) Renew() {
	r.pool.Renew()
	if r.renew != nil {
		r.renew()
	}
}

// other returns a pool that no Renew reaches.
func other(p *pool) *pool {
	o := newPool(p.addr)
	p.left(o)
	return o
}

// renewerMutants are renewers that are correct but for one thing.
var renewerMutants = []mutant{
	{"gives nothing up", func(p *pool) driver.Driver {
		o := other(p)
		return &renewing{pool: p, subscribe: o.Subscribe, do: func(ctx context.Context, _ *pool, cmds []driver.Command) ([]driver.Reply, error) {
			return o.Do(ctx, cmds)
		}}
	}, map[string]string{
		"each Renew costs one connection, and leaves none of those before":   "but 8 were made before",
		"a Renew ends subscriptions, and later ones go over new connections": "Ended had not come",
		"a call under way outlives a Renew, and its connection does not":     "came over the connection of one",
		"a command that blocks leaves no connection behind a Renew":          "came over connection 1 after a Renew",
	}},
	{"connects at once", func(p *pool) driver.Driver {
		r := &renewing{pool: p}
		r.renew = func() {
			if conn, err := p.dial(context.Background()); err == nil {
				p.left(conn)
			}
		}
		return r
	}, map[string]string{
		"each Renew costs one connection, and leaves none of those before": "Renew has made 1 connections, want none",
	}},
	{"ends what is under way", func(p *pool) driver.Driver {
		var mu sync.Mutex
		life, end := context.WithCancel(context.Background())
		r := &renewing{pool: p}
		r.do = func(ctx context.Context, p *pool, cmds []driver.Command) ([]driver.Reply, error) {
			ctx, cancel := context.WithCancel(ctx)
			defer cancel()
			mu.Lock()
			defer context.AfterFunc(life, cancel)()
			mu.Unlock()
			return p.Do(ctx, cmds)
		}
		r.renew = func() {
			mu.Lock()
			defer mu.Unlock()
			end()
			life, end = context.WithCancel(context.Background()) //nolint:fatcontext // none is the parent of the next
		}
		return r
	}, map[string]string{
		"a call under way outlives a Renew, and its connection does not": "want its replies",
		"a call that waits for its connection outlives a Renew":          "want its reply",
	}},
	{"goes on with a connection that was in use", func(p *pool) driver.Driver {
		kept := make(chan *pool, 100)
		return &renewing{pool: p, do: func(ctx context.Context, p *pool, cmds []driver.Command) ([]driver.Reply, error) {
			var o *pool
			select {
			case o = <-kept:
			default:
				o = other(p)
			}
			replies, err := o.Do(ctx, cmds)
			kept <- o
			return replies, err
		}}
	}, map[string]string{
		"a call under way outlives a Renew, and its connection does not": "came over the connection of one",
	}},
	{"keeps connections of commands that block", func(p *pool) driver.Driver {
		o := other(p)
		return &renewing{pool: p, do: func(ctx context.Context, p *pool, cmds []driver.Command) ([]driver.Reply, error) {
			if cmds[0].Blocks {
				return o.Do(ctx, cmds)
			}
			return p.Do(ctx, cmds)
		}}
	}, map[string]string{
		"a command that blocks leaves no connection behind a Renew": "came over connection 1 after a Renew",
	}},
	{"does not say why a subscription has ended", func(p *pool) driver.Driver {
		return &renewing{pool: p, subscribe: func(ctx context.Context, onNotice func(driver.Notice)) (driver.Subscription, error) {
			return p.Subscribe(ctx, func(n driver.Notice) {
				if n.Kind == driver.Ended {
					n.Err = errors.New("it has gone")
				}
				onNotice(n)
			})
		}}
	}, map[string]string{
		"a Renew ends subscriptions, and later ones go over new connections": "want that it was driver.ErrRenewed",
	}},
}

func TestRenewerMutantsAreCaught(t *testing.T) { areCaught(t, renewerMutants) }
