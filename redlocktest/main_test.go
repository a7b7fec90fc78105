package redlocktest

import (
	"context"
	"fmt"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/driver/resp"
	"github.com/quorumlock/quorumlock/test/leak"
)

func TestMain(m *testing.M) { leak.Main(m) }

func command(args ...string) driver.Command {
	cmd := driver.Command{Args: make([]any, len(args))}
	for i, arg := range args {
		cmd.Args[i] = arg
	}
	return cmd
}

// reach returns the way that a user's client takes to the node.
func reach(node *Node) func(context.Context) (net.Conn, error) {
	if !node.listens {
		return node.Dial
	}
	return func(ctx context.Context) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "tcp", node.Addr())
	}
}

func newClient(dial func(context.Context) (net.Conn, error)) *resp.Client {
	return resp.NewClient("redlocktest", dial)
}

// try sends one command to the node, over a new connection, for at most a second.
func try(t testing.TB, node *Node, args ...string) (driver.Reply, error) {
	t.Helper()
	c := newClient(reach(node))
	defer func() { _ = c.Close() }() // is always nil
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	replies, err := c.Do(ctx, []driver.Command{command(args...)})
	if err != nil {
		return driver.Reply{}, err
	}
	return replies[0], nil
}

func ask(t testing.TB, node *Node, args ...string) driver.Reply {
	t.Helper()
	reply, err := try(t, node, args...)
	if err != nil {
		t.Fatalf("%v to %s = %v, want a reply", args, node.Addr(), err)
	}
	return reply
}

// show prints a reply on one line.
func show(r driver.Reply) string {
	switch r.Kind {
	case driver.Integer:
		return fmt.Sprint(r.Int)
	case driver.String:
		return fmt.Sprintf("%q", r.Str)
	case driver.Array:
		var elems []string
		for _, elem := range r.Elems {
			elems = append(elems, show(elem))
		}
		return "[" + strings.Join(elems, " ") + "]"
	case driver.Failure:
		return "-" + r.Str
	}
	return "nil"
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// alone runs the test over one node in virtual time.
func alone(t *testing.T, test func(t *testing.T, node *Node)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { test(t, StartInBubble(t, 1)[0]) })
}

// says fails the test unless what was said is what was wanted.
func says[T comparable](t *testing.T, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
}
