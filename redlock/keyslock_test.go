package redlock

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func TestAllKeysOrNone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 5)
		other, err := locker.Acquire(t.Context(), "b")
		if err != nil {
			t.Fatal(err)
		}
		_, err = locker.TryAcquireAll(t.Context(), []string{"c", "b", "a"})
		var quorum *QuorumError
		if !errors.Is(err, ErrTaken) || !errors.As(err, &quorum) || !slices.ContainsFunc(quorum.Votes, func(v Vote) bool { return v.Key == "b" }) {
			t.Errorf("with one key taken TryAcquireAll = %v, want ErrTaken that names b", err)
		}
		synctest.Wait()
		if left := append(stray(fakes, "a"), stray(fakes, "c")...); len(left) > 0 {
			t.Errorf("a refused set has keys at %v", left)
		}
		if err := other.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		lock, err := locker.TryAcquireAll(t.Context(), []string{"c", "b", "a"})
		if err != nil {
			t.Fatalf("of free keys TryAcquireAll = %v", err)
		}
		synctest.Wait()
		if keys := lock.Keys(); !slices.Equal(keys, []string{"a", "b", "c"}) {
			t.Errorf("Keys = %v", keys)
		}
		for _, key := range lock.Keys() {
			if _, err := locker.TryAcquire(t.Context(), key); !errors.Is(err, ErrTaken) {
				t.Errorf("TryAcquire of %q in a held set = %v, want ErrTaken", key, err)
			}
			if token, left := fakes[0].token(key); token != lock.Token() || left <= 9*time.Second {
				t.Errorf("a node has %q for %q, for %v", token, key, left)
			}
		}
		if held, err := lock.Held(t.Context()); !held || err != nil {
			t.Errorf("Held = %v, %v", held, err)
		}
		if err := lock.Release(t.Context()); err != nil {
			t.Errorf("Release = %v", err)
		}
		synctest.Wait()
		for _, key := range lock.Keys() {
			if at := stray(fakes, key); len(at) > 0 {
				t.Errorf("a released set has %q at %v", key, at)
			}
		}
	})
}

func TestBadKeysAreRefusedBeforeAnythingIsSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 3)
		many := make([]string, MaxKeys+1)
		for i := range many {
			many[i] = fmt.Sprint("key", i)
		}
		for _, tt := range []struct {
			keys []string
			want string
		}{
			{nil, "want 1 to 128, not 0"},
			{[]string{}, "want 1 to 128, not 0"},
			{many, "want 1 to 128, not 129"},
			{[]string{"a", "b", "a"}, `"a" is there twice`},
			{[]string{"a", ""}, "want 1 to 65536 bytes"},
			{[]string{"a", strings.Repeat("k", maxKey+1)}, "want 1 to 65536 bytes"},
		} {
			for name, acquire := range map[string]func(context.Context, []string, ...AcquireOption) (*KeysLock, error){
				"AcquireAll": locker.AcquireAll, "TryAcquireAll": locker.TryAcquireAll,
			} {
				if lock, err := acquire(t.Context(), tt.keys); lock != nil || !errors.Is(err, ErrOption) || !strings.Contains(err.Error(), tt.want) {
					t.Errorf("%s(%d keys) = %v, %v; want an OptionError: %s", name, len(tt.keys), lock, err, tt.want)
				}
			}
		}
		if fakes[0].batches() > 0 {
			t.Error("a bad call reached a node")
		}
	})
}

