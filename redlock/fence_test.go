package redlock

import (
	"context"
	"errors"
	"math"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/internal/protocol"
	"github.com/quorumlock/quorumlock/test/fakenode"
)

// fenced is the fence of a lock that has one.
func fenced(t *testing.T, lock *Lock) int64 {
	t.Helper()
	if lock.Fence() <= 0 || lock.Fence() >= protocol.MaxFence {
		t.Fatalf("the fence is %d, want one between 0 and 2^53", lock.Fence())
	}
	return lock.Fence()
}

// accepted is the fence that a node has accepted for key "k".
func accepted(f *fakeNode) (number int64) {
	f.Change(func(f *fakeNode) { number = f.Fence("k") })
	return number
}

func setFence(fakes []*fakeNode, number int64) {
	changeAll(fakes, func(f *fakeNode) { f.SetFence("k", "k", number) })
}

func TestFencesGrowInOneRoundTripEach(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		one, fakes := newLocker(t, 5, WithFences(), noTrims)
		two := another(t, fakes, WithFences(), noTrims)
		mustRelease(t, mustAcquire(t, one, "k"))
		mustRelease(t, mustAcquire(t, two, "k"))
		time.Sleep(time.Millisecond)
		before := fakes[0].Batches()
		var last int64
		const turns = 20
		for i := range turns {
			lock := mustAcquire(t, []*Locker{one, two}[i%2], "k")
			if fence := fenced(t, lock); fence <= last {
				t.Fatalf("holder %d has the fence %d after %d, want a greater one", i, fence, last)
			}
			last = lock.Fence()
			mustRelease(t, lock)
			synctest.Wait()
			time.Sleep(time.Microsecond) // fences count microseconds, and this time is virtual
		}
		if n := fakes[0].Batches() - before; n != 2*turns {
			t.Errorf("%d locks and releases took a node %d batches, want one each", turns, n)
		}
	})
}

// Where many ask within a microsecond, no node has to refuse a number that it has seen.
func TestALockerProposesNoNumberTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 3, WithFences())
		mustRelease(t, mustAcquire(t, locker, "k"))
		for range 20 { // at one moment of virtual time
			mustRelease(t, mustAcquire(t, locker, "k"))
		}
		synctest.Wait()
		if n := fakes[0].Count("ZADD"); n != 21 {
			t.Errorf("21 locks took %d fences: some were too small and had to be raised", n)
		}
	})
}

func TestAProposalThatIsTooSmallIsRaised(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 5, WithFences())
		mustRelease(t, mustAcquire(t, locker, "k"))
		ahead := time.Now().Add(time.Hour).UnixMicro()
		setFence(fakes[1:4], ahead)
		time.Sleep(time.Millisecond)
		fakes[2].Change(func(f *fakeNode) { f.Delay = 2 * time.Millisecond })
		fakes[3].Change(func(f *fakeNode) { f.Delay = 2 * time.Millisecond })
		start := time.Now()
		lock := mustAcquire(t, locker, "k")
		if lock.Fence() <= ahead {
			t.Errorf("the fence is %d where a quorum has accepted %d, want a greater one", lock.Fence(), ahead)
		}
		if most := start.Add(10*time.Second - 102*time.Millisecond); lock.Until().After(most) {
			t.Errorf("the lease ends at %v, want it to count from the first round: at most %v", lock.Until(), most)
		}
		synctest.Wait()
		for _, vote := range lock.Votes()[1:4] {
			if vote.Answer != outbidVote {
				t.Errorf("%v, want it to say that it has a greater fence", vote)
			}
		}
		if next := fenced(t, lock); next-ahead > 1000 {
			t.Errorf("the fence went %d beyond what was accepted, want just above", next-ahead)
		}
		other := mustAcquire(t, locker, "other")
		if now := time.Now().UnixMicro(); other.Fence() > now+1000 {
			t.Errorf("another key's fence is %d at %d: one key's counter spoils the next", other.Fence(), now)
		}
	})
}

