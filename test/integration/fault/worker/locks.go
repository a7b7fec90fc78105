package worker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/driver/goredis"
	"github.com/quorumlock/quorumlock/driver/redigo"
	"github.com/quorumlock/quorumlock/driver/rueidis"
	"github.com/quorumlock/quorumlock/fence"
	"github.com/quorumlock/quorumlock/redlock"
)

// locks is a library that takes locks.
type locks interface {
	acquire(ctx context.Context, key string, how manner) (lock, error)
	Close() error
}

// A lock is what it takes.
type lock interface {
	Until() time.Time
	Valid() bool
	Fence() int64
	Extend(ctx context.Context, ttl time.Duration) error
	Release(ctx context.Context) error
}

// A manner is how a lock is asked for.
type manner int

const (
	wait  manner = iota // until it is there
	try                 // and do not wait
	renew               // wait, and have it renewed
)

func open(j Job) (locks, error) {
	switch j.Library {
	case "quorumlock":
		return openQuorumlock(j)
	case "redsync":
		return openRedsync(j)
	}
	return nil, fmt.Errorf("library %q: want quorumlock or redsync", j.Library)
}

// clients opens the nodes by each client, with its library's defaults.
var clients = map[string]func(urls ...string) ([]driver.Node, error){
	"goredis": goredis.Open, "redigo": redigo.Open, "rueidis": rueidis.Open,
}

type quorumlock struct{ *redlock.Locker }

func openQuorumlock(j Job) (locks, error) {
	connect := clients[j.Client]
	if connect == nil {
		return nil, fmt.Errorf("client %q: want goredis, redigo or rueidis", j.Client)
	}
	var urls []string
	for _, addr := range j.Nodes {
		urls = append(urls, "redis://"+addr)
	}
	nodes, err := connect(urls...)
	if err != nil {
		return nil, err
	}
	options := []redlock.Option{redlock.WithTTL(j.Lease), redlock.WithMaxOutage(time.Hour)}
	if !slices.Contains(j.Without, "fences") {
		options = append(options, redlock.WithFences())
	}
	if !slices.Contains(j.Without, "guard") {
		// A busy machine answers TIME late. The clock guard takes votes for none whose reply could
		// hide a step of the drift allowance, which is 12 ms of a second by default.
		options = append(options, redlock.WithRestartGuard(j.Lease), redlock.WithClockGuard(j.Lease), redlock.WithDriftFactor(0.05))
	}
	if j.Fair {
		options = append(options, redlock.WithFairness())
	}
	locker, err := redlock.New(nodes, options...)
	return quorumlock{locker}, err
}

func (q quorumlock) acquire(ctx context.Context, key string, how manner) (lock, error) {
	switch how {
	case try:
		return concrete(q.TryAcquire(ctx, key))
	case renew:
		return concrete(q.Acquire(ctx, key, redlock.WithRenewal()))
	}
	return concrete(q.Acquire(ctx, key))
}

// concrete keeps a nil lock from becoming an interface that is not nil.
func concrete(l *redlock.Lock, err error) (lock, error) {
	if err != nil {
		return nil, err
	}
	return l, nil
}

// name is the error in a word.
func name(err error) string {
	for _, known := range []struct {
		err  error
		name string
	}{
		{context.Canceled, "caller"},
		{context.DeadlineExceeded, "caller"},
		{redlock.ErrTaken, "held"},
		{redlock.ErrContended, "contended"},
		{redlock.ErrExpired, "expired"},
		{redlock.ErrFence, "fence"},
		{redlock.ErrNoQuorum, "no-quorum"},
	} {
		if errors.Is(err, known.err) {
			return known.name
		}
	}
	return strings.Join(strings.Fields(err.Error()), "_")
}

func stale(err error) bool { return errors.Is(err, fence.ErrStale) }
