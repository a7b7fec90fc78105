package redlock

import (
	"context"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/internal/node"
	"github.com/quorumlock/quorumlock/test/fakenode"
)

// A day is hours of several processes on nodes with faults, in virtual time.
type day struct {
	t       *testing.T
	seed    uint64
	nodes   []*fakeNode
	away    []time.Duration // how far each node is
	lockers []*Locker
	who     *register
	ends    time.Time

	mu      sync.Mutex
	sick    []time.Time // until then a node may not vote, or not in time
	poor    []span      // when no majority was well
	had     int
	longest time.Duration // that anybody has waited while a majority was well

	cleanUps int // the most that a Locker had to try again

	ran history
}

// A history is a fingerprint of all commands that the nodes have run, in their order.
type history struct {
	mu       sync.Mutex
	commands int
	sum      uint64 // FNV-1a
}

func (h *history) Write(line []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.commands++
	for _, b := range line {
		h.sum = (h.sum ^ uint64(b)) * 1099511628211
	}
	return len(line), nil
}

// A span is a part of the day.
type span struct{ from, to time.Time }

const (
	dayTTL     = 10 * time.Second
	dayHold    = 15 * time.Second // the longest
	dayWorkers = 4                // of each Locker
	dayLockers = 3
	// dayRelapses is how often in a row the same nodes may fall sick.
	dayRelapses = 8
	// dayRounds is after how many rounds of faults the way to a node flaps, for dayFlaps,
	// while each Locker has dayCallers more.
	dayRounds  = 300
	dayFlaps   = 2 * time.Minute
	dayCallers = 10
	// dayCleanUps bounds the clean-ups that a Locker has to try again: those of a TTL, in
	// which a node flaps five times at the most.
	dayCleanUps = (dayWorkers + dayCallers) * 5
	// dayThrong is how long dayCrowd callers of each Locker contend for one key, and one asks for a
	// key of its own. The first have 1,400 to 1,750 locks, by how often the key changes processes,
	// and each of the others 1,000; a minority that is far away changes nothing. Some runs have
	// half of that, for a Locker that was told nothing by nodes until just now may still rely on
	// being told; under the race detector, which shuffles goroutines and has -short, a third. Each lock may cost a node dayCommands, with the tries of who waits for it: twice
	// what it does. In a second of rest a node may be asked dayIdle: for its clock, what it is, and
	// by those who wait for other keys.
	dayThrong     = 2 * time.Second
	dayCrowd      = 2
	dayContended  = 500
	dayAlone      = 750
	dayCommands   = 16
	dayIdle       = 200
	dayGoroutines = 200 // with the senders, which had nothing to do before and have ended
	// dayInstants is for how many keys all Lockers ask at one moment.
	dayInstants = 10
	// dayWait is within what time a waiter is served while a majority of the nodes is well:
	// everybody else may go first, and one may leave the key to its TTL.
	dayWait = dayWorkers*dayLockers*dayHold + 2*dayTTL
)

var dayKeys = []string{"orders", "{users}:7", "reports"}

// The faults, what the workers do, tokens and pauses come from a seed. The order in which Go runs
// goroutines does not: so a seed repeats a day closely, and exactly by test/tools/days.
var (
	daySeed  = flag.Uint64("day.seed", 0, "the seed of the first day of faults; 0: any")
	days     = flag.Int("day.count", 1, "the number of days, each with the next seed")
	dayHours = flag.Float64("day.hours", 10, "the hours of a day")
	exact    = flag.Bool("day.exact", false, "print a fingerprint of all commands, and do not measure the heap: that collects garbage, and a day would not repeat exactly")
)