// The votes of the first round were for a smaller number.
func TestASecondRoundNeedsAQuorumOfItsOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 3, WithFences())
		mustRelease(t, mustAcquire(t, locker, "k"))
		setFence(fakes[1:], time.Now().Add(time.Hour).UnixMicro())
		changeAll([]*fakeNode{fakes[0], fakes[2]}, func(f *fakeNode) {
			f.Answer = func(args []any) *driver.Reply {
				if args[0] == "ZADD" && f.Counted("ZADD") > 2 {
					return &driver.Reply{Kind: driver.Failure, Str: "ERR not now"}
				}
				return nil
			}
		})
		if lock, err := locker.TryAcquire(t.Context(), "k"); !errors.Is(err, ErrNoQuorum) {
			t.Errorf("TryAcquire = %v, %v: one node has accepted the number of the second round, want ErrNoQuorum", lock, err)
		}
		synctest.Wait()
		if fakes[0].Count("ZADD") != 3 {
			t.Errorf("the node got %d numbers: the test does not show what it is for", fakes[0].Count("ZADD"))
		}
		wantFree(t, fakes, "k")
	})
}

// Its token had a quorum, so others may have been told of a holder: if it gave up as well, nobody would have the key.
func TestATryWhoseRaiseFailsNamesNoHolderAndGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 3, WithFences())
		mustRelease(t, mustAcquire(t, locker, "k"))
		setFence(fakes[:2], time.Now().Add(time.Hour).UnixMicro())
		rivals(fakes, "", "", small)
		fakes[1].Change(func(f *fakeNode) {
			f.Answer = func(args []any) *driver.Reply {
				if args[0] == "ZADD" && f.Counted("ZADD") == 3 {
					return &driver.Reply{Kind: driver.Failure, Str: "ERR not now"}
				}
				return nil
			}
		})
		noError(t, passing(locker.TryAcquire(t.Context(), "k")), "of three nodes one fails a raise, and a token is left at another: TryAcquire")
	})
}

// A number that is old when it is accepted may be below one that a node has forgotten since. So it
// must not wait behind others of its key for as long as a quarantine may last.
func TestALockWhoseFenceIsOlderThanItsTTLIsRefused(t *testing.T) {
	const ttl, trip = 400 * time.Millisecond, 90 * time.Millisecond
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 1, WithFences(), WithTTL(ttl))
		mustRelease(t, mustAcquire(t, locker, "k"))
		fakes[0].Change(func(f *fakeNode) { f.Delay = trip })
		fakes[0].Plant("k", "another's", ttl)
		var tries []<-chan error // one after the other at the node
		for range 6 {
			tries = append(tries, async(func() error { return passing(locker.TryAcquireAll(t.Context(), []string{"k", "l"})) }))
			synctest.Wait()
		}
		expired := 0
		for i, try := range tries {
			switch err := <-try; {
			case err == nil:
				t.Errorf("try %d: a fence that was proposed %v before is that of a lock for %v", i+1, time.Duration(i+1)*trip, ttl)
			case errors.Is(err, ErrExpired):
				expired++
			}
		}
		if expired == 0 {
			t.Error("no fence has waited: this test shows nothing")
		}
	})
}

func TestAClockThatIsYearsOffPoisonsNothing(t *testing.T) {
	const years = 20 * 365 * 24 * time.Hour
	synctest.Test(t, func(t *testing.T) {
		fakes, _ := fakeNodes(5)
		fakes[0].Skew, fakes[4].Skew = years, -years
		for _, f := range fakes[1:4] {
			f.Skew = years / 2 // the nodes agree with each other, and our clock is wrong
		}
		locker := another(t, fakes, WithFences())
		lock := mustAcquire(t, locker, "k")
		want := time.Now().Add(years / 2).UnixMicro()
		if off := math.Abs(float64(fenced(t, lock) - want)); off > 1e6 {
			t.Errorf("the fence is %d, want the nodes' median time %d", lock.Fence(), want)
		}
	})
}