func TestASetIsTakenWhenItsLastKeyIsReleased(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 5)
		for _, where := range []*Locker{locker, another(t, fakes)} {
			b, err := where.Acquire(t.Context(), "b")
			if err != nil {
				t.Fatal(err)
			}
			c, err := where.AcquireAll(t.Context(), []string{"c", "d"})
			if err != nil {
				t.Fatal(err)
			}
			var had time.Time
			var wait sync.WaitGroup
			wait.Go(func() {
				lock, err := locker.AcquireAll(t.Context(), []string{"a", "b", "c"})
				if err != nil {
					t.Errorf("AcquireAll = %v", err)
					return
				}
				had = time.Now()
				_ = lock.Release(t.Context())
			})
			time.Sleep(1500 * time.Millisecond)
			for _, key := range []string{"a", "b", "c"} {
				if token, _ := fakes[2].token(key); token != "" && token != b.Token() && token != c.Token() {
					t.Errorf("a waiting set holds %q", key)
				}
			}
			_ = b.Release(t.Context())
			time.Sleep(30 * time.Millisecond)
			freed := time.Now()
			_ = c.Release(t.Context())
			wait.Wait()
			if late := had.Sub(freed); late < 0 || late > 20*time.Millisecond {
				t.Errorf("the set was had %v after its last key was free", late)
			}
		}
	})
}

func TestSetsThatOverlapExcludeEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 5, WithTTL(5*time.Second))
		for _, f := range fakes {
			f.change(func(f *fakeNode) { f.delay, f.jitter = time.Millisecond, time.Millisecond })
		}
		lockers := []*Locker{locker, another(t, fakes), another(t, fakes)}
		var mu sync.Mutex
		holders := map[string]int{}
		enter := func(keys []string, change int) {
			mu.Lock()
			defer mu.Unlock()
			for _, key := range keys {
				if holders[key] += change; holders[key] > 1 {
					t.Errorf("%q has two holders", key)
				}
			}
		}
		var all sync.WaitGroup
		for i := range 24 {
			all.Go(func() {
				l := lockers[i%len(lockers)]
				for range 8 {
					var keys []string
					for _, k := range rand.Perm(6)[:1+rand.N(3)] { //nolint:gosec // no secret
						keys = append(keys, fmt.Sprint("key", k))
					}
					var release func(context.Context) error
					if len(keys) == 1 {
						lock, err := l.Acquire(t.Context(), keys[0])
						if err != nil {
							t.Errorf("Acquire = %v", err)
							return
						}
						release = lock.Release
					} else {
						lock, err := l.AcquireAll(t.Context(), keys)
						if err != nil {
							t.Errorf("AcquireAll = %v", err)
							return
						}
						release = lock.Release
					}
					enter(keys, +1)
					time.Sleep(rand.N(4 * time.Millisecond)) //nolint:gosec // as above
					enter(keys, -1)
					if err := release(t.Context()); err != nil {
						t.Errorf("Release = %v", err)
					}
				}
			})
		}
		all.Wait()
		time.Sleep(2 * time.Second)
		for i, l := range lockers {
			if left := l.board.Keys.Left(); left.States+left.Awaited+left.Users > 0 {
				t.Errorf("locker %d: all is over, and its keys have %+v", i, left)
			}
		}
		for _, f := range fakes {
			f.change(func(f *fakeNode) {
				for key := range f.keys {
					if _, ok := f.get(key); ok {
						t.Errorf("%s: %q is left", f.name, key)
					}
				}
			})
		}
	})
}

// mustAcquireAll takes keys that are free.
func mustAcquireAll(t *testing.T, locker *Locker, keys []string, options ...AcquireOption) *KeysLock {
	t.Helper()
	lock, err := locker.TryAcquireAll(t.Context(), keys, options...)
	if err != nil {
		t.Fatalf("TryAcquireAll(%v) = %v", keys, err)
	}
	return lock
}

