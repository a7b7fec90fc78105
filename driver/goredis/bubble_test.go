package goredis_test

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/test/scripted"
	"github.com/quorumlock/quorumlock/test/servertest"
)

// piped returns a client whose connections are pipes to a server that is silent to WAIT, and reads
// nothing behind a SUBSCRIBE.
func piped(t *testing.T) *redis.Client {
	server := scripted.New()
	t.Cleanup(server.Close)
	_ = server.Fault("WAIT", scripted.KeepSilent)
	_ = server.Fault("SUBSCRIBE", scripted.StopReading)
	return redis.NewClient(&redis.Options{
		Addr:   "node-1",
		Dialer: func(context.Context, string, string) (net.Conn, error) { return server.Dial(), nil },
		// Left alone, NewClient asks the DNS, which a bubble does not survive.
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	})
}

// TestVirtualTime shows when a call on a silent server returns, to the nanosecond,
// and that nothing of the driver outlives Close: a goroutine or a timer left in the
// bubble would fail the test.
func TestVirtualTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := open(t, piped(t))
		servertest.Expect(t, d, "OK", "SET", "key", "value")

		begun := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), 250*time.Millisecond)
		defer cancel()
		_, err := d.Do(ctx, []driver.Command{servertest.Command("WAIT")})
		if took := time.Since(begun); took != 250*time.Millisecond || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a deadline of 250ms: Do = %v after %v", err, took)
		}

		servertest.Expect(t, d, "OK", "SET", "key", "value")
		sub := servertest.Subscribe(t, d)
		sub.Ask("read")
		begun = time.Now()
		servertest.Close(t, d)
		if took := time.Since(begun); took != 0 {
			t.Errorf("Close of the driver took %v", took)
		}
		if why := sub.End(); !errors.Is(why, driver.ErrClosed) {
			t.Errorf("its subscription has ended with %v, want that the driver is closed", why)
		}
	})
}

// watched is a context whose end is asked for, and unseen so often.
type watched struct {
	context.Context //nolint:containedctx // the subject
	unseen          int32
	asked           atomic.Int32
}

func (w *watched) Err() error {
	if w.asked.Add(1) <= w.unseen {
		return nil
	}
	return w.Context.Err()
}

// TestWaitingCostsNothing shows that nobody looks at a batch from time to time while its server is
// silent. What does so is as slow as the servers: the more processes wait, the less is left for what
// they wait for.
func TestWaitingCostsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := open(t, piped(t))
		ctx, cancel := context.WithCancel(t.Context())
		w := &watched{Context: ctx}
		time.AfterFunc(2*time.Second, cancel)
		begun := time.Now()
		_, err := d.Do(w, []driver.Command{servertest.Command("WAIT")})
		asked, took := w.asked.Load(), time.Since(begun)
		if asked > 20 || took != 2*time.Second || !errors.Is(err, context.Canceled) {
			t.Errorf("Do = %v after %v, and asked %d times whether it was cancelled after 2s, want 20 at most", err, took, asked)
		}
		servertest.Close(t, d)
	})
}

// TestAnEndedContextEndsItsNextBatch shows that a context that has ended between two batches ends
// the second, though it was watched over for the first.
func TestAnEndedContextEndsItsNextBatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := open(t, piped(t))
		ctx, cancel := context.WithCancel(t.Context())
		if _, err := d.Do(ctx, []driver.Command{servertest.Command("SET", "key", "value")}); err != nil {
			t.Fatal(err)
		}
		cancel()
		synctest.Wait()
		begun := time.Now()
		_, err := d.Do(&watched{Context: ctx, unseen: 1}, []driver.Command{servertest.Command("WAIT")})
		if took := time.Since(begun); took > cutTime || !errors.Is(err, context.Canceled) {
			t.Errorf("a context that ended before the batch left: Do = %v after %v", err, took)
		}
		servertest.Close(t, d)
	})
}

// cutTime is how long it may take until a connection is cut once more.
const cutTime = 10 * time.Millisecond
