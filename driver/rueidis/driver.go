// Package rueidis lets locks work over clients of github.com/redis/rueidis.
//
//	nodes, err := rueidis.Nodes(clients...)           // clients that the service has
//	nodes, err := rueidis.FromOptions(options...)     // or options: connects when it can
//	nodes, err := rueidis.Open("redis://10.0.0.1", …) // or URLs
//
// [Open] and [FromOptions] do no I/O: a node that is down at the start is connected
// to once it is back. (rueidis.NewClient fails on such a node, so a service that
// makes its clients itself does not start while one of its nodes is down.)
//
// The client's module was github.com/rueian/rueidis, and is github.com/redis/rueidis from v1.0.0 on.
// Clients of the old path are of another type, which Nodes does not take: change the import.
//
// # Connections
//
// On each node the adapter takes one connection out of the client's blocking pool
// and keeps it (rueidis.Client's Dedicate): what the lock sends does not
// wait behind the service's own commands, nor they behind it, and a call that is cut
// off cannot close a connection that others share. A batch that blocks (WAIT,
// WAITAOF) has another one from the same pool, which is kept as well. With Open and
// FromOptions rueidis adds the one that it opens for every client. On a node that is a
// Redis Cluster each call takes one of each master while it runs, so up to 8 of each. It follows
// neither MOVED nor ASK: a key that has moved has no vote until the client knows its new master.
//
// While somebody waits for a lock, the Locker keeps one more connection of each node,
// subscribed to releases; over RESP2 it is two, of which one counts in the pool. If the
// server refuses an UNSUBSCRIBE with an error (MISCONF, BUSY), the adapter closes that
// connection instead, because rueidis panics over such replies. So a user whom an ACL
// restricts should be allowed PING, ECHO and UNSUBSCRIBE as well as SUBSCRIBE.
//
// # What a client's settings do
//
// A client with all defaults is right, and these settings change nothing for the
// lock: DisableRetry, DisableAutoPipelining, AlwaysPipelining, PipelineMultiplex,
// BlockingPipeline, DisableCache, AlwaysRESP2, ConnLifetime. Four cannot be seen
// from a rueidis.Client, so mind them yourself:
//
//   - BlockingPoolSize counts the lock's connections too. Leave it at its default,
//     or add two (one for what is sent and one for a Locker that waits, and one more
//     for each further Locker), and 8 more where batches block.
//     With an exhausted pool a Locker cannot subscribe, and polls.
//   - RingScaleEachConn must be 0 (the default) or at least 4. In a smaller ring a
//     call waits for room, which no context ends.
//   - ConnWriteTimeout (10s by default) is how long a connection to a silent server
//     lives, and with it batches that block and were cut off. A negative value means
//     for ever.
//   - ReplicaOnly and SendToReplicas must not be set: a replica takes no lock.
//
// FromOptions sets or refuses all of these itself.
//
// With AuthCredentialsFn and its RefreshAfter, rueidis does not refresh a connection
// that is out of its pool: when the server ends it, the call under way fails and the
// next one connects with new credentials.
//
// # Servers that leave the protocol
//
// A connection of [Open] and [FromOptions] ends when the server leaves the protocol. The
// connections of the service's own clients trust the server, and such replies end the
// process, because rueidis panics on goroutines of its own:
//
//	the server sends                     rueidis 1.0.79
//	anything, when nothing was asked     panics
//	a reply too many                     panics
//	a confirmation of no SUBSCRIBE       panics
//	$-5, *-7, %-1, $9223372036854775807  panics
//	$99999999999, *2147483647            allocates that, which is beyond most machines
//	a million arrays in each other       reads them by recursion until the stack is full
//
// Over them it is not known either what a server says that takes no connection and hangs up
// (protected mode, or as many clients as it takes): rueidis forgets it, and the error is EOF.
//
// Prefer FromOptions to clients of your own where a node, or a proxy before it, may send such
// replies. It takes all of a client's options.
package rueidis

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/redis/rueidis"

	"github.com/quorumlock/quorumlock/driver"
)

// maxCalls is how many calls of an adapter may be under way, or cut off and not yet
// answered: the most that the contract lets an adapter leave behind.
const maxCalls = 8

