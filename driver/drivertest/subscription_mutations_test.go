package drivertest

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/quorumlock/quorumlock/driver"
)

// closesLate leaves the closing to the pool's end.
func closesLate(ctx context.Context, p *pool, onNotice func(driver.Notice)) (driver.Subscription, error) {
	l, err := p.listen(ctx, onNotice)
	if err != nil {
		return nil, err
	}
	return &altered{listener: l, close: func() error {
		p.left(l)
		return nil
	}}, nil
}

// leavesOpen says nothing after Close, but keeps the connection.
func leavesOpen(ctx context.Context, p *pool, onNotice func(driver.Notice)) (driver.Subscription, error) {
	var mu sync.Mutex
	closed := false
	l, err := p.listen(ctx, func(n driver.Notice) {
		mu.Lock()
		defer mu.Unlock()
		if !closed {
			onNotice(n)
		}
	})
	if err != nil {
		return nil, err
	}
	return &altered{listener: l, close: func() error {
		mu.Lock()
		defer mu.Unlock()
		closed = true
		p.left(l)
		return nil
	}}, nil
}

func tellsClose(ctx context.Context, p *pool, onNotice func(driver.Notice)) (driver.Subscription, error) {
	l, err := p.listen(ctx, onNotice)
	if err != nil {
		return nil, err
	}
	return &altered{listener: l, close: func() error {
		err := l.Close()
		time.AfterFunc(time.Millisecond, func() { onNotice(driver.Notice{Kind: driver.Ended, Err: errors.New("closed")}) })
		return err
	}}, nil
}

// saysGoodbye waits for the server to confirm that it has let go.
func saysGoodbye(ctx context.Context, p *pool, onNotice func(driver.Notice)) (driver.Subscription, error) {
	gone := make(chan struct{})
	var once sync.Once
	l, err := p.listen(ctx, func(n driver.Notice) {
		if n.Kind == driver.Confirmed && n.Channel == "goodbye" || n.Kind == driver.Ended {
			once.Do(func() { close(gone) })
		}
		onNotice(n)
	})
	if err != nil {
		return nil, err
	}
	lasting := context.WithoutCancel(ctx)
	return &altered{listener: l, close: func() error {
		if l.Add(lasting, "goodbye") == nil {
			<-gone
		}
		return l.Close()
	}}, nil
}

// shakesHands ignores its context while it waits for the server's first word.
func shakesHands(ctx context.Context, p *pool, onNotice func(driver.Notice)) (driver.Subscription, error) {
	if _, err := (&pool{addr: p.addr}).Do(context.WithoutCancel(ctx), []driver.Command{keyless("PING")}); err != nil {
		return nil, err
	}
	return p.Subscribe(ctx, onNotice)
}

func addsForEver(b *altered) {
	b.add = func(ctx context.Context, channels ...string) error {
		return b.listener.Add(context.WithoutCancel(ctx), channels...)
	}
}

func addsTogether(b *altered) {
	b.add = func(_ context.Context, channels ...string) error {
		return b.conn.Send([]driver.Command{keyless(append([]string{"SUBSCRIBE"}, channels...)...)})
	}
}

func removesNothing(b *altered) {
	b.remove = func(context.Context, ...string) error { return nil }
}

// diesWithContext takes the context of Subscribe for that of the subscription.
func diesWithContext(ctx context.Context, p *pool, onNotice func(driver.Notice)) (driver.Subscription, error) {
	l, err := p.listen(ctx, onNotice)
	if err != nil {
		return nil, err
	}
	context.AfterFunc(ctx, func() { _ = l.conn.Close() })
	return l, nil
}

// endsWhenRefused makes much of a refusal.
func endsWhenRefused(ctx context.Context, p *pool, onNotice func(driver.Notice)) (driver.Subscription, error) {
	var l *listener
	made := make(chan struct{})
	l, err := p.listen(ctx, func(n driver.Notice) {
		onNotice(n)
		if n.Kind == driver.Refused {
			<-made
			_ = l.conn.Close()
		}
	})
	close(made)
	if err != nil {
		return nil, err
	}
	return l, nil
}
