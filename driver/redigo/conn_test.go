package redigo_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/test/scripted"
	"github.com/quorumlock/quorumlock/test/servertest"
)

// lateConn gets its context's end with the last reply, and is slow to notice.
type lateConn struct {
	redis.ConnWithTimeout
	end    func()
	notice chan struct{}
}

func (c *lateConn) ReceiveWithTimeout(timeout time.Duration) (any, error) {
	reply, err := c.ConnWithTimeout.ReceiveWithTimeout(timeout)
	c.end()
	return reply, err
}

func (c *lateConn) DoContext(ctx context.Context, name string, args ...any) (any, error) {
	return redis.DoContext(c.ConnWithTimeout, ctx, name, args...)
}

func (c *lateConn) ReceiveContext(ctx context.Context) (any, error) {
	<-c.notice
	return redis.ReceiveContext(c.ConnWithTimeout, ctx)
}

func TestContextThatEndsWithTheLastReply(t *testing.T) {
	inBubble(t, func(t *testing.T, _ *scripted.Server, pool *redis.Pool) {
		ctx, cancel := context.WithCancel(t.Context())
		notice := make(chan struct{})
		dial := pool.Dial
		pool.Dial = func() (redis.Conn, error) {
			conn, err := dial()
			return &lateConn{conn.(redis.ConnWithTimeout), cancel, notice}, err
		}
		d := newDriver(t, pool)
		returned := make(chan struct{})
		go func() {
			defer close(returned)
			if replies, err := d.Do(ctx, []driver.Command{servertest.Command("PING")}); err != nil || replies[0].Str != "PONG" {
				t.Errorf("Do = %v, %v, want the reply that had come", replies, err)
			}
		}()
		synctest.Wait()
		select {
		case <-returned:
			t.Error("Do returned while the connection was still being broken")
		default:
		}
		close(notice)
		<-returned
		if n := inUse(pool); n != 0 {
			t.Errorf("%d connections are kept, want none: the only one is broken", n)
		}
	})
}

// plainConn hides what a connection can do beyond redis.Conn.
type plainConn struct{ redis.Conn }

func TestConnectionsThatCannotBeStoppedAreRefused(t *testing.T) {
	inBubble(t, func(t *testing.T, _ *scripted.Server, pool *redis.Pool) {
		dial := pool.Dial
		pool.Dial = func() (redis.Conn, error) {
			conn, err := dial()
			return plainConn{conn}, err
		}
		_, err := newDriver(t, pool).Do(t.Context(), []driver.Command{servertest.Command("PING")})
		if !errors.Is(err, driver.ErrNotSent) || !strings.HasPrefix(err.Error(), "redigo: what the pool's Dial returns must implement redis.ConnWithContext") {
			t.Errorf("Do = %v, want that nothing was sent, and what the connection lacks", err)
		}
	})
}