// adapter sends commands through a rueidis.Client. Make it with [Nodes], [Node],
// [FromOptions] or [Open].
type adapter struct {
	dial  func() (rueidis.Client, error) // makes the client; nil where the user gave one
	slots chan struct{}                  // holds one for each call under way or not yet answered
	link  atomic.Pointer[link]           // nil until connected, and after a failure

	opening chan struct{} // holds one while a subscription is being opened

	mu            sync.Mutex
	client        rueidis.Client             // nil until dial has made it
	attempt       *attempt                   // the one under way, or nil
	subscriptions map[*subscription]struct{} // those that are open
}

var (
	_ driver.Driver     = (*adapter)(nil)
	_ driver.Subscriber = (*adapter)(nil)
	_ driver.Renewer    = (*adapter)(nil)
)

func newDriver(client rueidis.Client, dial func() (rueidis.Client, error)) *adapter {
	return &adapter{
		client:        client,
		dial:          dial,
		slots:         make(chan struct{}, maxCalls),
		opening:       make(chan struct{}, 1),
		subscriptions: map[*subscription]struct{}{},
	}
}

// Do sends cmds to the node, as [driver.Driver] says. It runs on the caller's
// goroutine and returns as soon as ctx ends.
//
// At most 8 calls run at once; others wait for their turn. A call that ctx
// cuts off holds its place until its connection is closed, a second later at most, and
// the next call connects anew. It reports none of its replies, not even those that had
// arrived.
//
// Batches that block and those to a Cluster run on a goroutine of their own. Of one that ctx
// cuts off, and of one that blocks and fails, no reply is reported.
func (d *adapter) Do(ctx context.Context, cmds []driver.Command) ([]driver.Reply, error) {
	if len(cmds) == 0 {
		return nil, nil
	}
	if err := ctx.Err(); err != nil {
		return nil, notSent(err)
	}
	select {
	case d.slots <- struct{}{}:
	case <-ctx.Done():
		return nil, notSent(ctx.Err())
	}
	var link *link
	for entered := false; !entered; {
		var err error
		if link, err = d.connected(ctx); err != nil {
			<-d.slots
			return nil, notSent(err)
		}
		if link.wire == nil || slices.ContainsFunc(cmds, func(cmd driver.Command) bool { return cmd.Blocks }) {
			return d.aside(ctx, link, cmds)
		}
		entered = link.enter()
	}
	defer link.leave()

	call := newCall(ctx, link.wire, cmds)
	var replies []driver.Reply
	results, err := call.send(link.wire) //nolint:contextcheck // the call is the context
	if err == nil {
		replies, err = toReplies(results)
	}
	switch {
	case err == nil:
		call.recycle()
		<-d.slots
		return replies, nil
	case ctx.Err() != nil:
		d.abandon(link)
		return replies, fmt.Errorf("rueidis: %w", ctx.Err())
	default:
		d.drop(link)
		<-d.slots
		return replies, fmt.Errorf("rueidis: %w", err)
	}
}

// aside sends cmds on connections that are theirs alone while they run: one, or one to each master
// of a Cluster. It does so on a goroutine of its own, for rueidis may have to connect first, which no
// cancel ends; the deadline does.
func (d *adapter) aside(ctx context.Context, link *link, cmds []driver.Command) ([]driver.Reply, error) {
	cmds = slices.Clone(cmds) // the caller may have its memory back before they are read
	for i := range cmds {
		cmds[i].Args = slices.Clone(cmds[i].Args)
	}
	results, err := driver.Await(ctx, func() ([]rueidis.RedisResult, error) {
		defer func() { <-d.slots }()
		if link.cluster != nil {
			return link.cluster.do(ctx, cmds)
		}
		return link.block(ctx, cmds), nil
	}, func([]rueidis.RedisResult, error) {})
	var replies []driver.Reply
	if err == nil {
		if replies, err = toReplies(results); err == nil {
			return replies, nil
		}
	}
	if ctx.Err() != nil {
		return nil, fmt.Errorf("rueidis: %w", ctx.Err())
	}
	return replies, fmt.Errorf("rueidis: %w", err)
}

func notSent(err error) error {
	return fmt.Errorf("rueidis: %w", driver.NotSent(err))
}
