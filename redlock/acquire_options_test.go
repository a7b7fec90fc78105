package redlock

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/internal/protocol"
)

// A namer is a call that names a key.
type namer struct {
	name   string
	beside bool // it keeps something beside the key
	call   func(t *testing.T, locker *Locker, key string) error
	option Option // nil: none
}

func namers() []namer {
	acquire := func(t *testing.T, locker *Locker, key string) error {
		return passing(locker.TryAcquire(t.Context(), key))
	}
	return []namer{
		{name: "TryAcquire", call: acquire},
		{name: "WithFences", option: WithFences(), call: acquire},
		{name: "WithFairness", beside: true, option: WithFairness(), call: func(t *testing.T, locker *Locker, key string) error {
			if err := acquire(t, locker, key); errors.Is(err, ErrOption) {
				return err
			}
			return nil // the fake keeps no lines
		}},
		{name: "WithDeadlockDetection", beside: true, option: WithDeadlockDetection(minDetection), call: acquire},
		{name: "Acquire", call: func(t *testing.T, locker *Locker, key string) error {
			return passing(locker.Acquire(t.Context(), key))
		}},
		{name: "Downgrade", beside: true, call: func(t *testing.T, locker *Locker, key string) error {
			lock, err := locker.TryAcquire(t.Context(), key)
			if err != nil {
				return err
			}
			reader, err := lock.Downgrade(t.Context())
			if err != nil {
				mustRelease(t, lock)
				return err
			}
			mustRelease(t, reader)
			return nil
		}},
		{name: "AcquireShared", beside: true, call: func(t *testing.T, locker *Locker, key string) error {
			return passing(locker.AcquireShared(t.Context(), key))
		}},
		{name: "AcquireAll", beside: true, call: func(t *testing.T, locker *Locker, key string) error {
			return passing(locker.AcquireAll(t.Context(), []string{"another", key}))
		}},
		{name: "Semaphore", beside: true, call: func(t *testing.T, locker *Locker, key string) error {
			permits, err := locker.Semaphore(key, 2)
			if err != nil {
				return err
			}
			return passing(permits.Acquire(t.Context()))
		}},
		{name: "Watch", call: func(t *testing.T, locker *Locker, key string) error {
			for _, err := range locker.Watch(t.Context(), key) {
				return err
			}
			return nil
		}},
	}
}

// arrived is how many commands a node was sent.
func arrived(f *fakeNode) (count int) {
	f.Change(func(f *fakeNode) { count = len(f.Log) })
	return count
}

// What becomes of odd keys, by each call that names one.
func TestOddKeysWorkOrAreRefusedBeforeAnythingIsSent(t *testing.T) {
	for _, tt := range []struct {
		key    string
		plain  bool // it may be a lock
		beside bool // and have others beside it
	}{
		{"k", true, true},
		{"{k}", true, true},
		{"{{k}}", true, true},
		{"{", true, true},
		{"a{b", true, true},
		{"a{b}c", true, true},
		{"a}b{c}", true, true},
		{"\xff\xfe\x00", true, true},
		{strings.Repeat("k", maxKey), true, true},
		{"}", true, false},
		{"a}b", true, false},
		{"a}b{c", true, false},
		{"{}", true, false},
		{"{}x", true, false},
		{"{}{a}", true, false},
		{"", false, false},
		{"ql:", false, false},
		{"ql:line:{k}", false, false},
		{"ql:memory", false, false},
		{strings.Repeat("k", maxKey+1), false, false},
	} {
		for _, e := range namers() {
			synctest.Test(t, func(t *testing.T) {
				options := []Option{}
				if e.option != nil {
					options = append(options, e.option)
				}
				locker, fakes := newLocker(t, 3, options...)
				err := e.call(t, locker, tt.key)
				want := tt.plain && (tt.beside || !e.beside)
				if want && err != nil || !want && !errors.Is(err, ErrOption) {
					t.Errorf("%s of %.20q = %v, want it to work: %v", e.name, tt.key, err, want)
				}
				if sent := arrived(fakes[0]); !want && sent > 0 && e.name != "Downgrade" {
					t.Errorf("%s of %.20q is refused, and %d commands were sent", e.name, tt.key, sent)
				}
			})
		}
	}
}

