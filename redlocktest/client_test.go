package redlocktest

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/driver/resp"
)

func TestClientSendsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nodes := StartInBubble(t, 1)
		over, cancel := context.WithCancel(t.Context())
		cancel()
		closed := newClient(nodes[0].Dial)
		_ = closed.Close() // is always nil
		tests := []struct {
			name   string
			client *resp.Client
			ctx    context.Context //nolint:containedctx // a table's column, for one call
			cmd    driver.Command
			want   error
		}{
			{"context already done", newClient(nodes[0].Dial), over, command("SET", "key", "token"), context.Canceled},
			{"closed", closed, t.Context(), command("SET", "key", "token"), driver.ErrClosed},
			{"not a string", newClient(nodes[0].Dial), t.Context(), driver.Command{Args: []any{"SET", "key", 1}}, driver.ErrNotSent},
		}
		for _, tt := range tests {
			_, err := tt.client.Do(tt.ctx, []driver.Command{tt.cmd})
			if !errors.Is(err, driver.ErrNotSent) || !errors.Is(err, tt.want) {
				t.Errorf("%s: Do = %v, want ErrNotSent and %v", tt.name, err, tt.want)
			}
		}
		if _, err := closed.Subscribe(t.Context(), func(driver.Notice) {}); !errors.Is(err, driver.ErrClosed) {
			t.Errorf("Subscribe after Close = %v, want %v", err, driver.ErrClosed)
		}
		if counts := nodes[0].Counts(); len(counts) != 0 {
			t.Errorf("the node saw %v, want nothing", counts)
		}
	})
}

func TestDriversAreSeparate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nodes := StartInBubble(t, 5)
		mine, other := nodes.Drivers(), nodes.Drivers()
		for i, node := range mine {
			if err := node.Driver.(io.Closer).Close(); err != nil {
				t.Errorf("Close = %v", err)
			}
			if _, err := other[i].Driver.Do(t.Context(), []driver.Command{command("PING")}); err != nil {
				t.Errorf("PING to %s after another's Close = %v, want an answer", node.Name, err)
			}
			if node.Name != nodes[i].Addr() || node.Client != nodes[i] {
				t.Errorf("node %d is %s over %v, want its address and itself", i, node.Name, node.Client)
			}
		}
	})
}

func TestPipeClose(t *testing.T) {
	client, node := newPipe("node", func() time.Duration { return 0 })
	_, _ = node.Write([]byte("bye")) // shows in what is read
	_ = node.Close()                 // is always nil
	if rest, err := io.ReadAll(client); err != nil || string(rest) != "bye" {
		t.Errorf("after the other end has closed: read %q, %v, want what was written, and the end", rest, err)
	}
	if _, err := client.Write([]byte("x")); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("Write to an end that has closed = %v, want %v", err, io.ErrClosedPipe)
	}
	if _, err := node.Write([]byte("x")); !errors.Is(err, net.ErrClosed) {
		t.Errorf("Write after Close = %v, want %v", err, net.ErrClosed)
	}
	if _, err := node.Read(make([]byte, 1)); !errors.Is(err, net.ErrClosed) {
		t.Errorf("Read after Close = %v, want %v", err, net.ErrClosed)
	}
}

func TestPipeDeadlines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, _ := newPipe("node", func() time.Duration { return 0 })
		start := time.Now()
		_ = client.SetDeadline(start.Add(time.Second)) // is always nil
		if _, err := client.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(start) != time.Second {
			t.Errorf("Read with nothing there = %v after %v, want the deadline after 1s", err, time.Since(start))
		}
		_ = client.SetWriteDeadline(start.Add(3 * time.Second)) // is always nil
		n, err := client.Write(make([]byte, requestBuffer+1))
		if n != requestBuffer || !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(start) != 3*time.Second {
			t.Errorf("Write to an end that does not read = %d, %v after %v, want a full buffer and the deadline after 3s", n, err, time.Since(start))
		}
	})
}

func TestPipeKeepsOrderWhenTheDelayShrinks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		delay := time.Second
		client, node := newPipe("node", func() time.Duration { return delay })
		_, _ = node.Write([]byte("a")) // shows in what is read
		delay = 0
		_, _ = node.Write([]byte("b")) // shows in what is read
		_ = node.Close()               // is always nil
		start := time.Now()
		got, err := io.ReadAll(client)
		if err != nil || string(got) != "ab" || time.Since(start) != time.Second {
			t.Errorf("read %q, %v after %v, want ab after 1s", got, err, time.Since(start))
		}
	})
}
