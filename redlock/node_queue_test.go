package redlock

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/internal/protocol"
	"github.com/quorumlock/quorumlock/internal/quorum"
	"github.com/quorumlock/quorumlock/internal/scripts"
)

func TestReleasesOfOneBatchGoTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const count = 3*protocol.MaxGroup + 5
		locker, fakes := newLocker(t, 3)
		warm(t, locker)
		locks := acquireAll(t, locker, count)
		synctest.Wait()
		lost := locks[7]
		for _, f := range fakes {
			f.Change(func(f *fakeNode) { delete(f.Keys, lost.Key()) })
			f.Plant(locks[40].Key(), "another", time.Minute)
		}
		block := make(chan struct{})
		fakes[0].Change(func(f *fakeNode) { // a first batch keeps node 1 busy while the releases gather
			f.Hold = func(string) <-chan struct{} { return block }
		})
		go func() { _, _ = locks[0].Confirm(t.Context()) }()
		synctest.Wait()
		before := fakes[0].Count("EVALSHA")
		var errs []error
		done := make(chan struct{})
		go func() { errs = releaseAll(t, locks); close(done) }()
		time.Sleep(time.Millisecond)
		fakes[0].Change(func(f *fakeNode) { f.Hold = nil })
		close(block)
		<-done
		synctest.Wait()
		for i, err := range errs {
			if want := i == 7 || i == 40; (err != nil) != want {
				t.Errorf("Release of lock %d, one of many in a batch = %v; only 7 and 40 were lost", i, err)
			}
		}
		for _, lock := range locks {
			if token, _ := fakes[0].Token(lock.Key()); token == lock.Token() {
				t.Fatalf("after Release node-1 has %s still", lock)
			}
		}
		if token, _ := fakes[0].Token(locks[40].Key()); token != "another" {
			t.Errorf("a release in a batch took another's key away: it holds %q", token)
		}
		if sent := fakes[0].Count("EVALSHA") - before; sent > count/protocol.MaxGroup+2 {
			t.Errorf("%d releases that waited together went as %d commands", count, sent)
		}
	})
}

// extendAll extends locks at once, each to the TTL that ttl returns, in one batch of the
// node that is kept busy meanwhile, and returns what each Extend returned.
func extendAll(t *testing.T, locks []*Lock, busy *fakeNode, ttl func(i int) time.Duration) []error {
	t.Helper()
	block := make(chan struct{})
	busy.Change(func(f *fakeNode) { f.Hold = func(string) <-chan struct{} { return block } })
	go func() { _, _ = locks[0].Confirm(t.Context()) }()
	synctest.Wait()
	errs := make([]error, len(locks))
	var group sync.WaitGroup
	for i, lock := range locks {
		group.Go(func() { errs[i] = lock.Extend(t.Context(), ttl(i)) })
	}
	synctest.Wait()
	busy.Change(func(f *fakeNode) { f.Hold = nil })
	close(block)
	group.Wait()
	synctest.Wait()
	return errs
}

func TestExtensionsOfOneBatchGoTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const count = 3*protocol.MaxGroup + 5
		locker, fakes := newLocker(t, 1)
		node := fakes[0]
		warm(t, locker)
		locks := acquireAll(t, locker, count)
		synctest.Wait()
		node.Change(func(f *fakeNode) { delete(f.Keys, locks[7].Key()) })
		node.Plant(locks[40].Key(), "another", time.Minute)
		node.Plant(locks[70].Key(), "a list", time.Minute)
		ttl := func(i int) time.Duration { // below what is left, and above
			return time.Duration(1+i%30) * time.Second
		}
		before := node.Count("EVALSHA")
		errs := extendAll(t, locks, node, ttl)
		for i, err := range errs {
			token, left := node.Token(locks[i].Key())
			want := max(ttl(i), 10*time.Second)
			switch {
			case i == 40 && (!errors.Is(err, ErrLost) || token != "another"):
				t.Errorf("Extend of a lock whose key another has = %v, and %q has it then", err, token)
			case i == 70 && (err == nil || !strings.Contains(err.Error(), "WRONGTYPE") || token != "a list"):
				t.Errorf("Extend of a lock whose key is no lock = %v, and %q is there then", err, token)
			case i == 40 || i == 70:
			case err != nil || token != locks[i].Token():
				t.Errorf("Extend of lock %d, one of many in a batch = %v, and its key has %q", i, err, token)
			case i == 7 && left != ttl(7):
				t.Errorf("a key that was gone is there for %v, want %v", left, ttl(7))
			case i != 7 && left != want:
				t.Errorf("lock %d of 10s that was extended to %v has %v at the node, want %v", i, ttl(i), left, want)
			}
		}
		// One group has a key in it that is no lock, and goes one by one.
		if sent := node.Count("EVALSHA") - before; sent > count/protocol.MaxGroup+1+protocol.MaxGroup {
			t.Errorf("%d extensions that waited together went as %d commands", count, sent)
		}
		before = node.Count("EVALSHA")
		node.Plant(locks[70].Key(), "another", time.Minute)
		extendAll(t, locks, node, ttl)
		if sent := node.Count("EVALSHA") - before; sent > count/protocol.MaxGroup+1 {
			t.Errorf("when that key is none any more, %d extensions go as %d commands", count, sent)
		}
	})
}