func TestNoPrefixMakesAKeyOfTheLibrarysOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, nodes := fakeNodes(3)
		returns(t, ErrOption, "New with a prefix that begins with ql:")(New(nodes, WithKeyPrefix("ql:x")))
		locker, fakes := newLocker(t, 3, WithKeyPrefix("q"))
		for _, e := range namers() {
			if e.option == nil {
				if err := e.call(t, locker, "l:line:{k}"); !errors.Is(err, ErrOption) || !strings.Contains(err.Error(), protocol.Reserved) {
					t.Errorf("%s of l:line:{k} behind the prefix q = %v, want ErrOption", e.name, err)
				}
			}
		}
		if sent := arrived(fakes[0]); sent > 0 {
			t.Errorf("%d commands were sent", sent)
		}
	})
}

// What has no effect was meant to have one.
func TestBadOptionsAreRefusedByName(t *testing.T) {
	durable := func(d Durability) []Option { return []Option{WithDurability(d)} }
	for _, tt := range []struct {
		options []Option
		name    string // of the option that is refused; "": none
	}{
		{[]Option{WithTTL(0)}, "TTL"},
		{[]Option{WithTTL(-time.Second)}, "TTL"},
		{[]Option{WithTTL(time.Microsecond)}, "TTL"},
		{[]Option{WithTTL(999500 * time.Nanosecond)}, "TTL"},
		{[]Option{WithTTL(minTTL - 1)}, "TTL"},
		{[]Option{WithTTL(maxTTL + 1)}, "TTL"},
		{[]Option{WithTTL(math.MaxInt64)}, "TTL"},
		{[]Option{WithMaxWait(-1)}, "MaxWait"},
		{[]Option{WithBackoff(0, time.Second)}, "Backoff"},
		{[]Option{WithBackoff(time.Second, time.Millisecond)}, "Backoff"},
		{[]Option{WithMaxOutage(-1)}, "MaxOutage"},
		{[]Option{WithNodeTimeout(0)}, "NodeTimeout"},
		{[]Option{WithNodeTimeout(-1)}, "NodeTimeout"},
		{[]Option{WithNodeTimeout(10 * time.Second)}, "NodeTimeout"},
		{[]Option{WithMaxAcquires(0)}, "MaxAcquires"},
		{[]Option{WithDriftFactor(-0.1)}, "DriftFactor"},
		{[]Option{WithDriftFactor(0.6)}, "DriftFactor"},
		{[]Option{WithDriftFactor(math.NaN())}, "DriftFactor"},
		{[]Option{WithKeyPrefix(strings.Repeat("x", maxKey+1))}, "KeyPrefix"},
		{[]Option{WithCloseTimeout(-1)}, "CloseTimeout"},
		{[]Option{nil}, "options"},
		{[]Option{WithRestartGuard(0)}, "RestartGuard"},
		{[]Option{WithRestartGuard(-1)}, "RestartGuard"},
		{[]Option{WithRestartGuard(5 * time.Second)}, "RestartGuard"},
		{[]Option{WithClockGuard(0)}, "ClockGuard"},
		{[]Option{WithClockGuard(maxTTL + 1)}, "ClockGuard"},
		{[]Option{WithClockGuard(time.Hour), WithRestartGuard(time.Minute)}, "ClockGuard"},
		{[]Option{WithClockGuard(time.Minute), WithRestartGuard(time.Minute)}, ""},
		{[]Option{WithNodeSet(1)}, "NodeSet"},
		{[]Option{guard10(), WithNodeSet(1 << 63)}, "NodeSet"},
		{[]Option{WithDeadlockDetection(-1)}, "DeadlockDetection"},
		{[]Option{WithDeadlockDetection(0)}, "DeadlockDetection"},
		{[]Option{WithDeadlockDetection(99 * time.Millisecond)}, "DeadlockDetection"},
		{[]Option{WithDeadlockDetection(time.Minute + 1)}, "DeadlockDetection"},
		{durable(Durability{}), "Durability"},
		{durable(Durability{Timeout: time.Second}), "Durability"},
		{durable(Durability{Replicas: 1}), ""},
		{durable(Durability{Replicas: -1}), "Durability"},
		{durable(Durability{Disk: true, Replicas: -1}), "Durability"},
		{durable(Durability{Disk: true}), ""},
		{durable(Durability{Disk: true, Timeout: -1}), "Durability"},
		{durable(Durability{Disk: true, Timeout: 1500 * time.Microsecond}), ""},
		{durable(Durability{Disk: true, Timeout: 9 * time.Second}), ""},
		{durable(Durability{Disk: true, Timeout: 9700 * time.Millisecond}), "Durability"},
		{durable(Durability{Disk: true, Timeout: time.Duration(math.MaxInt64).Truncate(time.Millisecond)}), "Durability"},
		{durable(Durability{Disk: true, Timeout: math.MaxInt64}), "Durability"},
		{append(durable(Durability{Disk: true}), WithTTL(minTTL)), ""},
		{append(durable(Durability{Disk: true}), WithTTL(time.Second), WithNodeTimeout(700*time.Millisecond)), ""},
		{append(durable(Durability{Disk: true}), WithTTL(maxTTL)), ""},
	} {
		_, nodes := fakeNodes(3)
		locker, err := New(nodes, tt.options...)
		var option *OptionError
		if tt.name != "" && (!errors.As(err, &option) || option.Option != tt.name || !errors.Is(err, ErrOption)) || tt.name == "" && err != nil {
			t.Errorf("New = %v, want an OptionError about %q", err, tt.name)
		}
		if err == nil {
			_ = locker.Close()
		}
	}
}

