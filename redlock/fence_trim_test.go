package redlock

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumlock/quorumlock/driver"
)

// trimming decides by itself which acquires ask for a trim.
func trimming(asks func() bool) Option {
	return option(func(o *lockerOptions) {
		o.jitter = func(bound time.Duration) time.Duration {
			switch {
			case bound != 16:
				return jitter(bound)
			case asks():
				return 0
			}
			return 1
		}
	})
}

var (
	noTrims  = trimming(func() bool { return false })
	allTrims = trimming(func() bool { return true })
)

// further counts further rounds for fences.
func further(count *int) Option {
	return WithHooks(Hooks{AcquireEnd: func(_ context.Context, e AcquireEnd) { *count += e.FenceRounds }})
}

// churn takes keys that were never used, a second apart, in the set of key {t}:k.
func churn(t *testing.T, locker *Locker, keys int) {
	t.Helper()
	for i := range keys {
		time.Sleep(time.Second)
		mustRelease(t, mustAcquire(t, locker, fmt.Sprintf("{t}:%d:%d", time.Now().Unix(), i)))
		synctest.Wait()
	}
}

// least is the greatest number that a node has accepted for key {t}:k, as far as it knows.
func least(f *fakeNode) (number int64) {
	f.Change(func(f *fakeNode) { number = max(f.Fence("{t}:k"), f.Floor("{t}:k")) })
	return number
}

// members is how many counters a node has in the set of key {t}:k, and counted whether that has
// one.
func members(f *fakeNode) (count int, counted bool) {
	f.Change(func(f *fakeNode) { count, counted = len(f.Fences[fenceName("{t}:k")]), f.Fence("{t}:k") != 0 })
	return count, counted
}

// Nobody needs the counter of a lock that is held: who comes next must pass the floor.
func TestPitfall22AnIdleCounterIsForgottenAndOrderStays(t *testing.T) {
	for _, held := range []bool{false, true} {
		bubble(t, fmt.Sprint("its lock is held: ", held), func(t *testing.T) {
			again := 0
			locker, fakes := newLocker(t, 5, WithFences(), allTrims, further(&again))
			first := mustAcquire(t, locker, "{t}:k", WithTTL(time.Hour))
			if !held {
				mustRelease(t, first)
			}
			churn(t, locker, 64)
			for _, f := range fakes {
				if _, counted := members(f); !counted {
					t.Errorf("%s has forgotten one of 65 counters", f.Name())
				}
			}
			churn(t, locker, 200)
			for _, f := range fakes {
				if count, counted := members(f); counted || count > 64+60+64 {
					t.Errorf("%s has %d counters, want 64, those of the last minute, and those of two trims at the most", f.Name(), count)
				}
			}
			if held {
				noError(t, first.Extend(t.Context(), time.Hour), "Extend without the counter")
				mustRelease(t, first)
			}
			if second := mustAcquire(t, locker, "{t}:k"); second.Fence() <= first.Fence() || again > 0 {
				t.Errorf("after the counter was forgotten the fence is %d behind %d, and there were %d second rounds", second.Fence(), first.Fence(), again)
			}
		})
	}
}

// One of 16 is enough, if chance is fair.
func TestTrimsByChanceKeepSetsSmall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		random := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // it has to be repeatable
		locker, fakes := newLocker(t, 1, WithFences(), trimming(func() bool { return random.IntN(16) == 0 }))
		most := 0
		for range 100 {
			churn(t, locker, 10)
			count, _ := members(fakes[0])
			most = max(most, count)
		}
		if most > 400 {
			t.Errorf("of 1000 keys that were used once each a node had %d counters at a time", most)
		}
	})
}

