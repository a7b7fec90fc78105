package redlock

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumlock/quorumlock/driver"
)

func TestBadOptionsAreRefusedByName(t *testing.T) {
	for _, tt := range []struct {
		option Option
		name   string
	}{
		{WithTTL(0), "TTL"},
		{WithTTL(-time.Second), "TTL"},
		{WithTTL(time.Microsecond), "TTL"},
		{WithTTL(999500 * time.Nanosecond), "TTL"},
		{WithTTL(MinTTL - 1), "TTL"},
		{WithTTL(MaxTTL + 1), "TTL"},
		{WithTTL(math.MaxInt64), "TTL"},
		{WithMaxWait(-1), "MaxWait"},
		{WithRetryLimit(-1), "RetryLimit"},
		{WithBackoff(0, time.Second), "Backoff"},
		{WithBackoff(time.Second, time.Millisecond), "Backoff"},
		{WithMaxOutage(-1), "MaxOutage"},
		{WithNodeTimeout(0), "NodeTimeout"},
		{WithNodeTimeout(-1), "NodeTimeout"},
		{WithNodeTimeout(10 * time.Second), "NodeTimeout"},
		{WithDriftFactor(-0.1), "DriftFactor"},
		{WithDriftFactor(0.6), "DriftFactor"},
		{WithDriftFactor(math.NaN()), "DriftFactor"},
		{WithKeyPrefix(strings.Repeat("x", maxKey+1)), "KeyPrefix"},
		{WithCloseTimeout(-1), "CloseTimeout"},
		{OnEvent(nil), "Events"},
		{nil, "options"},
	} {
		_, nodes := fakeNodes(3)
		_, err := New(nodes, tt.option)
		var option *OptionError
		if !errors.As(err, &option) || option.Option != tt.name || !errors.Is(err, ErrOption) {
			t.Errorf("New = %v, want an OptionError about %s", err, tt.name)
		}
	}
}

// What has no effect was meant to have one.
func TestUselessOptionsAreRefusedByName(t *testing.T) {
	for _, tt := range []struct {
		options []Option
		name    string
	}{
		{[]Option{WithRestartGuard(0)}, "RestartGuard"},
		{[]Option{WithClockGuard(0)}, "ClockGuard"},
		{[]Option{WithRestartGuard(time.Minute), WithRestartGuard(0)}, "RestartGuard"},
		{[]Option{WithRestartGuard(time.Minute), WithClockGuard(30 * time.Second)}, "ClockGuard"},
		{[]Option{WithClockGuard(30 * time.Second), WithRestartGuard(time.Minute)}, "ClockGuard"},
		{[]Option{WithDurableTimeout(time.Second)}, "DurableTimeout"},
	} {
		_, nodes := fakeNodes(3)
		_, err := New(nodes, tt.options...)
		var option *OptionError
		if !errors.As(err, &option) || option.Option != tt.name || !errors.Is(err, ErrOption) {
			t.Errorf("New = %v, want an OptionError about %s", err, tt.name)
		}
	}
	_, nodes := fakeNodes(3)
	locker, err := New(nodes, WithClockGuard(time.Minute), WithRestartGuard(time.Minute), WithDurableTimeout(time.Second), WithDurableVotes(0))
	if err != nil {
		t.Fatalf("New with the same options, each of use = %v", err)
	}
	_ = locker.Close()
}

// What servers count is rounded up to milliseconds, which they count in. The deadline is that of what
// they were sent.
func TestTimesAreRoundedUpToMilliseconds(t *testing.T) {
	const part = 10*time.Second + 250*time.Microsecond
	sent := 10*time.Second + time.Millisecond
	lasts := func(ttl time.Duration) time.Duration { return ttl - ttl/100 - 2*time.Millisecond }
	synctest.Test(t, func(t *testing.T) {
		byOption, fakes := newLocker(t, 3, WithTTL(part), WithRestartGuard(part), WithClockGuard(part))
		admit(t, byOption)
		if _, err := byOption.TryAcquire(t.Context(), "k", WithTTL(sent+1)); !errors.Is(err, ErrOption) {
			t.Errorf("TryAcquire with a TTL beyond the guard's = %v, want ErrOption", err)
		}
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
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			synctest.Wait()
			for _, f := range fakes {
				if _, left := f.token("k"); left != sent {
					t.Errorf("%s of %v %s has the key for %v, want %v", name, part, f.name, left, sent)
				}
			}
			if left := time.Until(lock.Until()); left != lasts(sent) {
				t.Errorf("%s of %v the lock is valid for %v, want %v, which goes with what was sent", name, part, left, lasts(sent))
			}
			if err := lock.Extend(t.Context(), MinTTL-1); !errors.Is(err, ErrOption) {
				t.Errorf("Extend by less than MinTTL = %v, want ErrOption", err)
			}
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
		if _, err := New(bad); !errors.Is(err, ErrOption) {
			t.Errorf("New with nodes of which %s = %v, want ErrOption", name, err)
		}
	}
	uncomparable := driver.Node{Name: "a", Driver: fakes[0], Client: []int{1}}
	other := driver.Node{Name: "b", Driver: fakes[1], Client: []int{1}}
	if _, err := New([]driver.Node{uncomparable, other}); err != nil {
		t.Errorf("New with clients that cannot be compared = %v", err)
	}
}

func TestBadArgumentsOfAnAcquireSendNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 3, WithNodeTimeout(time.Second))
		for name, try := range map[string]func() error{
			"an empty key":             func() error { _, err := locker.Acquire(t.Context(), ""); return err },
			"a key too long":           func() error { _, err := locker.Acquire(t.Context(), strings.Repeat("k", maxKey+1)); return err },
			"a token and a name":       func() error { _, err := locker.Acquire(t.Context(), "k", WithOwner("me"), WithToken("t")); return err },
			"an empty token":           func() error { _, err := locker.Acquire(t.Context(), "k", WithToken("")); return err },
			"a TTL below the time-out": func() error { _, err := locker.Acquire(t.Context(), "k", WithTTL(time.Second)); return err },
			"an option that is nil":    func() error { _, err := locker.Acquire(t.Context(), "k", nil); return err },
		} {
			if err := try(); !errors.Is(err, ErrOption) {
				t.Errorf("Acquire with %s = %v, want ErrOption", name, err)
			}
		}
		if calls := fakes[0].batches(); calls != 0 {
			t.Errorf("%d batches were sent", calls)
		}
	})
}

func TestADefaultNeverMakesAnotherValidOptionFail(t *testing.T) {
	for _, ttl := range []time.Duration{MinTTL, 11 * time.Millisecond, 100 * time.Millisecond, time.Second, time.Hour, MaxTTL} {
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

func TestThePrefixIsOnTheNodesOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 1, WithKeyPrefix("lock:"))
		lock, err := locker.TryAcquire(t.Context(), "k")
		if err != nil {
			t.Fatalf("TryAcquire = %v", err)
		}
		if token, _ := fakes[0].token("lock:k"); token != lock.Token() || lock.Key() != "k" {
			t.Errorf("the node has %q under lock:k, Key is %q", token, lock.Key())
		}
	})
}

func TestTokensOfOthersAreNotInErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 3)
		for _, f := range fakes {
			f.plant("k", "secret-of-another", time.Hour)
		}
		_, err := locker.TryAcquire(t.Context(), "k")
		if text := fmt.Sprintf("%v %+v %#v", err, err, err); strings.Contains(text, "secret") {
			t.Errorf("the error shows another's token: %s", text)
		}
	})
}