func TestADayOfFaultsBreaksNoPromiseAndLeavesNothing(t *testing.T) {
	first := *daySeed
	if first == 0 {
		first = rand.Uint64() //nolint:gosec // any will do
	}
	if testing.Short() {
		*dayHours = min(*dayHours, 0.2)
	}
	var longest time.Duration
	for i := range *days {
		seed := first + uint64(i)
		synctest.Test(t, func(t *testing.T) { // which ends this test, too, where it fails
			defer func() {
				if t.Failed() {
					t.Logf("the seed is %d; to repeat it: test/tools/days %d 1 %v", seed, seed, *dayHours)
				}
			}()
			longest = max(longest, liveADay(t, seed))
		})
	}
	t.Logf("the first seed is %d; in %d days of %v hours the longest wait while a majority was well took %v", first, *days, *dayHours, longest)
}

// liveADay returns the longest wait while a majority was well.
func liveADay(t *testing.T, seed uint64) time.Duration {
	d := newDay(t, seed, 5)
	began := heapInUse()
	var all sync.WaitGroup
	all.Go(d.faults)
	all.Go(d.watch)
	for i, locker := range d.lockers {
		for j := range dayWorkers {
			all.Go(func() { d.work(locker, rand.New(rand.NewPCG(seed, uint64(100+10*i+j)))) }) //nolint:gosec // it has to be repeatable
		}
	}
	all.Wait()
	if least := int(3000 * *dayHours / 25); d.had < least {
		t.Errorf("%d locks were had in a day, want %d and more", d.had, least)
	}
	time.Sleep(10 * time.Minute)
	for _, locker := range d.lockers {
		empty(t, locker)
	}
	if grown := heapInUse() - began; grown > 1<<20 {
		t.Errorf("the heap has grown by %d bytes in a day", grown)
	}
	for _, f := range d.nodes {
		for _, key := range dayKeys {
			if token, _ := f.Token(key); token != "" {
				t.Errorf("%s still has %q", f.Name(), key)
			}
		}
	}
	if *exact {
		t.Logf("seed %d: %d locks, the longest wait %v, %d commands with the fingerprint %x", seed, d.had, d.longest, d.ran.commands, d.ran.sum)
	}
	return d.longest
}

// seeded makes a Locker draw its tokens and pauses from a seed.
func seeded(seed, locker uint64) Option {
	var mu sync.Mutex
	source := rand.New(rand.NewPCG(seed, locker)) //nolint:gosec // it has to be repeatable
	return option(func(o *lockerOptions) {
		o.random = func() (bits [16]byte) {
			mu.Lock()
			defer mu.Unlock()
			binary.LittleEndian.PutUint64(bits[:], source.Uint64())
			binary.LittleEndian.PutUint64(bits[8:], source.Uint64())
			return bits
		}
		o.jitter = func(bound time.Duration) time.Duration {
			mu.Lock()
			defer mu.Unlock()
			return time.Duration(source.Int64N(int64(bound)))
		}
	})
}

func newDay(t *testing.T, seed uint64, size int) *day {
	fakes, _ := fakeNodes(size)
	d := &day{t: t, seed: seed, nodes: fakes, who: newRegister(t), ends: time.Now().Add(time.Duration(*dayHours * float64(time.Hour))), sick: make([]time.Time, size)}
	d.away = d.distances(rand.New(rand.NewPCG(seed, 2))) //nolint:gosec // it has to be repeatable
	for i, f := range fakes {
		f.Delay = d.away[i]
		if *exact {
			f.Ran = &d.ran
		}
	}
	for i := range dayLockers {
		d.lockers = append(d.lockers, another(t, fakes, WithTTL(dayTTL), WithFences(), WithRestartGuard(dayTTL), seeded(seed, uint64(i))))
	}
	ripen(t, d.lockers[0])
	for _, locker := range d.lockers {
		mustRelease(t, mustAcquire(t, locker, "k"))
	}
	return d
}

