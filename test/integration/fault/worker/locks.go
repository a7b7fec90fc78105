package worker

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-redsync/redsync/v4"

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
	Release() error
}

// whyLost is why a lock ended that was to be renewed, if it says so.
func whyLost(l lock) error {
	if held, says := l.(interface{ Context() context.Context }); says {
		return context.Cause(held.Context())
	}
	return nil
}

// A manner is how a lock is asked for.
type manner int

const (
	wait  manner = iota // until it is there
	try                 // and do not wait
	renew               // wait, and have it renewed
)

func open(j Job, told *callbacks) (locks, error) {
	switch j.Library {
	case "quorumlock":
		return openQuorumlock(j, told)
	case "redsync":
		return openRedsync(j)
	}
	return nil, fmt.Errorf("library %q: want quorumlock or redsync", j.Library)
}

// clients opens the nodes by each client, with its library's defaults.
var clients = map[string]func(urls ...string) ([]driver.Node, error){
	"goredis": goredis.Open, "redigo": redigo.Open, "rueidis": rueidis.Open,
}

// quorumlock is ours.
type quorumlock struct {
	*redlock.Locker
	fixed bool // no lock is renewed
}

func openQuorumlock(j Job, told *callbacks) (locks, error) {
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
	if j.lacks("order") {
		for i := range nodes {
			nodes[i].Driver = &late{Driver: nodes[i].Driver}
		}
	}
	options := append(told.options(), redlock.WithTTL(j.Lease), redlock.WithMaxOutage(time.Hour), redlock.WithOwner(j.Name))
	if !j.lacks("fences") {
		options = append(options, redlock.WithFences())
	}
	if !j.lacks("guard") {
		// A busy machine answers TIME late. The clock guard takes votes for none whose reply could
		// hide a step of the drift allowance, which is 12 ms of a second by default.
		options = append(options, redlock.WithRestartGuard(j.Lease), redlock.WithClockGuard(j.Lease), redlock.WithDriftFactor(0.05))
	}
	locker, err := redlock.New(nodes, options...)
	return quorumlock{locker, j.lacks("renewals")}, err
}

// late is a node that is asked again, now and then, for what it was asked for long before.
type late struct {
	driver.Driver

	mu   sync.Mutex
	kept []batch
}

// A batch is what a node was asked for at a time.
type batch struct {
	at       time.Time
	commands []driver.Command
}

func (l *late) Do(ctx context.Context, commands []driver.Command) ([]driver.Reply, error) {
	const lateness = 3 * time.Second
	l.mu.Lock()
	if rand.IntN(16) == 0 { //nolint:gosec // any will do
		kept := batch{time.Now(), slices.Clone(commands)}
		for i := range kept.commands {
			kept.commands[i].Args = slices.Clone(kept.commands[i].Args)
		}
		l.kept = append(l.kept, kept)
	}
	var again []driver.Command
	if len(l.kept) > 0 && time.Since(l.kept[0].at) > lateness {
		again, l.kept = l.kept[0].commands, l.kept[1:]
	}
	l.mu.Unlock()
	if again != nil {
		_, _ = l.Driver.Do(ctx, again)
	}
	return l.Driver.Do(ctx, commands)
}

func (q quorumlock) acquire(ctx context.Context, key string, how manner) (lock, error) {
	options := q.options(how)
	return concrete(guarded(func() (*redlock.Lock, error) {
		if how == try {
			return q.TryAcquire(ctx, key, options...)
		}
		return q.Acquire(ctx, key, options...)
	}))
}

// options are those of an acquire: what is not to be renewed may be left to its lease.
func (q quorumlock) options(how manner) []redlock.AcquireOption {
	if how == renew && !q.fixed {
		return nil
	}
	return []redlock.AcquireOption{redlock.WithoutRenewal()}
}

// concrete keeps a nil lock from becoming an interface that is not nil.
func concrete(l *redlock.Lock, err error) (lock, error) {
	if err != nil {
		return nil, err
	}
	return l, nil
}

// name is the error in a word. Who is told that a key is held is told by whom if a quorum of the
// nodes names it; else a token has stayed that silent nodes may hide a quorum of.
func name(err error) string {
	for _, known := range []struct {
		err  error
		name string
	}{
		{context.Canceled, "caller"},
		{context.DeadlineExceeded, "caller"},
		{errPanicked, "caller"},
		{redlock.ErrTaken, "held"},
		{redlock.ErrContended, "contended"},
		{redlock.ErrExpired, "expired"},
		{redlock.ErrFence, "fence"},
		{redlock.ErrNoQuorum, "no-quorum"},
	} {
		if !errors.Is(err, known.err) {
			continue
		}
		if quorum := new(redlock.QuorumError); known.err == redlock.ErrTaken && errors.As(err, &quorum) && quorum.Owner() == "" { //nolint:errorlint // of the list
			return "hidden"
		}
		return known.name
	}
	if taken := new(redsync.ErrTaken); errors.As(err, &taken) {
		return "held"
	}
	return strings.Join(strings.Fields(err.Error()), "_")
}

func stale(err error) bool { return errors.Is(err, fence.ErrStale) }