func TestTheSetsOfSeveralKeysAndOfPermitsAndReadersAreTrimmed(t *testing.T) {
	for name, use := range map[string]func(t *testing.T, locker *Locker, i int) error{
		"several keys": func(t *testing.T, locker *Locker, i int) error {
			return passing(locker.AcquireAll(t.Context(), []string{fmt.Sprintf("{t}:%d:a", i), fmt.Sprintf("{t}:%d:b", i)}))
		},
		"permits": func(t *testing.T, locker *Locker, i int) error {
			permits, err := locker.Semaphore(fmt.Sprintf("{t}:%d", i), 3)
			if err != nil {
				return err
			}
			return passing(permits.AcquireN(t.Context(), 2))
		},
		"readers": func(t *testing.T, locker *Locker, i int) error {
			return passing(locker.AcquireShared(t.Context(), fmt.Sprintf("{t}:%d", i)))
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			locker, fakes := newLocker(t, 3, WithFences(), allTrims)
			for i := range 300 {
				time.Sleep(2 * time.Second)
				must(t, use(t, locker, i), name)
				synctest.Wait()
			}
			for _, f := range fakes {
				if count, _ := members(f); count > 300 {
					t.Errorf("%s: %s has %d counters", name, f.Name(), count)
				}
			}
		})
	}
}

// More of them than a trim forgets otherwise.
func TestKeysOfOneNumberAreForgottenTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 3, WithFences(), allTrims)
		var keys []string
		for i := range 128 {
			keys = append(keys, fmt.Sprintf("{t}:%d", i))
		}
		lock := mustAcquireAll(t, locker, keys)
		mustRelease(t, lock)
		churn(t, locker, 200)
		changeAll(fakes, func(f *fakeNode) {
			if f.Fence("{t}:0") != 0 || f.Fence("{t}:127") != 0 {
				t.Errorf("%s has counters of the lock on many keys", f.Name())
			}
		})
	})
}

// A raised fence lies ahead of the clocks. Were it forgotten before they have come to it, each key
// of its set would need a second round.
func TestACounterThatIsAheadIsKeptUntilTheClocksHavePassedIt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		again := 0
		locker, fakes := newLocker(t, 3, WithFences(), allTrims, further(&again))
		ahead := time.Now().Add(20 * time.Minute).UnixMicro()
		changeAll(fakes, func(f *fakeNode) { f.SetFence("{t}:k", "{t}:k", ahead) })
		last := mustAcquire(t, locker, "{t}:k")
		mustRelease(t, last)
		if last.Fence() <= ahead || again != 1 {
			t.Fatalf("behind %d comes %d in %d second rounds", ahead, last.Fence(), again)
		}
		churn(t, locker, 1150)
		for _, f := range fakes {
			if count, counted := members(f); !counted || count > 300 {
				t.Errorf("%s has %d counters; that which is ahead: %v", f.Name(), count, counted)
			}
		}
		churn(t, locker, 400)
		for _, f := range fakes {
			if _, counted := members(f); counted {
				t.Errorf("%s has the counter that the clocks have passed", f.Name())
			}
		}
		if next := mustAcquire(t, locker, "{t}:k"); next.Fence() <= last.Fence() || again != 1 {
			t.Errorf("behind %d comes %d, and there were %d second rounds", last.Fence(), next.Fence(), again)
		}
	})
}

func TestANumberThatIsNotAboveTheFloorIsRaised(t *testing.T) {
	kinds := maps.Clone(kindsOfLocks)
	kinds["an own token"] = func(l *Locker, ctx context.Context, _ ...AcquireOption) (*Lock, error) {
		return l.TryAcquire(ctx, "k", WithToken("mine"))
	}
	for kind, take := range kinds {
		bubble(t, kind, func(t *testing.T) {
			locker, fakes := newLocker(t, 5, WithFences())
			mustRelease(t, mustAcquire(t, locker, "{k}:x"))
			ahead := time.Now().Add(time.Hour).UnixMicro()
			changeAll(fakes[1:4], func(f *fakeNode) { f.SetFence("k", "", ahead) })
			lock, err := take(locker, t.Context(), WithMaxWait(0))
			must(t, err)
			if fence := lock.Fence(); fence < ahead || fence == ahead && !lock.Shared() {
				t.Errorf("where a quorum may have forgotten %d the fence is %d", ahead, fence)
			}
		})
	}
}

