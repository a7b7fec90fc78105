package worker

import (
	"context"
	"errors"
	"math"
	"time"

	"github.com/go-redsync/redsync/v4"
	pool "github.com/go-redsync/redsync/v4/redis"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"
)

// redsyncs are the locks of another library, to see whether the judges find what it
// lacks.
type redsyncs struct {
	sync    *redsync.Redsync
	clients []*redis.Client
	lease   time.Duration
}

func openRedsync(j Job) (locks, error) {
	redis.SetLogger(silent{}) // faults are what this is about
	r := &redsyncs{lease: j.Lease}
	var pools []pool.Pool
	for _, addr := range j.Nodes {
		c := redis.NewClient(&redis.Options{Addr: addr, DialTimeout: j.Lease / 4, ReadTimeout: j.Lease / 4})
		r.clients = append(r.clients, c)
		pools = append(pools, goredis.NewPool(c))
	}
	r.sync = redsync.New(pools...)
	return r, nil
}

func (r *redsyncs) acquire(ctx context.Context, key string, how manner) (lock, error) {
	tries := math.MaxInt
	if how == try {
		tries = 1
	}
	mutex := r.sync.NewMutex(key, redsync.WithExpiry(r.lease), redsync.WithTries(tries))
	if err := mutex.LockContext(ctx); err != nil {
		return nil, err
	}
	return mutexLock{mutex}, nil
}

func (r *redsyncs) Close() error {
	var errs []error
	for _, c := range r.clients {
		errs = append(errs, c.Close())
	}
	return errors.Join(errs...)
}

type mutexLock struct{ *redsync.Mutex }

func (m mutexLock) Valid() bool { return time.Now().Before(m.Until()) }

// Fence is 0: redsync has none.
func (m mutexLock) Fence() int64 { return 0 }

func (m mutexLock) Extend(ctx context.Context, _ time.Duration) error {
	_, err := m.ExtendContext(ctx)
	return err
}

func (m mutexLock) Release() error {
	_, err := m.Unlock()
	return err
}

// silent is a logger.
type silent struct{}

func (silent) Printf(context.Context, string, ...any) {}