func TestALostKeyLosesTheWholeLockAtItsDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 5, WithTTL(time.Second))
		lock := mustAcquireAll(t, locker, []string{"a", "b", "c"}, WithRenewal())
		time.Sleep(3 * time.Second)
		if !lock.Valid() {
			t.Fatal("a lock on several keys is not renewed")
		}
		for _, f := range fakes[:2] {
			f.plant("b", "another", time.Hour)
		}
		time.Sleep(3 * time.Second)
		if !lock.Valid() {
			t.Error("a key that a minority has lost has ended the lock")
		}
		fakes[2].plant("b", "another", time.Hour)
		if err := lock.Extend(t.Context(), time.Second); !errors.Is(err, ErrLost) || !strings.Contains(err.Error(), `"b" taken by another`) {
			t.Errorf("Extend without b at a majority = %v, want ErrLost that names b", err)
		}
		if !lock.Valid() {
			t.Error("the lock ends before its deadline")
		}
		<-lock.Context().Done()
		if cause := context.Cause(lock.Context()); !errors.Is(cause, ErrLost) || !strings.Contains(cause.Error(), `"b" taken by another`) {
			t.Errorf("the lock was lost because of %v, want ErrLost that names b", cause)
		}
		if err := lock.Release(t.Context()); !errors.Is(err, ErrLost) {
			t.Errorf("Release = %v, want ErrLost", err)
		}
	})
}

func TestAnExtensionSetsLostKeysAgainAndShortensNone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 3)
		lock := mustAcquireAll(t, locker, []string{"a", "b"})
		synctest.Wait()
		fakes[0].change(func(f *fakeNode) { delete(f.keys, "b") })
		if err := lock.Extend(t.Context(), time.Minute); err != nil {
			t.Fatal(err)
		}
		if err := lock.Extend(t.Context(), time.Second); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		for _, key := range lock.Keys() {
			if token, left := fakes[0].token(key); token != lock.Token() || left < 59*time.Second {
				t.Errorf("after extensions for a minute and a second a node has %q for %q, for %v", token, key, left)
			}
		}
	})
}

func TestAReleaseNamesTheKeyThatIsGoneEverywhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 3)
		var keys []string
		for i := range 70 { // three commands of 32 keys
			keys = append(keys, fmt.Sprintf("key%02d", i))
		}
		lock := mustAcquireAll(t, locker, keys)
		synctest.Wait()
		for _, f := range fakes {
			f.change(func(f *fakeNode) { delete(f.keys, "key66") })
		}
		if err := lock.Release(t.Context()); !errors.Is(err, ErrLost) || !strings.Contains(err.Error(), `no node had "key66"`) {
			t.Errorf("Release = %v, want ErrLost that names key66", err)
		}
		synctest.Wait()
		for _, key := range keys {
			if at := stray(fakes, key); len(at) > 0 {
				t.Fatalf("%q is left at %v", key, at)
			}
		}
		if err := lock.Release(t.Context()); !errors.Is(err, ErrReleased) {
			t.Errorf("the second Release = %v, want ErrReleased", err)
		}
	})
}

func TestOneFenceIsAboveThoseOfEveryKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 5, WithFences())
		single := mustAcquire(t, locker, "b")
		mustRelease(t, single)
		set := mustAcquireAll(t, locker, []string{"a", "b"})
		if set.Fence() <= single.Fence() {
			t.Errorf("the fence %d is not above %d of the holder of b before", set.Fence(), single.Fence())
		}
		if err := set.Extend(t.Context(), time.Minute); err != nil {
			t.Error(err)
		}
		if err := set.Release(t.Context()); err != nil {
			t.Error(err)
		}
		for _, f := range fakes { // a client whose clock reads more was here
			f.change(func(f *fakeNode) { f.setFence("b", "b", set.Fence()+1_000_000_000) })
		}
		raised := mustAcquireAll(t, locker, []string{"a", "b"})
		if raised.Fence() <= set.Fence()+1_000_000_000 {
			t.Errorf("the fence %d is not above that of the counter of b", raised.Fence())
		}
		if err := raised.Release(t.Context()); err != nil {
			t.Error(err)
		}
		if next := mustAcquire(t, locker, "a"); next.Fence() <= raised.Fence() {
			t.Errorf("the next fence of a, %d, is not above %d", next.Fence(), raised.Fence())
		}
	})
}