// What servers count is rounded up to milliseconds, which they count in. The deadline is that of
// what they were sent.
func TestTimesAreRoundedUpToMilliseconds(t *testing.T) {
	const part = 10*time.Second + 250*time.Microsecond
	sent := 10*time.Second + time.Millisecond
	lasts := func(ttl time.Duration) time.Duration { return ttl - ttl/100 - 2*time.Millisecond }
	synctest.Test(t, func(t *testing.T) {
		byOption, fakes := newLocker(t, 3, WithTTL(part), WithRestartGuard(part), WithClockGuard(part))
		ripen(t, byOption)
		returns(t, ErrOption, "TryAcquire with a TTL beyond the guard's")(byOption.TryAcquire(t.Context(), "k", WithTTL(sent+1)))
		locker := another(t, fakes, WithRestartGuard(sent))
		for name, acquire := range map[string]func() (*Lock, error){
			"by an option of New":        func() (*Lock, error) { return byOption.TryAcquire(t.Context(), "k") },
			"by an option of an acquire": func() (*Lock, error) { return locker.TryAcquire(t.Context(), "k", WithTTL(part)) },
			"by an extension": func() (*Lock, error) {
				lock, err := locker.TryAcquire(t.Context(), "k", WithTTL(5*time.Second))
				if err == nil {
					err = lock.Extend(t.Context(), time.Until(time.Now().Add(part)))
				}
				return lock, err
			},
		} {
			lock, err := acquire()
			must(t, err, name)
			synctest.Wait()
			for _, f := range fakes {
				if _, left := f.Token("k"); left != sent {
					t.Errorf("%s of %v %s has the key for %v, want %v", name, part, f.Name(), left, sent)
				}
			}
			if left := time.Until(lock.Until()); left != lasts(sent) {
				t.Errorf("%s of %v the lock is valid for %v, want %v, which goes with what was sent", name, part, left, lasts(sent))
			}
			returns(t, ErrOption, "Extend by less than 10ms")(lock.Extend(t.Context(), minTTL-1))
			mustRelease(t, lock)
			synctest.Wait() // until all nodes have answered
		}
	})
}