// A quorum of the first answers may be of wrong clocks, and most of all nodes are right.
func TestTheFirstFenceWaitsForClocksThatOutvoteTheWrongOnes(t *testing.T) {
	for _, n := range []int{3, 5} {
		synctest.Test(t, func(t *testing.T) {
			locker, fakes := newLocker(t, n, WithFences())
			for i, f := range fakes {
				f.Delay = 30 * time.Millisecond
				if i < n/2 {
					f.Skew, f.Delay = 20*365*24*time.Hour, time.Millisecond
				} else if i == n/2 {
					f.Delay = time.Millisecond
				}
			}
			lock := mustAcquire(t, locker, "k")
			if ahead := time.Duration(lock.Fence()-time.Now().UnixMicro()) * time.Microsecond; ahead > time.Second {
				t.Errorf("of %d clocks %d are wrong, and the first fence is %v ahead", n, n/2, ahead)
			}
		})
	}
}

// The first question of a Locker with fences is what the clocks say.
func TestANodeThatHasToldItsClockHasGrantedNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 3, WithFences())
		for _, f := range fakes[1:] {
			f.Hang()
		}
		_, err := locker.TryAcquire(t.Context(), "k")
		var quorum *QuorumError
		if !errors.As(err, &quorum) || !errors.Is(err, ErrNoQuorum) || quorum.Votes[0].Answer == grantedVote {
			t.Errorf("with two of three nodes silent, TryAcquire = %v, want ErrNoQuorum and no grant", err)
		}
	})
}

// Where the others are silent, the clocks that answer are believed until the others do.
func TestProposalsFromWrongClocksAreLetGoOf(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 5, WithFences())
		for i, f := range fakes {
			if i < 2 {
				f.Skew = time.Hour
			} else if i > 2 {
				f.Refused = driver.NotSent(fakenode.ErrCut)
			}
		}
		first := mustAcquire(t, locker, "k")
		mustRelease(t, first)
		changeAll(fakes[3:], func(f *fakeNode) { f.Refused = nil })
		for range 3 { // the nodes are asked for their time once a second
			time.Sleep(2 * time.Second)
			mustRelease(t, mustAcquire(t, locker, "other"))
			synctest.Wait()
		}
		if ahead := time.Duration(mustAcquire(t, locker, "new").Fence()-time.Now().UnixMicro()) * time.Microsecond; ahead > time.Second {
			t.Errorf("most clocks are right and have told so, and a new key's fence is %v ahead", ahead)
		}
		if again := mustAcquire(t, locker, "k"); again.Fence() <= first.Fence() {
			t.Errorf("behind the fence %d comes %d: no node has forgotten it", first.Fence(), again.Fence())
		}
	})
}

func TestAHandOverRaisesTheFence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 5, WithFences())
		first := mustAcquire(t, locker, "k")
		got := waitFor(t.Context(), locker)
		synctest.Wait()
		sets := fakes[0].Count("SET")
		mustRelease(t, first)
		second := mustGet(t, got)
		if n := fakes[0].Count("SET"); n != sets {
			t.Fatalf("a hand-over took %d SETs, want none", n-sets)
		}
		if second.lock.Fence() <= first.Fence() {
			t.Errorf("the heir's fence is %d after %d, want a greater one", second.lock.Fence(), first.Fence())
		}
	})
}

func TestATokenOfOnesOwnGetsAGreaterFence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, _ := newLocker(t, 5, WithFences())
		first := mustAcquire(t, locker, "k", WithToken("mine"))
		time.Sleep(time.Millisecond)
		if again := mustAcquire(t, locker, "k", WithToken("mine")); again.Fence() <= first.Fence() {
			t.Errorf("the retry's fence is %d after %d, want a greater one", again.Fence(), first.Fence())
		}
	})
}