func TestAContextThatHoldsOneOfTheKeysIsADeadlock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, _ := newLocker(t, 3)
		lock := mustAcquire(t, locker, "b", WithOwner("me"))
		set := mustAcquireAll(t, locker, []string{"x", "y"})
		for ctx, key := range map[context.Context]string{lock.Context(): "b", set.Context(): "y"} {
			if _, err := locker.AcquireAll(ctx, []string{"a", key}); !errors.Is(err, ErrDeadlock) || !strings.Contains(err.Error(), key) {
				t.Errorf("AcquireAll under the context of a lock on %q = %v, want ErrDeadlock that names it", key, err)
			}
			if _, err := locker.Acquire(ctx, key, WithMaxWait(0)); !errors.Is(err, ErrDeadlock) {
				t.Errorf("Acquire under the context of a lock on %q = %v, want ErrDeadlock", key, err)
			}
		}
		if _, err := locker.Acquire(set.Context(), "y", WithReentry()); !errors.Is(err, ErrDeadlock) {
			t.Errorf("reentry of one of several keys = %v, want ErrDeadlock", err)
		}
	})
}

func TestSeveralKeysNeedScriptsAndOneServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 3)
		for _, f := range fakes {
			f.change(func(f *fakeNode) { f.scriptless = true })
		}
		began := time.Now()
		if _, err := locker.AcquireAll(t.Context(), []string{"a", "b"}); !errors.Is(err, ErrNode) || !strings.Contains(err.Error(), "allow +eval +evalsha") {
			t.Errorf("without scripts AcquireAll = %v, want ErrNode that says what to allow", err)
		}
		cluster, fakes := newLocker(t, 3)
		for _, f := range fakes {
			f.change(func(f *fakeNode) { f.info += "redis_mode:cluster\r\n" })
		}
		if _, err := cluster.AcquireAll(t.Context(), []string{"a", "b"}); !errors.Is(err, ErrNode) || !strings.Contains(err.Error(), "hash tag") {
			t.Errorf("on a Cluster AcquireAll of untagged keys = %v, want ErrNode that asks for a hash tag", err)
		}
		set := mustAcquireAll(t, cluster, []string{"{bank}:a", "{bank}:b"})
		if err := set.Release(t.Context()); err != nil {
			t.Errorf("Release = %v", err)
		}
		if took := time.Since(began); took > time.Second {
			t.Errorf("it took %v", took)
		}
	})
}

func TestCloseReleasesSeveralKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 3)
		lock := mustAcquireAll(t, locker, []string{"a", "b"})
		waits := make(chan error)
		go func() {
			_, err := locker.AcquireAll(t.Context(), []string{"b", "c"})
			waits <- err
		}()
		synctest.Wait()
		if err := locker.Close(); err != nil {
			t.Errorf("Close = %v", err)
		}
		if err := <-waits; !errors.Is(err, ErrClosed) {
			t.Errorf("who waits is told %v, want ErrClosed", err)
		}
		if !errors.Is(context.Cause(lock.Context()), ErrClosed) {
			t.Error("Close has not ended the lock")
		}
		for _, key := range []string{"a", "b", "c"} {
			if at := stray(fakes, key); len(at) > 0 {
				t.Errorf("%q is left at %v", key, at)
			}
		}
	})
}

func TestWhoGivesUpWaitingLeavesNoMarks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 3)
		other := another(t, fakes)
		held := mustAcquire(t, other, "b")
		for name, options := range map[string][]AcquireOption{
			"a wait that is over": {WithMaxWait(500 * time.Millisecond)},
			"the last try":        {WithRetryLimit(3)},
		} {
			if _, err := locker.AcquireAll(t.Context(), []string{"a", "b"}, options...); !errors.Is(err, ErrTaken) {
				t.Errorf("after %s AcquireAll = %v, want ErrTaken", name, err)
			}
			synctest.Wait()
			set := mustAcquireAll(t, other, []string{"a", "c"})
			if err := set.Release(t.Context()); err != nil {
				t.Error(err)
			}
		}
		mustRelease(t, held)
	})
}