func TestBadNodesAreRefused(t *testing.T) {
	fakes, nodes := fakeNodes(3)
	client := new(int)
	for name, bad := range map[string][]driver.Node{
		"none":             nil,
		"no driver":        {nodes[0], {Name: "x"}},
		"no name":          {{Driver: fakes[0]}},
		"one name twice":   {nodes[0], nodes[1], {Name: "node-1", Driver: fakes[2]}},
		"one driver twice": {nodes[0], {Name: "other", Driver: fakes[0]}},
		"one client twice": {{Name: "a", Driver: fakes[0], Client: client}, {Name: "b", Driver: fakes[1], Client: client}},
	} {
		returns(t, ErrOption, "New with nodes of which", name)(New(bad))
	}
	uncomparable := driver.Node{Name: "a", Driver: fakes[0], Client: []int{1}}
	other := driver.Node{Name: "b", Driver: fakes[1], Client: []int{1}}
	returns(t, nil, "New with clients that cannot be compared")(New([]driver.Node{uncomparable, other}))
}

func TestBadArgumentsOfAnAcquireSendNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 3, WithNodeTimeout(time.Second))
		for name, try := range map[string]func() error{
			"an empty key":       func() error { _, err := locker.Acquire(t.Context(), ""); return err },
			"a key too long":     func() error { _, err := locker.Acquire(t.Context(), strings.Repeat("k", maxKey+1)); return err },
			"a token and a name": func() error { _, err := locker.Acquire(t.Context(), "k", WithOwner("me"), WithToken("t")); return err },
			"an empty token":     func() error { _, err := locker.Acquire(t.Context(), "k", WithToken("")); return err },
			"a reader's value as token": func() error {
				_, err := locker.TryAcquire(t.Context(), "k", WithToken(protocol.SharedValue))
				return err
			},
			"a token of the library's own": func() error { _, err := locker.TryAcquireShared(t.Context(), "k", WithToken("ql:mine")); return err },
			"a TTL below the time-out":     func() error { _, err := locker.Acquire(t.Context(), "k", WithTTL(time.Second)); return err },
			"an option that is nil":        func() error { _, err := locker.Acquire(t.Context(), "k", nil); return err },
		} {
			returns(t, ErrOption, "Acquire with", name)(try())
		}
		if calls := fakes[0].Batches(); calls != 0 {
			t.Errorf("%d batches were sent", calls)
		}
	})
}

func TestADefaultNeverMakesAnotherValidOptionFail(t *testing.T) {
	for _, ttl := range []time.Duration{minTTL, 11 * time.Millisecond, 100 * time.Millisecond, time.Second, time.Hour, maxTTL} {
		synctest.Test(t, func(t *testing.T) {
			locker, _ := newLocker(t, 3, WithTTL(ttl))
			if _, err := locker.TryAcquire(t.Context(), "k"); err != nil {
				t.Errorf("a Locker with a TTL of %v: TryAcquire = %v", ttl, err)
			}
			usual, _ := newLocker(t, 3)
			if _, err := usual.TryAcquire(t.Context(), "k", WithTTL(ttl)); err != nil {
				t.Errorf("TryAcquire with a TTL of %v = %v", ttl, err)
			}
		})
	}
}