// distances are how far each node is: on half of the days as far as the nearest, and otherwise
// one or two of them farther by as much as answers may take in time.
func (d *day) distances(rng *rand.Rand) []time.Duration {
	away := slices.Repeat([]time.Duration{time.Millisecond}, len(d.nodes))
	if rng.IntN(2) == 0 {
		for _, i := range rng.Perm(len(away))[:1+rng.IntN((len(away)-1)/2)] {
			away[i] += []time.Duration{2 * time.Millisecond, 30 * time.Millisecond, 200 * time.Millisecond}[rng.IntN(3)]
		}
	}
	return away
}

// heapInUse is the memory that is in use. It is 0 where a day has to repeat exactly.
func heapInUse() int64 {
	if *exact {
		return 0
	}
	var stats runtime.MemStats
	runtime.GC()
	runtime.GC() // what the first has found to be of no use in pools
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc) //nolint:gosec // it is far from that
}

// faults makes nodes fail, and heals them, until the day ends. Mostly a minority is sick.
func (d *day) faults() {
	rng := rand.New(rand.NewPCG(d.seed, 1)) //nolint:gosec // it has to be repeatable
	some := func(most time.Duration) time.Duration { return time.Duration(rng.Int64N(int64(most))) }
	most := (len(d.nodes) - 1) / 2
	var healing sync.WaitGroup
	for round := 0; time.Now().Before(d.ends); round++ {
		if round%dayRounds == 0 {
			d.flap(rng.IntN(len(d.nodes)), rng)
		}
		if round%dayRounds == 1 { // all nodes are well
			d.throng()
			d.together(rng.IntN(len(d.nodes)), round)
		}
		count, lasts := 1+rng.IntN(most), time.Second+some(time.Minute)
		if rng.IntN(20) == 0 {
			count, lasts = len(d.nodes), time.Second+some(20*time.Second)
		}
		nodes := rng.Perm(len(d.nodes))[:count]
		for range 1 + rng.IntN(dayRelapses) { // the same nodes fall sick again within a TTL
			for _, i := range nodes {
				recovers := d.fail(d.nodes[i], rng)
				d.note(i, time.Now().Add(lasts+recovers))
				healing.Go(func() {
					time.Sleep(lasts)
					heal(d.nodes[i], d.away[i])
				})
			}
			healing.Wait()
			time.Sleep(some(dayTTL))
			lasts = time.Second + some(10*time.Second)
		}
		time.Sleep(2*dayTTL + some(2*time.Minute)) // all get well before the next ones fall sick
		changeAll(d.nodes, func(f *fakeNode) { f.Log, f.Published = nil, nil })
	}
}

// watch counts clean-ups, until the day ends.
func (d *day) watch() {
	for ; time.Now().Before(d.ends); time.Sleep(time.Second) {
		for _, locker := range d.lockers {
			count := outstanding(locker)
			if d.cleanUps = max(d.cleanUps, count); count > dayCleanUps {
				d.t.Errorf("%d clean-ups are to be tried again, want at most %d", count, dayCleanUps)
				return
			}
		}
	}
}

// flap makes the way to a node stall again and again, within a TTL, while the node is asked
// much.
func (d *day) flap(which int, rng *rand.Rand) {
	ends := time.Now().Add(dayFlaps)
	// A release that waits for the reply to its acquire takes two trips: from nodes that are so far
	// away it has no answer in time, and without the one that flaps they are needed for a quorum.
	lagging := 0
	for i, away := range d.away {
		if i == which || 2*away > defaultNodeTimeout {
			lagging++
		}
	}
	distant := lagging > (len(d.nodes)-1)/2
	d.note(which, ends.Add(2*node.MaxCooldown))
	var callers sync.WaitGroup
	for i, locker := range d.lockers {
		for j := range dayCallers {
			callers.Go(func() {
				for ; time.Now().Before(ends); time.Sleep(300 * time.Millisecond) {
					if lock, err := locker.TryAcquire(d.t.Context(), fmt.Sprint("flap", i, j)); err != nil {
						d.t.Errorf("TryAcquire while the way to one node flaps = %v", err)
					} else if err := lock.Release(); err != nil && (!distant || !errors.Is(err, ErrNoQuorum)) {
						d.t.Errorf("Release while the way to one node flaps = %v", err)
					}
				}
			})
		}
	}
	for time.Now().Before(ends) {
		freeze(d.nodes[which], 300*time.Millisecond+time.Duration(rng.IntN(200))*time.Millisecond)
		time.Sleep(3*time.Second + time.Duration(rng.IntN(3000))*time.Millisecond)
	}
	callers.Wait()
}

