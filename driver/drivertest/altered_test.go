package drivertest

import (
	"context"

	"github.com/quorumlock/quorumlock/driver"
)

// opens is a Subscriber that is a function, over a pool.
type opens func(ctx context.Context, p *pool, onNotice func(driver.Notice)) (driver.Subscription, error)

// subscribing makes a driver of it.
func (s opens) mutate(p *pool) driver.Driver { return &subscribing{p, s} }

type subscribing struct {
	*pool
	opens opens
}

func (s *subscribing) Subscribe(ctx context.Context, onNotice func(driver.Notice)) (driver.Subscription, error) {
	return s.opens(ctx, s.pool, onNotice)
}

// altered is a subscription some of whose methods are others.
type altered struct {
	*listener
	add, remove func(ctx context.Context, channels ...string) error
	close       func() error
}

func (b *altered) Add(ctx context.Context, channels ...string) error {
	if b.add != nil {
		return b.add(ctx, channels...)
	}
	return b.listener.Add(ctx, channels...)
}

func (b *altered) Remove(ctx context.Context, channels ...string) error {
	if b.remove != nil {
		return b.remove(ctx, channels...)
	}
	return b.listener.Remove(ctx, channels...)
}

func (b *altered) Close() error {
	if b.close != nil {
		return b.close()
	}
	return b.listener.Close()
}

// changes is a Subscriber whose subscriptions are changed after they are made.
func changes(change func(b *altered)) opens {
	return func(ctx context.Context, p *pool, onNotice func(driver.Notice)) (driver.Subscription, error) {
		l, err := p.listen(ctx, onNotice)
		if err != nil {
			return nil, err
		}
		b := &altered{listener: l}
		change(b)
		return b, nil
	}
}

// filters is a Subscriber whose notices pass through a filter of their own.
func filters(filter func(onNotice func(driver.Notice)) func(driver.Notice)) opens {
	return func(ctx context.Context, p *pool, onNotice func(driver.Notice)) (driver.Subscription, error) {
		return p.Subscribe(ctx, filter(onNotice))
	}
}
