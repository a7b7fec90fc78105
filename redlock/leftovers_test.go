package redlock

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumlock/quorumlock/internal/protocol"
)

var conversionRounds = flag.Int("conversion.rounds", 8, "how many random rounds of conversions are looked at for keys that nobody holds")

// leftAt returns what the nodes have of keys that begin with the prefix, readers and marks included.
func leftAt(fakes []*fakeNode, prefix string) (left []string) {
	begins := func(name string) bool { return strings.HasPrefix(strings.TrimPrefix(name, "{"), prefix) }
	for _, f := range fakes {
		f.change(func(f *fakeNode) {
			for key := range f.keys {
				if held, ok := f.get(key); ok && begins(key) {
					left = append(left, fmt.Sprintf("%s has %q for %v: %s", f.name, key, held.until.Sub(f.now()), held.token))
				}
			}
			for set, readers := range f.readers {
				for token, until := range readers {
					if until.After(f.now()) && begins(set) {
						left = append(left, fmt.Sprintf("%s has the reader %s in %q", f.name, token, set))
					}
				}
			}
		})
	}
	return left
}

// Two processes, each of which shares a key, asks in vain to be its writer, and releases it. No node
// keeps a reader behind the last release: the lease is a minute.
func TestReadersWhoseUpgradesFailLeaveNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, fakes := newLocker(t, 3)
		for _, f := range fakes {
			f.change(func(f *fakeNode) { f.delay, f.jitter = time.Millisecond, 2*time.Millisecond })
		}
		var all sync.WaitGroup
		for range 2 {
			locker := another(t, fakes, WithTTL(time.Minute))
			all.Go(func() {
				for range 200 {
					reader, err := locker.AcquireShared(t.Context(), "kept")
					if err != nil {
						t.Errorf("AcquireShared = %v", err)
						return
					}
					held := handle{reader.lease, nil}
					if writer, err := reader.TryUpgrade(t.Context()); err == nil {
						held = writer.handle
					}
					if err := held.Release(t.Context()); err != nil {
						t.Errorf("Release = %v", err)
					}
				}
			})
		}
		all.Wait()
		time.Sleep(100 * time.Millisecond) // for clean-ups
		if left := leftAt(fakes, "k"); left != nil {
			t.Errorf("behind the last release %v", left)
		}
	})
}

// A round of conversions is what several processes do with a few keys on nodes with faults.
type conversions struct {
	t     *testing.T
	fakes []*fakeNode
	who   *register
	ends  time.Time
}

func TestConversionsLeaveNoKeyThatNobodyHolds(t *testing.T) {
	for i := range *conversionRounds {
		seed := rand.Uint64() //nolint:gosec // any will do
		synctest.Test(t, func(t *testing.T) { convertsAtRandom(t, seed, 3+2*(i%2), i%4 < 2) })
		if t.Failed() {
			t.Fatalf("in round %d, with the seed %d", i, seed)
		}
	}
}

const (
	conversionLasts = 10 * time.Second
	// conversionSettles is how long clean-ups may take once the nodes are well: two node time-outs, and
	// the pauses between tries.
	conversionSettles = 5 * time.Second
)

func convertsAtRandom(t *testing.T, seed uint64, size int, fences bool) {
	options := []Option{WithTTL(time.Minute), WithMaxWait(500 * time.Millisecond), WithNodeTimeout(50 * time.Millisecond)}
	if fences {
		options = append(options, WithFences())
	}
	fakes, _ := fakeNodes(size)
	r := conversions{t, fakes, newRegister(t), time.Now().Add(conversionLasts)}
	random := func(which uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, which)) } //nolint:gosec // it has to be repeatable
	chaos := random(0)
	for _, f := range fakes {
		f.change(func(f *fakeNode) {
			f.delay, f.jitter = time.Millisecond, time.Duration(1+chaos.IntN(4))*time.Millisecond
		})
	}
	var all sync.WaitGroup
	var lockers []*Locker
	for i := range 3 {
		locker := another(t, fakes, options...)
		lockers = append(lockers, locker)
		for j := range 2 {
			all.Go(func() { r.work(locker, random(uint64(10*i+j+1))) }) //nolint:gosec // it is small
		}
	}
	all.Go(func() { r.faults(chaos) })
	all.Wait()
	if err := lockers[0].Close(); err != nil {
		t.Errorf("Close = %v", err)
	}
	time.Sleep(conversionSettles)
	if left := leftAt(fakes, "k"); left != nil {
		t.Errorf("%v behind the last release %v", conversionSettles, left)
	}
}

