package integration

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/quorumlock/quorumlock/redlock"
	"github.com/quorumlock/quorumlock/test/patient"
)

// A queue is waiters for the site's key in the order in which they came.
type queue struct {
	*site
	wg     sync.WaitGroup
	mu     sync.Mutex
	served []int
}

// hold has the key for as long as a test may take until it releases it.
func (q *queue) hold(locker *redlock.Locker) *redlock.Lock {
	q.Helper()
	return q.acquire(locker, redlock.WithTTL(long))
}

// release lets those who wait have the key, and returns when all are served.
func (q *queue) release(held *redlock.Lock) {
	q.Helper()
	q.must(held.Release())
	q.wg.Wait()
}

// join lets one more wait, for whom locker asks, and returns once the nodes have so many in line.
func (q *queue) join(locker *redlock.Locker, number, inLine int, options ...redlock.AcquireOption) {
	q.Helper()
	q.wg.Go(func() {
		lock, err := locker.Acquire(q.Context(), q.key, options...)
		if err != nil {
			q.Errorf("waiter %d: %v", number, err)
			return
		}
		q.mu.Lock()
		q.served = append(q.served, number)
		q.mu.Unlock()
		q.site.release(lock)
	})
	q.awaitLine(inLine)
}

// firstRank is less than that of any ticket in a line, and greater than all else there.
const firstRank = "1e14"

// awaitLine waits until all nodes have so many in the key's line.
func (q *queue) awaitLine(length int) {
	q.Helper()
	q.eventually(fmt.Sprintf("the line of each node has %d tickets", length), func() bool {
		return !slices.ContainsFunc(q.looks, func(look *redis.Client) bool {
			return look.ZCount(context.Background(), "ql:line:{"+q.key+"}", firstRank, "+inf").Val() != int64(length)
		})
	})
}

func TestWaitersOfManyProcessesAreServedInTheOrderInWhichTheyCame(t *testing.T) {
	onEach(t, func(s *site) {
		const processes = 8
		q := &queue{site: s}
		held := q.hold(s.locker(redlock.WithFairness()))
		places := map[string]float64{}
		var want []int
		var at []float64 // of each in want
		for i := range processes {
			before := s.looks[0].Time(s.Context()).Val()
			q.join(s.locker(redlock.WithFairness()), i, i+1)
			after := s.looks[0].Time(s.Context()).Val()
			for _, z := range s.looks[0].ZRangeByScoreWithScores(s.Context(), "ql:line:{"+s.key+"}", &redis.ZRangeBy{Min: firstRank, Max: "+inf"}).Val() {
				name := z.Member.(string)
				if _, is := places[name]; is {
					continue
				}
				places[name] = z.Score
				if came := time.UnixMicro(int64(z.Score)); came.Before(before.Add(-time.Second)) || came.After(after.Add(time.Second)) {
					s.Errorf("one who came between %v and %v stands in line as of %v", before, after, came)
				}
				place, _ := slices.BinarySearch(at, z.Score)
				at, want = slices.Insert(at, place, z.Score), slices.Insert(want, place, i)
			}
		}
		q.release(held)
		if !slices.Equal(q.served, want) {
			s.Errorf("served in the order %v, want %v", q.served, want)
		}
		q.awaitLine(0)
	})
}

func TestTheUrgentOvertakeThoseWhoCameShortlyBefore(t *testing.T) {
	onEach(t, func(s *site) {
		q := &queue{site: s}
		held := q.hold(s.locker(redlock.WithFairness()))
		for i, priority := range []int{0, -100, 100, 50} {
			q.join(s.locker(redlock.WithFairness()), i, i+1, redlock.WithPriority(priority))
		}
		q.release(held)
		if want := []int{2, 3, 0, 1}; !slices.Equal(q.served, want) {
			s.Errorf("served in the order %v, want %v", q.served, want)
		}
	})
}

func TestAWaiterThatDiesIsPassedOver(t *testing.T) {
	onEach(t, func(s *site) {
		q := &queue{site: s}
		held := q.hold(s.locker(redlock.WithFairness()))
		q.join(s.locker(redlock.WithFairness()), 1, 1)
		watch := patient.Start()
		for _, look := range s.looks { // one who came before, and is not there any more
			now := look.Time(s.Context()).Val()
			look.Do(s.Context(), "ZADD", "ql:line:{"+s.key+"}", firstRank, "x0:d1ed", now.UnixMilli()+1500, "-x0:d1ed")
		}
		q.release(held)
		if took := watch.Took(); took > 10*time.Second {
			s.Errorf("behind one who has died a waiter was served after %v", took)
		}
		q.awaitLine(0)
	})
}

func TestNobodyJumpsALine(t *testing.T) {
	onEach(t, func(s *site) {
		q := &queue{site: s}
		held := q.hold(s.locker(redlock.WithFairness()))
		q.join(s.locker(redlock.WithFairness()), 1, 1)
		for _, look := range s.looks { // the key is free, and nobody was told
			look.Del(s.Context(), s.key)
		}
		if _, err := s.locker(redlock.WithFairness()).TryAcquire(s.Context(), s.key); err != nil && !errors.Is(err, redlock.ErrTaken) {
			s.Errorf("TryAcquire while somebody waits = %v, want ErrTaken", err)
		} else if err == nil && len(q.served) == 0 {
			s.Error("TryAcquire has the key before one who waits for it")
		}
		q.wg.Wait()
		_ = held.Release() // it is lost
	})
}

