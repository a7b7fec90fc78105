package goredis_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/driver/resp"
)

// answer is the server's end of a pipe: it says OK to all but WAIT, to which it is silent, and reads
// nothing behind a SUBSCRIBE.
func answer(conn net.Conn) {
	for commands := resp.NewReader(bufio.NewReader(conn)); ; {
		args, err := commands.Command()
		if err != nil {
			return
		}
		switch strings.ToUpper(args[0]) {
		case "HELLO": // as servers before Redis 6
			_, _ = io.WriteString(conn, "-ERR unknown command\r\n")
		case "WAIT":
		case "SUBSCRIBE":
			return
		default:
			_, _ = io.WriteString(conn, "+OK\r\n")
		}
	}
}

// piped returns a client whose connections are pipes to [answer].
func piped() *redis.Client {
	return redis.NewClient(&redis.Options{
		Addr: "node-1",
		Dialer: func(context.Context, string, string) (net.Conn, error) {
			ours, theirs := net.Pipe()
			go answer(theirs)
			return ours, nil
		},
		// Left alone, NewClient asks the DNS, which a bubble does not survive.
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	})
}

// TestVirtualTime shows when a call on a silent server returns, to the nanosecond,
// and that nothing of the driver outlives Close: a goroutine or a timer left in the
// bubble would fail the test.
func TestVirtualTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := open(t, piped())
		expect(t, d, ok, "SET", "key", "value")

		begun := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), 250*time.Millisecond)
		defer cancel()
		_, err := d.Do(ctx, []driver.Command{command("WAIT")})
		if took := time.Since(begun); took != 250*time.Millisecond || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a deadline of 250ms: Do = %v after %v", err, took)
		} else if want := "goredis: context deadline exceeded"; err.Error() != want {
			t.Errorf("the error is %q, want %q", err, want)
		}

		begun = time.Now()
		ctx, cancel = context.WithCancel(t.Context())
		time.AfterFunc(100*time.Millisecond, cancel)
		_, err = d.Do(ctx, []driver.Command{command("WAIT")})
		if took := time.Since(begun); took > 120*time.Millisecond || !errors.Is(err, context.Canceled) {
			t.Errorf("a cancel after 100ms: Do = %v after %v", err, took)
		}

		expect(t, d, ok, "SET", "key", "value")
		if err := d.Close(); err != nil {
			t.Errorf("Close = %v", err)
		}
	})
}

// TestVirtualTimeOfSubscriptions shows the same of subscriptions.
func TestVirtualTimeOfSubscriptions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := open(t, piped())
		late, lateNotices := listen(t, d)
		shut, shutNotices := listen(t, d)
		left, leftNotices := listen(t, d)
		for _, sub := range []driver.Subscription{late, shut, left} {
			if err := sub.Add(within(t, time.Second), "read"); err != nil {
				t.Fatalf("Add that the server reads = %v", err)
			}
		}

		begun := time.Now()
		err := late.Add(within(t, 250*time.Millisecond), "unread")
		if took := time.Since(begun); took != 250*time.Millisecond || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a deadline of 250ms: Add = %v after %v", err, took)
		}
		lateNotices.ends(t, late, "goredis: context deadline exceeded")

		begun = time.Now()
		failed := make(chan error)
		go func() { failed <- shut.Add(within(t, time.Second), "unread") }()
		synctest.Wait()
		shutNotices.closes(t, shut)
		if err, took := <-failed, time.Since(begun); took != 0 || err == nil {
			t.Errorf("Close during an Add: Add = %v after %v, want an error at once", err, took)
		}

		if err := d.Close(); err != nil || time.Since(begun) != 0 {
			t.Errorf("Close of the driver = %v after %v, want nil at once", err, time.Since(begun))
		}
		leftNotices.ends(t, left, "goredis: the driver is closed")
	})
}
