package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"golang.org/x/sync/semaphore"

	"github.com/quorumlock/quorumlock/redlock"
)

// permitCount is how many may work at once, for permitWork each.
const (
	permitCount = 10
	permitWork  = 20 * time.Millisecond
)

// permitCrowd is how many goroutines want a permit.
const permitCrowd = 100

var permits = Case{
	Name: "permits",
	About: "goroutines that all want one of 10 permits, or 1 to 5 at once, and hold them for 20 ms each; in windows of 3 s; beside golang.org/x/sync/semaphore, which is in one process alone, " +
		"and the way of Consul (a list of holders that is compared and set, and wakes everybody at each change), on one of the servers",
	Columns: []Column{
		{"in use", "permits in use", percent},
		{"acquisitions", "acquisitions/s", whole},
		{"wait p50", "wait p50", duration},
		{"wait p99", "p99", duration},
		{"wait max", "max", duration},
		{"jain", "Jain's index", index},
		{"commands", "a node's commands", decimal},
		{"most", "most holders", whole},
		{"failed", "failed", whole},
	},
	Run: runPermits,
}

func runPermits(ctx context.Context, b *Bench, t *Table) error {
	some := *b
	some.Contenders = permitters()
	return some.turns(ctx, t, b.fewerRounds(), []int{8, permitCrowd}, func(c Contender, goroutines int) error {
		session, err := c.Open(b.Site.Addrs(), Setup{Goroutines: goroutines, TTL: ttl})
		if err != nil {
			return err
		}
		crowd := startCrowd(ctx, session, crowdKey(), goroutines, permitWork)
		window, commands, err := b.watch(ctx)
		members := crowd.Stop()
		b.end(session)
		if err == nil {
			t.Add(Key{Contender: c.Name(), Goroutines: goroutines}, b.accountPermits(c, members, window, commands))
		}
		if err == nil && c.Client != "" {
			each := max(1, goroutines/crowdProcesses)
			if members, window, commands, err = rally(ctx, b, c, crowdProcesses, each, permitWork); err == nil {
				t.Add(Key{c.Name(), crowdProcesses * each, processTitle}, b.accountPermits(c, members, window, commands))
			}
		}
		return errors.Join(err, b.Site.Flush())
	})
}

// accountPermits is the account of a crowd in which several work at once.
func (b *Bench) accountPermits(c Contender, members []Member, w Window, commands float64) map[string]float64 {
	values := b.account(members, w, commands)
	type change struct {
		at moment
		by int
	}
	var changes []change
	var busy time.Duration
	for _, m := range members {
		for _, turn := range m.Turns {
			if turn.Got == 0 {
				continue
			}
			busy += max(0, min(turn.Left, w.to).sub(max(turn.Got, w.from)))
			changes = append(changes, change{turn.Got, 1}, change{turn.Left, -1})
		}
	}
	slices.SortFunc(changes, func(a, b change) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.by, b.by)) })
	holders, most := 0, 0
	for _, change := range changes {
		holders += change.by
		most = max(most, holders)
	}
	values["in use"] = busy.Seconds() / (float64(min(permitCount, len(members))) * w.to.sub(w.from).Seconds())
	values["most"] = float64(most)
	if c.Mode == weightedMode {
		delete(values, "in use")
	}
	delete(values, "changes")
	delete(values, "overlaps")
	return values
}

// permitters are those who give permits, where others lock.
func permitters() []Contender {
	ours := find("redlock", "go-redis", "")
	open := ours.Open
	ours.Mode = "semaphore"
	ours.Open = func(addrs []string, setup Setup) (Session, error) {
		session, err := open(addrs, setup)
		if err != nil {
			return nil, err
		}
		return permitSession{session.(*redlockSession)}, nil
	}
	weighted := ours
	weighted.Mode = weightedMode
	weighted.Open = func(addrs []string, setup Setup) (Session, error) {
		session, err := open(addrs, setup)
		if err != nil {
			return nil, err
		}
		return weightedSession{session.(*redlockSession)}, nil
	}
	return []Contender{
		ours,
		weighted,
		{Library: "Consul's way", Client: "go-redis", Open: openList},
		{Library: "x/sync/semaphore", Open: func([]string, Setup) (Session, error) {
			return localSession{semaphore.NewWeighted(permitCount), func() int64 { return 1 }}, nil
		}},
		{Library: "x/sync/semaphore", Mode: weightedMode, Open: func([]string, Setup) (Session, error) {
			return localSession{semaphore.NewWeighted(permitCount), randomWeight}, nil
		}},
	}
}

// A permitSession takes permits of our semaphores.
type permitSession struct{ *redlockSession }

func (s permitSession) Lock(ctx context.Context, key string) (Hold, error) {
	return s.take(ctx, key, (*redlock.Semaphore).TryAcquire)
}

func (s permitSession) Wait(ctx context.Context, key string) (Hold, error) {
	return s.take(ctx, key, (*redlock.Semaphore).Acquire)
}

func (s permitSession) take(ctx context.Context, key string, how func(*redlock.Semaphore, context.Context, ...redlock.AcquireOption) (*redlock.Permit, error)) (Hold, error) {
	of, err := s.locker.Semaphore(key, permitCount)
	if err != nil {
		return nil, err
	}
	permit, err := how(of, ctx)
	if err != nil {
		return nil, err
	}
	return permit, nil
}

// A weightedSession takes several at once.
type weightedSession struct{ *redlockSession }

