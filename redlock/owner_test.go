package redlock

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumlock/quorumlock/driver"
)

func TestARefusalNamesTheOwner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		holder, fakes := newLocker(t, 3, WithOwner("orders@web-7/4211"))
		other := another(t, fakes)
		lock := mustAcquire(t, holder, "k")
		for name, try := range map[string]func() error{
			"a try":            func() error { _, err := other.TryAcquire(t.Context(), "k"); return err },
			"a wait":           func() error { _, err := other.Acquire(t.Context(), "k", WithMaxWait(time.Second)); return err },
			"a try that joins": func() error { _, err := holder.TryAcquire(t.Context(), "k"); return err },
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
			if secret := lock.Token()[:8]; strings.Contains(err.Error(), secret) {
				t.Errorf("%s shows the holder's token: %v", name, err)
			}
		}
		mustRelease(t, lock)

		nameless := mustAcquire(t, other, "k")
		_, err := holder.TryAcquire(t.Context(), "k")
		if quorum := (*QuorumError)(nil); !errors.As(err, &quorum) || quorum.Owner() != "" || !strings.Contains(err.Error(), "taken by another") {
			t.Errorf("a try under a lock without a name = %v, want ErrTaken by another", err)
		}
		mustRelease(t, nameless)
	})
}

// Two of five nodes are no quorum: who has them may not have the key.
func TestAMinorityNamesNoOwner(t *testing.T) {
	votes := []Vote{{Answer: Taken, Owner: "a"}, {Answer: Taken, Owner: "a"}, {Answer: Taken, Owner: "b"}, {Answer: Taken, Owner: "b"}, {Answer: Taken}}
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
		if fakes[0].batches() != 0 {
			t.Error("a bad name reached a node")
		}
		lock := mustAcquire(t, locker, "k", WithOwner(strings.Repeat("é", 512)))
		if err := lock.Extend(t.Context(), 20*time.Second); err != nil {
			t.Errorf("Extend of a lock with the longest name = %v", err)
		}
		mustRelease(t, lock)
	})
}

func TestInspectShowsWhoHoldsTheKeyAtEachNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 5, WithOwner("web-7"), WithTTL(8*time.Second), WithKeyPrefix("app:"))
		other := another(t, fakes, WithKeyPrefix("app:"))
		lock := mustAcquire(t, locker, "k")
		synctest.Wait()
		fakes[1].change(func(f *fakeNode) { delete(f.keys, "app:k") })
		fakes[2].change(func(f *fakeNode) { f.keys["app:k"] = fakeKey{"somebody else's", time.Now().Add(time.Second)} })
		fakes[3].change(func(f *fakeNode) { f.keys["app:k"] = fakeKey{aList, time.Now().Add(time.Second)} })
		fakes[4].stop()

		states, err := locker.Inspect(t.Context(), "k")
		if err != nil || len(states) != 5 {
			t.Fatalf("Inspect = %v, %v, want a state for each of five nodes", states, err)
		}
		if s := states[0]; !s.Held || !s.Own || s.Owner != "web-7" || s.Left < 7*time.Second || s.Left > 8*time.Second+time.Millisecond || s.Err != nil {
			t.Errorf("where the lock is, Inspect shows %+v", s)
		}
		if s := states[1]; s.Held || s.Err != nil || s.String() != "node-2: free" {
			t.Errorf("where the key is free, Inspect shows %+v", s)
		}
		if s := states[2]; !s.Held || s.Own || s.Owner != "" || strings.Contains(s.String(), "somebody") {
			t.Errorf("where a foreign client has the key, Inspect shows %+v", s)
		}
		if s := states[3]; s.Held || s.Err == nil || !strings.Contains(s.Err.Error(), "not a lock") {
			t.Errorf("where the key holds a list, Inspect shows %+v", s)
		}
		if s := states[4]; s.Err == nil {
			t.Errorf("where the node is down, Inspect shows %+v", s)
		}
		states, err = other.Inspect(t.Context(), "k")
		if err != nil || states[0].Own || states[0].Owner != "web-7" {
			t.Errorf("another Locker inspects %+v, %v, want the owner and not Own", states[0], err)
		}
		for _, f := range fakes {
			heal(f)
		}
		_ = lock.Release(t.Context())
	})
}

func TestInspectRefusesWhatItCannotAsk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, _ := newLocker(t, 1)
		if _, err := locker.Inspect(t.Context(), ""); !errors.Is(err, ErrOption) {
			t.Errorf("Inspect of no key = %v, want ErrOption", err)
		}
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := locker.Inspect(ended, "k"); !errors.Is(err, context.Canceled) {
			t.Errorf("Inspect under an ended context = %v", err)
		}
		if err := locker.Close(); err != nil {
			t.Fatal(err)
		}
		if _, err := locker.Inspect(t.Context(), "k"); !errors.Is(err, ErrClosed) {
			t.Errorf("Inspect of a closed Locker = %v, want ErrClosed", err)
		}
	})
}
