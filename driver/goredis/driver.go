// Package goredis lets a Locker use the go-redis clients that a service has.
//
//	nodes, err := goredis.Nodes(clients...)
//
// A client of any settings will do, its library's defaults included: the adapter
// does not send through it but connects by its options (address, dialer, TLS,
// credentials, database, OnConnect), with what would break a lock set otherwise.
// It sends each command once, where the client would send a SET whose reply got
// lost four times; it keeps to the deadline of a call, where the client would wait
// for its own 5 seconds; and a lock's time-outs close no connection that others
// use. Not taken over are hooks, which a client does not expose (see [WithHooks]), its
// circuit breaker (Limiter) and its client-side cache. A connection keeps the
// credentials that it was made with, until the server ends it.
//
// For each node, the adapter adds at most 8 connections to those of the client: as
// many as there were batches out at once, none before the first use, on a fast
// network seldom more than one or two. On a Cluster that is for each master, and
// one more to ask for the map. A Locker that waits adds one connection a node (a
// Cluster is one node), which is subscribed to releases.
//
// A connection ends when the server leaves the protocol: a reply is malformed, too large
// (4 MB a string) or unasked. Announced lengths take no memory.
//
// These work: a client for one server ([redis.Client]), one that finds its master by Sentinel
// (redis.NewFailoverClient), and a Cluster ([redis.ClusterClient]). A failover client has to stay
// open as long as the Locker, for closing it ends the discovery; and a Locker on such nodes wants
// redlock.WithDurability, or an old master that was cut off may vote beside its successor. A
// [redis.Ring] is refused: its shards are nodes of their own.
package goredis

import (
	"context"
	"fmt"
	"io"

	"github.com/quorumlock/quorumlock/driver"
)

// adapter sends commands to one node. It is made by [Nodes], [Node] and [Open].
type adapter struct {
	to transport
}

var (
	_ driver.Driver     = (*adapter)(nil)
	_ driver.Subscriber = (*adapter)(nil)
	_ driver.Renewer    = (*adapter)(nil)
	_ io.Closer         = (*adapter)(nil)
)

// transport is a server or a cluster.
type transport interface {
	do(ctx context.Context, cmds []driver.Command) ([]driver.Reply, error)
	subscribe(ctx context.Context, onNotice func(driver.Notice)) (driver.Subscription, error)
	renew()
	close() error
}

// Do keeps the contract of [driver.Driver]. Every batch has its connection to
// itself, so a command may block.
//
// A refusal to log in or to select the database is an error that holds the
// [driver.ServerError] and wraps [driver.ErrNotSent]. On a Cluster, a batch for the
// keys of several masters goes to them at once, and a key that has moved is
// answered by MOVED: the next call knows the new master.
func (d *adapter) Do(ctx context.Context, cmds []driver.Command) ([]driver.Reply, error) {
	if len(cmds) == 0 {
		return nil, nil
	}
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("goredis: %w", driver.NotSent(err))
	}
	replies, err := d.to.do(ctx, cmds)
	if err != nil {
		err = fmt.Errorf("goredis: %w", err)
	}
	return replies, err
}

// Subscribe keeps the contract of [driver.Subscriber]. A refusal to log in is an error
// that holds the [driver.ServerError].
func (d *adapter) Subscribe(ctx context.Context, onNotice func(driver.Notice)) (driver.Subscription, error) {
	sub, err := d.to.subscribe(ctx, onNotice)
	if err != nil {
		return nil, fmt.Errorf("goredis: %w", err)
	}
	return sub, nil
}

// Renew keeps the contract of [driver.Renewer]. A Cluster is asked for its map again, too.
func (d *adapter) Renew() { d.to.renew() }

// Close closes the adapter's own connections and leaves the client that it was made
// from as it is. Batches that are out end with an error, and so do subscriptions. It
// waits for connections being made, which a dialer that ignores its context
// (go-redis's own does over TLS) may delay by the client's DialTimeout.
func (d *adapter) Close() error {
	return d.to.close()
}