func TestAWaitThatEndsLeavesTheLine(t *testing.T) {
	onEach(t, func(s *site) {
		q := &queue{site: s}
		first := s.locker(redlock.WithFairness())
		held := q.hold(first)
		ctx, cancel := context.WithCancel(s.Context())
		gone := make(chan error)
		go func() {
			_, err := s.locker(redlock.WithFairness()).Acquire(ctx, s.key)
			gone <- err
		}()
		q.awaitLine(1)
		q.join(s.locker(redlock.WithFairness()), 2, 2)
		cancel()
		s.fails(<-gone, context.Canceled, "a cancelled wait")
		q.awaitLine(1)
		q.release(held)
		q.awaitLine(0)
	})
}

func TestAProcessServesItsOwnWaitersInTurnWithOthers(t *testing.T) {
	onEach(t, func(s *site) {
		q := &queue{site: s}
		ours, theirs := s.locker(redlock.WithFairness()), s.locker(redlock.WithFairness())
		held := q.hold(ours)
		for i, join := range []struct {
			locker          *redlock.Locker
			inLine, waiting int
		}{{ours, 1, 1}, {ours, 1, 2}, {theirs, 2, 1}, {ours, 2, 3}, {theirs, 2, 2}} {
			q.join(join.locker, i, join.inLine)
			s.eventually("it waits", func() bool { return join.locker.Stats().Waiting == join.waiting })
			time.Sleep(400 * time.Millisecond) //nolint:forbidigo // they come one after the other, by all Lockers' estimates: a slow machine only adds
		}
		q.release(held)
		if want := "[0 1 2 3 4]"; fmt.Sprint(q.served) != want {
			s.Errorf("served in the order %v, want %v", q.served, want)
		}
	})
}

func TestReadersAndWritersThatTakeTurnsAreAllServed(t *testing.T) {
	onEach(t, func(s *site) {
		q := &queue{site: s}
		held := q.hold(s.locker(redlock.WithFairness()))
		for range 2 {
			locker := s.locker(redlock.WithFairness())
			for range 3 {
				q.wg.Go(func() {
					lock, err := locker.AcquireShared(s.Context(), s.key, redlock.WithMaxWait(patience))
					if err != nil {
						s.Errorf("a reader: %v", err)
						return
					}
					s.release(lock)
				})
				q.wg.Go(func() {
					lock, err := locker.Acquire(s.Context(), s.key, redlock.WithMaxWait(patience))
					if err != nil {
						s.Errorf("a writer: %v", err)
						return
					}
					s.release(lock)
				})
			}
			s.eventually("all wait", func() bool { return locker.Stats().Waiting == 6 })
		}
		q.release(held)
		q.awaitLine(0)
	})
}

func TestAPriorityWantsALine(t *testing.T) {
	onEach(t, func(s *site) {
		for _, tt := range []struct {
			locker  *redlock.Locker
			options []redlock.AcquireOption
		}{
			{s.locker(), []redlock.AcquireOption{redlock.WithPriority(1)}},
			{s.locker(redlock.WithFairness()), []redlock.AcquireOption{redlock.WithPriority(1001)}},
			{s.locker(redlock.WithFairness()), []redlock.AcquireOption{redlock.WithPriority(1), redlock.WithToken("mine")}},
		} {
			s.fails(failed(tt.locker.Acquire(s.Context(), s.key, tt.options...)), redlock.ErrOption, "Acquire")
		}
	})
}

// Readers, and Lockers without the option, stand in no line; a set does.
func TestABusyFairLockerLeavesTheKeyToThoseWhoStandInNoLine(t *testing.T) {
	onEach(t, func(s *site) {
		busy, other := s.locker(redlock.WithFairness()), s.locker()
		ctx, cancel := context.WithCancel(s.Context())
		var callers sync.WaitGroup
		for range 3 {
			callers.Go(func() {
				for ctx.Err() == nil {
					if lock, err := busy.Acquire(ctx, s.key); err == nil {
						time.Sleep(20 * time.Millisecond) //nolint:forbidigo // the work
						_ = lock.Release()
					}
				}
			})
		}
		s.eventually("the fair locker has the key", func() bool { return busy.Stats().Locks > 0 && busy.Stats().Waiting > 1 })
		for name, acquire := range map[string]func(context.Context) (interface{ Release() error }, error){
			"a reader": func(ctx context.Context) (interface{ Release() error }, error) {
				return other.AcquireShared(ctx, s.key)
			},
			"a set": func(ctx context.Context) (interface{ Release() error }, error) {
				return other.AcquireAll(ctx, []string{s.key})
			},
			"who takes no turns": func(ctx context.Context) (interface{ Release() error }, error) {
				return other.Acquire(ctx, s.key)
			},
		} {
			for range 2 {
				within, done := context.WithTimeout(ctx, patience)
				lock, err := acquire(within)
				done()
				if err != nil {
					s.Errorf("%s beside a busy fair Locker: %v", name, err)
				} else if err := lock.Release(); err != nil {
					s.Errorf("release of %s: %v", name, err)
				}
			}
		}
		cancel()
		callers.Wait()
	})
}
