// Package ripe gives servers records of the restart guard that are old enough, for tests that have no time to wait.
package ripe

import (
	"context"
	"fmt"
	"net"
	"strconv"

	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/driver/resp"
	"github.com/quorumlock/quorumlock/internal/memory"
	"github.com/quorumlock/quorumlock/internal/protocol"
)

// Servers makes the records of the servers at these addresses such as clients with the settings leave them that
// have watched for long enough. Login is nothing, or user and password.
func Servers(ctx context.Context, addrs []string, s memory.Settings, prefix string, login ...string) error {
	s.Size = len(addrs)
	for _, addr := range addrs {
		dial := func(ctx context.Context) (net.Conn, error) { return new(net.Dialer).DialContext(ctx, "tcp", addr) }
		if err := Server(ctx, dial, s, prefix, login...); err != nil {
			return fmt.Errorf("%s: %w", addr, err)
		}
	}
	return nil
}

// Server does that at one server.
func Server(ctx context.Context, dial func(context.Context) (net.Conn, error), s memory.Settings, prefix string, login ...string) error {
	socket, err := dial(ctx)
	if err != nil {
		return err
	}
	c := resp.NewConn(socket)
	defer c.Cut()
	ask := func(args ...any) (driver.Reply, error) {
		replies, err := c.Exchange(ctx, []driver.Command{{Args: args}})
		if err != nil {
			return driver.Reply{}, err
		}
		return replies[0], replies[0].Err()
	}
	if login != nil {
		if _, err := ask("AUTH", login[0], login[1]); err != nil {
			return err
		}
	}
	info, err := ask("INFO", "replication")
	if err != nil {
		return err
	}
	_, err = ask("HSET", memory.Key(prefix), "id", protocol.Field(info.Str, "master_replid:"), "for", s.String(),
		"age", strconv.FormatInt(s.Need().Microseconds(), 10), "last", "0")
	return err
}
