package rueidis

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/redis/rueidis"

	"github.com/quorumlock/quorumlock/driver"
)

// link is a node that has been reached.
type link struct {
	client  rueidis.Client
	wire    rueidis.DedicatedClient // the lock's own connection; nil where the node is a Cluster
	cluster *cluster                // nil where it is none
	slots   chan struct{}           // the adapter's

	mu        sync.Mutex
	calls     int // under way on wire
	abandoned int // calls that were cut off; they keep their places until the link is gone
	retired   bool
	gone      bool
	spares    []*spare // the one used last is last

	closing sync.Once
}

// newLink takes a connection out of the client's pool. The PING shows whether there is
// one: rueidis hands out a dead one rather than an error.
func newLink(client rueidis.Client, slots chan struct{}) (*link, error) {
	if client.Mode() == rueidis.ClientModeCluster {
		l := &link{client: client}
		l.cluster = &cluster{link: l}
		return l, nil
	}
	wire, _ := client.Dedicate()
	if err := ping(context.Background(), wire).NonRedisError(); err != nil {
		wire.Close()
		return nil, err
	}
	return &link{client: client, wire: wire, slots: slots}, nil
}

func ping(ctx context.Context, wire rueidis.DedicatedClient) rueidis.RedisResult {
	return wire.Do(ctx, wire.B().Arbitrary("PING").Build())
}

// close ends the connections when all calls on wire are answered, and after a second at the
// latest.
func (l *link) close() { l.closing.Do(l.end) }

func (l *link) end() {
	l.mu.Lock()
	l.retired = true
	spares := l.spares
	l.spares = nil
	l.mu.Unlock()
	if l.wire != nil {
		spares = append(spares, &spare{wire: l.wire})
	}
	closeAll(spares)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.gone = true
	for range l.abandoned {
		<-l.slots
	}
}

// enter begins a call on wire, unless the link is retired.
func (l *link) enter() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.retired {
		return false
	}
	l.calls++
	return true
}

// leave ends a call on wire. The last one closes a link that is retired.
func (l *link) leave() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.calls--
	if l.retired && l.calls == 0 {
		go l.close()
	}
}

// retire closes the link once no call is under way.
func (l *link) retire() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.retired = true
	if l.calls == 0 {
		go l.close()
	}
}

// isRetired reports whether the link serves no new calls.
func (l *link) isRetired() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.retired
}

// attempt is one try to reach the node.
type attempt struct {
	done chan struct{} // closed when link or err is set
	late error         // of an attempt that comes too late: the adapter was closed or renewed meanwhile
	link *link
	err  error
}

// connected returns the link, and makes one where there is none. That happens on a
// goroutine of its own, one at a time, for rueidis connects without a context; its
// Dialer.Timeout (5s by default) ends it. After a Renew, who waits gets the next one.
func (d *adapter) connected(ctx context.Context) (*link, error) {
	for {
		if link := d.link.Load(); link != nil {
			return link, nil
		}
		d.mu.Lock()
		link, try := d.link.Load(), d.attempt
		if link == nil && try == nil {
			try = &attempt{done: make(chan struct{}), late: driver.ErrClosed}
			d.attempt = try
			go d.connect(try, d.client) //nolint:contextcheck // it serves later calls too
		}
		d.mu.Unlock()
		if link != nil {
			return link, nil
		}
		select {
		case <-try.done:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		if !errors.Is(try.err, driver.ErrRenewed) {
			return try.link, try.err
		}
	}
}

func (d *adapter) connect(try *attempt, client rueidis.Client) {
	defer close(try.done)
	client, try.link, try.err = d.reach(client)

	d.mu.Lock()
	defer d.mu.Unlock()
	if d.attempt != try { // Close or Renew has come in between
		made := d.made(client)
		if made == d.client {
			made = nil // it serves the next attempt
		}
		go end(try.link, made)
		try.link, try.err = nil, try.late
		return
	}
	d.attempt, d.client = nil, client
	d.link.Store(try.link)
}

// reach makes a link, and first the client where there is none.
func (d *adapter) reach(client rueidis.Client) (c rueidis.Client, l *link, err error) {
	defer func() { err = refusal(err) }()
	defer driver.CatchPanic(&err)
	if c = client; c == nil {
		if c, err = d.dial(); err != nil {
			return nil, nil, err
		}
	}
	l, err = newLink(c, d.slots)
	return c, l, err
}

// drop closes a link whose connection has failed. The next call makes another.
func (d *adapter) drop(failed *link) {
	if d.link.CompareAndSwap(failed, nil) {
		go failed.close()
	}
}

// abandon drops a link with a call that was cut off: if its reply never came, later calls would
// get each other's replies. Calls under way have a second to be answered. Then the place of
// the call is free again.
func (d *adapter) abandon(l *link) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.gone {
		<-d.slots
		return
	}
	l.abandoned++
	d.drop(l)
}

// Renew keeps the contract of [driver.Renewer]. What rueidis has beside the connections that the
// adapter uses stays: the one that it opens for every client (on a Cluster, for every master), and
// those that the service has put back into the blocking pool. A Cluster's map is asked for anew.
func (d *adapter) Renew() {
	d.mu.Lock()
	link := d.link.Swap(nil)
	if d.attempt != nil {
		d.attempt.late, d.attempt = driver.ErrRenewed, nil
	}
	subscriptions := slices.Collect(maps.Keys(d.subscriptions))
	d.mu.Unlock()
	if link != nil {
		link.retire()
	}
	for _, s := range subscriptions {
		s.end(driver.ErrRenewed)
	}
}

// Close closes the connections that the adapter has taken, and with them the calls under
// way and the subscriptions; and the client too, if it was made by [Open] or
// [FromOptions]. A Do after Close connects again, so Lockers may share nodes.
//
// On a node that is silent it takes about a second; over RESP2 it takes up to twice the
// client's Dialer.Timeout more, for there rueidis connects again to clear subscriptions.
func (d *adapter) Close() error {
	d.mu.Lock()
	link, client := d.link.Swap(nil), d.made(d.client)
	d.attempt = nil
	if client != nil {
		d.client = nil
	}
	subscriptions := slices.Collect(maps.Keys(d.subscriptions))
	d.mu.Unlock()
	for _, s := range subscriptions {
		s.end(driver.ErrClosed)
	}
	for _, s := range subscriptions {
		<-s.done
	}
	end(link, client)
	return nil
}

// made returns the client if the adapter has made it, and nil if it is the user's.
func (d *adapter) made(client rueidis.Client) rueidis.Client {
	if d.dial == nil {
		return nil
	}
	return client
}

func end(l *link, client rueidis.Client) {
	if l != nil {
		l.close()
	}
	if client != nil {
		client.Close()
	}
}

// refusal turns a server's answer to the handshake into a [driver.ServerError].
func refusal(err error) error {
	refused, ok := rueidis.IsRedisErr(err)
	if !ok {
		return err
	}
	text := refused.Error()
	// rueidis has cut off a leading ERR. These are the messages of that kind that begin
	// with a word that looks like a code.
	if strings.HasPrefix(text, "DB ") || strings.HasPrefix(text, "AUTH ") {
		text = "ERR " + text
	}
	return driver.Refusal(text)
}