// faults makes a minority of the nodes lose replies and connections, and stop, until the round ends.
func (r *conversions) faults(rng *rand.Rand) {
	for time.Now().Before(r.ends) {
		time.Sleep(time.Duration(rng.IntN(500)) * time.Millisecond)
		f := r.fakes[rng.IntN(len(r.fakes))]
		switch rng.IntN(4) {
		case 0:
			f.stop() // and what it was sent it runs in another order
			time.Sleep(time.Duration(rng.IntN(200)) * time.Millisecond)
			f.resume()
		case 1:
			loses := 1 + rng.IntN(4)
			f.change(func(f *fakeNode) { f.lose = func(string) bool { loses--; return loses >= 0 } })
		case 2:
			f.change(func(f *fakeNode) { f.cuts = 1 + rng.IntN(3) })
		case 3:
			f.change(func(f *fakeNode) { f.delay = 20 * time.Millisecond })
			time.Sleep(time.Duration(rng.IntN(200)) * time.Millisecond)
			f.change(func(f *fakeNode) { f.delay = time.Millisecond })
		}
	}
}

// brief returns a context that sometimes ends within a few round trips.
func (r *conversions) brief(rng *rand.Rand) (context.Context, context.CancelFunc) {
	if rng.IntN(3) > 0 {
		return r.t.Context(), func() {}
	}
	return context.WithTimeout(r.t.Context(), time.Duration(1+rng.IntN(8000))*time.Microsecond)
}

// work acquires, converts and gives up locks until the round ends.
func (r *conversions) work(l *Locker, rng *rand.Rand) {
	for time.Now().Before(r.ends) {
		key := fmt.Sprint("k", rng.IntN(2))
		abandons := rng.IntN(50) == 0
		if abandons {
			key = fmt.Sprint("abandoned", rng.Uint64())
		}
		var reader *SharedLock
		var writer *Lock
		var err error
		if before := r.who.asks(key); rng.IntN(3) > 0 {
			reader, err = l.AcquireShared(r.t.Context(), key)
		} else if writer, err = l.Acquire(r.t.Context(), key); err == nil {
			r.who.has(writer, before)
		}
		if err != nil {
			continue
		}
		for range rng.IntN(4) {
			reader, writer = r.convert(reader, writer, rng)
		}
		held := either(reader, writer)
		if abandons {
			r.abandon(held)
			continue
		}
		ctx, cancel := r.brief(rng)
		if err := held.Release(ctx); errors.Is(err, ErrLost) {
			r.t.Errorf("Release of %v = %v", held.lease, err)
		}
		cancel()
	}
}

// either returns the hold, which is one of the two.
func either(reader *SharedLock, writer *Lock) handle {
	if reader != nil {
		return reader.handle
	}
	return writer.handle
}

// convert does one thing with a hold.
func (r *conversions) convert(reader *SharedLock, writer *Lock, rng *rand.Rand) (*SharedLock, *Lock) {
	ctx, cancel := r.brief(rng)
	defer cancel()
	switch {
	case rng.IntN(3) == 0:
		held := either(reader, writer)
		if err := held.Extend(ctx, time.Minute); errors.Is(err, ErrLost) {
			r.t.Errorf("Extend of %v = %v", held.lease, err)
		}
	case reader != nil:
		before := r.who.asks(reader.Key())
		if upgraded, err := reader.TryUpgrade(ctx); err == nil {
			r.who.has(upgraded, before)
			return nil, upgraded
		}
	default:
		if downgraded, err := writer.Downgrade(ctx); downgraded != nil {
			return downgraded, nil
		} else if ctx.Err() == nil {
			r.t.Errorf("Downgrade = %v", err)
		}
	}
	return reader, writer
}

// abandon leaves a key to its TTL: nobody else gets it.
func (r *conversions) abandon(held handle) {
	if err := held.Abandon(); err != nil {
		r.t.Errorf("Abandon = %v", err)
	}
	time.Sleep(conversionSettles)
	count := 0
	for _, f := range r.fakes {
		if token, _ := f.token(held.Key()); token == held.Token() || token == protocol.SharedValue {
			count++
		}
	}
	if count <= len(r.fakes)/2 {
		r.t.Errorf("%v behind Abandon %d nodes have the key", conversionSettles, count)
	}
}
