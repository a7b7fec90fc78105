package goredis

import (
	"context"
	"net"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/quorumlock/quorumlock/driver"
)

// mend returns the options of a client of our own to the server that user's client
// talks to. They are for one connection: server counts those.
//
// Options of a living client are normalised: a user's -1 (no retries, no time-out)
// is 0 there, which a new client would take for the default of 3 retries and 5s.
// So whatever has such a -1 is set anew and not copied.
func mend(user *redis.Options) *redis.Options {
	own := *user

	// A command is sent once, and a dead server is known after one dial.
	own.MaxRetries = -1
	own.DialerRetries = 1

	// The deadline of Do is the only time-out, of a blocking command too.
	own.ContextTimeoutEnabled = true
	own.ReadTimeout, own.WriteTimeout = -1, -1
	if own.DialTimeout <= 0 {
		own.DialTimeout = dialTimeout
	}

	own.PoolSize, own.MaxActiveConns = 1, 1
	own.MinIdleConns, own.MaxIdleConns = 0, 0
	own.PipelinePoolSize = -1

	// Pushed messages are of no use here, and looking for them costs at each
	// reply. Left alone, maintenance notifications would also look the address up
	// in DNS before there is any context.
	own.Protocol = 2
	own.PushNotificationProcessor = nil
	own.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	own.ClientSideCache, own.ClientSideCacheConfig = nil, nil

	// A circuit breaker belongs to the traffic that it was made for: our time-outs
	// would open it for others, and theirs would keep us from releasing.
	own.Limiter = nil
	return &own
}

// mendCluster does the same for the client that knows which master has which key.
// It sends nothing but the question for that map.
func mendCluster(user *redis.ClusterOptions) *redis.ClusterOptions {
	own := *user
	own.MaxRetries, own.MaxRedirects = -1, -1
	own.DialerRetries = 1
	own.ContextTimeoutEnabled = true
	if own.DialTimeout <= 0 {
		own.DialTimeout = dialTimeout
	}
	own.ReadTimeout, own.WriteTimeout = own.DialTimeout, own.DialTimeout
	own.ReadOnly, own.RouteByLatency, own.RouteRandomly = false, false, false
	own.PoolSize, own.MaxActiveConns = 1, 0
	own.MinIdleConns, own.MaxIdleConns = 0, 0
	own.PipelinePoolSize = -1
	own.Protocol = 2
	own.PushNotificationProcessor = nil
	own.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}

	dial := own.Dialer
	if dial == nil {
		dial = redis.NewDialer(&redis.Options{DialTimeout: own.DialTimeout, TLSConfig: own.TLSConfig})
	}
	own.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
		socket, err := dial(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		return driver.CheckReplies(socket), nil
	}
	return &own
}

// dialTimeout is go-redis's default, for a client that has none.
const dialTimeout = 5 * time.Second
