package goredis_test

import (
	"context"
	"net"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/driver/drivertest"
	"github.com/quorumlock/quorumlock/driver/goredis"
	"github.com/quorumlock/quorumlock/test/leak"
	"github.com/quorumlock/quorumlock/test/redisserver"
	"github.com/quorumlock/quorumlock/test/servertest"
)

func TestMain(m *testing.M) { leak.Main(m) }

// TestDriver runs the suite with a client made as people make it.
func TestDriver(t *testing.T) {
	drivertest.Run(t, func(t *testing.T, addr string) drivertest.Subject {
		client := redis.NewClient(&redis.Options{Addr: addr})
		stranger := func(ctx context.Context, args ...string) error {
			return client.Do(ctx, servertest.Command(args...).Args...).Err()
		}
		return drivertest.Subject{Driver: open(t, client), Stranger: stranger}
	})
}

// TestDriverFromURL runs the suite over what Open makes.
func TestDriverFromURL(t *testing.T) {
	drivertest.Run(t, func(t *testing.T, addr string) drivertest.Subject {
		return drivertest.Subject{Driver: servertest.Open(t, goredis.Open, "redis://"+addr)}
	})
}

// TestDriverOverCluster runs it with a cluster client.
func TestDriverOverCluster(t *testing.T) {
	drivertest.Run(t, func(t *testing.T, addr string) drivertest.Subject {
		return drivertest.Subject{Driver: open(t, clusterOf(nil, addr))}
	})
}

func TestServers(t *testing.T) { servertest.Run(t, "goredis", goredis.Open) }

func TestAPanicOfADialerOrAHookIsAnError(t *testing.T) {
	servertest.Panics(t, func(addr string, may func()) driver.Driver {
		return open(t, redis.NewClient(&redis.Options{Addr: addr, Dialer: func(ctx context.Context, network, addr string) (net.Conn, error) {
			may()
			return new(net.Dialer).DialContext(ctx, network, addr)
		}}))
	})
	servertest.Panics(t, func(addr string, may func()) driver.Driver {
		return open(t, redis.NewClient(&redis.Options{Addr: addr}), goredis.WithHooks(onEcho(may)))
	})
}

// onEcho is a hook that calls the function before an ECHO.
type onEcho func()

func (h onEcho) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if cmd.Name() == "echo" {
			h()
		}
		return next(ctx, cmd)
	}
}

func (onEcho) DialHook(next redis.DialHook) redis.DialHook { return next }

func (onEcho) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func FuzzReplies(f *testing.F) { drivertest.FuzzReplies(f, openDefault) }

func FuzzNotices(f *testing.F) { drivertest.FuzzNotices(f, openDefault) }

func TestHostileReplies(t *testing.T) { drivertest.HostileReplies(t, openDefault) }

// openDefault opens the driver of a client as people make it.
func openDefault(tb testing.TB, addr string) driver.Driver {
	return open(tb, redis.NewClient(&redis.Options{Addr: addr}))
}

// open returns the client's driver. Both are closed at the end.
func open(t testing.TB, client redis.UniversalClient, opts ...goredis.Option) servertest.Driver {
	t.Helper()
	node, err := goredis.Node(client, opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	return servertest.Closing(t, node.Driver)
}

// start starts a server, and returns it with the driver of a client as people make it.
func start(t testing.TB) (*redisserver.Server, servertest.Driver) {
	t.Helper()
	server := redisserver.Start(t)
	return server, openDefault(t, server.Addr).(servertest.Driver)
}