// throng has callers of all Lockers contend for one key, and others ask for keys of their own,
// while all nodes are well. It counts locks, commands for each of them, goroutines, and what still
// arrives when it is over: a node that is farther away changes none of that.
func (d *day) throng() {
	var (
		began      = make([]int, len(d.nodes))
		goroutines = runtime.NumGoroutine()
		had        = map[bool]int{} // by whether others want the key
	)
	commands := func(f *fakeNode) (n int) {
		f.Change(func(f *fakeNode) { n = len(f.Log) })
		return n
	}
	for i, f := range d.nodes {
		began[i] = commands(f)
	}
	var callers sync.WaitGroup
	ends := time.Now().Add(dayThrong)
	for i, locker := range d.lockers {
		for j := range dayCrowd + 1 {
			key, alone := "throng", j == dayCrowd
			if alone {
				key = fmt.Sprint("alone", i)
			}
			callers.Go(func() {
				for time.Now().Before(ends) {
					lock, err := locker.Acquire(d.t.Context(), key, WithMaxWait(dayWait))
					if err != nil {
						d.t.Errorf("Acquire in a throng = %v", err)
						return
					}
					d.mu.Lock()
					had[alone]++
					d.mu.Unlock()
					if err := lock.Release(); err != nil {
						d.t.Errorf("Release in a throng = %v", err)
					}
				}
			})
		}
	}
	time.Sleep(dayThrong)
	if more := runtime.NumGoroutine() - goroutines; more > dayGoroutines {
		d.t.Errorf("a throng takes %d goroutines, want at most %d", more, dayGoroutines)
	}
	callers.Wait()
	contended := dayContended
	if testing.Short() {
		contended /= 2
	}
	if had[false] < contended || had[true] < dayAlone*dayLockers {
		d.t.Errorf("in %v there were %d locks of a key that %d callers want, and %d of keys that one wants each, want %d and %d; the nodes are at %v",
			dayThrong, had[false], dayCrowd*dayLockers, had[true], contended, dayAlone*dayLockers, d.away)
	}
	time.Sleep(4 * defaultNodeTimeout)
	for i, f := range d.nodes {
		count, locks := commands(f)-began[i], had[false]+had[true]
		if most := dayCommands * locks; count > most {
			d.t.Errorf("%s, at %v, has run %d commands for %d locks, want at most %d", f.Name(), d.away[i], count, locks, most)
		}
		began[i] += count
	}
	time.Sleep(4 * defaultNodeTimeout)
	for i, f := range d.nodes {
		if late := commands(f) - began[i]; late > dayIdle {
			d.t.Errorf("%s, at %v, ran %d commands in the second second after a throng, want at most %d", f.Name(), d.away[i], late, dayIdle)
		}
	}
}

