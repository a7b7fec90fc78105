package drivertest

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/quorumlock/quorumlock/driver"
)

func confirmsEarly(b *altered) {
	var mu sync.Mutex // one call of onNotice at a time
	b.hear = func(n driver.Notice) {
		mu.Lock()
		defer mu.Unlock()
		if n.Kind != driver.Confirmed {
			b.onNotice(n)
		}
	}
	b.add = func(ctx context.Context, channels ...string) error {
		mu.Lock()
		for _, channel := range channels {
			b.onNotice(driver.Notice{Kind: driver.Confirmed, Channel: channel})
		}
		mu.Unlock()
		return b.listener.Add(ctx, channels...)
	}
}

func reordersMessages(b *altered) {
	var kept []driver.Notice
	b.hear = func(n driver.Notice) {
		if n.Payload == "500" {
			kept = append(kept, n)
			return
		}
		b.onNotice(n)
		for _, n := range kept {
			b.onNotice(n)
		}
		kept = nil
	}
}

func trimsPayload(n *driver.Notice) { n.Payload = strings.TrimSpace(n.Payload) }

func endsWithoutReason(n *driver.Notice) {
	if n.Kind == driver.Ended {
		n.Err = nil
	}
}

func hidesRefusals(n *driver.Notice) {
	if n.Kind == driver.Refused {
		n.Err = errors.New("refused")
	}
}

// notifiesAtOnce calls onNotice on a goroutine for each message, fifty at a time.
func notifiesAtOnce(b *altered) {
	var calls sync.WaitGroup
	notices := 0
	b.hear = func(n driver.Notice) {
		calls.Go(func() { b.onNotice(n) })
		if notices++; n.Payload != "message" || notices%50 == 0 {
			calls.Wait()
		}
	}
}

// closesLate leaves the closing to the pool's end.
func closesLate(b *altered) {
	b.close = func() error {
		b.pool.left(b.listener)
		return nil
	}
}

// leavesOpen says nothing after Close, but keeps the connection.
func leavesOpen(b *altered) {
	var mu sync.Mutex
	closed := false
	b.hear = func(n driver.Notice) {
		mu.Lock()
		defer mu.Unlock()
		if !closed {
			b.onNotice(n)
		}
	}
	b.close = func() error {
		mu.Lock()
		defer mu.Unlock()
		closed = true
		b.pool.left(b.listener)
		return nil
	}
}

func tellsClose(b *altered) {
	b.close = func() error {
		err := b.listener.Close()
		time.AfterFunc(time.Millisecond, func() { b.onNotice(driver.Notice{Kind: driver.Ended, Err: errors.New("closed")}) })
		return err
	}
}

// saysGoodbye waits for the server to confirm that it has let go.
func saysGoodbye(b *altered) {
	gone := make(chan struct{})
	var once sync.Once
	b.hear = func(n driver.Notice) {
		if n.Channel == "goodbye" || n.Kind == driver.Ended {
			once.Do(func() { close(gone) })
		}
		b.onNotice(n)
	}
	b.close = func() error {
		if b.Add(context.Background(), "goodbye") == nil {
			<-gone
		}
		return b.listener.Close()
	}
}

// shakesHands ignores its context while it waits for the server's first word.
func shakesHands(ctx context.Context, p *pool, onNotice func(driver.Notice)) (driver.Subscription, error) {
	if _, err := newPool(p.addr).Do(context.WithoutCancel(ctx), []driver.Command{keyless("PING")}); err != nil {
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
func diesWithContext(b *altered) {
	context.AfterFunc(b.opened, func() { _ = b.conn.Close() })
}

// endsWhenRefused makes much of a refusal.
func endsWhenRefused(b *altered) {
	b.hear = func(n driver.Notice) {
		b.onNotice(n)
		if n.Kind == driver.Refused {
			_ = b.conn.Close()
		}
	}
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

// sharesConnection has one connection for all subscriptions.
func sharesConnection(p *pool) driver.Driver {
	var mu sync.Mutex
	var first *listener
	hearers := map[*altered]struct{}{}
	return opens(func(ctx context.Context, p *pool, onNotice func(driver.Notice)) (driver.Subscription, error) {
		mu.Lock()
		defer mu.Unlock()
		if first == nil {
			l, err := p.listen(ctx, func(n driver.Notice) {
				mu.Lock()
				defer mu.Unlock()
				for b := range hearers {
					b.onNotice(n)
				}
			})
			if err != nil {
				return nil, err
			}
			first = l
			p.left(l)
		}
		b := &altered{listener: first, onNotice: onNotice, add: first.Add, remove: first.Remove}
		hearers[b] = struct{}{}
		b.close = func() error {
			mu.Lock()
			defer mu.Unlock()
			delete(hearers, b)
			return nil
		}
		return b, nil
	}).mutate(p)
}
