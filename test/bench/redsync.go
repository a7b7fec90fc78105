package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"strings"
	"time"

	"github.com/go-redsync/redsync/v4"
	redsyncpool "github.com/go-redsync/redsync/v4/redis"
	redsyncgoredis "github.com/go-redsync/redsync/v4/redis/goredis/v9"
	redsyncredigo "github.com/go-redsync/redsync/v4/redis/redigo"
	redigo "github.com/gomodule/redigo/redis"
	goredis "github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
)

// redsyncs is redsync over each client, with and without fail-fast, at its best: a
// pool with a connection for every call that may be under way, and no second tries by
// the client. Over two of them it also waits with a shorter delay than its own.
func redsyncs() (all []Contender) {
	for _, client := range clients {
		all = append(all, newRedsync(client, ""), newRedsync(client, failFast, redsync.WithFailFast(true)))
	}
	all = append(all,
		newRedsync("go-redis", autoPipeline), newRedsync("go-redis", autoPipeline+" "+failFast, redsync.WithFailFast(true)))
	for _, client := range polled {
		all = append(all, newRedsync(client, polling, redsync.WithRetryDelayFunc(func(int) time.Duration {
			return time.Millisecond + rand.N(4*time.Millisecond) //nolint:gosec // no secret
		})))
	}
	return all
}

func newRedsync(client, mode string, options ...redsync.Option) Contender {
	return Contender{Library: "redsync", Client: client, Mode: mode, Open: func(addrs []string, setup Setup) Session {
		s := &redsyncSession{timeout: setup.CallTimeout}
		s.options = append([]redsync.Option{redsync.WithExpiry(cmp.Or(setup.TTL, ttl)), redsync.WithTries(math.MaxInt)}, options...)
		var pools []redsyncpool.Pool
		for _, addr := range addrs {
			pool, closer := dialFor(client, strings.HasPrefix(mode, autoPipeline), addr, setup)
			pools, s.closers = append(pools, pool), append(s.closers, closer)
		}
		s.sync = redsync.New(pools...)
		return s
	}}
}

// dialFor makes a pool of a client, and what closes it.
func dialFor(client string, pipelined bool, addr string, setup Setup) (redsyncpool.Pool, func()) {
	switch client {
	case "redigo":
		pool := &redigo.Pool{
			// Without MaxActive and Wait: a pool with them panics when it is closed while
			// calls that fail-fast has left behind still wait for a connection.
			MaxIdle: 2 * setup.Goroutines,
			DialContext: func(ctx context.Context) (redigo.Conn, error) {
				// redsync hands no context on to a redigo connection.
				return redigo.DialContext(ctx, "tcp", addr,
					redigo.DialReadTimeout(setup.CallTimeout), redigo.DialWriteTimeout(setup.CallTimeout))
			},
		}
		return redsyncredigo.NewPool(pool), func() { _ = pool.Close() }
	case "rueidis": // with its defaults: AlwaysPipelining and MaxFlushDelay made no difference
		client := openRueidis(addr)
		return rueidisPool{client}, client.Close
	}
	goClient := goredis.NewClient(&goredis.Options{
		Addr: addr,
		// One connection for each call that may be under way, which are those of the goroutines, and with
		// fail-fast some that were left behind. Above 256 more of them only cost time.
		PoolSize:              min(256, setup.Goroutines+setup.Goroutines/2+runtime.GOMAXPROCS(0)),
		ReadTimeout:           setup.CallTimeout, // 0 stands for its default of 5s
		MaxRetries:            -1,
		DialerRetries:         1,
		ContextTimeoutEnabled: true, // or redsync's time-out would do nothing
	})
	if !pipelined {
		return redsyncgoredis.NewPool(goClient), func() { _ = goClient.Close() }
	}
	pipeline := must(goClient.AutoPipeline())
	return redsyncgoredis.NewPool(pipeline), func() { _, _ = pipeline.Close(), goClient.Close() }
}

type redsyncSession struct {
	sync    *redsync.Redsync
	options []redsync.Option
	closers []func()
	timeout time.Duration
}

func (s *redsyncSession) Lock(ctx context.Context, key string) (Hold, error) {
	h := &redsyncHold{s.sync.NewMutex(key, s.options...), s.timeout}
	return held(h, h.TryLockContext(ctx))
}

func (s *redsyncSession) Wait(ctx context.Context, key string) (Hold, error) {
	h := &redsyncHold{s.sync.NewMutex(key, s.options...), s.timeout}
	return held(h, h.LockContext(ctx))
}

func (s *redsyncSession) Close() error {
	for _, closer := range s.closers {
		closer()
	}
	return nil
}

// redsyncHold releases with a time-out, which redsync has only for its locks.
type redsyncHold struct {
	*redsync.Mutex
	timeout time.Duration
}

func (h *redsyncHold) Release() error {
	ctx := context.Background()
	if h.timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, h.timeout)
		defer cancel()
	}
	if ok, err := h.UnlockContext(ctx); !ok {
		return errors.Join(errors.New("not unlocked"), err)
	}
	return nil
}

// rueidisPool lets redsync run over rueidis. redsync has an adapter of its own, over
// rueidiscompat, a module that module proxies do not all serve; this one is thinner.
type rueidisPool struct{ client rueidis.Client }

func (p rueidisPool) Get(ctx context.Context) (redsyncpool.Conn, error) {
	return rueidisConn{nil, p.client, ctx}, nil
}

// rueidisConn is one call: that its context lives in it is redsync's contract. It has what a lock
// and its unlock call.
type rueidisConn struct {
	redsyncpool.Conn
	client rueidis.Client
	ctx    context.Context //nolint:containedctx // redsync's Conn takes none
}

func (c rueidisConn) SetNX(name, value string, expiry time.Duration) (bool, error) {
	err := c.client.Do(c.ctx, c.client.B().Set().Key(name).Value(value).Nx().PxMilliseconds(expiry.Milliseconds()).Build()).Error()
	if rueidis.IsRedisNil(err) {
		return false, nil
	}
	return err == nil, err
}

func (c rueidisConn) Eval(script *redsyncpool.Script, keysAndArgs ...any) (any, error) {
	texts := make([]string, len(keysAndArgs))
	for i, arg := range keysAndArgs {
		if text, ok := arg.(string); ok {
			texts[i] = text
		} else {
			texts[i] = fmt.Sprint(arg)
		}
	}
	keys, args := texts[:script.KeyCount], texts[script.KeyCount:]
	count := int64(script.KeyCount)
	reply, err := c.client.Do(c.ctx, c.client.B().Evalsha().Sha1(script.Hash).Numkeys(count).Key(keys...).Arg(args...).Build()).ToAny()
	if err != nil && strings.HasPrefix(err.Error(), "NOSCRIPT") {
		reply, err = c.client.Do(c.ctx, c.client.B().Eval().Script(script.Src).Numkeys(count).Key(keys...).Arg(args...).Build()).ToAny()
	}
	if rueidis.IsRedisNil(err) {
		return nil, nil
	}
	return reply, err
}

func (rueidisConn) Close() error { return nil }
