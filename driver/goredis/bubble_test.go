package goredis_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/driver/goredis"
)

// answer is the server's end of a pipe: it says OK to all but WAIT, to which it is silent.
func answer(conn net.Conn) {
	in := bufio.NewReader(conn)
	line := func() string {
		s, err := in.ReadString('\n')
		if err != nil {
			return ""
		}
		return strings.TrimSpace(s)
	}
	for {
		n, _ := strconv.Atoi(strings.TrimPrefix(line(), "*"))
		if n == 0 {
			return
		}
		var name string
		for i := range n {
			size, _ := strconv.Atoi(strings.TrimPrefix(line(), "$"))
			arg := make([]byte, size+2)
			if _, err := io.ReadFull(in, arg); err != nil {
				return
			}
			if i == 0 {
				name = strings.ToUpper(string(arg[:size]))
			}
		}
		switch name {
		case "HELLO": // as servers before Redis 6
			_, _ = io.WriteString(conn, "-ERR unknown command\r\n")
		case "WAIT":
		default:
			_, _ = io.WriteString(conn, "+OK\r\n")
		}
	}
}

// TestVirtualTime shows when a call on a silent server returns, to the nanosecond,
// and that nothing of the driver outlives Close: a goroutine or a timer left in the
// bubble would fail the test.
func TestVirtualTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := redis.NewClient(&redis.Options{
			Addr: "node-1",
			Dialer: func(context.Context, string, string) (net.Conn, error) {
				ours, theirs := net.Pipe()
				go answer(theirs)
				return ours, nil
			},
			// Left alone, NewClient asks the DNS, which a bubble does not survive.
			MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
		})
		defer func() { _ = client.Close() }()
		nodes, err := goredis.Nodes(client)
		if err != nil {
			t.Fatal(err)
		}
		d := nodes[0].Driver.(*goredis.Driver)
		expect(t, d, ok, "SET", "key", "value")

		begun := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), 250*time.Millisecond)
		defer cancel()
		_, err = d.Do(ctx, []driver.Command{command("WAIT")})
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
