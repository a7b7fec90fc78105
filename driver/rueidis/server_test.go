package rueidis_test

import (
	"context"
	"io"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/quorumlock/quorumlock/driver"
)

// command is a command about one key.
func command(name, key string, rest ...string) driver.Command {
	cmd := plain(append([]string{name, key}, rest...)...)
	cmd.FirstKey, cmd.Keys = 1, 1
	return cmd
}

// plain is a command that has no key.
func plain(args ...string) driver.Command {
	var cmd driver.Command
	for _, arg := range args {
		cmd.Args = append(cmd.Args, arg)
	}
	return cmd
}

// newClient makes a client as most people do: with all defaults.
func newClient(t testing.TB, addr string) rueidis.Client {
	t.Helper()
	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{addr}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client
}

// driverOf returns the node's driver and closes it at the end.
func driverOf(t testing.TB, node driver.Node) driver.Driver {
	t.Helper()
	t.Cleanup(func() { closeAll([]driver.Node{node}) })
	return node.Driver
}

func closeAll(nodes []driver.Node) {
	for _, node := range nodes {
		_ = node.Driver.(io.Closer).Close()
	}
}

// do is a call that has no reason to fail.
func do(t testing.TB, d driver.Driver, cmds ...driver.Command) []driver.Reply {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	replies, err := d.Do(ctx, cmds)
	if err != nil {
		t.Fatalf("Do(%q) = %v, want its replies", cmds[0].Args, err)
	}
	return replies
}