func (s weightedSession) Lock(ctx context.Context, key string) (Hold, error) {
	return s.take(ctx, key, (*redlock.Semaphore).TryAcquireN)
}

func (s weightedSession) Wait(ctx context.Context, key string) (Hold, error) {
	return s.take(ctx, key, (*redlock.Semaphore).AcquireN)
}

func (s weightedSession) take(ctx context.Context, key string, how func(*redlock.Semaphore, context.Context, int, ...redlock.AcquireOption) (*redlock.Permits, error)) (Hold, error) {
	of, err := s.locker.Semaphore(key, permitCount)
	if err != nil {
		return nil, err
	}
	permits, err := how(of, ctx, int(randomWeight()))
	if err != nil {
		return nil, err
	}
	return permits, nil
}

// weightedMode is that of those who take 1 to mostPermits at once. How many permits are in use at a time
// nobody counts then.
const (
	weightedMode = "1 to 5 at once"
	mostPermits  = 5
)

func randomWeight() int64 { return 1 + rand.Int64N(mostPermits) } //nolint:gosec // no secret

// A localSession is that of one process.
type localSession struct {
	*semaphore.Weighted
	weight func() int64
}

func (s localSession) Lock(context.Context, string) (Hold, error) {
	n := s.weight()
	if !s.TryAcquire(n) {
		return nil, redlock.ErrTaken
	}
	return localHold{s.Weighted, n}, nil
}

func (s localSession) Wait(ctx context.Context, _ string) (Hold, error) {
	n := s.weight()
	return localHold{s.Weighted, n}, s.Acquire(ctx, n)
}

func (localSession) Close() error { return nil }

type localHold struct {
	*semaphore.Weighted
	weight int64
}

func (h localHold) Release(context.Context) error {
	h.Weighted.Release(h.weight)
	return nil
}

// A listSession keeps the holders in one list, at one server, as Consul's semaphore does: each
// contender reads the list, and puts itself in by compare-and-set if there is room; else it waits
// until the list changes, as all others do. The leases of the holders, by which Consul takes dead
// ones out, are left away.
type listSession struct {
	client *goredis.Client
	cancel context.CancelFunc
	joined sync.WaitGroup

	mu      sync.Mutex
	number  int
	changed chan struct{}
}

const listChannel = "bench:changed"

func openList(addrs []string, _ Setup) (Session, error) {
	ctx, cancel := context.WithCancel(context.Background())
	s := &listSession{client: goredis.NewClient(&goredis.Options{Addr: addrs[0]}), cancel: cancel, changed: make(chan struct{})}
	changes := s.client.Subscribe(ctx, listChannel)
	if _, err := changes.Receive(ctx); err != nil {
		cancel()
		return nil, errors.Join(err, s.client.Close())
	}
	s.joined.Go(func() {
		for range changes.Channel(goredis.WithChannelSize(10_000)) {
			s.mu.Lock()
			close(s.changed)
			s.changed = make(chan struct{})
			s.mu.Unlock()
		}
	})
	s.joined.Go(func() {
		<-ctx.Done()
		_ = changes.Close()
	})
	return s, nil
}

// swap sets the list, if it is the old one still.
var swap = goredis.NewScript(`if (redis.call('GET', KEYS[1]) or '') ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], ARGV[2])
redis.call('PUBLISH', ARGV[3], '')
return 1`)

// change changes the list until it is changed, or do says that it cannot be: then it returns what
// to wait for.
func (s *listSession) change(ctx context.Context, key string, do func(holders []string) ([]string, bool)) (wait <-chan struct{}, err error) {
	for {
		s.mu.Lock()
		changed := s.changed
		s.mu.Unlock()
		old, err := s.client.Get(ctx, key).Result()
		if err != nil && !errors.Is(err, goredis.Nil) {
			return nil, err
		}
		holders, ok := do(strings.Fields(old))
		if !ok {
			return changed, nil
		}
		done, err := swap.Run(ctx, s.client, []string{key}, old, strings.Join(holders, " "), listChannel).Int()
		if err != nil || done == 1 {
			return nil, err
		}
	}
}

func (s *listSession) Lock(ctx context.Context, key string) (Hold, error) {
	hold, wait, err := s.enter(ctx, key)
	if wait != nil {
		return nil, redlock.ErrTaken
	}
	return hold, err
}

func (s *listSession) Wait(ctx context.Context, key string) (Hold, error) {
	for {
		hold, wait, err := s.enter(ctx, key)
		if wait == nil {
			return hold, err
		}
		select {
		case <-wait:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

func (s *listSession) enter(ctx context.Context, key string) (Hold, <-chan struct{}, error) {
	s.mu.Lock()
	s.number++
	name := fmt.Sprintf("%p-%d-%d", s, now(), s.number)
	s.mu.Unlock()
	wait, err := s.change(ctx, key, func(holders []string) ([]string, bool) {
		return append(holders, name), len(holders) < permitCount
	})
	return listHold{s, key, name}, wait, err
}

func (s *listSession) Close() error {
	s.cancel()
	s.joined.Wait()
	return s.client.Close()
}

type listHold struct {
	*listSession
	key, name string
}

func (h listHold) Release(ctx context.Context) error {
	_, err := h.change(ctx, h.key, func(holders []string) ([]string, bool) {
		return slices.DeleteFunc(holders, func(name string) bool { return name == h.name }), true
	})
	return err
}
