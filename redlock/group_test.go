package redlock

import (
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumlock/quorumlock/driver"
)

// acquireAll takes so many locks at once.
func acquireAll(t *testing.T, locker *Locker, count int) []*Lock {
	t.Helper()
	locks := make([]*Lock, count)
	var group sync.WaitGroup
	for i := range locks {
		group.Go(func() {
			var err error
			if locks[i], err = locker.TryAcquire(t.Context(), fmt.Sprintf("k%03d", i)); err != nil {
				t.Errorf("TryAcquire %d of %d = %v", i+1, count, err)
			}
		})
	}
	group.Wait()
	return locks
}

// releaseAll releases locks at once, and returns what each Release returned.
func releaseAll(t *testing.T, locks []*Lock) []error {
	t.Helper()
	errs := make([]error, len(locks))
	var group sync.WaitGroup
	for i, lock := range locks {
		group.Go(func() { errs[i] = lock.Release(t.Context()) })
	}
	group.Wait()
	synctest.Wait()
	return errs
}

func TestReleasesOfOneBatchGoTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const count = 3*maxGroup + 5
		locker, fakes := newLocker(t, 3)
		warm(t, locker)
		locks := acquireAll(t, locker, count)
		synctest.Wait()
		lost := locks[7]
		for _, f := range fakes {
			f.change(func(f *fakeNode) { delete(f.keys, lost.Key()) })
			f.plant(locks[40].Key(), "another", time.Minute)
		}
		block := make(chan struct{})
		fakes[0].change(func(f *fakeNode) { // a first batch keeps node 1 busy while the releases gather
			f.hold = func(string) <-chan struct{} { return block }
		})
		go func() { _, _ = locks[0].Held(t.Context()) }()
		synctest.Wait()
		before := fakes[0].count("EVALSHA")
		var errs []error
		done := make(chan struct{})
		go func() { errs = releaseAll(t, locks); close(done) }()
		time.Sleep(time.Millisecond)
		fakes[0].change(func(f *fakeNode) { f.hold = nil })
		close(block)
		<-done
		synctest.Wait()
		for i, err := range errs {
			if want := i == 7 || i == 40; (err != nil) != want {
				t.Errorf("Release of lock %d, one of many in a batch = %v; only 7 and 40 were lost", i, err)
			}
		}
		for _, lock := range locks {
			if token, _ := fakes[0].token(lock.Key()); token == lock.Token() {
				t.Fatalf("after Release node-1 has %s still", lock)
			}
		}
		if token, _ := fakes[0].token(locks[40].Key()); token != "another" {
			t.Errorf("a release in a batch took another's key away: it holds %q", token)
		}
		if sent := fakes[0].count("EVALSHA") - before; sent > count/maxGroup+2 {
			t.Errorf("%d releases that waited together went as %d commands", count, sent)
		}
	})
}

func TestANodeThatDoesNotTakeReleasesTogetherGetsThemOneByOne(t *testing.T) {
	for _, refusal := range []driver.Reply{
		{Kind: driver.Failure, Str: "CROSSSLOT Keys in request don't hash to the same slot"},
		{Kind: driver.Failure, Str: "NOPERM this user has no permissions to access one of the keys"},
		{Kind: driver.Integer, Int: -2 - 1<<25},
		{Kind: driver.Integer, Int: 1 << 25},
		{Kind: driver.String, Str: "1"},
		{},
	} {
		synctest.Test(t, func(t *testing.T) {
			locker, fakes := newLocker(t, 3)
			warm(t, locker)
			for _, f := range fakes {
				f.change(func(f *fakeNode) {
					f.answer = func(args []any) *driver.Reply {
						if args[0] == "EVALSHA" && args[2] != "1" {
							return &refusal
						}
						return nil
					}
				})
			}
			for round := range 2 {
				locks := acquireAll(t, locker, 20)
				for i, err := range releaseAll(t, locks) {
					if err != nil {
						t.Fatalf("round %d, nodes that answer %v to releases together: Release %d = %v", round+1, refusal, i, err)
					}
				}
				if left := stray(fakes, locks[3].Key()); left != nil {
					t.Errorf("nodes that answer %v to releases together keep a released key: %v", refusal, left)
				}
			}
		})
	}
}

func TestReleasesGoTogetherWithTheSourceOfAScriptThatIsMissing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 3)
		warm(t, locker)
		locks := acquireAll(t, locker, 40)
		synctest.Wait()
		for _, f := range fakes {
			f.change(func(f *fakeNode) { clear(f.loaded) }) // SCRIPT FLUSH
		}
		for i, err := range releaseAll(t, locks) {
			if err != nil {
				t.Errorf("Release %d after SCRIPT FLUSH = %v", i, err)
			}
		}
		for _, lock := range locks {
			if left := stray(fakes, lock.Key()); left != nil {
				t.Fatalf("after SCRIPT FLUSH and Release, %v keep %s", left, lock)
			}
		}
	})
}