// Between the SET and the GET the key may expire, or be somebody else's by then. Such a
// node has taken the number out of turn.
func TestANodeThatLostTheTokenBehindTheFenceDoesNotVote(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 3, WithFences())
		mustRelease(t, mustAcquire(t, locker, "k"))
		synctest.Wait()
		before(fakes[:2], "ZADD", func(f *fakeNode, _ []any) { delete(f.Keys, "k") })
		lock, err := locker.TryAcquire(t.Context(), "k")
		if err == nil {
			t.Fatalf("the lock is had with the fence %d though two of three nodes lost it before they accepted that", lock.Fence())
		}
		synctest.Wait()
		wantFree(t, fakes, "k")
	})
}

func TestACounterAtItsEndIsAnErrorAndNoLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 3, WithFences())
		setFence(fakes, protocol.MaxFence-1)
		says(t, ErrFence, fenceName("k"))(locker.Acquire(t.Context(), "k"))
		synctest.Wait()
		wantFree(t, fakes, "k")
	})
}

func TestARaiseEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 3, WithFences())
		mustRelease(t, mustAcquire(t, locker, "k"))
		setFence(fakes, time.Now().Add(time.Hour).UnixMicro())
		changeAll(fakes, func(f *fakeNode) {
			f.Hold = func(name string) <-chan struct{} {
				if name == "ZSCORE" && f.Log[len(f.Log)-2] == "ZSCORE" { // both for a counter and its floor
					return make(chan struct{})
				}
				return nil
			}
		})
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		returns(t, context.DeadlineExceeded)(locker.Acquire(ctx, "k"))
		time.Sleep(time.Second)
		wantFree(t, fakes, "k")
	})
}

func TestClocksBeyondTheLastFenceAreAnErrorBeforeAnythingIsSet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fakes, _ := fakeNodes(3)
		for _, f := range fakes {
			f.Skew = 270 * 365 * 24 * time.Hour
		}
		locker := another(t, fakes, WithFences())
		says(t, ErrFence, "2255")(locker.Acquire(t.Context(), "k"))
		if n := fakes[0].Count("ZADD") + fakes[0].Count("SET"); n != 0 {
			t.Errorf("the node was sent %d commands, want none", n)
		}
	})
}

// A node that lies about its counter can bring the fences of a key to their end, where they
// stay until somebody deletes the counter. It can do no more: the error says what it is, no
// fence is given twice, and other keys are not affected.
func TestACounterThatLiesCostsItsKeyTheFencesAndNoMore(t *testing.T) {
	for _, tt := range []struct {
		of   string // the member of its set
		says string
		ends bool // for the others as well
	}{
		{"k", "inf", false},
		{"k", "9223372036854775807", false},
		{"k", "9007199254740991", false},
		{"k", "9007199254740989", true},
		{"k", "nan", false},
		{"k", "-inf", false},
		{"k", "-1", false},
		{"k", "garbage", false},
		{"", "inf", false},
		{"", "9007199254740991", false},
		{"", "9007199254740989", true},
		{"", "nan", false},
		{"", "-1", false},
		{"", "garbage", false},
	} {
		synctest.Test(t, func(t *testing.T) {
			locker, fakes := newLocker(t, 3, WithFences())
			first := fenced(t, mustAcquire(t, locker, "other"))
			ahead := time.Now().Add(time.Minute).UnixMicro()
			setFence(fakes, ahead)            // so that it takes a raise
			fakes[2].Delay = time.Millisecond // so that the quorum is the node that lies, and one other
			fakes[0].Change(func(f *fakeNode) {
				f.Answer = func(args []any) *driver.Reply {
					if args[0] != "ZSCORE" || args[2] != tt.of {
						return nil
					}
					return &driver.Reply{Kind: driver.String, Str: tt.says}
				}
			})
			last := ahead
			for range 3 {
				lock, err := locker.TryAcquire(t.Context(), "k")
				switch {
				case err == nil && fenced(t, lock) <= last:
					t.Errorf("where a node says %q of %q, the fence is %d after %d", tt.says, tt.of, lock.Fence(), last)
				case err == nil:
					last = lock.Fence()
					mustRelease(t, lock)
				case !errors.Is(err, ErrFence):
					t.Errorf("where a node says %q of %q, TryAcquire = %v, want ErrFence", tt.says, tt.of, err)
				}
				synctest.Wait()
			}
			fakes[0].Change(func(f *fakeNode) { f.Answer = nil })
			_, err := locker.TryAcquire(t.Context(), "k", WithToken("a"))
			if ends := errors.Is(err, ErrFence); ends != tt.ends || !ends && err != nil {
				t.Errorf("after a node has said %q of %q, TryAcquire = %v, want ErrFence: %t", tt.says, tt.of, err, tt.ends)
			}
			if second, err := locker.TryAcquire(t.Context(), "unused"); err != nil || fenced(t, second) <= first {
				t.Errorf("after a node has said %q of one key, TryAcquire of another = %v, %v", tt.says, second, err)
			}
			time.Sleep(2 * time.Hour)
			_, err = locker.TryAcquire(t.Context(), "k", WithToken("b"))
			if ends := errors.Is(err, ErrFence); ends != tt.ends || !ends && err != nil {
				t.Errorf("two hours after a node has said %q of %q, TryAcquire = %v, want ErrFence: %t", tt.says, tt.of, err, tt.ends)
			}
			changeAll(fakes, func(f *fakeNode) { clear(f.Fences); clear(f.Keys) })
			if lock, err := locker.TryAcquire(t.Context(), "k"); err != nil {
				t.Errorf("after the counter was deleted, TryAcquire = %v, %v", lock, err)
			}
		})
	}
}

func TestReadersShareTheNumberOfTheWriterBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 5, WithFences())
		writer := mustAcquire(t, locker, "k")
		mustRelease(t, writer)
		time.Sleep(time.Second)
		calls := fakes[0].Count("EVALSHA") + fakes[0].Count("EVAL")
		one, two := mustShare(t, locker, "k"), mustShare(t, another(t, fakes, WithFences()), "k")
		if one.Fence() != writer.Fence() || two.Fence() != writer.Fence() {
			t.Errorf("readers behind %d have %d and %d", writer.Fence(), one.Fence(), two.Fence())
		}
		if more := fakes[0].Count("EVALSHA") + fakes[0].Count("EVAL") - calls; more > 4 { // twice for want of the source
			t.Errorf("two readers took %d calls of a node, want one each", more)
		}
		for _, lock := range []*Lock{one, two} {
			_ = lock.Release()
		}
		synctest.Wait()
		if after := mustAcquire(t, locker, "k"); after.Fence() <= one.Fence() {
			t.Errorf("a writer behind the readers has %d, want more than %d", after.Fence(), one.Fence())
		}
	})
}

func TestAReadersNumberIsBroughtToAQuorum(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 5, WithFences())
		mustRelease(t, mustAcquire(t, locker, "k"))
		const ahead = 1 << 52 // what one node has accepted, of a writer that had no quorum
		fakes[2].Change(func(f *fakeNode) { f.SetFence("k", "k", ahead) })
		forEach(fakes[3:], (*fakeNode).Stop)
		reader, err := locker.TryAcquireShared(t.Context(), "k")
		if err != nil || reader.Fence() != ahead {
			t.Fatalf("TryAcquireShared = %v with the number %d, want %d", err, reader.Fence(), int64(ahead))
		}
		for _, f := range fakes[:3] {
			if counter := accepted(f); counter != ahead {
				t.Errorf("%s has the counter %d, want %d", f.Name(), counter, int64(ahead))
			}
		}
		forEach(fakes[3:], (*fakeNode).Resume)
		_ = reader.Release()
		time.Sleep(20 * time.Second) // clean-ups of what the stopped nodes ran late
		// A writer who meets only one of the nodes that had the number in the first round.
		forEach([]*fakeNode{fakes[1], fakes[2]}, (*fakeNode).Stop)
		if writer := mustAcquire(t, locker, "k"); writer.Fence() <= ahead {
			t.Errorf("a writer behind the reader has %d, want more than %d", writer.Fence(), int64(ahead))
		}
	})
}

