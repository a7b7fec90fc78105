package drivertest

import (
	"context"
	"sync"

	"github.com/quorumlock/quorumlock/driver"
)

// opens is a Subscribe over a pool.
type opens func(ctx context.Context, p *pool, onNotice func(driver.Notice)) (driver.Subscription, error)

// mutate makes a driver of it.
func (s opens) mutate(p *pool) driver.Driver { return &subscribing{p, s} }

type subscribing struct {
	*pool
	opens opens
}

func (s *subscribing) Subscribe(ctx context.Context, onNotice func(driver.Notice)) (driver.Subscription, error) {
	return s.opens(ctx, s.pool, onNotice)
}

// altered is a subscription that is correct but for what reworks changes.
type altered struct {
	*listener
	pool     *pool
	opened   context.Context //nolint:containedctx // Subscribe's
	onNotice func(driver.Notice)

	hear        func(n driver.Notice) // passes notices on
	add, remove func(ctx context.Context, channels ...string) error
	close       func() error
}

func (b *altered) Add(ctx context.Context, channels ...string) error { return b.add(ctx, channels...) }

func (b *altered) Remove(ctx context.Context, channels ...string) error {
	return b.remove(ctx, channels...)
}

func (b *altered) Close() error { return b.close() }

// reworks makes a driver whose subscriptions are changed when they are made.
func reworks(change func(b *altered)) func(p *pool) driver.Driver {
	return opens(func(ctx context.Context, p *pool, onNotice func(driver.Notice)) (driver.Subscription, error) {
		b := &altered{pool: p, opened: ctx, onNotice: onNotice, hear: onNotice}
		made := make(chan struct{})
		var err error
		if b.listener, err = p.listen(ctx, func(n driver.Notice) { <-made; b.hear(n) }); err != nil {
			return nil, err
		}
		b.add, b.remove, b.close = b.listener.Add, b.listener.Remove, b.listener.Close
		change(b)
		close(made)
		return b, nil
	}).mutate
}

// passes makes a driver that passes some notices on so many times.
func passes(times int, some func(n driver.Notice) bool) func(p *pool) driver.Driver {
	return reworks(func(b *altered) {
		b.hear = func(n driver.Notice) {
			count := 1
			if some(n) {
				count = times
			}
			for range count {
				b.onNotice(n)
			}
		}
	})
}

func is(kind driver.NoticeKind) func(n driver.Notice) bool {
	return func(n driver.Notice) bool { return n.Kind == kind }
}

// rewrites makes a driver that changes notices.
func rewrites(change func(n *driver.Notice)) func(p *pool) driver.Driver {
	return reworks(func(b *altered) {
		b.hear = func(n driver.Notice) {
			change(&n)
			b.onNotice(n)
		}
	})
}

// repairs opens another connection for the channels when the first is lost, and may tell of the end.
func repairs(tells bool) func(p *pool) driver.Driver {
	return reworks(func(b *altered) {
		var mu sync.Mutex
		var all []string
		var lost func(n driver.Notice)
		lost = func(n driver.Notice) {
			if n.Kind != driver.Ended || tells {
				b.onNotice(n)
			}
			if n.Kind != driver.Ended {
				return
			}
			mu.Lock()
			defer mu.Unlock()
			if l, err := b.pool.listen(context.Background(), lost); err == nil { // or the server has gone
				b.listener = l
				_ = l.Add(context.Background(), all...)
			}
		}
		b.hear = lost
		b.add = func(ctx context.Context, channels ...string) error {
			mu.Lock()
			defer mu.Unlock()
			all = append(all, channels...)
			return b.listener.Add(ctx, channels...)
		}
		b.close = func() error {
			mu.Lock()
			l := b.listener
			mu.Unlock()
			return l.Close()
		}
	})
}