func TestExtensionsAndReleasesGoTogetherWithTheSourceOfAScriptThatIsMissing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 3)
		warm(t, locker)
		locks := acquireAll(t, locker, 40)
		synctest.Wait()
		for _, f := range fakes {
			f.Change(func(f *fakeNode) { clear(f.Loaded) }) // SCRIPT FLUSH
		}
		for i, err := range extendAll(t, locks, fakes[0], func(int) time.Duration { return time.Minute }) {
			noError(t, err, i, "after SCRIPT FLUSH")
		}
		changeAll(fakes, func(f *fakeNode) { clear(f.Loaded) })
		for i, err := range releaseAll(t, locks) {
			noError(t, err, i, "after SCRIPT FLUSH")
		}
		for _, lock := range locks {
			wantFree(t, fakes, lock.Key(), "after SCRIPT FLUSH and Release")
		}
	})
}

func TestANodeThatDoesNotTakeRequestsTogetherGetsThemOneByOne(t *testing.T) {
	for what, tt := range map[string]struct {
		is  func(args []any) bool
		odd int64 // what their script does not return
	}{
		"extensions": {func(args []any) bool { return args[0] == "EVALSHA" && args[1] == scripts.Extend.Digest }, -1},
		"releases": {func(args []any) bool {
			return args[0] == "EVALSHA" && args[1] == scripts.Release.Digest && args[2] != "1"
		}, -2 - 1<<25},
	} {
		for _, refusal := range []driver.Reply{
			{Kind: driver.Failure, Str: "CROSSSLOT Keys in request don't hash to the same slot"},
			{Kind: driver.Failure, Str: "NOPERM this user has no permissions to access one of the keys"},
			{Kind: driver.Integer, Int: tt.odd},
			{Kind: driver.Integer, Int: 1 << 25},
			{Kind: driver.String, Str: "1"},
			{},
		} {
			bubble(t, fmt.Sprint(what, refusal), func(t *testing.T) {
				locker, fakes := newLocker(t, 1)
				warm(t, locker)
				together := 0
				fakes[0].Change(func(f *fakeNode) {
					f.Answer = answering(refusal, func(args []any) bool {
						refused := tt.is(args)
						if refused {
							together++
						}
						return refused
					})
				})
				for round := range 3 {
					locks := acquireAll(t, locker, 20)
					for i, err := range extendAll(t, locks, fakes[0], func(int) time.Duration { return time.Minute }) {
						must(t, err, "round", round+1, "Extend", i)
					}
					for i, err := range releaseAll(t, locks) {
						must(t, err, "round", round+1, "Release", i)
					}
					wantFree(t, fakes, locks[3].Key())
				}
				if together == 0 || what == "extensions" && together != 1 {
					t.Errorf("a node that answers so to %s together was asked for them %d times, want once", what, together)
				}
			})
		}
	}
}

// What is proposed later is above the fences of others.
func TestExtensionsCarryAlongFencesThatAreAheadOfTheClocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 1, WithFences())
		warm(t, locker)
		locks := acquireAll(t, locker, 20)
		ahead := time.Now().Add(time.Hour).UnixMicro()
		fakes[0].Change(func(f *fakeNode) { f.SetFence("ahead", "ahead", ahead) })
		locks = append(locks, mustAcquire(t, locker, "ahead"))
		fakes[0].Change(func(f *fakeNode) { clear(f.Fences) })
		before, calls := fakes[0].Count("ZADD"), fakes[0].Count("EVALSHA")
		for i, err := range extendAll(t, locks, fakes[0], func(int) time.Duration { return time.Minute }) {
			noError(t, err, i, "with a fence")
		}
		if carried := fakes[0].Count("ZADD") - before; carried != 1 {
			t.Errorf("%d extensions carried their fence along, want the one that is ahead", carried)
		}
		if called := fakes[0].Count("EVALSHA") - calls; called != 2 {
			t.Errorf("%d extensions took %d calls of the script, want one for all that carry nothing", len(locks), called)
		}
		if got := fakes[0].Fence("ahead"); got <= ahead {
			t.Errorf("the node that forgot has the counter %d, want the lock's fence", got)
		}
	})
}

