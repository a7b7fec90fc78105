package redigo_test

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/gomodule/redigo/redis"

	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/test/scripted"
	"github.com/quorumlock/quorumlock/test/servertest"
)

func ignore(driver.Notice) {}

func TestSubscriptionsLeaveRoomInThePool(t *testing.T) {
	for _, tt := range []struct {
		maxActive     int
		subscriptions int
		calls         int // connections that eight calls at once use beside
		refusal       string
	}{
		{maxActive: 0, subscriptions: 64, calls: 8, refusal: "redigo: subscriptions have all the connections that they may have: 64"},
		{maxActive: 1, subscriptions: 0, calls: 1, refusal: "redigo: the pool's MaxActive is 1; a subscription needs 4"},
		{maxActive: 3, subscriptions: 0, calls: 1, refusal: "redigo: the pool's MaxActive is 3; a subscription needs 4"},
		{maxActive: 4, subscriptions: 1, calls: 2, refusal: "redigo: subscriptions have all the connections that they may have: 1"},
		{maxActive: 8, subscriptions: 2, calls: 4, refusal: "redigo: subscriptions have all the connections that they may have: 2"},
		{maxActive: 400, subscriptions: 64, calls: 8, refusal: "redigo: subscriptions have all the connections that they may have: 64"},
	} {
		inBubble(t, func(t *testing.T, _ *scripted.Server, pool *redis.Pool) {
			pool.MaxActive, pool.Wait = tt.maxActive, true
			d := newDriver(t, pool)
			for range tt.subscriptions {
				servertest.Subscribe(t, d, "channel")
			}
			_, err := d.Subscribe(t.Context(), ignore)
			if err == nil || err.Error() != tt.refusal {
				t.Errorf("MaxActive %d: with %d subscriptions, Subscribe = %v, want %s", tt.maxActive, tt.subscriptions, err, tt.refusal)
			}

			calls, cancel := context.WithCancel(t.Context())
			for range 8 {
				go func() { _, _ = d.Do(calls, []driver.Command{servertest.Command("BLPOP", "list", "0")}) }()
			}
			synctest.Wait()
			if used := inUse(pool) - tt.subscriptions; used != tt.calls {
				t.Errorf("MaxActive %d: 8 calls at once use %d connections beside %d subscriptions, want %d", tt.maxActive, used, tt.subscriptions, tt.calls)
			}
			cancel()
			synctest.Wait()
		})
	}
}

func TestExhaustedPoolHasNoSubscription(t *testing.T) {
	inBubble(t, func(t *testing.T, _ *scripted.Server, pool *redis.Pool) {
		pool.MaxActive, pool.Wait = 4, true
		d := newDriver(t, pool)
		var taken []redis.Conn
		for range 4 {
			taken = append(taken, pool.Get())
		}
		start := time.Now()
		if _, err := d.Subscribe(t.Context(), ignore); !errors.Is(err, redis.ErrPoolExhausted) {
			t.Errorf("Subscribe = %v, want that the pool is exhausted", err)
		}
		if took := time.Since(start); took != 0 {
			t.Errorf("Subscribe stood in line with the application for %v", took)
		}
		for _, conn := range taken {
			_ = conn.Close()
		}
		for range 3 { // each gives its place up
			_ = servertest.Subscribe(t, d, "channel").Close()
		}
	})
}

func TestSubscribeWithADialThatBlocks(t *testing.T) {
	inBubble(t, func(t *testing.T, _ *scripted.Server, pool *redis.Pool) {
		var dials atomic.Int32
		network := make(chan struct{})
		before(pool, func() {
			dials.Add(1)
			<-network
		})
		d := newDriver(t, pool)
		for i := range 100 {
			start := time.Now()
			ctx, cancel := context.WithTimeout(t.Context(), short)
			_, err := d.Subscribe(ctx, ignore)
			cancel()
			if i < 64 && !errors.Is(err, context.DeadlineExceeded) || err == nil {
				t.Errorf("Subscribe = %v, want that its deadline has passed", err)
			}
			if took := time.Since(start); took > short {
				t.Errorf("Subscribe with %v to go returned after %v", short, took)
			}
		}
		if n := dials.Load(); n != 64 {
			t.Errorf("100 times Subscribe left %d dials behind, want 64", n)
		}

		close(network)
		synctest.Wait()
		servertest.Ask(t, d, "PING") // on one of the connections that came too late
		if n := dials.Load(); n != 64 {
			t.Errorf("a call after %d late connections dialled anew", n)
		}
		servertest.Subscribe(t, d, "channel")
		if err := d.Close(); err != nil || inUse(pool) != 0 {
			t.Errorf("Close = %v, and %d connections are in use, want none", err, inUse(pool))
		}
	})
}

func TestSubscribeWithoutTime(t *testing.T) {
	inBubble(t, func(t *testing.T, _ *scripted.Server, pool *redis.Pool) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := newDriver(t, pool).Subscribe(ctx, ignore); !errors.Is(err, context.Canceled) {
			t.Errorf("Subscribe = %v, want that it was cancelled", err)
		}
		if stats := pool.Stats(); stats.ActiveCount != 0 {
			t.Errorf("%d connections were opened", stats.ActiveCount)
		}
	})
}

func TestCloseOfAURLsDriverEndsSubscriptions(t *testing.T) {
	addr := scripted.Start(t).Addr()
	for range 100 { // some subscriptions come too late, and none may stay
		d := openURL(t, addr).(servertest.Driver)
		s := servertest.Subscribe(t, d, "channel")
		var opening sync.WaitGroup
		for range 4 {
			opening.Go(func() {
				for range 8 { // there is room for all
					if _, err := d.Subscribe(t.Context(), ignore); err != nil {
						if want := "redigo: the driver is closed"; err.Error() != want {
							t.Errorf("Subscribe while the driver closes = %v, want %s", err, want)
						}
						return
					}
				}
			})
		}
		servertest.Close(t, d)
		if len(s.Notices) == 0 {
			t.Error("the driver's Close returned before the subscription had ended")
		}
		opening.Wait()
		if why := s.End(); why.Error() != "redigo: the driver is closed" {
			t.Errorf("the subscription has ended with %v, want that the driver is closed", why)
		}
	}
}

func TestReadTimeoutDoesNotEndASubscription(t *testing.T) {
	inBubble(t, func(t *testing.T, server *scripted.Server, pool *redis.Pool) {
		pool.Dial = func() (redis.Conn, error) { return redis.NewConn(server.Dial(), time.Second, time.Second), nil }
		s := servertest.Subscribe(t, newDriver(t, pool), "channel")
		time.Sleep(time.Hour)
		server.Publish("channel", "an hour later")
		if n := s.Next(); n.Payload != "an hour later" {
			t.Errorf("an hour later came %+v, want the message", n)
		}
	})
}

func TestClosedSubscriptionIsForgotten(t *testing.T) {
	server := scripted.New()
	t.Cleanup(server.Close)
	d := newDriver(t, &redis.Pool{Dial: dialing(server)})
	trace := func() weak.Pointer[[1024]byte] {
		hearer := new([1024]byte)
		s, err := d.Subscribe(t.Context(), func(driver.Notice) { runtime.KeepAlive(hearer) })
		if err != nil {
			t.Fatal(err)
		}
		_ = s.Close()
		return weak.Make(hearer)
	}()
	for end := time.Now().Add(servertest.Patience); trace.Value() != nil; runtime.GC() {
		if time.Now().After(end) {
			t.Fatal("the driver remembers a subscription that was closed")
		}
	}
	runtime.KeepAlive(d)
}
