package main

import (
	"context"
	"errors"
	"io"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
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
func redsyncs() []Contender {
	var all []Contender
	for _, over := range []struct {
		client, mode string
		dial         redsyncDial
	}{
		{"go-redis", "", dialGoredis},
		{"redigo", "", dialRedigo},
		{"rueidis", "", dialRueidis},
		{"go-redis", autoPipeline, dialAutoPipeline},
	} {
		all = append(all,
			newRedsync(over.client, over.mode, over.dial),
			newRedsync(over.client, strings.TrimSpace(over.mode+" "+failFast), over.dial, redsync.WithFailFast(true)))
	}
	often := redsync.WithRetryDelayFunc(func(int) time.Duration {
		return time.Millisecond + rand.N(4*time.Millisecond) //nolint:gosec // no secret
	})
	return append(all,
		newRedsync("go-redis", polling, dialGoredis, often),
		newRedsync("rueidis", polling, dialRueidis, often))
}

type redsyncDial func(addr string, setup Setup) (redsyncpool.Pool, io.Closer, error)

func newRedsync(client, mode string, dial redsyncDial, options ...redsync.Option) Contender {
	return Contender{
		Library: "redsync", Client: client, Mode: mode,
		Open: func(addrs []string, setup Setup) (Session, error) {
			s := &redsyncSession{timeout: setup.CallTimeout, options: append([]redsync.Option{
				redsync.WithExpiry(setup.TTL), redsync.WithTries(math.MaxInt),
			}, options...)}
			pools := make([]redsyncpool.Pool, len(addrs))
			for i, addr := range addrs {
				pool, closer, err := dial(addr, setup)
				if err != nil {
					return nil, errors.Join(err, s.Close())
				}
				pools[i], s.clients = pool, append(s.clients, closer)
			}
			s.sync = redsync.New(pools...)
			return s, nil
		},
	}
}

type redsyncSession struct {
	sync    *redsync.Redsync
	options []redsync.Option
	clients []io.Closer
	timeout time.Duration
}

func (s *redsyncSession) Lock(ctx context.Context, key string) (Hold, error) {
	mutex := s.sync.NewMutex(key, s.options...)
	return s.hold(mutex, mutex.TryLockContext(ctx))
}

func (s *redsyncSession) Wait(ctx context.Context, key string) (Hold, error) {
	mutex := s.sync.NewMutex(key, s.options...)
	return s.hold(mutex, mutex.LockContext(ctx))
}

func (s *redsyncSession) hold(mutex *redsync.Mutex, err error) (Hold, error) {
	switch {
	case err != nil:
		return nil, err
	case s.timeout > 0:
		return redsyncBounded{mutex, s.timeout}, nil
	}
	return (*redsyncHold)(mutex), nil
}

func (s *redsyncSession) Close() error {
	var errs []error
	for _, client := range s.clients {
		errs = append(errs, client.Close())
	}
	return errors.Join(errs...)
}

type redsyncHold redsync.Mutex

func (h *redsyncHold) Release(ctx context.Context) error {
	if ok, err := (*redsync.Mutex)(h).UnlockContext(ctx); !ok {
		return errors.Join(errors.New("not unlocked"), err)
	}
	return nil
}

// redsyncBounded releases with a time-out, which redsync has only for its locks.
type redsyncBounded struct {
	mutex   *redsync.Mutex
	timeout time.Duration
}

func (h redsyncBounded) Release(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, h.timeout)
	defer cancel()
	return (*redsyncHold)(h.mutex).Release(ctx)
}

// connections is how many there may be to one node: one for each call that may be
// under way, which are those of the goroutines, and with fail-fast some that were left
// behind. Above 256 more of them only cost time.
func connections(setup Setup) int {
	return min(256, setup.Goroutines+setup.Goroutines/2+runtime.GOMAXPROCS(0))
}

func goredisOptions(addr string, setup Setup) *goredis.Options {
	return &goredis.Options{
		Addr:                  addr,
		PoolSize:              connections(setup),
		ReadTimeout:           setup.CallTimeout, // 0 stands for its default of 5s
		MaxRetries:            -1,
		DialerRetries:         1,
		ContextTimeoutEnabled: true, // or redsync's time-out would do nothing
	}
}

func dialGoredis(addr string, setup Setup) (redsyncpool.Pool, io.Closer, error) {
	client := goredis.NewClient(goredisOptions(addr, setup))
	return redsyncgoredis.NewPool(client), client, nil
}

func dialAutoPipeline(addr string, setup Setup) (redsyncpool.Pool, io.Closer, error) {
	client := goredis.NewClient(goredisOptions(addr, setup))
	pipeline, err := client.AutoPipeline()
	if err != nil {
		return nil, client, errors.Join(err, client.Close())
	}
	return redsyncgoredis.NewPool(pipeline), closers{pipeline, client}, nil
}

func dialRedigo(addr string, setup Setup) (redsyncpool.Pool, io.Closer, error) {
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
	return redsyncredigo.NewPool(pool), pool, nil
}

// dialRueidis leaves rueidis its defaults: AlwaysPipelining and MaxFlushDelay made no
// difference.
func dialRueidis(addr string, _ Setup) (redsyncpool.Pool, io.Closer, error) {
	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{addr}, ForceSingleClient: true})
	if err != nil {
		return nil, nil, err
	}
	return rueidisPool{client}, rueidisCloser{client}, nil
}

// closers closes all of them, the last one last.
type closers []io.Closer

func (c closers) Close() error {
	var errs []error
	for closer := range slices.Values(c) {
		errs = append(errs, closer.Close())
	}
	return errors.Join(errs...)
}