// ask puts a try for the key in its queues, past everything that lets tries share an answer.
func ask(t *testing.T, locker *Locker, key string) *quorum.Operation {
	t.Helper()
	r, err := locker.prepare(t.Context(), key, exclusive, nil)
	must(t, err)
	try, err := locker.newLock(t.Context(), r, false)
	must(t, err)
	try.hold.Acquire.AskAll()
	return &try.hold.Acquire
}

// crowd keeps so many tries for the key waiting until stop is called.
func crowd(t *testing.T, locker *Locker, key string, count int) (stop func()) {
	t.Helper()
	quit, over := make(chan struct{}), make(chan struct{})
	tries := make([]*quorum.Operation, count)
	for i := range tries {
		tries[i] = ask(t, locker, key)
	}
	go func() {
		defer close(over)
		for {
			select {
			case <-tries[0].Done:
				tries = append(tries[1:], ask(t, locker, key))
			case <-quit:
				return
			}
		}
	}()
	return func() { close(quit); <-over }
}

func TestAHolderGoesBeforeTheTriesOfItsKeyThatHaveNotLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 3)
		far(fakes, time.Millisecond)
		const ttl = 200 * time.Millisecond
		lock := mustAcquire(t, locker, "k", WithTTL(ttl), WithRenewal())
		stop := crowd(t, locker, "k", 400) // 400ms of work, twice the lease
		defer stop()
		for range some(30) {
			time.Sleep(ttl)
			if !lock.Valid() {
				t.Fatalf("a healthy lock was lost, whose renewals stand behind tries for its key")
			}
		}
		began := time.Now()
		noError(t, lock.Extend(t.Context(), ttl), "Extend among 400 tries")
		wantWithin(t, 10*time.Millisecond, began, "Extend took")
		began = time.Now()
		noError(t, lock.Release(), "Release among 400 tries")
		wantWithin(t, 10*time.Millisecond, began, "Release took")
	})
}

func TestATryThatHasNotLeftMakesWayInTheQueueItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 1)
		lock, other := mustAcquire(t, locker, "k"), mustAcquire(t, locker, "other")
		block := make(chan struct{})
		fakes[0].Change(func(f *fakeNode) { f.Hold = func(string) <-chan struct{} { return block } })
		go func() { _, _ = other.Confirm(t.Context()) }() // keeps the only batch out
		synctest.Wait()
		ask(t, locker, "k")
		released := async(func() error { return lock.Release() })
		synctest.Wait()
		fakes[0].Change(func(f *fakeNode) { f.Hold, f.Log = nil, nil })
		close(block)
		noError(t, <-released)
		synctest.Wait()
		fakes[0].Change(func(f *fakeNode) {
			if len(f.Log) < 2 || f.Log[0] != "EVALSHA" && f.Log[0] != "EVAL" {
				t.Errorf("the node got %v, want the release before the try that was in the queue", f.Log)
			}
		})
	})
}

func TestRequestsWithOneTokenStayInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 3)
		warm(t, locker)
		block := make(chan struct{})
		fakes[2].Change(func(f *fakeNode) { f.Hold = func(string) <-chan struct{} { return block } })
		first := &Lock{lease: (*lease)(ask(t, locker, "k").Hold.Keeper.(*keeper))} // it has the key, and the turn at the third node
		synctest.Wait()
		noError(t, first.Release())
		var tokens []string
		for _, token := range []string{"", "own"} {
			var options []AcquireOption
			if token != "" {
				options = append(options, WithToken(token))
			}
			lock := mustTry(t, locker, "k", options...)
			tokens = append(tokens, lock.Token())
			noError(t, lock.Release())
		}
		fakes[2].Change(func(f *fakeNode) { f.Hold = nil })
		close(block)
		synctest.Wait()
		if token, _ := fakes[2].Token("k"); token != "" {
			t.Errorf("at the node that was late the key is held by %q of %q, whose releases ran before their acquires", token, tokens)
		}
	})
}
