package drivertest

import (
	"context"

	"github.com/quorumlock/quorumlock/driver"
)

// opens is a Subscriber that is a function, over a pool.
type opens func(ctx context.Context, p *pool, hear func(driver.Notice)) (driver.Subscription, error)

// subscribing makes a driver of it.
func (s opens) mutate(p *pool) driver.Driver { return &subscribing{p, s} }

type subscribing struct {
	*pool
	opens opens
}

func (s *subscribing) Subscribe(ctx context.Context, hear func(driver.Notice)) (driver.Subscription, error) {
	return s.opens(ctx, s.pool, hear)
}

// bent is a subscription some of whose methods are others.
type bent struct {
	*listener
	add, remove func(ctx context.Context, channels ...string) error
	close       func() error
}

func (b *bent) Add(ctx context.Context, channels ...string) error {
	if b.add != nil {
		return b.add(ctx, channels...)
	}
	return b.listener.Add(ctx, channels...)
}

func (b *bent) Remove(ctx context.Context, channels ...string) error {
	if b.remove != nil {
		return b.remove(ctx, channels...)
	}
	return b.listener.Remove(ctx, channels...)
}

func (b *bent) Close() error {
	if b.close != nil {
		return b.close()
	}
	return b.listener.Close()
}

// bend is a Subscriber whose subscriptions are changed after they are made.
func bend(change func(b *bent)) opens {
	return func(ctx context.Context, p *pool, hear func(driver.Notice)) (driver.Subscription, error) {
		l, err := p.listen(ctx, hear)
		if err != nil {
			return nil, err
		}
		b := &bent{listener: l}
		change(b)
		return b, nil
	}
}

// mishear is a Subscriber whose notices pass through a filter of their own.
func mishear(filter func(hear func(driver.Notice)) func(driver.Notice)) opens {
	return func(ctx context.Context, p *pool, hear func(driver.Notice)) (driver.Subscription, error) {
		return p.Subscribe(ctx, filter(hear))
	}
}
