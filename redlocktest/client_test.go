package redlocktest

import (
	"context"
	"errors"
	"io"
	"net"
	"testing"
	"testing/synctest"

	"github.com/quorumlock/quorumlock/driver"
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
			client *client
			ctx    context.Context //nolint:containedctx // a table's column, for one call
			cmd    driver.Command
			want   error
		}{
			{"context already done", newClient(nodes[0].Dial), over, command("SET", "key", "token"), context.Canceled},
			{"closed", closed, t.Context(), command("SET", "key", "token"), errClosed},
			{"not a string", newClient(nodes[0].Dial), t.Context(), driver.Command{Args: []any{"SET", "key", 1}}, driver.ErrNotSent},
		}
		for _, tt := range tests {
			_, err := tt.client.Do(tt.ctx, []driver.Command{tt.cmd})
			if !errors.Is(err, driver.ErrNotSent) || !errors.Is(err, tt.want) {
				t.Errorf("%s: Do = %v, want ErrNotSent and %v", tt.name, err, tt.want)
			}
		}
		if counts := nodes[0].Counts(); len(counts) != 0 {
			t.Errorf("the node saw %v, want nothing", counts)
		}
	})
}

func TestClientKeepsItsConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := StartInBubble(t, 1)[0]
		dialled := 0
		c := newClient(func(ctx context.Context) (net.Conn, error) {
			dialled++
			return node.Dial(ctx)
		})
		for range 3 {
			if _, err := c.Do(t.Context(), []driver.Command{command("PING")}); err != nil {
				t.Fatal(err)
			}
		}
		if dialled != 1 {
			t.Errorf("three batches one after the other took %d connections, want 1", dialled)
		}
		if err := c.Close(); err != nil {
			t.Errorf("Close = %v", err)
		}
		synctest.Wait()
		if left := node.Info("connected_clients"); left != "0" {
			t.Errorf("after Close %s connections are left, want 0", left)
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

func TestAClosedDriverSubscribesToNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := StartInBubble(t, 1)[0:1].Drivers()[0].Driver
		_ = c.(io.Closer).Close() // is always nil
		if _, err := c.(driver.Subscriber).Subscribe(t.Context(), func(driver.Notice) {}); !errors.Is(err, errClosed) {
			t.Errorf("Subscribe after Close = %v, want %v", err, errClosed)
		}
	})
}
