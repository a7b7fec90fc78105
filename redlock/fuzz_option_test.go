package redlock

import (
	"context"
	"encoding/binary"
	"errors"
	"math"
	"math/big"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumlock/quorumlock/driver"
)

// A tape has numbers that a fuzzer chooses.
type tape []byte

// next takes eight bytes, of which the first says what is made of the others: lengths that
// are usual, and those at the ends of what counts.
func (s *tape) next() (number int64, set bool) {
	if len(*s) < 8 {
		return 0, false
	}
	raw := int64(binary.LittleEndian.Uint64(*s)) //nolint:gosec // any number is meant
	*s = (*s)[8:]
	switch raw & 7 {
	case 0:
		return 0, false
	case 1:
		return raw >> 8, true
	case 2:
		return raw >> 3, true
	case 3:
		return raw >> 32, true
	case 4:
		return (raw >> 8) % 100_000 * int64(time.Millisecond), true
	case 5:
		return (math.MaxInt64/int64(time.Millisecond) - (raw>>8)%1000) * int64(time.Millisecond), true
	case 6:
		return math.MaxInt64 - (raw>>8)%1000, true
	default:
		return edges[uint64(raw>>8)%uint64(len(edges))], true
	}
}

// tapeOf makes a tape of numbers.
func tapeOf(numbers ...int64) (s tape) {
	for _, n := range numbers {
		s = binary.LittleEndian.AppendUint64(s, uint64(n)<<8|1) //nolint:gosec // likewise
	}
	return s
}

// chosen are options with what a fuzzer has chosen for them.
func (s *tape) chosen() (options []Option) {
	length := func(with func(time.Duration) Option) {
		if n, set := s.next(); set {
			options = append(options, with(time.Duration(n)))
		}
	}
	lease := func(with func(time.Duration) LeaseOption) {
		length(func(d time.Duration) Option { return with(d) })
	}
	lease(WithTTL)
	length(WithNodeTimeout)
	length(WithClockGuard)
	length(WithRestartGuard)
	timeout, _ := s.next()
	length(WithCloseTimeout)
	lease(WithMaxOutage)
	lease(WithMaxHold)
	lease(WithMaxWait)
	if n, set := s.next(); set {
		options = append(options, WithDriftFactor(math.Float64frombits(uint64(n)))) //nolint:gosec // any float is meant
	}
	if n, set := s.next(); set {
		options = append(options, WithDurability(Durability{Replicas: int(n), Timeout: time.Duration(timeout)}))
	}
	if n, set := s.next(); set {
		options = append(options, WithDurability(Durability{Disk: true, Replicas: int(n), Timeout: time.Duration(timeout)}))
	}
	least, set := s.next()
	if most, both := s.next(); set && both {
		options = append(options, WithBackoff(time.Duration(least), time.Duration(most)))
	}
	return options
}

// exactly is what is left of a lease of ttl when it begins, by arithmetic that neither
// overflows nor rounds, and a float's rounding more.
func exactly(ttl time.Duration, drift float64) *big.Float {
	whole := new(big.Float).SetPrec(200).SetInt64(int64(ttl))
	left := new(big.Float).Mul(whole, big.NewFloat(drift))
	left.Sub(whole, left)
	left.Sub(left, big.NewFloat(float64(2*time.Millisecond)))
	return left.Add(left, whole.Mul(whole, big.NewFloat(0x1p-52)))
}

// FuzzOptions gives New, Acquire and Extend any lengths. Each is refused as an OptionError,
// or works: no lease is longer than its TTL, in milliseconds as nodes count, without the drift, and
// none is over when it begins.
func FuzzOptions(f *testing.F) {
	f.Add([]byte{}, []byte{})
	f.Add([]byte(tapeOf(int64(minTTL))), []byte(tapeOf(int64(time.Hour))))
	f.Add([]byte(tapeOf(int64(maxTTL), int64(maxTTL)-1, int64(maxTTL), int64(maxTTL), int64(maxTTL))), []byte(tapeOf(int64(maxTTL))))
	for _, number := range edges {
		for place := range some(16) {
			s := make(tape, 8*place)
			f.Add([]byte(append(s, tapeOf(number)...)), []byte(tapeOf(number)))
		}
	}
	for kind := range byte(8) { // votes that may wait for so long
		s := append(make(tape, 8*5), kind, 0, 0, 0, 0, 0, 0, 0)
		f.Add([]byte(append(append(s, make(tape, 8*5)...), tapeOf(1)...)), []byte{})
	}
	f.Fuzz(func(t *testing.T, chosen, extension []byte) {
		synctest.Test(t, func(t *testing.T) {
			nodes := make([]driver.Node, 3)
			for i, n := range proofNodes(3) {
				n.Replicas = math.MaxInt64
				nodes[i] = driver.Node{Name: n.Name(), Driver: n}
			}
			s := tape(chosen)
			locker, err := New(nodes, s.chosen()...)
			if err != nil {
				refused(t, err, 0)
				return
			}
			defer locker.Close()
			if locker.options.guards {
				ripen(t, locker)
			}
			o := &locker.options
			lock, err := locker.Acquire(t.Context(), "k")
			if err != nil {
				refused(t, err, nodes[0].Driver.(*proofNode).Count("SET")-min(1, int(o.longest)))
				return
			}
			within := func(what string, ttl time.Duration) {
				t.Helper()
				left := lock.hold.Left()
				if new(big.Float).SetInt64(int64(left)).Cmp(exactly(ttl, o.drift)) > 0 || left <= 0 {
					t.Errorf("%s of %v with the drift factor %v is valid for %v", what, ttl, o.drift, left)
				}
				if until := time.Until(lock.Until()); until > left || until <= 0 {
					t.Errorf("%s is valid for %v, and until then it is %v", what, left, until)
				}
			}
			within("a lock", o.acquire.ttl)
			e := tape(extension)
			if n, set := e.next(); set {
				if err := lock.Extend(t.Context(), time.Duration(n)); err != nil {
					refused(t, err, 0)
				} else {
					sent := (time.Duration(n) + time.Millisecond - 1).Truncate(time.Millisecond)
					within("an extension", max(sent, o.acquire.ttl))
				}
			}
			left, held := lock.hold.Left(), lock.Context()
			waits, stop := context.WithTimeout(t.Context(), min(left/2, time.Hour, 20*min(o.acquire.ttl, time.Hour))) // or the lock is renewed a million times
			defer stop()
			if o.acquire.backoffMin >= time.Millisecond || o.acquire.maxWait == 0 {
				if second, err := locker.Acquire(waits, "k"); !errors.Is(err, ErrTaken) && !errors.Is(err, ErrExpired) {
					t.Errorf("a second Acquire = %v, %v, want ErrTaken", second, err)
				}
			}
			if held.Err() != nil && lock.hold.Left() > 0 {
				t.Errorf("the context of a lock is over that is valid for %v", lock.hold.Left())
			}
			mustRelease(t, lock)
		})
	})
}