// together has all Lockers ask for new keys at one moment in which a node has just been stopped: by
// tries, of which one has the key or nobody is told that it is taken, and by tokens of their own,
// of which all have it in turns.
func (d *day) together(stopped, round int) {
	d.note(stopped, time.Now().Add(dayTTL+2*node.MaxCooldown+2*dayTTL))
	d.nodes[stopped].Stop()
	defer heal(d.nodes[stopped], d.away[stopped])
	for i := range dayInstants {
		var asking sync.WaitGroup
		errs := make([]error, len(d.lockers)+1) // two of one Locker
		for j := range errs {
			asking.Go(func() {
				lock, err := d.lockers[j%len(d.lockers)].TryAcquire(d.t.Context(), fmt.Sprint("instant", round, ".", i))
				if errs[j] = err; err == nil {
					err = lock.Release()
				}
				if err != nil && !errors.Is(err, ErrTaken) && !errors.Is(err, ErrContended) && !errors.Is(err, ErrNoQuorum) {
					d.t.Errorf("a try at one moment with others = %v", err)
				}
			})
		}
		asking.Wait()
		if slices.Contains(errs, nil) {
			continue
		}
		for _, err := range errs {
			if errors.Is(err, ErrTaken) && !errors.Is(err, ErrContended) {
				d.t.Errorf("of %d who asked for a new key at one moment nobody has it, and one was told: %v", len(errs), err)
				break
			}
		}
	}
	var asking sync.WaitGroup
	for i, locker := range d.lockers {
		asking.Go(func() {
			key := fmt.Sprint("own", round)
			lock, err := locker.Acquire(d.t.Context(), key, WithToken(fmt.Sprint("own", d.seed, round, i)), WithMaxWait(2*dayTTL))
			if err != nil {
				d.t.Errorf("Acquire by one of %d own tokens = %v; the nodes have %v", len(d.lockers), err, d.holders(key))
			} else if err := lock.Release(); err != nil {
				d.t.Errorf("Release of an own token = %v", err)
			}
		})
	}
	asking.Wait()
}

// note says that a node is sick until then.
func (d *day) note(node int, until time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if until.After(d.sick[node]) {
		d.sick[node] = until
	}
	sick, last := 0, time.Time{}
	for _, end := range d.sick {
		if end.After(time.Now()) {
			sick++
			if end.After(last) {
				last = end
			}
		}
	}
	if sick > (len(d.nodes)-1)/2 {
		d.poor = append(d.poor, span{time.Now(), last})
	}
}

// fail gives a node one of the faults. It returns how long the node has to recover when it
// is healed.
func (d *day) fail(f *fakeNode, rng *rand.Rand) (recovers time.Duration) {
	const asksAgain = 2 * node.MaxCooldown
	// A step forward stays within what leases allow for; back it may be more.
	skew := 40*time.Millisecond - time.Duration(rng.Int64N(int64(time.Second)))
	switch rng.IntN(9) {
	case 0:
		f.Stop()
		return asksAgain
	case 1:
		f.Restart()
		f.HangUp()
		return 2 * dayTTL // the quarantine
	case 2:
		f.Change(func(f *fakeNode) { f.Skew = max(f.Skew+skew, -2*time.Second) })
		return 2 * time.Second // a key may live so much longer
	case 3:
		f.Change(func(f *fakeNode) {
			f.Delay, f.Jitter = time.Duration(rng.IntN(400))*time.Millisecond, 50*time.Millisecond
		})
		return asksAgain
	case 4:
		f.Change(func(f *fakeNode) { f.Cuts = 1 + rng.IntN(5) })
		return asksAgain
	case 5:
		own := rand.New(rand.NewPCG(rng.Uint64(), 0)) //nolint:gosec // likewise
		f.Change(func(f *fakeNode) { f.Lose = func(string) bool { return own.IntN(4) == 0 } })
		return asksAgain
	case 6:
		f.Change(func(f *fakeNode) { f.Refused = driver.NotSent(fakenode.ErrCut) })
		return asksAgain
	case 7:
		f.Change(func(f *fakeNode) { f.Mute = true })
		f.HangUp()
		return asksAgain
	default:
		f.Change(func(f *fakeNode) { f.Deaf = true })
		return asksAgain
	}
}

// heal ends all faults of a node that is so far away.
func heal(f *fakeNode, away time.Duration) {
	f.Change(func(f *fakeNode) {
		f.Delay, f.Jitter, f.Cuts, f.Lose, f.Refused, f.Mute, f.Deaf = away, 0, 0, nil, nil, false, false
	})
	f.Resume()
}