func TestAReadersNumberIsNoneThatMayHaveBeenOutrunAndForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 3, WithFences())
		outrun(t, locker, fakes, func(f *fakeNode, old, writer int64) { // and then a late command brings back an older one
			f.SetFence("k", "", writer+1)
			f.SetFence("k", "k", old)
		})
	})
}

func TestAReadersNumberIsNoneThatANodeHadBeforeItForgotAGreaterOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := ripeLocker(t, 3, WithTTL(time.Second), WithFences(), WithRestartGuard(time.Second))
		outrun(t, locker, fakes, func(f *fakeNode, old, _ int64) { f.SetFence("k", "k", old) }) // one was not in the writer's quorum
	})
}

// outrun lets nodes forget the number of the last writer.
func outrun(t *testing.T, locker *Locker, fakes []*fakeNode, forget func(f *fakeNode, old, writer int64)) {
	t.Helper()
	old := mustAcquire(t, locker, "k")
	mustRelease(t, old)
	time.Sleep(time.Second)
	writer := mustAcquire(t, locker, "k")
	mustRelease(t, writer)
	changeAll(fakes, func(f *fakeNode) { forget(f, old.Fence(), writer.Fence()) })
	time.Sleep(time.Second) // under the guard they have no votes for the longest TTL
	reader := mustShare(t, locker, "k")
	if reader.Fence() <= writer.Fence() {
		t.Errorf("a reader behind the writer %d has %d", writer.Fence(), reader.Fence())
	}
	if other := mustShare(t, locker, "k"); other.Fence() != reader.Fence() {
		t.Errorf("the next reader has %d, want %d", other.Fence(), reader.Fence())
	}
}

func TestManyReadersOfAnIdleKeyAgreeOnTheirNumber(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 5, WithFences())
		mustRelease(t, mustAcquire(t, locker, "k"))
		changeAll(fakes, func(f *fakeNode) { f.Delay, f.Jitter = time.Millisecond, 5*time.Millisecond })
		lockers := []*Locker{locker, another(t, fakes, WithFences()), another(t, fakes, WithFences())}
		for range 3 {
			time.Sleep(time.Hour)
			var group sync.WaitGroup
			for i := range 300 {
				group.Go(func() {
					noError(t, passing(lockers[i%3].AcquireShared(t.Context(), "k")))
				})
			}
			group.Wait()
		}
	})
}

func TestAReaderOfAnIdleKeyHasTheTimeForItsNumber(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 3, WithFences())
		writer := mustAcquire(t, locker, "k")
		mustRelease(t, writer)
		for _, f := range fakes { // the counter is forgotten, and the store has the writer's number
			f.Change(func(f *fakeNode) { clear(f.Fences); f.SetFence("k", "", writer.Fence()+1) })
		}
		time.Sleep(time.Hour)
		began := time.Now().UnixMicro()
		reader := mustShare(t, locker, "k", WithTTL(time.Second), WithRenewal())
		if fence := reader.Fence(); fence <= writer.Fence() || fence < began-1e6 {
			t.Errorf("a reader behind %d has %d", writer.Fence(), fence)
		}
		time.Sleep(10 * time.Minute)
		for _, f := range fakes {
			if counter := accepted(f); counter != reader.Fence() {
				t.Errorf("%s has the counter %d, want %d", f.Name(), counter, reader.Fence())
			}
		}
		forEach(fakes, (*fakeNode).Restart)
		time.Sleep(time.Second)
		if next := mustShare(t, locker, "k"); next.Fence() < reader.Fence() {
			t.Errorf("behind a restart the next reader has %d, want at least %d", next.Fence(), reader.Fence())
		}
	})
}
