package bench

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"
)

// One holder, and one waiter of another session. What counts is the time from before the release until the
// waiter has the lock.
func BenchmarkHandOver(b *testing.B) {
	s := startSite(b, nodes)
	s.sides(b, whoWait, func(b *testing.B, c contender) {
		of := setup{addrs: s.addrs(), goroutines: 1}
		sessions := [2]session{c.open(of), c.open(of)}
		defer sessions[0].close()
		defer sessions[1].close()
		const key = "bench:handover"
		holder, err := sessions[0].wait(b.Context(), key)
		check(b, err)
		turn := 0
		handOver := func() time.Duration {
			turn++
			type taking struct {
				hold hold
				err  error
				at   time.Time
			}
			taken := make(chan taking, 1)
			go func() {
				h, err := sessions[turn%2].wait(b.Context(), key)
				taken <- taking{h, err, time.Now()}
			}()
			time.Sleep(10*time.Millisecond + rand.N(20*time.Millisecond)) //nolint:gosec // no secret
			released := time.Now()
			check(b, holder.Release())
			next := <-taken
			check(b, next.err)
			holder = next.hold
			return next.at.Sub(released)
		}
		for range 4 { // until connections and scripts are there
			handOver()
		}
		var times []time.Duration
		for b.Loop() {
			times = append(times, handOver())
		}
		check(b, holder.Release())
		b.ReportMetric(0, "ns/op") // the pauses are most of that
		reportTimes(b, "wait", times)
	})
}

// crowded is the number of goroutines that contend for one key. Each holds the key for work.
const (
	crowded = 64
	work    = time.Millisecond
)

// Goroutines of one process and of four that contend for one key.
func BenchmarkContended(b *testing.B) {
	s := startSite(b, nodes)
	for _, processes := range []int{1, 4} {
		b.Run("processes="+strconv.Itoa(processes), func(b *testing.B) {
			s.sides(b, whoWait, func(b *testing.B, c contender) {
				var all []*child
				for range processes {
					all = append(all, startChild(b, "crowd", crowd{c.client, c.lib, s.addrs(), "bench:contended", crowded / processes}))
				}
				ask[bool](b, all, true)
				time.Sleep(sized(time.Second, 100*time.Millisecond)) // until all are under way
				from := now()
				for b.Loop() {
					time.Sleep(sized(3*time.Second, 300*time.Millisecond))
				}
				to := now()
				tally(b, slices.Concat(ask[[][]turn](b, all, true)...), from, to)
			})
		})
	}
}

// A crowd is goroutines of one process that all want the key.
type crowd struct {
	Client, Lib string
	Addrs       []string
	Key         string
	Callers     int
}

// A turn is one time that a caller had the lock: the times at which the caller asked and got.
type turn struct{ Asked, Got int64 }

// now is in nanoseconds, by the clock that all processes of a machine share.
func now() int64 { return time.Now().UnixNano() }

// serveCrowd starts the callers at the first order, stops them at the second, and answers with the turns of each.
func serveCrowd(orders *json.Decoder, answers *json.Encoder) {
	of := next[crowd](orders)
	session := contender{of.Client, of.Lib}.open(setup{addrs: of.Addrs, goroutines: of.Callers})
	next[bool](orders)
	ctx, cancel := context.WithCancel(context.Background())
	turns := make([][]turn, of.Callers)
	var callers sync.WaitGroup
	for i := range turns {
		callers.Go(func() {
			for ctx.Err() == nil {
				t := turn{Asked: now()}
				h, err := session.wait(ctx, of.Key)
				if err == nil {
					t.Got = now()
					time.Sleep(work)
					turns[i] = append(turns[i], t)
					err = h.Release()
				}
				if err != nil && ctx.Err() == nil {
					fmt.Fprintln(os.Stderr, of.Lib, of.Client, err)
				}
			}
		})
	}
	tell(answers, true)
	next[bool](orders)
	cancel()
	callers.Wait()
	tell(answers, turns)
	session.close()
}

// tally reports the turns that began in a window of time. Whoever gets the lock again right away has served nobody, so
// what counts is how often the lock changed hands.
func tally(b *testing.B, turns [][]turn, from, to int64) {
	type owned struct {
		turn
		owner int
	}
	var all []owned
	for i, some := range turns {
		for _, t := range some {
			if t.Got >= from && t.Got < to {
				all = append(all, owned{t, i})
			}
		}
	}
	slices.SortFunc(all, func(a, b owned) int { return cmp.Compare(a.Got, b.Got) })
	var changes, squares float64
	var waits []time.Duration
	shares := make([]float64, len(turns))
	for i, t := range all {
		waits = append(waits, time.Duration(t.Got-t.Asked))
		shares[t.owner]++
		if i > 0 && all[i-1].owner != t.owner {
			changes++
		}
	}
	for _, share := range shares {
		squares += share * share
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(changes/time.Duration(to-from).Seconds(), "changes/s")
	reportTimes(b, "wait", waits)
	if n := float64(len(all)); n > 0 {
		b.ReportMetric(n*n/(float64(len(turns))*squares), "jain") // 1 is fair, 1/n is all for one of n
	}
}
