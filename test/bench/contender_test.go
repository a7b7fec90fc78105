package bench

import (
	"context"
	"errors"
	"fmt"
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
	redigoclient "github.com/gomodule/redigo/redis"
	goredisclient "github.com/redis/go-redis/v9"
	rueidisclient "github.com/redis/rueidis"

	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/driver/goredis"
	"github.com/quorumlock/quorumlock/driver/redigo"
	"github.com/quorumlock/quorumlock/driver/rueidis"
	"github.com/quorumlock/quorumlock/redlock"
)

// ttl is the lease of both libraries: redsync's default.
const ttl = 8 * time.Second

// clients are the Redis clients that both libraries run over.
var clients = []string{"go-redis", "redigo", "rueidis"}

// The variants of the two libraries, as the names of benchmarks have them.
const (
	plain        = "quorumlock"
	fences       = "quorumlock-fences"
	guard        = "quorumlock-guard"
	fencesGuard  = "quorumlock-fences-guard"
	peer         = "redsync"
	failFast     = "redsync-fail-fast"
	autoPipeline = "redsync-auto-pipeline" // of go-redis, below redsync
	autoFailFast = "redsync-auto-pipeline-fail-fast"
	polling      = "redsync-polling-1-5ms" // redsync's default is 50 to 250 ms
)

var safeguards = map[string][]redlock.Option{
	plain:       nil,
	fences:      {redlock.WithFences()},
	guard:       {redlock.WithRestartGuard(ttl)},
	fencesGuard: {redlock.WithFences(), redlock.WithRestartGuard(ttl)},
}

// whoTry are the variants over a client that take free keys.
func whoTry(client string) []string {
	some := []string{plain, fences, peer, failFast}
	if client == "go-redis" {
		some = append(some, guard, fencesGuard, autoPipeline, autoFailFast)
	}
	return some
}

// whoWait are the variants over a client that wait for taken keys. Fail-fast is none of them: a call that
// fail-fast does not wait for may set a key after its release.
func whoWait(client string) []string {
	if client == "redigo" {
		return []string{plain}
	}
	return []string{plain, peer, polling}
}

// whoMeetTrouble are the variants that are measured while nodes are in trouble.
func whoMeetTrouble(string) []string { return []string{plain, peer, failFast} }

// A contender is a variant over a client.
type contender struct{ client, lib string }

// A setup is what a contender is opened for. The callTimeout is redsync's, which leaves that bound to its
// caller: 0 is fastest, and hangs where a node does.
type setup struct {
	addrs       []string
	goroutines  int
	callTimeout time.Duration
}

// A hold is a lock that somebody has.
type hold interface{ Release() error }

// held returns no hold where there is an error: a nil pointer in an interface would be one.
func held[H hold](h H, err error) (hold, error) {
	if err != nil {
		return nil, err
	}
	return h, nil
}

// A session is an open contender.
type session struct {
	try  func(ctx context.Context, key string) (hold, error)
	wait func(ctx context.Context, key string) (hold, error)

	close func()
}

func (c contender) open(s setup) session {
	if options, ours := safeguards[c.lib]; ours {
		return ourSession(newLocker(c.client, s.addrs, options...))
	}
	return c.openRedsync(s)
}

// newLocker opens our library as its README shows it.
func newLocker(client string, addrs []string, options ...redlock.Option) *redlock.Locker {
	var urls []string
	for _, addr := range addrs {
		urls = append(urls, "redis://"+addr)
	}
	nodes := map[string]func(...string) ([]driver.Node, error){"go-redis": goredis.Open, "redigo": redigo.Open, "rueidis": rueidis.Open}[client]
	return must(redlock.New(must(nodes(urls...)), append([]redlock.Option{redlock.WithTTL(ttl)}, options...)...))
}

func ourSession(locker *redlock.Locker) session {
	return session{
		try:   func(ctx context.Context, key string) (hold, error) { return held(locker.TryAcquire(ctx, key)) },
		wait:  func(ctx context.Context, key string) (hold, error) { return held(locker.Acquire(ctx, key)) },
		close: func() { _ = locker.Close() }, // a node in trouble may keep keys until their TTL has passed
	}
}

