package rueidis_test

import (
	"context"
	"testing"
	"time"

	client "github.com/redis/rueidis"

	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/internal/redisserver"
)

// listener is a subscription and its notices.
type listener struct {
	driver.Subscription
	t       *testing.T
	notices chan driver.Notice
}

// subscribe has no reason to fail.
func subscribe(t *testing.T, d driver.Driver) *listener {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	l, err := trySubscribe(ctx, t, d)
	if err != nil {
		t.Fatalf("Subscribe = %v, want a subscription", err)
	}
	return l
}

func trySubscribe(ctx context.Context, t *testing.T, d driver.Driver) (*listener, error) {
	t.Helper()
	l := &listener{t: t, notices: make(chan driver.Notice, 1000)}
	var err error
	l.Subscription, err = d.(driver.Subscriber).Subscribe(ctx, func(n driver.Notice) { l.notices <- n })
	if err == nil {
		t.Cleanup(l.close)
	}
	return l, err
}

// close ends the subscription, and fails the test if there are more notices than were awaited.
func (l *listener) close() {
	l.t.Helper()
	_ = l.Close()
	select {
	case n := <-l.notices:
		l.t.Errorf("a notice too many: %v of %q: %v", n.Kind, n.Channel, n.Err)
	default:
	}
}

func (l *listener) next() driver.Notice {
	l.t.Helper()
	select {
	case n := <-l.notices:
		return n
	case <-time.After(30 * time.Second):
		l.t.Fatal("no notice came for 30s")
		return driver.Notice{}
	}
}

// ask calls Add, which has no reason to fail.
func (l *listener) ask(channels ...string) {
	l.t.Helper()
	if err := l.Add(context.Background(), channels...); err != nil {
		l.t.Fatalf("Add(%q) = %v, want no error", channels, err)
	}
}

// add waits until each channel is confirmed.
func (l *listener) add(channels ...string) {
	l.t.Helper()
	l.ask(channels...)
	wanted := map[string]bool{}
	for _, channel := range channels {
		wanted[channel] = true
	}
	for range channels {
		n := l.next()
		if n.Kind != driver.Confirmed || !wanted[n.Channel] {
			l.t.Fatalf("after Add(%q): %v of %q: %v; want that each is confirmed once", channels, n.Kind, n.Channel, n.Err)
		}
		delete(wanted, n.Channel)
	}
}

// remove waits until the server has been told, which the confirmation of a channel
// that was asked for later shows.
func (l *listener) remove(channels ...string) {
	l.t.Helper()
	if err := l.Remove(context.Background(), channels...); err != nil {
		l.t.Fatalf("Remove(%q) = %v, want no error", channels, err)
	}
	l.add("later")
	l.add("later still") // what is asked for at once goes out before what is given up
}

// heardFrom publishes on the server and waits for that.
func (l *listener) receivesFrom(p *redisserver.Server, channels ...string) {
	l.t.Helper()
	for _, channel := range channels {
		publish(l.t, p, channel)
		if n := l.next(); n.Kind != driver.Message || n.Channel != channel || n.Payload != "released" {
			l.t.Fatalf("after PUBLISH on %q: %v %q on %q: %v; want the message", channel, n.Kind, n.Payload, n.Channel, n.Err)
		}
	}
}

// ended waits for the end, whatever comes before it, and returns why.
func (l *listener) ended() error {
	l.t.Helper()
	for {
		if n := l.next(); n.Kind == driver.Ended {
			return n.Err
		}
	}
}

// publish publishes "released" on a server directly.
func publish(t *testing.T, p *redisserver.Server, channel string) {
	t.Helper()
	c, err := client.NewClient(client.ClientOption{InitAddress: []string{p.Addr}, ForceSingleClient: true, DisableCache: true})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.Do(context.Background(), c.B().Publish().Channel(channel).Message("released").Build()).Error(); err != nil {
		t.Fatalf("PUBLISH = %v", err)
	}
}
