package drivertest

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/driver"
)

// subscriptionMutants are subscribers that are correct but for one thing.
var subscriptionMutants = []mutant{
	{"confirms before the server does", reworks(func(b *altered) {
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
	}), map[string]string{
		"a channel is confirmed when the server has confirmed it": "confirmed before the server had confirmed it",
	}},
	{"loses a message", passes(0, func(n driver.Notice) bool { return n.Payload == "500" }), map[string]string{
		"messages arrive in order and none is lost": `want "500" on "c"`,
	}},
	{"hears a later message first", reworks(func(b *altered) {
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
	}), map[string]string{
		"messages arrive in order and none is lost": `want "500" on "c"`,
	}},
	{"hears a message twice", passes(2, is(driver.Message)), map[string]string{
		"messages arrive in order and none is lost": `want "1" on "b"`,
	}},
	// Each message on a goroutine, fifty at a time.
	{"hears two things at once", reworks(func(b *altered) {
		var calls sync.WaitGroup
		notices := 0
		b.hear = func(n driver.Notice) {
			calls.Go(func() { b.onNotice(n) })
			if notices++; n.Payload != "message" || notices%50 == 0 {
				calls.Wait()
			}
		}
	}), map[string]string{
		"a closed subscription says nothing any more": "while another call of it was under way",
	}},
	{"trims what it hears", rewrites(func(n *driver.Notice) { n.Payload = strings.TrimSpace(n.Payload) }), map[string]string{
		"a message arrives with its channel and its payload as they are": `is message`,
	}},
	// The closing is left to the pool's end.
	{"goes on hearing after Close", reworks(func(b *altered) {
		b.close = func() error {
			b.pool.left(b.listener)
			return nil
		}
	}), map[string]string{
		"a closed subscription says nothing any more": "after Close had returned, with message",
		"Close does not wait for a stalled server":    "after Close had returned",
		"a closed subscription leaves nothing behind": "connections open",
	}},
	{"tells of its own Close", reworks(func(b *altered) {
		b.close = func() error {
			err := b.listener.Close()
			time.AfterFunc(time.Millisecond, func() { b.onNotice(driver.Notice{Kind: driver.Ended, Err: errors.New("closed")}) })
			return err
		}
	}), map[string]string{
		"a closed subscription says nothing any more": "after Close had returned, with ended",
	}},
	{"keeps the connection after Close", reworks(func(b *altered) {
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
	}), map[string]string{
		"a closed subscription leaves nothing behind": "connections open",
	}},
	{"reports the end twice", passes(2, is(driver.Ended)), map[string]string{
		"a dropped connection is told once, at the end, and is not repaired": "onNotice was called after Ended, with ended",
		"a connection that is lost while channels are asked for has ended":   "onNotice was called after Ended, with ended",
	}},
	{"never reports the end", passes(0, is(driver.Ended)), map[string]string{
		"a dropped connection is told once, at the end, and is not repaired": "Ended had not come",
		"a connection that is lost while channels are asked for has ended":   "Ended had not come",
		"a deadline ends an Add larger than the buffers":                     "Ended had not come",
	}},
	{"reports the end without a reason", rewrites(func(n *driver.Notice) {
		if n.Kind == driver.Ended {
			n.Err = nil
		}
	}), map[string]string{
		"a dropped connection is told once, at the end, and is not repaired": "Ended came without an error",
	}},
	{"repairs itself in silence", repairs(false), map[string]string{
		"a dropped connection is told once, at the end, and is not repaired": "Ended had not come",
	}},
	{"repairs itself after it has ended", repairs(true), map[string]string{
		"a dropped connection is told once, at the end, and is not repaired": "onNotice was called after Ended, with confirmed",
	}},
	{"ignores its context while it opens", opens(func(ctx context.Context, p *pool, onNotice func(driver.Notice)) (driver.Subscription, error) {
		if _, err := newPool(p.addr).Do(context.WithoutCancel(ctx), []driver.Command{keyless("PING")}); err != nil {
			return nil, err
		}
		return p.Subscribe(ctx, onNotice)
	}).mutate, map[string]string{
		"a deadline ends Subscribe and Add at a stalled server": "Subscribe at a stalled server had not returned",
		"a cancel ends Subscribe at a stalled server":           "Subscribe that was cancelled at a stalled server had not returned",
	}},
	{"ignores its context in Add", reworks(func(b *altered) {
		b.add = func(ctx context.Context, channels ...string) error {
			return b.listener.Add(context.WithoutCancel(ctx), channels...)
		}
	}), map[string]string{
		"a deadline ends an Add larger than the buffers": "Add of 20 MB at a stalled server had not returned",
	}},
	{"takes the context of Subscribe for its own", reworks(func(b *altered) {
		context.AfterFunc(b.opened, func() { _ = b.conn.Close() })
	}), map[string]string{
		"a channel is confirmed when the server has confirmed it": "Add",
	}},
	{"asks for several channels in one command", reworks(func(b *altered) {
		b.add = func(_ context.Context, channels ...string) error {
			return b.conn.Send([]driver.Command{keyless(append([]string{"SUBSCRIBE"}, channels...)...)})
		}
	}), map[string]string{
		"a forbidden channel is refused and harms nothing else": "of the 2 channels that Add asked for 0 were confirmed",
		"1,000 channels in one Add are heard":                   "want each in a command of its own",
	}},
	{"ends when a channel is refused", reworks(func(b *altered) {
		b.hear = func(n driver.Notice) {
			b.onNotice(n)
			if n.Kind == driver.Refused {
				_ = b.conn.Close()
			}
		}
	}), map[string]string{
		"a forbidden channel is refused and harms nothing else": "ended: ",
	}},
	{"hides why a channel is refused", rewrites(func(n *driver.Notice) {
		if n.Kind == driver.Refused {
			n.Err = errors.New("refused")
		}
	}), map[string]string{
		"a forbidden channel is refused and harms nothing else": "want a *driver.ServerError",
	}},
	{"removes nothing", reworks(func(b *altered) {
		b.remove = func(context.Context, ...string) error { return nil }
	}), map[string]string{
		"a channel that was removed is silent": "the server never received that the channel",
	}},
	// The server has to confirm that it has let go.
	{"waits for the server in Close", reworks(func(b *altered) {
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
	}), map[string]string{
		"Close does not wait for a stalled server": "want at most 50ms",
	}},
	{"shares a connection between subscriptions", func(p *pool) driver.Driver {
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
	}, map[string]string{
		"several subscriptions have nothing to do with each other": "8 subscriptions came on 1 connections",
	}},
}

func TestSubscriptionMutantsAreCaught(t *testing.T) { areCaught(t, subscriptionMutants) }