// P holds y and wants x besides; S wants both, and keeps the later P off x while it waits for y.
func TestWhoKeepsOthersOffLetsThemLookNowAndThen(t *testing.T) {
	for name, sameProcess := range map[string]bool{"in one process": true, "in two processes": false} {
		synctest.Test(t, func(t *testing.T) {
			locker, fakes := newLocker(t, 3, WithTTL(time.Minute))
			others := locker
			if !sameProcess {
				others = another(t, fakes, WithTTL(time.Minute))
			}
			p := mustAcquire(t, others, "y")
			served := make(chan error)
			go func() {
				lock, err := locker.AcquireAll(t.Context(), []string{"x", "y"})
				if err == nil {
					err = lock.Release(t.Context())
				}
				served <- err
			}()
			time.Sleep(300 * time.Millisecond)
			began := time.Now()
			set, err := others.AcquireAll(t.Context(), []string{"x", "z"})
			if took := time.Since(began); err != nil || took < 500*time.Millisecond || took > 1500*time.Millisecond {
				t.Fatalf("%s, AcquireAll of who holds a key already took %v: %v; want the keys once the first waiter lets others look", name, took, err)
			}
			if err := set.Release(t.Context()); err != nil {
				t.Error(err)
			}
			mustRelease(t, p)
			if err := <-served; err != nil {
				t.Errorf("%s, AcquireAll = %v", name, err)
			}
		})
	}
}

func TestASetHasOneTokenOfItsUsersOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 3)
		first := mustAcquireAll(t, locker, []string{"a", "b"}, WithToken("request 7"))
		again := mustAcquireAll(t, another(t, fakes), []string{"a", "b"}, WithToken("request 7"))
		if first.Token() != "request 7" || again.Token() != "request 7" {
			t.Error("a set has not its user's token")
		}
		synctest.Wait() // the first one's last vote, which would set the keys again
		if err := again.Release(t.Context()); err != nil {
			t.Error(err)
		}
		synctest.Wait()
		if at := append(stray(fakes, "a"), stray(fakes, "b")...); len(at) > 0 {
			t.Errorf("after its release keys are left at %v", at)
		}
	})
}

// As above, but the context says that its caller holds a key: then nobody keeps it off.
func TestWhoseContextHoldsAKeyIsKeptOffByNobody(t *testing.T) {
	for name, sameProcess := range map[string]bool{"in one process": true, "in two processes": false} {
		synctest.Test(t, func(t *testing.T) {
			locker, fakes := newLocker(t, 3, WithTTL(time.Minute))
			others := locker
			if !sameProcess {
				others = another(t, fakes, WithTTL(time.Minute))
			}
			p := mustAcquire(t, others, "y")
			served := make(chan error)
			go func() {
				lock, err := locker.AcquireAll(t.Context(), []string{"x", "y"})
				if err == nil {
					err = lock.Release(t.Context())
				}
				served <- err
			}()
			time.Sleep(300 * time.Millisecond)
			began := time.Now()
			set, err := others.AcquireAll(p.Context(), []string{"x", "z"})
			if took := time.Since(began); err != nil || took > 10*time.Millisecond {
				t.Fatalf("%s, AcquireAll under the context of a lock took %v: %v", name, took, err)
			}
			if err := set.Release(t.Context()); err != nil {
				t.Error(err)
			}
			mustRelease(t, p)
			if err := <-served; err != nil {
				t.Errorf("%s, AcquireAll = %v", name, err)
			}
		})
	}
}

func TestANodeThatForgotHasNoVoteForSeveralKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := admittedLocker(t, 3)
		lock := mustAcquireAll(t, locker, []string{"a", "b"})
		synctest.Wait()
		fakes[0].restart()
		fakes[1].restart()
		if err := lock.Extend(t.Context(), 10*time.Second); !errors.Is(err, ErrQuarantine) {
			t.Errorf("Extend where two of three nodes have forgotten = %v, want ErrQuarantine", err)
		}
		if _, err := locker.TryAcquireAll(t.Context(), []string{"c", "d"}); !errors.Is(err, ErrQuarantine) {
			t.Errorf("TryAcquireAll where two of three nodes have forgotten = %v, want ErrQuarantine", err)
		}
	})
}
