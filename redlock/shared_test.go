package redlock

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumlock/quorumlock/internal/protocol"
)

// mustShare acquires a shared lock that nothing is in the way of.
func mustShare(t *testing.T, locker *Locker, key string, options ...AcquireOption) *SharedLock {
	t.Helper()
	lock, err := locker.TryAcquireShared(t.Context(), key, options...)
	if err != nil {
		t.Fatalf("TryAcquireShared(%q) = %v", key, err)
	}
	synctest.Wait()
	return lock
}

func TestReadersShareAKeyAndKeepWritersOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 5)
		other := another(t, fakes)
		one, two, three := mustShare(t, locker, "k"), mustShare(t, locker, "k"), mustShare(t, other, "k")
		synctest.Wait()
		for _, f := range fakes {
			if got := f.sharers(); len(got) != 3 {
				t.Errorf("%s has %d readers, want 3", f.name, len(got))
			}
		}
		for _, l := range []*Locker{locker, other} {
			_, err := l.TryAcquire(t.Context(), "k")
			if !errors.Is(err, ErrTaken) || strings.Contains(err.Error(), protocol.TokenMark) {
				t.Errorf("TryAcquire of a key with readers = %v, want ErrTaken", err)
			}
		}
		for _, lock := range []*SharedLock{one, two} {
			if err := lock.Release(t.Context()); err != nil {
				t.Errorf("Release = %v", err)
			}
		}
		if _, err := locker.TryAcquire(t.Context(), "k"); !errors.Is(err, ErrTaken) {
			t.Errorf("with one reader left TryAcquire = %v, want ErrTaken", err)
		}
		if held, err := three.Held(t.Context()); !held || err != nil {
			t.Errorf("Held = %v, %v", held, err)
		}
		if held, err := one.Held(t.Context()); held || err != nil {
			t.Errorf("Held of a released reader = %v, %v", held, err)
		}
		if err := three.Release(t.Context()); err != nil {
			t.Errorf("Release of the last = %v", err)
		}
		synctest.Wait()
		if names := stray(fakes, "k"); names != nil {
			t.Errorf("the key is left at %v", names)
		}
		mustAcquire(t, locker, "k")
	})
}

func TestAWriterKeepsReadersOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 3)
		writer := mustAcquire(t, locker, "k")
		for _, l := range []*Locker{locker, another(t, fakes)} {
			if _, err := l.TryAcquireShared(t.Context(), "k"); !errors.Is(err, ErrTaken) {
				t.Errorf("TryAcquireShared beside a writer = %v, want ErrTaken", err)
			}
		}
		mustRelease(t, writer)
		mustShare(t, locker, "k")
	})
}

func TestAForeignLockKeepsReadersOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 3)
		for _, f := range fakes {
			f.plant("k", "", time.Minute) // even with an empty value
		}
		if _, err := locker.TryAcquireShared(t.Context(), "k"); !errors.Is(err, ErrTaken) {
			t.Errorf("TryAcquireShared beside a foreign lock = %v, want ErrTaken", err)
		}
	})
}

func TestAReadersLeaseEndsByItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, _ := newLocker(t, 3)
		short := mustShare(t, locker, "k", WithTTL(time.Second))
		long := mustShare(t, locker, "k", WithTTL(10*time.Second))
		time.Sleep(2 * time.Second)
		if short.Valid() || !errors.Is(short.Release(t.Context()), ErrLost) {
			t.Error("a reader outlived its lease")
		}
		if held, err := long.Held(t.Context()); !held || err != nil {
			t.Errorf("Held of the longer lease = %v, %v", held, err)
		}
		if _, err := locker.TryAcquire(t.Context(), "k"); !errors.Is(err, ErrTaken) {
			t.Errorf("TryAcquire beside the longer lease = %v, want ErrTaken", err)
		}
		time.Sleep(9 * time.Second)
		mustAcquire(t, locker, "k")
	})
}

func TestAReaderExtendsAndIsRenewed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 5)
		lock := mustShare(t, locker, "k", WithTTL(time.Second))
		if err := lock.Extend(t.Context(), 5*time.Second); err != nil {
			t.Fatalf("Extend = %v", err)
		}
		renewed := mustShare(t, locker, "k", WithTTL(time.Second), WithRenewal())
		time.Sleep(4 * time.Second)
		if !lock.Valid() || !renewed.Valid() {
			t.Errorf("after 4 s the extended one is %v, the renewed one %v", lock.Valid(), renewed.Valid())
		}
		fakes[0].restart() // it gets the key again
		time.Sleep(time.Second)
		if got := fakes[0].sharers(); len(got) != 1 || got[0] != renewed.Token() {
			t.Errorf("a node that forgot has the readers %v", got)
		}
		if err := renewed.Release(t.Context()); err != nil {
			t.Errorf("Release = %v", err)
		}
	})
}

func TestWritersAndReadersWaitForEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 3)
		for _, f := range fakes {
			f.change(func(f *fakeNode) { f.delay = time.Millisecond })
		}
		for name, l := range map[string]*Locker{"the same process": locker, "another": another(t, fakes)} {
			reader := mustShare(t, locker, "k")
			began := time.Now()
			time.AfterFunc(300*time.Millisecond, func() { _ = reader.Release(context.Background()) })
			writer, err := l.Acquire(t.Context(), "k")
			if took := time.Since(began); err != nil || took < 300*time.Millisecond || took > 310*time.Millisecond {
				t.Fatalf("a writer of %s waited %v: %v", name, took, err)
			}
			began = time.Now()
			time.AfterFunc(300*time.Millisecond, func() { _ = writer.Release(context.Background()) })
			again, err := locker.AcquireShared(t.Context(), "k")
			if took := time.Since(began); err != nil || took < 300*time.Millisecond || took > 310*time.Millisecond {
				t.Fatalf("a reader beside a writer of %s waited %v: %v", name, took, err)
			}
			if err := again.Release(t.Context()); err != nil {
				t.Error(err)
			}
		}
	})
}