// What was forgotten may have been as great as the floor.
func TestANumberThatEqualsTheFloorIsNoVote(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 3, WithFences())
		before(fakes, "ZADD", func(f *fakeNode, args []any) {
			if f.Floor("k") == 0 {
				f.SetFence("k", "", int64(atoi(args[4])))
			}
		})
		lock := mustAcquire(t, locker, "k")
		if floor := fakes[0].Floor("k"); lock.Fence() <= floor {
			t.Errorf("the fence is %d, and the floor %d", lock.Fence(), floor)
		}
	})
}

func TestALateNumberBelowTheFloorChangesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 3, WithFences(), allTrims)
		first := mustAcquire(t, locker, "{t}:k")
		mustRelease(t, first)
		churn(t, locker, 300)
		for _, f := range fakes { // what an attempt has sent long ago
			f.Change(func(f *fakeNode) {
				f.RunOne([]any{"ZADD", fenceName("{t}:k"), "GT", "CH", fmt.Sprint(first.Fence() - 1), "{t}:k"})
			})
			if number := least(f); number <= first.Fence() {
				t.Errorf("%s would take %d again", f.Name(), number+1)
			}
		}
		reader := mustShare(t, locker, "{t}:k")
		if reader.Fence() <= first.Fence() {
			t.Errorf("a reader behind the writer %d has %d", first.Fence(), reader.Fence())
		}
		_ = reader.Release()
		if next := mustAcquire(t, locker, "{t}:k"); next.Fence() <= reader.Fence() {
			t.Errorf("behind the reader %d comes %d", reader.Fence(), next.Fence())
		}
	})
}

// A batch may break behind each of its commands.
func TestABatchThatBreaksIsNoVoteAndLeavesNoLowerNumber(t *testing.T) {
	for _, command := range []string{"SET", "ZADD", "ZSCORE", "GET"} {
		synctest.Test(t, func(t *testing.T) {
			locker, fakes := newLocker(t, 3, WithFences(), noTrims)
			first := mustAcquire(t, locker, "k")
			mustRelease(t, first)
			synctest.Wait()
			changeAll(fakes[:2], func(f *fakeNode) { f.Lose = func(name string) bool { return name == command } })
			if lock, err := locker.TryAcquire(t.Context(), "k"); err == nil {
				t.Errorf("with two of three batches broken behind %s, TryAcquire = %v", command, lock)
			}
			for _, f := range fakes[:2] {
				f.Change(func(f *fakeNode) { f.Lose = nil })
				if number := accepted(f); number < first.Fence() {
					t.Errorf("broken behind %s, the counter is %d after %d", command, number, first.Fence())
				}
			}
			time.Sleep(time.Minute)
			wantFree(t, fakes, "k", command)
			greatest := accepted(fakes[0])
			if next := mustAcquire(t, locker, "k"); next.Fence() <= greatest {
				t.Errorf("broken behind %s, the next fence is %d after %d", command, next.Fence(), greatest)
			}
		})
	}
}

// It refuses the floor, and removes all the same. So it forgets what is below the floor that it has, if any, and not that one.
func TestANodeThatIsOutOfMemoryForgetsNothingAboveItsFloor(t *testing.T) {
	for _, trimmed := range []int{0, 300} { // keys that were used before
		synctest.Test(t, func(t *testing.T) {
			locker, fakes := newLocker(t, 3, WithFences(), allTrims)
			churn(t, locker, trimmed)
			mustRelease(t, mustAcquire(t, locker, "{t}:k"))
			synctest.Wait()
			floors, removed := map[*fakeNode]int64{}, map[*fakeNode]int{}
			for _, f := range fakes {
				removed[f] = f.Count("ZREMRANGEBYSCORE")
				f.Change(func(f *fakeNode) {
					floors[f] = f.Floor("{t}:k")
					f.Answer = func(args []any) *driver.Reply {
						if args[0] == "ZADD" && args[len(args)-1] == "" {
							return &driver.Reply{Kind: driver.Failure, Str: "OOM command not allowed when used memory > 'maxmemory'"}
						}
						return nil
					}
				})
			}
			churn(t, locker, 300)
			for _, f := range fakes {
				if more := f.Count("ZREMRANGEBYSCORE") - removed[f]; more == 0 || (floors[f] > 0) != (trimmed > 0) {
					t.Errorf("%s was asked to remove something %d times, and had the floor %d: the test does not show what it is for", f.Name(), more, floors[f])
				}
				if _, counted := members(f); !counted {
					t.Errorf("%s got no floor, and has forgotten a counter", f.Name())
				}
				f.Change(func(f *fakeNode) {
					if left := f.Floor("{t}:k"); left != floors[f] {
						t.Errorf("%s has the floor %d, want %d as before it was out of memory", f.Name(), left, floors[f])
					}
				})
			}
		})
	}
}

