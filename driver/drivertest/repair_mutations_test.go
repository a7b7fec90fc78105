package drivertest

import (
	"context"
	"sync"

	"github.com/quorumlock/quorumlock/driver"
)

// repairer opens another connection for the channels when the first is lost.
type repairer struct {
	p        *pool
	onNotice func(driver.Notice)

	mu       sync.Mutex
	it       *listener
	channels []string
	tells    bool // of the end, but goes on
}

func (r *repairer) open(ctx context.Context) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	l, err := r.p.listen(ctx, r.lost)
	if err != nil {
		return err
	}
	r.it = l
	return l.Add(ctx, r.channels...)
}

func (r *repairer) lost(n driver.Notice) {
	if n.Kind != driver.Ended {
		r.onNotice(n)
		return
	}
	if r.tells {
		r.onNotice(n)
	}
	_ = r.open(context.Background()) // fails when the server has gone
}

func (r *repairer) Add(ctx context.Context, channels ...string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.channels = append(r.channels, channels...)
	return r.it.Add(ctx, channels...)
}

func (r *repairer) Remove(ctx context.Context, channels ...string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.it.Remove(ctx, channels...)
}

func (r *repairer) Close() error {
	r.mu.Lock()
	l := r.it
	r.mu.Unlock()
	return l.Close()
}

func repairs(ctx context.Context, p *pool, onNotice func(driver.Notice)) (driver.Subscription, error) {
	r := &repairer{p: p, onNotice: onNotice}
	return r, r.open(ctx)
}

func repairsAndTells(ctx context.Context, p *pool, onNotice func(driver.Notice)) (driver.Subscription, error) {
	r := &repairer{p: p, onNotice: onNotice, tells: true}
	return r, r.open(ctx)
}

// sharesConnection has one connection for all subscriptions.
func sharesConnection() opens {
	var mu sync.Mutex
	var first *listener
	hearers := map[int]func(driver.Notice){}
	next := 0
	return func(ctx context.Context, p *pool, onNotice func(driver.Notice)) (driver.Subscription, error) {
		mu.Lock()
		defer mu.Unlock()
		if first == nil {
			l, err := p.listen(ctx, func(n driver.Notice) {
				mu.Lock()
				defer mu.Unlock()
				for _, onNotice := range hearers {
					onNotice(n)
				}
			})
			if err != nil {
				return nil, err
			}
			first = l
			p.left(l)
		}
		id := next
		next++
		hearers[id] = onNotice
		return &altered{listener: first, close: func() error {
			mu.Lock()
			defer mu.Unlock()
			delete(hearers, id)
			return nil
		}}, nil
	}
}
