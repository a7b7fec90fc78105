package rueidis

import (
	"context"
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
	slots   chan struct{}           // the Driver's

	mu        sync.Mutex
	abandoned int // calls that were cut off; they keep their places until the link is gone
	gone      bool
}

// newLink takes a connection out of the client's pool. The PING shows whether there is
// one: rueidis hands out a dead one rather than an error.
func newLink(client rueidis.Client, slots chan struct{}) (*link, error) {
	if client.Mode() == rueidis.ClientModeCluster {
		return &link{client: client, cluster: &cluster{client: client}}, nil
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

// close ends the connection when all calls on it are answered, and after a second at the
// latest. It is called once.
func (l *link) close() {
	if l.wire != nil {
		l.wire.Close()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.gone = true
	for range l.abandoned {
		<-l.slots
	}
}

// demoted reports whether a reply shows that Sentinel has made another node the master. The
// client follows, but a connection that is out of its pool stays with the old one.
func (l *link) demoted(replies []driver.Reply) bool {
	if l.client.Mode() != rueidis.ClientModeSentinel {
		return false
	}
	for i := range replies {
		if replies[i].Kind == driver.Failure && strings.HasPrefix(replies[i].Str, "READONLY ") {
			return true
		}
	}
	return false
}

// attempt is one try to reach the node.
type attempt struct {
	done chan struct{} // closed when link or err is set
	link *link
	err  error
}

// connected returns the link, and makes one where there is none. That happens on a
// goroutine of its own, one at a time, for rueidis connects without a context; its
// Dialer.Timeout (5s by default) ends it.
func (d *Driver) connected(ctx context.Context) (*link, error) {
	if link := d.link.Load(); link != nil {
		return link, nil
	}
	d.mu.Lock()
	if link := d.link.Load(); link != nil {
		d.mu.Unlock()
		return link, nil
	}
	try := d.attempt
	if try == nil {
		try = &attempt{done: make(chan struct{})}
		d.attempt = try
		go d.connect(try, d.client) //nolint:contextcheck // it serves later calls too
	}
	d.mu.Unlock()

	select {
	case <-try.done:
		return try.link, try.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (d *Driver) connect(try *attempt, client rueidis.Client) {
	defer close(try.done)
	client, try.link, try.err = d.reach(client)

	d.mu.Lock()
	defer d.mu.Unlock()
	if d.attempt != try { // Close has come in between
		go end(try.link, d.made(client))
		try.link, try.err = nil, driver.ErrClosed
		return
	}
	d.attempt, d.client = nil, client
	d.link.Store(try.link)
}

// reach makes a link, and first the client where there is none.
func (d *Driver) reach(client rueidis.Client) (c rueidis.Client, l *link, err error) {
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
func (d *Driver) drop(failed *link) {
	if d.link.CompareAndSwap(failed, nil) {
		go failed.close()
	}
}

// abandon drops a link with a call that was cut off: if its reply never came, later calls would
// get each other's replies. Calls under way have a second to be answered. Then the place of
// the call is free again.
func (d *Driver) abandon(l *link) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.gone {
		<-d.slots
		return
	}
	l.abandoned++
	d.drop(l)
}

// Close closes the connections that the Driver has taken, and with them the calls under
// way and the subscriptions; and the client too, if it was made by [Open] or
// [FromOptions]. A Do after Close connects again, so Lockers may share nodes.
//
// On a node that is silent it takes about a second; over RESP2 it takes up to twice the
// client's Dialer.Timeout more, for there rueidis connects again to clear subscriptions.
func (d *Driver) Close() error {
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

// made returns the client if the Driver has made it, and nil if it is the user's.
func (d *Driver) made(client rueidis.Client) rueidis.Client {
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