// Clients have clocks and ways of their own to a node that refuses, loses, delays and repeats
// halves of trims. What a node has accepted of a key never falls there, and fences grow.
func TestFencesGrowWhateverBecomesOfTrims(t *testing.T) {
	t.Parallel()
	for seed := range uint64(some(40)) { //nolint:gosec // few
		synctest.Test(t, func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 25)) //nolint:gosec // it has to be repeatable
			const year = 365 * 24 * time.Hour
			fakes, _ := fakeNodes(3)
			fakes[random.IntN(3)].Skew = []time.Duration{0, -year, year}[random.IntN(3)]
			late := make([][]func(), len(fakes)) // what a node runs later, guarded by its mutex
			for n, f := range fakes {
				own := rand.New(rand.NewPCG(seed, uint64(100+n))) //nolint:gosec // likewise
				f.Answer = func(args []any) *driver.Reply {
					if args[0] != "ZREMRANGEBYSCORE" && (args[0] != "ZADD" || args[len(args)-1] != "") {
						return nil
					}
					again := func() { f.RunOne(args) }
					switch own.IntN(5) {
					case 0:
						return &driver.Reply{Kind: driver.Failure, Str: "OOM command not allowed"}
					case 1:
						late[n] = append(late[n], again)
						return &driver.Reply{Kind: driver.Integer}
					case 2:
						late[n] = append(late[n], again)
						again()
					}
					return nil
				}
			}
			lockers := []*Locker{another(t, fakes, WithFences(), allTrims), another(t, fakes, WithFences(), allTrims, WithTTL(time.Minute))}
			last, lows := int64(0), make([]int64, 3)
			for i := range 400 {
				key := "{t}:k"
				if i%7 != 0 {
					key = fmt.Sprintf("{t}:%d", random.IntN(2000))
				}
				locker := lockers[random.IntN(2)]
				lock, err := locker.TryAcquire(t.Context(), key)
				if errors.Is(err, ErrExpired) { // a clock that is a year off, and that was not known before, has moved the median
					lock, err = locker.TryAcquire(t.Context(), key)
				}
				must(t, err, "TryAcquire of a free key")
				if key == "{t}:k" && lock.Fence() <= last {
					t.Fatalf("seed %d: behind %d comes %d", seed, last, lock.Fence())
				} else if key == "{t}:k" {
					last = lock.Fence()
				}
				mustRelease(t, lock)
				time.Sleep(time.Duration(random.IntN(4000)) * time.Millisecond)
				synctest.Wait()
				for n, f := range fakes {
					number := least(f)
					if number < lows[n] {
						t.Fatalf("seed %d: %s would take numbers above %d, after it had %d", seed, f.Name(), number, lows[n])
					}
					lows[n] = number
				}
				n := random.IntN(len(fakes))
				fakes[n].Change(func(*fakeNode) {
					if some := len(late[n]); some > 0 && random.IntN(2) == 0 {
						next := random.IntN(some)
						late[n][next]()
						late[n] = slices.Delete(late[n], next, next+1)
					}
				})
			}
			forgets := func(f *fakeNode) bool { return len(f.Fences[fenceName("{t}:k")]) < 300 }
			if !slices.ContainsFunc(fakes, forgets) { // one may have a clock that is years behind
				t.Errorf("seed %d: nothing is forgotten", seed)
			}
		})
	}
}

