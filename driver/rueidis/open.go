package rueidis

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"

	"github.com/redis/rueidis"

	"github.com/quorumlock/quorumlock/driver"
)

// Open makes a node of each URL, which [driver.ParseURL] describes:
//
//	redis://user:password@10.0.0.1:6379/0
//	rediss://10.0.0.2?ca=/etc/redis/ca.pem
//	unix:///run/redis.sock
//	redis-sentinel://10.0.0.1?master=main&addr=10.0.0.2:26379
//	redis-cluster://10.0.0.1?addr=10.0.0.2:6379
//
// Connections have the name [driver.ClientName]. It does no I/O but for reading certificates. A
// node connects at its first use, and again after a failure, so one that is down keeps nobody from
// starting. The Locker closes what it has opened. Locks lie in the database that a URL's path
// names: services whose URLs name different ones hold independent locks.
func Open(urls ...string) ([]driver.Node, error) {
	options := make([]rueidis.ClientOption, len(urls))
	for i, url := range urls {
		end, err := driver.ParseURL(url)
		if err != nil {
			return nil, fmt.Errorf("rueidis: node %d: %w", i+1, err)
		}
		options[i] = rueidis.ClientOption{
			InitAddress:       []string{end.Addr},
			Username:          end.Username,
			Password:          end.Password,
			SelectDB:          end.DB,
			ClientName:        driver.ClientName,
			TLSConfig:         end.TLS,
			ForceSingleClient: end.Seeds == nil && end.Master == "", // a URL of one server: no looking for a Cluster behind it

			// A batch of 500 locks, instead of half a megabyte each way.
			ReadBufferEachConn:  1 << 16,
			WriteBufferEachConn: 1 << 16,
		}
		switch {
		case end.Seeds != nil:
			options[i].InitAddress = end.Seeds
		case end.Master != "":
			options[i].InitAddress = end.Sentinels
			options[i].Sentinel = rueidis.SentinelOption{
				MasterSet: end.Master, Username: end.SentinelUsername, Password: end.SentinelPassword, ClientName: driver.ClientName, TLSConfig: end.TLS,
			}
		case end.Network != "tcp":
			options[i].DialCtxFn = func(ctx context.Context, addr string, dialer *net.Dialer, _ *tls.Config) (net.Conn, error) {
				return dialer.DialContext(ctx, end.Network, addr)
			}
		}
	}
	return FromOptions(options...)
}

// FromOptions makes a node of each client option. It does no I/O: a node makes its
// client at its first use, and again after a failure, so one that is down keeps nobody
// from starting. The Locker closes what it has made. A node is named after its
// address, or after the master set where there is a Sentinel.
//
// The client serves the lock alone, so client-side caching is off, whatever the option
// says, and sizes that are too small for the lock are raised. It refuses options without
// InitAddress, with ReplicaOnly or with SendToReplicas.
func FromOptions(options ...rueidis.ClientOption) ([]driver.Node, error) {
	nodes := make([]driver.Node, len(options))
	for i, option := range options {
		name := strings.Join(option.InitAddress, ",")
		if option.Sentinel.MasterSet != "" {
			name = option.Sentinel.MasterSet
		}
		if err := check(&option); err != nil {
			return nil, fmt.Errorf("rueidis: node %d (%s): %w", i+1, name, err)
		}
		nodes[i] = driver.Node{Name: name, Driver: newDriver(nil, func() (rueidis.Client, error) {
			return newClient(option)
		})}
	}
	return nodes, nil
}

func check(option *rueidis.ClientOption) error {
	switch {
	case len(option.InitAddress) == 0:
		return errors.New("InitAddress is empty; want the node's address")
	case option.ReplicaOnly:
		return errors.New("ReplicaOnly is set; want false, for a replica takes no lock")
	case option.SendToReplicas != nil:
		return errors.New("SendToReplicas is set; want nil, for a replica takes no lock")
	case option.ConnWriteTimeout < 0:
		return errors.New("ConnWriteTimeout is negative; want 0 (10s) or more, or calls to a silent server never end")
	}
	option.InitAddress = slices.Clone(option.InitAddress) // ShuffleInit sorts it in place
	option.DialCtxFn = checked(option.DialCtxFn, option.DialFn)
	option.DisableCache = true
	option.BlockingPoolSize = 0
	if option.RingScaleEachConn < 4 { // 16 places: the calls and rueidis's own PINGs
		option.RingScaleEachConn = 0
	}
	return nil
}

// newClient makes a client. A server or a user without CLIENT SETNAME has connections without the
// name that Open gives them; rueidis would rather have none.
func newClient(option rueidis.ClientOption) (rueidis.Client, error) {
	client, err := rueidis.NewClient(option)
	if err != nil && client != nil { // so with ForceSingleClient
		client.Close()
		client = nil
	}
	if refused, ok := rueidis.IsRedisErr(err); ok && option.ClientName == driver.ClientName && strings.Contains(strings.ToLower(refused.Error()), "client") {
		option.ClientName = ""
		return newClient(option)
	}
	return client, err
}

// checked dials as the option says, and checks the server's replies: rueidis dials on goroutines of its
// own, and panics there over an unasked reply.
func checked(
	dialCtx func(context.Context, string, *net.Dialer, *tls.Config) (net.Conn, error),
	dial func(string, *net.Dialer, *tls.Config) (net.Conn, error),
) func(context.Context, string, *net.Dialer, *tls.Config) (net.Conn, error) {
	return func(ctx context.Context, addr string, dialer *net.Dialer, config *tls.Config) (socket net.Conn, err error) {
		defer driver.CatchPanic(&err)
		switch {
		case dialCtx != nil:
			socket, err = dialCtx(ctx, addr, dialer, config)
		case dial != nil:
			socket, err = dial(addr, dialer, config)
		case config != nil:
			socket, err = (&tls.Dialer{NetDialer: dialer, Config: config}).DialContext(ctx, "tcp", addr)
		default:
			socket, err = dialer.DialContext(ctx, "tcp", addr)
		}
		if err != nil {
			return nil, err
		}
		return driver.CheckReplies(socket), nil
	}
}
