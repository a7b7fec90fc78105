package rueidis_test

import (
	"context"
	"crypto/tls"
	"net"
	"testing"

	client "github.com/redis/rueidis"

	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/driver/drivertest"
	"github.com/quorumlock/quorumlock/driver/rueidis"
	"github.com/quorumlock/quorumlock/test/leak"
	"github.com/quorumlock/quorumlock/test/scripted"
	"github.com/quorumlock/quorumlock/test/servertest"
)

func TestMain(m *testing.M) { leak.Main(m) }

func TestDriver(t *testing.T) {
	for name, option := range map[string]client.ClientOption{
		"defaults": {},
		// The settings that rueidis serves in the least usual ways, and the smallest
		// ring that the package's doc allows.
		"unusual": {DisableAutoPipelining: true, AlwaysRESP2: true, DisableCache: true, RingScaleEachConn: 4, BlockingPipeline: 2},
	} {
		t.Run(name, func(t *testing.T) {
			drivertest.Run(t, func(t *testing.T, addr string) drivertest.Subject {
				option.InitAddress = []string{addr}
				c := newClient(t, option)
				return drivertest.Subject{
					Driver: driverOf(t, c),
					Deaf:   true, // by an error, rueidis drops the replies before it

					Restless: option.AlwaysRESP2, // it opens the connection for messages before it closes it
					Stranger: func(ctx context.Context, args ...string) error {
						return c.Do(ctx, c.B().Arbitrary(args...).Build()).Error()
					},
				}
			})
		})
	}
}

func TestOpenedDriver(t *testing.T) {
	drivertest.Run(t, func(t *testing.T, addr string) drivertest.Subject {
		return drivertest.Subject{Driver: openURL(t, addr)}
	})
}

func TestDriverOverCluster(t *testing.T) {
	drivertest.Run(t, func(t *testing.T, addr string) drivertest.Subject {
		return drivertest.Subject{
			Driver: open(t, client.ClientOption{InitAddress: []string{addr}, ClientName: scripted.Cluster}),
		}
	})
}

func TestServers(t *testing.T) { servertest.Run(t, "rueidis", rueidis.Open) }

func TestAPanicOfADialerOrAHookIsAnError(t *testing.T) {
	servertest.Panics(t, func(addr string, may func()) driver.Driver {
		return open(t, client.ClientOption{
			InitAddress: []string{addr}, DisableCache: true,
			DialCtxFn: func(ctx context.Context, addr string, dialer *net.Dialer, _ *tls.Config) (net.Conn, error) {
				may()
				return dialer.DialContext(ctx, "tcp", addr)
			},
		})
	})
	for _, name := range []string{"", scripted.Cluster} {
		servertest.Panics(t, func(addr string, may func()) driver.Driver {
			return driverOf(t, hooked{newClient(t, client.ClientOption{InitAddress: []string{addr}, ClientName: name}), may})
		})
	}
}

// hooked is a client as those of rueidishook are: its dedicated connections call the function before
// all but a PING.
type hooked struct {
	client.Client
	before func()
}

func (h hooked) Dedicate() (client.DedicatedClient, func()) {
	wire, cancel := h.Client.Dedicate()
	return hookedWire{wire, h.before}, cancel
}

type hookedWire struct {
	client.DedicatedClient
	before func()
}

func (h hookedWire) Do(ctx context.Context, cmd client.Completed) client.RedisResult {
	if cmd.Commands()[0] != "PING" {
		h.before()
	}
	return h.DedicatedClient.Do(ctx, cmd)
}

func (h hookedWire) DoMulti(ctx context.Context, cmds ...client.Completed) []client.RedisResult {
	h.before()
	return h.DedicatedClient.DoMulti(ctx, cmds...)
}

func FuzzReplies(f *testing.F) { drivertest.FuzzReplies(f, openURL) }

func FuzzNotices(f *testing.F) { drivertest.FuzzNotices(f, openURL) }

func TestHostileReplies(t *testing.T) { drivertest.HostileReplies(t, openURL) }

func openURL(tb testing.TB, addr string) driver.Driver {
	return servertest.Open(tb, rueidis.Open, "redis://"+addr)
}

// newClient makes a client, which is closed at the end.
func newClient(t testing.TB, option client.ClientOption) client.Client {
	t.Helper()
	c, err := client.NewClient(option)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// driverOf returns the driver of a client, and closes it at the end.
func driverOf(t testing.TB, c client.Client) driver.Driver {
	t.Helper()
	node, err := rueidis.Node(c)
	if err != nil {
		t.Fatal(err)
	}
	return servertest.Closing(t, node.Driver)
}

// open returns the driver of an option, and closes it at the end.
func open(t testing.TB, option client.ClientOption) driver.Driver {
	t.Helper()
	nodes, err := rueidis.FromOptions(option)
	if err != nil {
		t.Fatal(err)
	}
	return servertest.Closing(t, nodes[0].Driver)
}

// dialing returns a rueidis.ClientOption.DialCtxFn.
func dialing(s *scripted.Server) func(context.Context, string, *net.Dialer, *tls.Config) (net.Conn, error) {
	return func(context.Context, string, *net.Dialer, *tls.Config) (net.Conn, error) { return s.Dial(), nil }
}

// inBubble are the options for a bubble, in which there are no networks. Some of the server's answers
// come from instead, which may be nil.
func inBubble(t *testing.T, instead func(proto int, args []string) (reply string, ok bool)) client.ClientOption {
	server := scripted.New()
	server.Instead = instead
	t.Cleanup(server.Close)
	return client.ClientOption{
		InitAddress: []string{"node"}, DialCtxFn: dialing(server), ForceSingleClient: true, DisableCache: true, AlwaysRESP2: true,
	}
}