// Floors are no greater than the least of the clocks, but for numbers that are there.
func TestClocksThatAreYearsOffMakeNoFloorThatIsAhead(t *testing.T) {
	const years = 20 * 365 * 24 * time.Hour
	for name, skews := range map[string][3]time.Duration{
		"one ahead": {years, 0, 0}, "one behind": {-years, 0, 0}, "two ahead": {years, years, 0}, "all ahead": {years, years, years},
	} {
		synctest.Test(t, func(t *testing.T) {
			fakes, _ := fakeNodes(3)
			for i, f := range fakes {
				f.Skew = skews[i]
			}
			locker := another(t, fakes, WithFences(), allTrims)
			last := mustAcquire(t, locker, "{t}:k")
			mustRelease(t, last)
			churn(t, locker, 300)
			for _, f := range fakes {
				var floor int64
				f.Change(func(f *fakeNode) { floor = f.Floor("{t}:k") })
				if floor > time.Now().UnixMicro() {
					t.Errorf("%s: %s has the floor %d, ahead of our clock", name, f.Name(), floor)
				}
			}
			if next := mustAcquire(t, locker, "{t}:k"); next.Fence() <= last.Fence() {
				t.Errorf("%s: behind %d comes %d", name, last.Fence(), next.Fence())
			}
		})
	}
}

func TestATrimLowersNoFloor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 1, WithFences(), allTrims)
		floor := time.Now().Add(time.Hour).UnixMicro()
		before(fakes[:1], "ZADD", func(f *fakeNode, args []any) {
			if args[len(args)-1] == "" {
				f.SetFence("{t}:k", "", floor)
			}
		})
		churn(t, locker, 300)
		if number := least(fakes[0]); number != floor {
			t.Errorf("the floor is %d, want %d, which was there", number, floor)
		}
	})
}

func TestANodeThatForbidsTrimsWorksAndIsReportedOnce(t *testing.T) {
	for _, command := range []string{"ZRANGE", "ZREMRANGEBYSCORE"} {
		synctest.Test(t, func(t *testing.T) {
			var seen recorder
			locker, fakes := newLocker(t, 3, WithFences(), allTrims, seen.option())
			fakes[1].Change(func(f *fakeNode) {
				f.Answer = failing(command, "NOPERM this user has no permissions to run the '"+strings.ToLower(command)+"' command")
			})
			churn(t, locker, 300)
			limits := seen.of(NodeLimited)
			if len(limits) != 1 || limits[0].Node != "node-2" || !strings.Contains(limits[0].Err.Error(), "+zremrangebyscore") {
				t.Errorf("a node that forbids %s was reported as %v, want once, with what to allow", command, limits)
			}
			if count, _ := members(fakes[1]); count < 300 {
				t.Errorf("a node that forbids %s has %d counters", command, count)
			}
		})
	}
}

// A trim that fails says nothing of the locks.
func TestATrimThatFailsIsNotRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asks := true
		locker, fakes := newLocker(t, 1, WithFences(), trimming(func() bool { return asks }))
		churn(t, locker, 100)
		fakes[0].Change(func(f *fakeNode) { f.Lose = func(name string) bool { return name == "ZREMRANGEBYSCORE" } })
		churn(t, locker, 1)
		before := fakes[0].Count("ZREMRANGEBYSCORE")
		asks = false
		fakes[0].Change(func(f *fakeNode) { f.Lose = nil })
		if _, err := locker.TryAcquire(t.Context(), "k"); err != nil && !errors.Is(err, ErrNoQuorum) {
			t.Errorf("TryAcquire = %v", err)
		}
		time.Sleep(time.Minute)
		if n := fakes[0].Count("ZREMRANGEBYSCORE"); n != before || before == 0 {
			t.Errorf("a trim whose reply was lost was sent %d times in all, want %d", n, before)
		}
	})
}