// openRedsync opens redsync at its best: with a connection for each call that may be under way, and without
// second tries by the client.
func (c contender) openRedsync(s setup) session {
	options := []redsync.Option{redsync.WithExpiry(ttl), redsync.WithTries(math.MaxInt), redsync.WithFailFast(slices.Contains([]string{failFast, autoFailFast}, c.lib))}
	if c.lib == polling {
		options = append(options, redsync.WithRetryDelayFunc(func(int) time.Duration {
			return time.Millisecond + rand.N(4*time.Millisecond) //nolint:gosec // no secret
		}))
	}
	var pools []redsyncpool.Pool
	var closers []func()
	for _, addr := range s.addrs {
		pool, closer := c.dial(addr, s)
		pools, closers = append(pools, pool), append(closers, closer)
	}
	rs := redsync.New(pools...)
	take := func(lock func(*redsync.Mutex, context.Context) error) func(context.Context, string) (hold, error) {
		return func(ctx context.Context, key string) (hold, error) {
			h := &redsyncHold{rs.NewMutex(key, options...), s.callTimeout}
			return held(h, lock(h.Mutex, ctx))
		}
	}
	return session{take((*redsync.Mutex).TryLockContext), take((*redsync.Mutex).LockContext), func() {
		for _, closer := range closers {
			closer()
		}
	}}
}

// dial makes redsync's pool of a client, and the function that closes the client.
func (c contender) dial(addr string, s setup) (redsyncpool.Pool, func()) {
	switch c.client {
	case "redigo":
		pool := &redigoclient.Pool{
			// Without MaxActive and Wait: a pool with them panics when somebody closes it while calls of
			// fail-fast still wait for a connection.
			MaxIdle: 2 * s.goroutines,
			DialContext: func(ctx context.Context) (redigoclient.Conn, error) {
				// redsync hands no context on to a connection of redigo.
				return redigoclient.DialContext(ctx, "tcp", addr, redigoclient.DialReadTimeout(s.callTimeout), redigoclient.DialWriteTimeout(s.callTimeout))
			},
		}
		return redsyncredigo.NewPool(pool), func() { _ = pool.Close() }
	case "rueidis": // with its defaults: AlwaysPipelining and MaxFlushDelay made no difference
		client := must(rueidisclient.NewClient(rueidisclient.ClientOption{InitAddress: []string{addr}, ForceSingleClient: true}))
		return rueidisPool{client}, client.Close
	}
	client := goredisclient.NewClient(&goredisclient.Options{
		Addr: addr,
		// Fail-fast leaves some calls behind, which have connections, too. Above 256 more of them only cost time.
		PoolSize:              min(256, s.goroutines+s.goroutines/2+runtime.GOMAXPROCS(0)),
		ReadTimeout:           s.callTimeout, // 0 stands for its default of 5s
		MaxRetries:            -1,
		DialerRetries:         1,
		ContextTimeoutEnabled: true, // or redsync's time-out would do nothing
	})
	if c.lib != autoPipeline && c.lib != autoFailFast {
		return redsyncgoredis.NewPool(client), func() { _ = client.Close() }
	}
	pipeline := must(client.AutoPipeline())
	return redsyncgoredis.NewPool(pipeline), func() { _, _ = pipeline.Close(), client.Close() }
}

// A redsyncHold releases with a time-out, which redsync has only for its locks.
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

// A rueidisPool lets redsync run over rueidis. redsync has an adapter of its own, over rueidiscompat, a module
// that module proxies do not all serve; rueidisPool is thinner.
type rueidisPool struct{ client rueidisclient.Client }

func (p rueidisPool) Get(ctx context.Context) (redsyncpool.Conn, error) {
	return rueidisConn{nil, p.client, ctx}, nil
}

// A rueidisConn is one call. It has what a lock of redsync and its unlock call.
type rueidisConn struct {
	redsyncpool.Conn
	client rueidisclient.Client
	ctx    context.Context //nolint:containedctx // redsync's Conn takes none
}

func (c rueidisConn) SetNX(name, value string, expiry time.Duration) (bool, error) {
	err := c.client.Do(c.ctx, c.client.B().Set().Key(name).Value(value).Nx().PxMilliseconds(expiry.Milliseconds()).Build()).Error()
	if rueidisclient.IsRedisNil(err) {
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
	keys, args, count := texts[:script.KeyCount], texts[script.KeyCount:], int64(script.KeyCount)
	reply, err := c.client.Do(c.ctx, c.client.B().Evalsha().Sha1(script.Hash).Numkeys(count).Key(keys...).Arg(args...).Build()).ToAny()
	if err != nil && strings.HasPrefix(err.Error(), "NOSCRIPT") {
		reply, err = c.client.Do(c.ctx, c.client.B().Eval().Script(script.Src).Numkeys(count).Key(keys...).Arg(args...).Build()).ToAny()
	}
	if rueidisclient.IsRedisNil(err) {
		return nil, nil
	}
	return reply, err
}

func (rueidisConn) Close() error { return nil }