// work takes locks in all ways, until the day ends.
func (d *day) work(locker *Locker, rng *rand.Rand) {
	some := func(most time.Duration) time.Duration { return time.Duration(rng.Int64N(int64(most))) }
	for time.Now().Before(d.ends) {
		time.Sleep(some(5 * time.Minute))
		key := dayKeys[rng.IntN(len(dayKeys))]
		var options []AcquireOption
		way := rng.IntN(6)
		switch way {
		case 0, 1:
			options = append(options, WithRenewal())
		case 2:
			options = append(options, WithToken(fmt.Sprint("own", rng.Uint64())))
		}
		before, asked := d.who.asks(key), time.Now()
		lock, err := locker.Acquire(d.t.Context(), key, append(options, WithMaxWait(dayWait))...)
		d.waited(key, asked, err)
		if err != nil {
			continue
		}
		d.who.has(lock, before)
		switch way {
		case 0, 2:
			fakenode.Sleep(lock.Context(), some(dayHold))
		case 3:
			fakenode.Sleep(lock.Context(), some(dayTTL))
			_ = lock.Extend(d.t.Context(), dayTTL) // a sick majority may not let it
		case 4:
			continue // it is never released
		}
		d.who.gives(lock)
		if err := lock.Release(); err != nil && !errors.Is(err, ErrLost) && !errors.Is(err, ErrNoQuorum) {
			d.t.Errorf("Release = %v", err)
		}
	}
}

// waited takes in how long somebody has waited, who had the lock if err is nil.
func (d *day) waited(key string, since time.Time, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err == nil {
		d.had++
	}
	now, wait := time.Now(), time.Since(since)
	for _, poor := range d.poor {
		if poor.from.Before(now) && since.Before(poor.to) {
			return
		}
	}
	if err != nil {
		d.t.Errorf("at %v, with a majority well, %q was not had in %v: %v; the nodes have %v", now, key, wait, err, d.holders(key))
	}
	d.longest = max(d.longest, wait)
}

// holders shows who has the key at each node, and for how long.
func (d *day) holders(key string) (all []string) {
	for _, f := range d.nodes {
		token, left := f.Token(key)
		all = append(all, fmt.Sprintf("%s: %.8s %v", f.Name(), token, left))
	}
	return all
}

func TestAQuietDayLosesNoLockAndGrowsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := ripeLocker(t, 5, WithTTL(30*time.Second), WithRestartGuard(30*time.Second), WithFences(), onRenewal(func(r ExtendEnd) {
			if r.Err != nil || r.Granted < r.Need {
				t.Errorf("a renewal over nodes that are well: %v", r)
			}
		}))
		lock := mustAcquire(t, locker, "k", WithRenewal())
		fence, held := lock.Fence(), lock.Context()
		var began int64
		hours := 1 + some(15)
		for hour := range hours {
			time.Sleep(time.Hour)
			if !lock.Valid() || held.Err() != nil {
				t.Fatalf("after %d hours the lock is lost: %v", hour+1, context.Cause(held))
			}
			if batches := fakes[0].Batches(); hour > 0 && (batches < 360 || batches > 480) {
				t.Errorf("in hour %d a node was asked %d times, want about 412: one renewal each quarter to third of the TTL", hour+1, batches)
			}
			changeAll(fakes, func(f *fakeNode) { f.Log, f.Published, f.Calls = nil, nil, 0 })
			if now := heapInUse(); hour == 0 {
				began = now
			} else if hour == hours-1 && now-began > 1<<18 {
				t.Errorf("the heap has grown by %d bytes in a day", now-began)
			}
		}
		if lock.Fence() != fence {
			t.Errorf("the fence was %d, and is %d", fence, lock.Fence())
		}
		mustRelease(t, lock)
		time.Sleep(time.Minute)
		empty(t, locker)
		if left := stray(fakes, "k"); len(left) > 0 {
			t.Errorf("the key is still at %s", strings.Join(left, ", "))
		}
	})
}