func TestARefusalNamesTheOwner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		holder, fakes := newLocker(t, 3, WithOwner("orders@web-7/4211"))
		other := another(t, fakes)
		time.Sleep(time.Hour)
		since := time.Now().UTC()
		lock := mustAcquire(t, holder, "k")
		time.Sleep(time.Second)
		for name, try := range map[string]func() error{
			"a try":            func() error { _, err := other.TryAcquire(t.Context(), "k"); return err },
			"a wait":           func() error { _, err := other.Acquire(t.Context(), "k", WithMaxWait(time.Second)); return err },
			"a try that joins": func() error { _, err := holder.TryAcquire(t.Context(), "k"); return err },
			"a wait behind another": func() error {
				ctx, end := context.WithCancel(t.Context())
				first := waitFor(ctx, other)
				_, err := other.Acquire(ctx, "k", WithMaxWait(time.Second)) // which has asked no node itself
				end()
				<-first
				return err
			},
		} {
			err := try()
			var quorum *QuorumError
			if !errors.As(err, &quorum) || !errors.Is(err, ErrTaken) || quorum.Owner() != "orders@web-7/4211" {
				t.Errorf("%s under somebody else's lock = %v, want ErrTaken by the owner", name, err)
				continue
			}
			if text := err.Error(); !strings.Contains(text, `acquire "k": taken by orders@web-7/4211`) {
				t.Errorf("%s = %q, which does not name the owner", name, text)
			}
			if text := err.Error(); !strings.Contains(text, "taken by orders@web-7/4211 since "+since.Format(time.RFC3339)) {
				t.Errorf("%s = %q, which does not say since when", name, text)
			}
			if secret := lock.Token()[:8]; strings.Contains(err.Error(), secret) {
				t.Errorf("%s shows the holder's token: %v", name, err)
			}
		}
		for seen, err := range other.Watch(t.Context(), "k") {
			if err != nil || !seen.Since.Equal(since) {
				t.Errorf("Watch yields %+v (%v), want that it is held since %v", seen, err, since)
			}
			break
		}
		mustRelease(t, lock)

		nameless := mustAcquire(t, other, "k")
		_, err := holder.TryAcquire(t.Context(), "k")
		if quorum := (*QuorumError)(nil); !errors.As(err, &quorum) || quorum.Owner() != "" || !strings.Contains(err.Error(), "taken by another") {
			t.Errorf("a try under a lock without a name = %v, want ErrTaken by another", err)
		}
		mustRelease(t, nameless)

		plant(fakes, "k", "secret-of-another-library", time.Hour)
		_, err = other.TryAcquire(t.Context(), "k")
		if text := fmt.Sprintf("%v %+v %#v", err, err, err); strings.Contains(text, "secret") {
			t.Errorf("the error shows another's token: %s", text)
		}
	})
}

// Two of five nodes are no quorum: who has them may not have the key.
func TestAMinorityNamesNoOwner(t *testing.T) {
	votes := []Vote{{Answer: takenVote, Owner: "a"}, {Answer: takenVote, Owner: "a"}, {Answer: takenVote, Owner: "b"}, {Answer: takenVote, Owner: "b"}, {Answer: takenVote}}
	err := &QuorumError{Op: "acquire", Key: "k", Need: 3, Votes: votes, Reason: ErrTaken}
	if owner := err.Owner(); owner != "" {
		t.Errorf("Owner = %q, which two of five nodes say", owner)
	}
	votes[4].Owner = "b"
	if owner := err.Owner(); owner != "b" {
		t.Errorf("Owner = %q, want b, which three of five nodes say", owner)
	}
}

func TestAnOwnerIsCheckedBeforeAnythingIsSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 1)
		for _, name := range []string{"a\nb", "\x1b[31m", "\xff", strings.Repeat("x", 1025)} {
			var bad *OptionError
			if _, err := locker.TryAcquire(t.Context(), "k", WithOwner(name)); !errors.As(err, &bad) || bad.Option != "Owner" {
				t.Errorf("WithOwner(%.20q) = %v, want an OptionError", name, err)
			}
			if _, err := New([]driver.Node{{Name: "a", Driver: fakes[0]}}, WithOwner(name)); !errors.As(err, &bad) {
				t.Errorf("New(WithOwner(%.20q)) = %v, want an OptionError", name, err)
			}
		}
		if fakes[0].Batches() != 0 {
			t.Error("a bad name reached a node")
		}
		lock := mustAcquire(t, locker, "k", WithOwner(strings.Repeat("é", 512)))
		noError(t, lock.Extend(t.Context(), 20*time.Second), "Extend of a lock with the longest name")
		mustRelease(t, lock)
	})
}
