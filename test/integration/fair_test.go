package integration

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/quorumlock/quorumlock/redlock"
)

// firstRank is less than that of any ticket in a line, and greater than all else there.
const firstRank = "1e14"

// Who waits stands in the nodes' lines as of when it came, by the nodes' clocks, and is served in that order. A
// waiter that does not get to run for so long that its tickets are gone is passed over: so one round of three has
// to be in order, as one in 240 tests without an order would have.
func TestWaitersOfManyProcessesAreServedInTheOrderInWhichTheyCame(t *testing.T) {
	onEach(t, func(s *site) {
		var served, want []int
		for range 3 {
			if served, want = inTurn(s); slices.Equal(served, want) {
				return
			}
			s.Logf("served in the order %v, want %v", served, want)
		}
		s.Errorf("served in the order %v, want %v", served, want)
	})
}

// inTurn has waiters of several processes served, and returns in which order, and in which they came.
func inTurn(s *site) (served, want []int) {
	s.Helper()
	const processes = 6
	line := "ql:line:{" + s.key + "}"
	inLine := func(count int) {
		s.eventually(fmt.Sprintf("the line of each node has %d tickets", count), func() bool {
			return !slices.ContainsFunc(s.looks, func(look *redis.Client) bool {
				return look.ZCount(s.Context(), line, firstRank, "+inf").Val() != int64(count)
			})
		})
	}
	held := s.acquire(s.locker(redlock.WithFairness()), redlock.WithTTL(long))
	var mu sync.Mutex
	var waiters sync.WaitGroup
	var at []float64 // of each in want
	places := map[string]bool{}
	for i := range processes {
		locker := s.locker(redlock.WithFairness())
		before := s.looks[0].Time(s.Context()).Val()
		waiters.Go(func() {
			lock, err := locker.Acquire(s.Context(), s.key)
			if err != nil {
				s.Errorf("waiter %d: %v", i, err)
				return
			}
			mu.Lock()
			served = append(served, i)
			mu.Unlock()
			s.release(lock)
		})
		inLine(i + 1)
		after := s.looks[0].Time(s.Context()).Val()
		for _, z := range s.looks[0].ZRangeByScoreWithScores(s.Context(), line, &redis.ZRangeBy{Min: firstRank, Max: "+inf"}).Val() {
			name := z.Member.(string)
			if places[name] {
				continue
			}
			places[name] = true
			if came := time.UnixMicro(int64(z.Score)); came.Before(before.Add(-time.Second)) || came.After(after.Add(time.Second)) {
				s.Errorf("one who came between %v and %v stands in line as of %v", before, after, came)
			}
			place, _ := slices.BinarySearch(at, z.Score)
			at, want = slices.Insert(at, place, z.Score), slices.Insert(want, place, i)
		}
	}
	s.release(held)
	waiters.Wait()
	inLine(0)
	return served, want
}
