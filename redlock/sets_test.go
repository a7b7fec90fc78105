package redlock

import (
	"context"
	"errors"
	"fmt"
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
		must(t, err)
		_, err = locker.TryAcquireAll(t.Context(), []string{"c", "b", "a"})
		var quorum *QuorumError
		if !errors.Is(err, ErrTaken) || !errors.As(err, &quorum) || !slices.ContainsFunc(quorum.Votes, func(v Vote) bool { return v.Key == "b" }) {
			t.Errorf("with one key taken TryAcquireAll = %v, want ErrTaken that names b", err)
		}
		synctest.Wait()
		if left := append(stray(fakes, "a"), stray(fakes, "c")...); len(left) > 0 {
			t.Errorf("a refused set has keys at %v", left)
		}
		mustRelease(t, other)
		lock, err := locker.TryAcquireAll(t.Context(), []string{"c", "b", "a"})
		must(t, err, "of free keys TryAcquireAll")
		synctest.Wait()
		if keys := lock.Keys(); !slices.Equal(keys, []string{"a", "b", "c"}) {
			t.Errorf("Keys = %v", keys)
		}
		for _, key := range lock.Keys() {
			returns(t, ErrTaken, "TryAcquire of", key, "in a held set")(locker.TryAcquire(t.Context(), key))
			if token, left := fakes[0].Token(key); token != lock.Token() || left <= 9*time.Second {
				t.Errorf("a node has %q for %q, for %v", token, key, left)
			}
		}
		wantHeld(t, lock, true)
		noError(t, lock.Release())
		synctest.Wait()
		for _, key := range lock.Keys() {
			wantFree(t, fakes, key)
		}
	})
}

func TestBadKeysAreRefusedBeforeAnythingIsSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 3)
		many := make([]string, maxKeys+1)
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
		} {
			for name, acquire := range map[string]func(context.Context, []string, ...AcquireOption) (*Lock, error){
				"AcquireAll": locker.AcquireAll, "TryAcquireAll": locker.TryAcquireAll,
			} {
				if lock, err := acquire(t.Context(), tt.keys); lock != nil || !errors.Is(err, ErrOption) || !strings.Contains(err.Error(), tt.want) {
					t.Errorf("%s(%d keys) = %v, %v; want an OptionError: %s", name, len(tt.keys), lock, err, tt.want)
				}
			}
		}
		if fakes[0].Batches() > 0 {
			t.Error("a bad call reached a node")
		}
	})
}

func TestASetIsTakenWhenItsLastKeyIsReleased(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 5)
		for _, where := range []*Locker{locker, another(t, fakes)} {
			b, err := where.Acquire(t.Context(), "b")
			must(t, err)
			c, err := where.AcquireAll(t.Context(), []string{"c", "d"})
			must(t, err)
			var had time.Time
			var wait sync.WaitGroup
			wait.Go(func() {
				lock, err := locker.AcquireAll(t.Context(), []string{"a", "b", "c"})
				if err != nil {
					t.Errorf("AcquireAll = %v", err)
					return
				}
				had = time.Now()
				_ = lock.Release()
			})
			time.Sleep(1500 * time.Millisecond)
			for _, key := range []string{"a", "b", "c"} {
				if token, _ := fakes[2].Token(key); token != "" && token != b.Token() && token != c.Token() {
					t.Errorf("a waiting set holds %q", key)
				}
			}
			_ = b.Release()
			time.Sleep(30 * time.Millisecond)
			freed := time.Now()
			_ = c.Release()
			wait.Wait()
			if late := had.Sub(freed); late < 0 || late > 20*time.Millisecond {
				t.Errorf("the set was had %v after its last key was free", late)
			}
		}
	})
}

func TestALostKeyLosesTheWholeLockAtItsDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 5, WithTTL(time.Second))
		lock := mustAcquireAll(t, locker, []string{"a", "b", "c"}, WithRenewal())
		time.Sleep(3 * time.Second)
		if !lock.Valid() {
			t.Fatal("a lock on several keys is not renewed")
		}
		plant(fakes[:2], "b", "another", time.Hour)
		time.Sleep(3 * time.Second)
		if !lock.Valid() {
			t.Error("a key that a minority has lost has ended the lock")
		}
		fakes[2].Plant("b", "another", time.Hour)
		says(t, ErrLost, `"b" taken by another`)(lock.Extend(t.Context(), time.Second))
		if !lock.Valid() {
			t.Error("the lock ends before its deadline")
		}
		<-lock.Context().Done()
		if cause := context.Cause(lock.Context()); !errors.Is(cause, ErrLost) || !strings.Contains(cause.Error(), `"b" taken by another`) {
			t.Errorf("the lock was lost because of %v, want ErrLost that names b", cause)
		}
		returns(t, ErrLost)(lock.Release())
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
		changeAll(fakes, func(f *fakeNode) { delete(f.Keys, "key66") })
		says(t, ErrLost, `no node had "key66"`)(lock.Release())
		synctest.Wait()
		for _, key := range keys {
			if at := stray(fakes, key); len(at) > 0 {
				t.Fatalf("%q is left at %v", key, at)
			}
		}
		returns(t, ErrReleased, "the second Release")(lock.Release())
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
		noError(t, set.Extend(t.Context(), time.Minute))
		noError(t, set.Release())
		for _, f := range fakes { // a client whose clock reads more was here
			f.Change(func(f *fakeNode) { f.SetFence("b", "b", set.Fence()+1_000_000_000) })
		}
		raised := mustAcquireAll(t, locker, []string{"a", "b"})
		if raised.Fence() <= set.Fence()+1_000_000_000 {
			t.Errorf("the fence %d is not above that of the counter of b", raised.Fence())
		}
		noError(t, raised.Release())
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
			returns(t, ErrDeadlock, "Acquire under the context of a lock on", key)(locker.Acquire(ctx, key, WithMaxWait(0)))
		}
	})
}

func TestSeveralKeysAreOnOneServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		cluster, fakes := newLocker(t, 3)
		changeAll(fakes, func(f *fakeNode) { f.Info += "redis_mode:cluster\r\n" })
		if _, err := cluster.AcquireAll(t.Context(), []string{"a", "b"}); !errors.Is(err, ErrNode) || !strings.Contains(err.Error(), "hash tag") {
			t.Errorf("on a Cluster AcquireAll of untagged keys = %v, want ErrNode that asks for a hash tag", err)
		}
		set := mustAcquireAll(t, cluster, []string{"{bank}:a", "{bank}:b"})
		noError(t, set.Release())
		wantWithin(t, time.Second, began, "it took")
	})
}

// P holds y and wants x besides; S wants both, and keeps the later P off x while it waits for y.
// Its ticket rests in the last third of each 48 ms of the nodes' clocks, once it is eight times as
// old. P's wait begins 660 ms behind S's, in such a rest, and passes nobody in that. The next one
// begins at 704 ms. If the context says that P holds a key, nobody keeps it off.
func TestWhoKeepsOthersOffLetsThemLookNowAndThen(t *testing.T) {
	for name, sameProcess := range map[string]bool{"in one process": true, "in two processes": false} {
		for _, under := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				locker, fakes := newLocker(t, 3, WithTTL(time.Minute))
				others := locker
				if !sameProcess {
					others = another(t, fakes, WithTTL(time.Minute))
				}
				p := mustAcquire(t, others, "y")
				served := async(func() error { return passing(locker.AcquireAll(t.Context(), []string{"x", "y"})) })
				ctx, least, most := t.Context(), 40*time.Millisecond, 60*time.Millisecond
				if under {
					ctx, least, most = p.Context(), 0, 10*time.Millisecond
				}
				time.Sleep(660 * time.Millisecond)
				began := time.Now()
				set, err := others.AcquireAll(ctx, []string{"x", "z"})
				if took := time.Since(began); err != nil || took < least || took > most {
					t.Fatalf("%s, under the context of a lock: %t, AcquireAll of who holds a key already took %v: %v; want %v to %v", name, under, took, err, least, most)
				}
				noError(t, set.Release())
				mustRelease(t, p)
				noError(t, <-served, name)
			})
		}
	}
}

func TestATokenOfOnesOwnFindsASetAndAReader(t *testing.T) {
	for kind, keys := range map[string][]string{"a shared lock": {"k"}, "several keys": {"k", "l", "m"}} {
		bubble(t, kind, func(t *testing.T) {
			locker, fakes := newLocker(t, 3)
			take := func(locker *Locker) *Lock {
				lock, err := kindsOfLocks[kind](locker, t.Context(), WithToken("request 7"))
				must(t, err)
				synctest.Wait() // its last vote, which would set the keys again
				return lock
			}
			first, again := take(locker), take(another(t, fakes))
			if first.Token() != "request 7" || again.Token() != "request 7" || len(fakes[0].Sharers("k")) > 1 {
				t.Errorf("the tokens are %q and %q, and the readers %v", first.Token(), again.Token(), fakes[0].Sharers("k"))
			}
			noError(t, again.Release())
			synctest.Wait()
			for _, key := range keys {
				wantFree(t, fakes, key)
			}
			wantHeld(t, first, false)
		})
	}
}

// Of two sets of one Locker, one waits for the caller's key.
func TestOnlyTheSetThatWaitsForTheCallerLetsItPass(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 3, WithTTL(time.Hour))
		caller := another(t, fakes, WithTTL(time.Hour), WithFairness()) // who heeds those in line
		b, d := mustAcquire(t, another(t, fakes, WithTTL(time.Hour)), "b"), mustAcquire(t, caller, "d")
		var all sync.WaitGroup
		for _, keys := range [][]string{{"a", "b"}, {"c", "d"}} {
			all.Go(func() { noError(t, passing(locker.AcquireAll(t.Context(), keys))) })
		}
		time.Sleep(300 * time.Millisecond) // the sets stand in line, and do not rest yet
		returns(t, ErrTaken, "TryAcquire of a key whose set waits for another")(caller.TryAcquire(d.Context(), "a"))
		c, err := caller.TryAcquire(d.Context(), "c")
		must(t, err, "TryAcquire of a key whose set waits for the caller")
		for _, lock := range []*Lock{c, d, b} {
			mustRelease(t, lock)
		}
		all.Wait()
	})
}
