package bench

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// callTimeout bounds redsync's calls while nodes are in trouble: what redsync gives to a lock with this TTL.
const callTimeout = ttl / 20

// A cycle is a lock and its unlock. A load is goroutines that do cycles: each on a key of its own, or all on one.
type load struct {
	contender
	goroutines  int
	oneKey      bool
	callTimeout time.Duration
}

// measure runs a benchmark of the load in each of the troubles, in one session that has all its connections.
func (l load) measure(b *testing.B, s site, addrs []string, troubles ...trouble) {
	session := l.open(setup{addrs, l.goroutines, l.callTimeout})
	defer session.close()
	if !testing.Short() {
		l.warm(session)
	}
	for _, t := range troubles {
		lift := t.strike()
		b.Run("trouble="+t.name, func(b *testing.B) { l.run(b, s[:len(s)-t.silent], session) })
		lift()
	}
}

// repeat does something in each of the goroutines until it is over.
func (l load) repeat(do func() (over bool)) {
	var callers sync.WaitGroup
	for range l.goroutines {
		callers.Go(func() {
			for over := false; !over; {
				over = do()
			}
		})
	}
	callers.Wait()
}

// cycle takes the key and releases the key. It returns how long taking took.
func (l load) cycle(session session, key string) (time.Duration, error) {
	take, start := session.try, time.Now()
	if l.oneKey {
		take = session.wait
	}
	hold, err := take(context.Background(), key)
	took := time.Since(start)
	if err == nil {
		err = hold.Release()
	}
	return took, err
}

// warm does cycles until two for each goroutine have succeeded, but for 10 s at most.
func (l load) warm(session session) {
	const enough = 1 << 16
	key, end := l.keys(enough), time.Now().Add(10*time.Second)
	var begun, succeeded atomic.Int64
	l.repeat(func() (over bool) {
		if _, err := l.cycle(session, key(int(begun.Add(1))%enough)); err == nil {
			succeeded.Add(1)
		}
		return int(succeeded.Load()) >= 2*l.goroutines || time.Now().After(end)
	})
}

// run does b.N cycles. The servers are those that answer.
func (l load) run(b *testing.B, servers site, session session) {
	key, took := l.keys(b.N), make([]time.Duration, b.N)
	var begun, failed atomic.Int64
	theirs, own := servers.cpu(), ownCPU()
	b.ReportAllocs()
	b.ResetTimer()
	l.repeat(func() (over bool) {
		i := int(begun.Add(1)) - 1
		if i >= b.N {
			return true
		}
		var err error
		if took[i], err = l.cycle(session, key(i)); err != nil && failed.Add(1) == 1 {
			b.Logf("the first that failed: %v", err)
		}
		return false
	})
	b.StopTimer()
	n := float64(b.N)
	b.ReportMetric(0, "ns/op") // which cycles/s says
	b.ReportMetric((n-float64(failed.Load()))/b.Elapsed().Seconds(), "cycles/s")
	reportTimes(b, "lock", took)
	b.ReportMetric(float64(ownCPU()-own)/n, "client-cpu-ns/op")
	b.ReportMetric(float64(servers.cpu()-theirs)/n, "server-cpu-ns/op")
	if failed.Load() > 0 {
		b.ReportMetric(float64(failed.Load()), "failed")
	}
}

// keys makes a key for each of n cycles. All are cut from one text, so that they count for no allocation of a contender.
func (l load) keys(n int) func(i int) string {
	prefix := fmt.Sprintf("bench:%x:", time.Now().UnixNano())
	if l.oneKey {
		return func(int) string { return prefix }
	}
	length := len(prefix) + len("00000000")
	text := make([]byte, 0, n*length)
	for i := range n {
		text = fmt.Appendf(text, "%s%08d", prefix, i)
	}
	all := string(text)
	return func(i int) string { return all[i*length : (i+1)*length] }
}

// reportTimes reports the median and the 99th percentile of times, which it sorts.
func reportTimes(b *testing.B, what string, times []time.Duration) {
	slices.Sort(times)
	for name, q := range map[string]float64{"p50": 0.5, "p99": 0.99} {
		if n := len(times); n > 0 {
			b.ReportMetric(float64(times[max(0, int(math.Ceil(q*float64(n)))-1)]), what+"-"+name+"-ns")
		}
	}
}

// ownCPU is the processor time that this process has taken so far.
func ownCPU() time.Duration {
	var r syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &r) // never fails
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}

// over runs do with each number of goroutines.
func over(b *testing.B, all []int, do func(b *testing.B, goroutines int)) {
	for _, goroutines := range all {
		b.Run("goroutines="+strconv.Itoa(goroutines), func(b *testing.B) { do(b, goroutines) })
	}
}

// Cycles while all is well, on free keys.
func BenchmarkCycles(b *testing.B) {
	s := startSite(b, nodes)
	over(b, []int{1, 16, 128, 1024}, func(b *testing.B, goroutines int) {
		s.sides(b, whoTry, func(b *testing.B, c contender) {
			load{contender: c, goroutines: goroutines}.measure(b, s, s.addrs(), none)
		})
	})
}

// Cycles while two nodes hang, and while all nodes are far.
func BenchmarkTrouble(b *testing.B) {
	s := startSite(b, nodes)
	p := startProxies(b, s)
	over(b, []int{128}, func(b *testing.B, goroutines int) {
		s.sides(b, whoMeetTrouble, func(b *testing.B, c contender) {
			l := load{contender: c, goroutines: goroutines, callTimeout: callTimeout}
			l.measure(b, s, s.addrs(), none, s.hung(2))
			l.measure(b, s, p.addrs, p.farther(b, nodes, 6*time.Millisecond, false))
		})
	})
}

// Cycles while some nodes are farther away than the others, beside cycles while all are alike.
func BenchmarkFar(b *testing.B) {
	s := startSite(b, nodes)
	p := startProxies(b, s)
	for _, keys := range []string{"one", "each"} {
		b.Run("keys="+keys, func(b *testing.B) {
			over(b, []int{1, 16}, func(b *testing.B, goroutines int) {
				s.sides(b, func(client string) []string {
					if client != "go-redis" {
						return nil
					}
					return []string{plain, peer}
				}, func(b *testing.B, c contender) {
					l := load{contender: c, goroutines: goroutines, oneKey: keys == "one", callTimeout: callTimeout}
					l.measure(b, s, p.addrs, none, p.farther(b, 2, 2*time.Millisecond, false), p.farther(b, 1, 30*time.Millisecond, false), p.farther(b, 1, 30*time.Millisecond, true))
				})
			})
		})
	}
}

// Cycles on more and fewer nodes, and beside keys of others.
func BenchmarkScaleNodes(b *testing.B) {
	s := startSite(b, 15)
	cycles := func(b *testing.B, s site, others int) {
		b.Run(fmt.Sprintf("nodes=%d/others=%d", len(s), others), func(b *testing.B) {
			over(b, []int{1, 128}, func(b *testing.B, goroutines int) {
				load{contender: contender{"go-redis", plain}, goroutines: goroutines}.measure(b, s, s.addrs(), none)
			})
		})
	}
	for _, count := range []int{1, 3, 5, 7, 9, 15} {
		cycles(b, s[:count], 0)
	}
	others := sized(1_000_000, 1000)
	for _, server := range s[:nodes] {
		server.Ask("EVAL", "for i = 1, ARGV[1] do redis.call('SET', 'other:' .. i, i) end", "0", strconv.Itoa(others))
	}
	cycles(b, s[:nodes], others)
}
