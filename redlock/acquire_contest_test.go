package redlock

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/internal/protocol"
	"github.com/quorumlock/quorumlock/test/fakenode"
)

// rounds is how often each scene is played: "-args -rounds 10000" shows the rare ones.
var rounds = flag.Int("rounds", 8, "how often each contest is played")

// A scene is a key that processes try for at the same moment, again and again.
type scene struct {
	processes, nodes int
	delay, jitter    time.Duration // of the way there and back
	late             time.Duration // the processes begin within so much time
	dead             int           // nodes
	hung             int           // nodes that stopped before the rounds
	stops            bool          // the last node stops right before each round, and goes on behind it
	options          []Option
}

func (s scene) String() string {
	silent := fmt.Sprintf("%d dead, %d hung", s.dead, s.hung)
	if s.stops {
		silent += ", one stops"
	}
	return fmt.Sprintf("%d processes, %d nodes (%s), %v+%v, within %v", s.processes, s.nodes, silent, s.delay, s.jitter, s.late)
}

// trip is the mean round trip.
func (s scene) trip() time.Duration { return s.delay + s.jitter/2 }

// A tally says what came of the rounds of a scene.
type tally struct {
	none   int             // rounds without a winner
	lies   int             // rounds without a winner in which somebody was told that it is held
	took   []time.Duration // until there was a winner
	losers []time.Duration // until the last loser knew
}

// play plays so many rounds.
func (s scene) play(t *testing.T, rounds int) (sum tally) {
	t.Helper()
	_, fakes := newLocker(t, s.nodes)
	var lockers []*Locker
	for range s.processes {
		lockers = append(lockers, another(t, fakes, s.options...))
		warm(t, lockers[len(lockers)-1])
	}
	for i, f := range fakes {
		f.Change(func(f *fakeNode) { f.Delay, f.Jitter = s.delay, s.jitter })
		switch {
		case i < s.dead:
			f.Change(refuse)
		case i < s.dead+s.hung:
			f.Stop()
		}
	}
	stopped := fakes[s.nodes-1]
	for range 3 { // the distance of the nodes becomes known
		for _, l := range lockers {
			warm(t, l)
		}
	}
	for round := range rounds {
		if s.stops {
			stopped.Stop()
		}
		began := time.Now()
		var mu sync.Mutex
		var won []*Lock
		held := 0
		var first, last time.Duration
		var group sync.WaitGroup
		for _, l := range lockers {
			wait := rand.N(s.late+1) + 1 //nolint:gosec // it is no secret
			group.Go(func() {
				time.Sleep(wait)
				lock, err := l.TryAcquire(t.Context(), "k")
				mu.Lock()
				defer mu.Unlock()
				last = time.Since(began)
				switch {
				case err == nil:
					first = last
					won = append(won, lock)
				case errors.Is(err, ErrTaken):
					held++
				case !errors.Is(err, ErrContended) && !errors.Is(err, ErrNoQuorum):
					t.Errorf("%v, round %d: TryAcquire = %v", s, round+1, err)
				}
			})
		}
		group.Wait()
		switch len(won) {
		case 0:
			sum.none++
			if held > 0 {
				sum.lies++
			}
		case 1:
			sum.took = append(sum.took, first)
			sum.losers = append(sum.losers, last)
			noError(t, won[0].Release(), s, "round", round+1)
		default:
			t.Fatalf("%v, round %d: %d have the lock", s, round+1, len(won))
		}
		if s.stops {
			stopped.Resume()
			time.Sleep(2 * time.Second) // until it is reached again
			for _, l := range lockers {
				warm(t, l)
			}
		}
		time.Sleep(time.Second) // all clean-ups are done
		synctest.Wait()
		if left := stray(fakes, "k"); left != nil {
			t.Fatalf("%v, round %d: the key is left at %v", s, round+1, left)
		}
	}
	slices.Sort(sum.took)
	slices.Sort(sum.losers)
	return sum
}

func TestOfAllWhoTryAtTheSameMomentOneGetsTheKey(t *testing.T) {
	for _, processes := range []int{5, 2, 3, 16}[:some(4)] {
		for _, nodes := range []int{3, 4, 5} {
			for _, s := range []scene{
				{delay: time.Millisecond},
				{delay: time.Millisecond, jitter: time.Millisecond},
				{delay: time.Millisecond, jitter: time.Millisecond, late: time.Millisecond},
				{delay: 0, jitter: 4 * time.Millisecond, late: 2 * time.Millisecond},
				{delay: time.Millisecond, jitter: time.Millisecond, dead: 1},
				{delay: time.Millisecond, jitter: time.Millisecond, late: time.Millisecond, dead: (nodes - 1) / 2},
			} {
				s.processes, s.nodes = processes, nodes
				synctest.Test(t, func(t *testing.T) {
					sum := s.play(t, *rounds)
					if sum.none > 0 {
						t.Errorf("%v: in %d of %d rounds nobody got the key, and in %d of these somebody was told that it is held", s, sum.none, *rounds, sum.lies)
					}
					t.Logf("%v: %s", s, sum.describe(s.trip()))
				})
			}
		}
	}
}

// Three contenders get the vote of the node that is nearest to each. All of them may let go, whatever the kind of
// their locks: the one that leads has the lock after one more round.
func TestASplitIsSettledByRankInTwoRoundsForEveryKind(t *testing.T) {
	const near, away = time.Millisecond, 8 * time.Millisecond
	permits := func(count, n int) func(*Locker, context.Context) (*Lock, error) {
		return func(l *Locker, ctx context.Context) (*Lock, error) {
			s, err := l.Semaphore("p", count)
			if err != nil {
				return nil, err
			}
			return s.TryAcquireN(ctx, n)
		}
	}
	alone := func(l *Locker, ctx context.Context) (*Lock, error) { return l.TryAcquire(ctx, "k") }
	for _, tt := range []struct {
		name    string
		try     func(*Locker, context.Context) (*Lock, error)
		options []Option
	}{
		{"plain", alone, nil},
		{"fair", alone, []Option{WithFairness()}},
		{"several keys", func(l *Locker, ctx context.Context) (*Lock, error) {
			return l.TryAcquireAll(ctx, []string{"k", "l"})
		}, nil},
		{"a permit", permits(1, 1), nil},
		{"several permits", permits(2, 2), nil},
	} {
		bubble(t, tt.name, func(t *testing.T) {
			fakes, _ := fakeNodes(3)
			var lockers []*Locker
			for i := range fakes {
				nodes := driversOf(fakes)
				for j, f := range fakes {
					trip := away
					if i == j {
						trip = near
					}
					nodes[j].Driver = driverFunc(func(ctx context.Context, cmds []driver.Command) ([]driver.Reply, error) {
						time.Sleep(trip / 2)
						defer time.Sleep(trip / 2)
						return f.Do(ctx, cmds)
					})
				}
				l, err := New(nodes, tt.options...)
				must(t, err)
				t.Cleanup(func() { _ = l.Close() })
				for range 3 { // its nodes get to know the scripts, and it their distance
					noError(t, passing(tt.try(l, t.Context())))
					time.Sleep(time.Second)
				}
				lockers = append(lockers, l)
			}
			began := time.Now()
			var won atomic.Int32
			var group sync.WaitGroup
			for _, l := range lockers {
				group.Go(func() {
					switch _, err := tt.try(l, t.Context()); {
					case err == nil:
						won.Add(1)
						wantWithin(t, 5*away/2, began, "the one that leads, in two rounds and a pause")
					case !errors.Is(err, ErrTaken):
						t.Errorf("one of three contenders: %v, want ErrTaken", err)
					}
				})
			}
			group.Wait()
			if won.Load() != 1 {
				t.Errorf("%d of three have the lock, want one", won.Load())
			}
		})
	}
}

// A call that begins beside a node which has just stopped must not wait for that node.
func TestOfAllWhoTryAtTheSameMomentOneGetsTheKeyBesideASilentNode(t *testing.T) {
	for _, nodes := range []int{5, 3}[:some(2)] {
		for _, processes := range []int{3, 2, 4}[:some(3)] {
			for _, s := range []scene{
				{stops: true},
				{stops: true, jitter: time.Millisecond, late: time.Millisecond},
				{hung: 1, jitter: time.Millisecond},
				{dead: 1, jitter: time.Millisecond},
				{dead: (nodes - 3) / 2, stops: true, jitter: time.Millisecond},
			} {
				s.processes, s.nodes, s.delay = processes, nodes, time.Millisecond
				bubble(t, s.String(), func(t *testing.T) {
					sum := s.play(t, *rounds)
					t.Logf("%v: %s", s, sum.describe(s.trip()))
					if sum.lies > 0 || sum.none*1000 > *rounds {
						t.Errorf("%v: in %d of %d rounds nobody got the key, and in %d of these somebody was told that it is held", s, sum.none, *rounds, sum.lies)
					}
				})
			}
		}
	}
}

// describe says what came of the rounds, in round trips.
func (sum tally) describe(trip time.Duration) string {
	n := len(sum.took)
	if n == 0 {
		return fmt.Sprintf("none %d", sum.none)
	}
	in := func(d time.Duration) float64 { return float64(d) / float64(trip) }
	return fmt.Sprintf("none %d; winner after %.1f round trips, 99%% %.1f, at most %.1f; all know after %.1f, 99%% %.1f, at most %.1f", sum.none,
		in(sum.took[n/2]), in(sum.took[n*99/100]), in(sum.took[n-1]), in(sum.losers[n/2]), in(sum.losers[n*99/100]), in(sum.losers[n-1]))
}

// rivals puts tokens at nodes, as the votes of others who asked at the same moment.
func rivals(fakes []*fakeNode, tokens ...string) {
	for i, token := range tokens {
		if token != "" {
			fakes[i].Plant("k", protocol.TokenMark+token, time.Hour)
		}
	}
}

// Tokens before and behind all that this library makes.
const (
	small = " "
	great = "~"
)

func leave(f *fakeNode) { delete(f.Keys, "k") }

func TestTheLeaseOfASettledTryCountsFromItsFirstRound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 3)
		warm(t, locker)
		rivals(fakes, small+"a", small+"b")
		far(fakes, 20*time.Millisecond)
		time.AfterFunc(15*time.Millisecond, func() { // behind the first round
			changeAll(fakes[:2], leave)
		})
		start := time.Now()
		lock, err := locker.TryAcquire(t.Context(), "k")
		must(t, err, "TryAcquire whose rivals let go")
		if took := time.Since(start); took < 40*time.Millisecond || took > 60*time.Millisecond {
			t.Errorf("the try took %v, want two rounds of 20ms and a short pause", took)
		}
		if want := start.Add(10*time.Second - 102*time.Millisecond); !lock.Until().Equal(want) {
			t.Errorf("Until = start + %v, want start + TTL − 1%% − 2ms", lock.Until().Sub(start))
		}
		synctest.Wait()
		for _, vote := range lock.Votes() {
			if vote.Answer != grantedVote {
				t.Errorf("of a lock that all nodes have granted, Votes has %v", vote)
			}
		}
		mustRelease(t, lock)
		time.Sleep(time.Second)
		wantFree(t, fakes, "k")
	})
}

func TestASecondRoundDoesNotCountTheVotesOfTheFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 3)
		warm(t, locker)
		rivals(fakes, small+"a", small+"b")
		far(fakes, 20*time.Millisecond)
		time.AfterFunc(15*time.Millisecond, func() {
			fakes[0].Change(leave)
			fakes[2].Plant("k", protocol.TokenMark+small+"b", time.Hour) // our vote of the first round is gone
		})
		returns(t, ErrTaken, "one vote in the first round and another one in the second: TryAcquire")(locker.TryAcquire(t.Context(), "k"))
	})
}

func TestASplitThatNobodyWinsIsNotHeld(t *testing.T) {
	for name, tokens := range map[string][]string{
		"who lead and do nothing":       {great + "a", great + "b", ""},
		"who are behind and do nothing": {small + "a", small + "b", ""},
		"half of the nodes":             {small, small, "", ""},
	} {
		synctest.Test(t, func(t *testing.T) {
			locker, fakes := newLocker(t, len(tokens))
			warm(t, locker)
			rivals(fakes, tokens...)
			far(fakes, time.Millisecond)
			began := time.Now()
			lock, err := locker.TryAcquire(t.Context(), "k")
			if !errors.Is(err, ErrContended) || errors.Is(err, ErrTaken) || lock != nil {
				t.Errorf("rivals %s: TryAcquire = %v, want ErrContended and not ErrTaken", name, err)
			}
			wantWithin(t, defaultNodeTimeout+20*time.Millisecond, began, "rivals", name, "TryAcquire took")
			time.Sleep(time.Second)
			if left := stray(fakes, "k"); len(left) != len(slices.DeleteFunc(tokens, func(s string) bool { return s == "" })) {
				t.Errorf("rivals %s: the try has left the key at %v", name, left)
			}
		})
	}
}

func TestAnAcquireThatMayWaitForAMomentSettlesASplitForAsLongAsOneThatMayNot(t *testing.T) {
	for _, wait := range []time.Duration{0, time.Millisecond, 20 * time.Millisecond, 100 * time.Millisecond} {
		synctest.Test(t, func(t *testing.T) {
			locker, fakes := newLocker(t, 3)
			warm(t, locker)
			rivals(fakes, small+"a", small+"b")
			time.AfterFunc(defaultNodeTimeout/2, func() {
				changeAll(fakes[:2], leave)
			})
			if _, err := locker.Acquire(t.Context(), "k", WithMaxWait(wait)); err != nil {
				t.Errorf("rivals let go after half a node time-out, and it may wait for %v: %v", wait, err)
			}
		})
	}
}

func TestAHolderWhoseVoteASilentNodeHidesHolds(t *testing.T) {
	const soon = 20 * time.Millisecond
	for name, tt := range map[string]struct {
		silence func(f *fakeNode)
		most    time.Duration
	}{
		"refuses":         {refuse, defaultNodeTimeout + soon},
		"does not answer": {(*fakeNode).Hang, 2*defaultNodeTimeout + soon}, // it may be slow
	} {
		synctest.Test(t, func(t *testing.T) {
			locker, fakes := newLocker(t, 5)
			warm(t, locker)
			rivals(fakes, great, great)
			fakes[2].Change(tt.silence) // the third of its votes
			far(fakes, time.Millisecond)
			noError(t, passing(locker.TryAcquire(t.Context(), "other"))) // by now it is known to be silent
			time.Sleep(defaultNodeTimeout)
			began := time.Now()
			_, err := locker.TryAcquire(t.Context(), "k")
			if took := time.Since(began); !errors.Is(err, ErrTaken) || took < defaultNodeTimeout || took > tt.most {
				t.Errorf("with a node that %s, TryAcquire = %v after %v, want ErrTaken after a node time-out, for which no contender keeps its votes", name, err, took)
			}
			fakes[2].Resume()
		})
	}
}

// One contender's token has a quorum, and the other is told so. The first does not hear of it, and
// what the other has left at a node that it does not reach is in its way.
func TestWhoMayHaveMisledOthersTakesNobodysTokenForAHolders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 5)
		warm(t, locker)
		far(fakes, time.Millisecond)
		time.Sleep(time.Second)
		rivals(fakes, small) // which is left
		fakes[1].Stop()      // they grant it, and nobody hears of that
		fakes[2].Stop()
		_, err := locker.TryAcquire(t.Context(), "k")
		if !errors.Is(err, ErrContended) || errors.Is(err, ErrTaken) {
			t.Errorf("TryAcquire whose token has two nodes, and may have two that are silent = %v, want ErrContended and not ErrTaken", err)
		}
		if _, err := locker.TryAcquire(t.Context(), "k"); !errors.Is(err, ErrTaken) {
			t.Errorf("the nodes are known to be silent, and were asked for nothing: TryAcquire = %v, want ErrTaken", err)
		}
		fakes[1].Resume()
		fakes[2].Resume()
	})
}

// A try waits for a silent node for as long as the token has been in the way, and says nothing of
// that time.
func TestATokenThatWasThereForLessThanANodeTimeoutIsNoHolders(t *testing.T) {
	step := 16 * time.Millisecond / time.Duration(some(8))
	for stays := step; stays < defaultNodeTimeout; stays += step {
		for _, token := range []string{small, great} {
			synctest.Test(t, func(t *testing.T) {
				locker, fakes := newLocker(t, 3)
				far(fakes, time.Millisecond)
				warm(t, locker)
				rivals(fakes, token)
				fakes[2].Stop()
				defer fakes[2].Resume()
				time.AfterFunc(stays, func() { fakes[0].Change(leave) })
				noError(t, passing(locker.TryAcquire(t.Context(), "k")))
			})
		}
	}
}

func TestASplitBesideASilentNodeIsSettledWithoutIt(t *testing.T) {
	for _, options := range [][]Option{nil, {WithFences()}} {
		for _, nodes := range []int{3, 5} {
			synctest.Test(t, func(t *testing.T) {
				locker, fakes := newLocker(t, nodes, options...)
				far(fakes, time.Millisecond)
				warm(t, locker)
				rivals(fakes, []string{small, "", small}[:nodes/2]...)
				fakes[nodes-1].Stop()
				time.AfterFunc(3*time.Millisecond, func() {
					changeAll(fakes[:nodes/2], leave)
				})
				began := time.Now()
				lock, err := locker.TryAcquire(t.Context(), "k")
				if took := time.Since(began); err != nil || took > 10*time.Millisecond {
					t.Fatalf("%d nodes, one of which is silent: TryAcquire whose rivals let go = %v after %v, want it after a few round trips of 1ms", nodes, err, took)
				}
				if want := began.Add(10*time.Second - 102*time.Millisecond); !lock.Until().Equal(want) {
					t.Errorf("Until = start + %v, want start + TTL − 1%% − 2ms", lock.Until().Sub(began))
				}
				accepted := 0
				changeAll(fakes, func(f *fakeNode) {
					if f.Fence("k") == lock.Fence() {
						accepted++
					}
				})
				if accepted <= nodes/2 {
					t.Errorf("a settled lock has a fence that %d of %d nodes have accepted, want a quorum", accepted, nodes)
				}
				fakes[nodes-1].Resume()
				mustRelease(t, lock)
				time.Sleep(time.Second)
				wantFree(t, fakes, "k", nodes)
			})
		}
	}
}

func TestTokensThatNobodyReleasesKeepNobodyFromNodesThatAreFarAway(t *testing.T) {
	for _, trip := range []time.Duration{20 * time.Millisecond, 200 * time.Millisecond} {
		for _, token := range []string{small, great} {
			synctest.Test(t, func(t *testing.T) {
				locker, fakes := newLocker(t, 3)
				far(fakes, time.Millisecond)
				fakes[2].Change(func(f *fakeNode) { f.Delay = trip })
				warm(t, locker)
				time.Sleep(time.Second)
				rivals(fakes, token)
				began := time.Now()
				lock, err := locker.Acquire(t.Context(), "k", WithMaxWait(time.Minute))
				if took := time.Since(began); err != nil || took > 11*trip { // what the tries before have sent there goes first, and two scripts that it does not know yet
					t.Errorf("with a token left at one node and another node %v away, Acquire = %v after %v, want the lock within eleven of its round trips", trip, err, took)
				} else {
					mustRelease(t, lock)
				}
			})
		}
	}
}

// The distance that is known is that of before.
func TestTokensThatNobodyReleasesKeepNobodyFromANodeThatHasBecomeSlow(t *testing.T) {
	for i := range 20 { // pauses are random
		token := []string{small, great}[i%2]
		synctest.Test(t, func(t *testing.T) {
			locker, fakes := newLocker(t, 3)
			far(fakes, time.Millisecond)
			warm(t, locker)
			rivals(fakes, token)
			fakes[2].Change(func(f *fakeNode) { f.Delay = 20 * time.Millisecond })
			lock, err := locker.TryAcquire(t.Context(), "k")
			if err != nil {
				t.Errorf("with a token left at one node and another node that has become slow, TryAcquire = %v", err)
			} else {
				mustRelease(t, lock)
			}
		})
	}
}

// Its votes are the retry's, so it lets go of none; they expire. It tries again with the same token.
func TestASplitTryWithATokenOfOnesOwnIsRepeated(t *testing.T) {
	for _, options := range [][]Option{nil, {WithFences()}} {
		for name, tt := range map[string]struct {
			change func(f *fakeNode)
			want   error
		}{
			"let go":     {leave, nil},
			"do nothing": {func(*fakeNode) {}, ErrContended},
			"have the lock after all": {func(f *fakeNode) {
				f.Put("k", protocol.TokenMark+"holder", time.Hour)
			}, ErrTaken},
		} {
			synctest.Test(t, func(t *testing.T) {
				locker, fakes := newLocker(t, 3, options...)
				warm(t, locker)
				rivals(fakes, small+"a", small+"b")
				far(fakes, 10*time.Millisecond)
				time.AfterFunc(15*time.Millisecond, func() {
					changeAll(fakes[:2], tt.change)
				})
				lock, err := locker.TryAcquire(t.Context(), "k", WithToken("request 42"))
				if !errors.Is(err, tt.want) || tt.want != ErrTaken && errors.Is(err, ErrTaken) {
					t.Errorf("rivals who %s: TryAcquire with a token of one's own = %v, want %v", name, err, tt.want)
				}
				if lock != nil {
					mustRelease(t, lock)
				}
				time.Sleep(time.Second)
				if token, _ := fakes[2].Token("k"); token == "request 42" {
					t.Errorf("rivals who %s: the node that nobody else asks has the token for longer than a reservation", name)
				}
			})
		}
	}
}

func TestASplitTryThatIsGivenUpLeavesNothing(t *testing.T) {
	for name, end := range map[string]func(cancel context.CancelFunc, l *Locker){
		"its context ends":     func(cancel context.CancelFunc, _ *Locker) { cancel() },
		"the Locker is closed": func(_ context.CancelFunc, l *Locker) { _ = l.Close() },
	} {
		for after := range 60 {
			synctest.Test(t, func(t *testing.T) {
				locker, fakes := newLocker(t, 3)
				warm(t, locker)
				rivals(fakes, small+"a", small+"b")
				far(fakes, 4*time.Millisecond)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				ended := make(chan time.Time, 1)
				time.AfterFunc(time.Duration(after)*time.Millisecond+time.Microsecond, func() {
					ended <- time.Now()
					end(cancel, locker)
				})
				_, err := locker.TryAcquire(ctx, "k")
				at := <-ended
				wantWithin(t, 0, at, name, after, "ms after the start: TryAcquire returned")
				if !errors.Is(err, context.Canceled) && !errors.Is(err, ErrClosed) {
					t.Errorf("%s %dms after the start: TryAcquire = %v", name, after, err)
				}
				time.Sleep(time.Second)
				if left := stray(fakes, "k"); len(left) != 2 {
					t.Errorf("%s %dms after the start: the key is at %v, want the rivals' nodes", name, after, left)
				}
			})
		}
	}
}

// contenders returns Lockers that know the nodes' clocks, and the nodes, a round trip or two away.
func contenders(t *testing.T, callers, nodes int, trip time.Duration, options ...Option) (lockers []*Locker, fakes []*fakeNode) {
	t.Helper()
	_, fakes = newLocker(t, nodes)
	for range callers {
		lockers = append(lockers, another(t, fakes, options...))
		warm(t, lockers[len(lockers)-1])
	}
	far(fakes, trip)
	changeAll(fakes, func(f *fakeNode) { f.Jitter = trip })
	return lockers, fakes
}

// Those that wait are told of each release at one moment, and do not split its votes for as long as a lease.
func TestTokensOfOnesOwnThatWaitAreServedOneAfterTheOther(t *testing.T) {
	const ttl, callers = 10 * time.Second, 3
	for round := range some(5 * *rounds) {
		synctest.Test(t, func(t *testing.T) {
			lockers, fakes := contenders(t, callers, 5, time.Millisecond, WithTTL(ttl), WithNodeTimeout(250*time.Millisecond))
			fakes[round%5].Stop()
			defer fakes[round%5].Resume()
			var all sync.WaitGroup
			for i, l := range lockers {
				all.Go(func() {
					lock, err := l.Acquire(t.Context(), "k", WithToken(fmt.Sprint("request ", i)), WithMaxWait(2*ttl))
					if err != nil {
						t.Errorf("Acquire by one of %d with a token of their own = %v", callers, err)
					} else if err := lock.Release(); err != nil {
						t.Error(err)
					}
				})
			}
			all.Wait()
		})
	}
}

// A token of one's own is tried with again and again: what is asked for a try, and what it reserves
// for a moment, is of no use to the next one.
func TestAFarNodeIsAskedNothingForTriesThatAreOverWithATokenOfOnesOwn(t *testing.T) {
	for range *rounds {
		synctest.Test(t, func(t *testing.T) {
			const ttl, distance = 2 * time.Second, 200 * time.Millisecond
			locker, fakes := newLocker(t, 3, WithTTL(ttl))
			warm(t, locker)
			fakes[0].Plant("k", "one", time.Second)
			fakes[1].Plant("k", "another", time.Second)
			var asked []string
			for i, f := range fakes {
				f.Change(func(f *fakeNode) {
					if f.Delay = time.Millisecond; i == 2 {
						f.Delay = distance
						f.Answer = func(args []any) *driver.Reply {
							asked = append(asked, fmt.Sprint(args))
							return nil
						}
					}
				})
			}
			began := time.Now()
			lock, err := locker.TryAcquire(t.Context(), "k", WithToken("own"))
			for err != nil && time.Since(began) < 2*ttl {
				time.Sleep(10 * time.Millisecond)
				lock, err = locker.TryAcquire(t.Context(), "k", WithToken("own"))
			}
			if err != nil {
				t.Fatalf("TryAcquire for %v = %v", time.Since(began), err)
			}
			time.Sleep(2 * distance) // a command of the tries may have been on its way
			count := func() (asks []string) {
				fakes[2].Change(func(*fakeNode) { asks = slices.Clone(asked) })
				return asks
			}
			before := len(count())
			time.Sleep(ttl / 2)
			if late := count()[before:]; len(late) > 0 {
				t.Errorf("a far node got %d commands when the lock was had for %v, want none: %s", len(late), 2*distance, late[0])
			}
			mustRelease(t, lock)
		})
	}
}

// A try is over as soon as a quorum is out of reach. What it need not ask any more is not silent.
func TestANodeThatWasNotAskedAnyMoreIsNotSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 5)
		warm(t, locker)
		for i, f := range fakes {
			if f.Plant("k", "ql:somebody", time.Minute); i < 2 {
				f.Change(refuse)
			}
		}
		far(fakes, time.Millisecond)
		fakes[4].Change(func(f *fakeNode) { f.Delay = 200 * time.Millisecond })
		for range 8 {
			if _, err := locker.TryAcquire(t.Context(), "k"); !errors.Is(err, ErrTaken) && !errors.Is(err, ErrContended) {
				t.Errorf("TryAcquire of a key that three of five nodes name a holder of = %v, want ErrTaken or ErrContended", err)
			}
		}
	})
}

// Nobody may delete a token of a user's own, so a split of such votes ends when reservations expire. Each
// caller tries again and again, as a user of such a token does.
func TestASplitOfTokensOfOnesOwnIsSettledLongBeforeALeaseEnds(t *testing.T) {
	const ttl, trip = 2 * time.Second, time.Millisecond
	own := func(i int) AcquireOption { return WithToken(fmt.Sprint("request ", i)) }
	try := func(ctx context.Context, l *Locker, i int) error {
		_, err := l.TryAcquire(ctx, "k", own(i))
		return err
	}
	for name, tt := range map[string]struct {
		nodes, callers int
		options        []Option
		try            func(ctx context.Context, l *Locker, i int) error
	}{
		"two of a free key":     {nodes: 3, callers: 2, try: try},
		"three of a free key":   {nodes: 3, callers: 3, try: try},
		"four, over five nodes": {nodes: 5, callers: 4, try: try},
		"three, with fences":    {nodes: 3, callers: 3, options: []Option{WithFences()}, try: try},
		"three of several keys": {nodes: 3, callers: 3, try: func(ctx context.Context, l *Locker, i int) error {
			_, err := l.TryAcquireAll(ctx, []string{"k", "another"}, own(i))
			return err
		}},
		"two readers and a writer": {nodes: 3, callers: 3, try: func(ctx context.Context, l *Locker, i int) error {
			if i > 0 {
				_, err := l.TryAcquireShared(ctx, "k", own(i))
				return err
			}
			_, err := l.TryAcquire(ctx, "k", own(i))
			return err
		}},
		"three that wait": {nodes: 3, callers: 3, try: func(ctx context.Context, l *Locker, i int) error {
			_, err := l.Acquire(ctx, "k", own(i))
			return err
		}},
		"two with a token of their own, and one without": {nodes: 3, callers: 3, try: func(ctx context.Context, l *Locker, i int) error {
			if i > 1 {
				_, err := l.TryAcquire(ctx, "k")
				return err
			}
			_, err := l.TryAcquire(ctx, "k", own(i))
			return err
		}},
	} {
		for range some(*rounds) {
			bubble(t, name, func(t *testing.T) {
				lockers, fakes := contenders(t, tt.callers, tt.nodes, trip, append(tt.options, WithTTL(ttl))...)
				fakes[tt.nodes-1].Change(refuse)
				ctx, end := context.WithTimeout(t.Context(), 3*ttl)
				defer end()
				began := time.Now()
				var group sync.WaitGroup
				var mu sync.Mutex
				var won, held time.Duration // when somebody had it, and was first said to
				for i, l := range lockers {
					group.Go(func() {
						for ctx.Err() == nil {
							err := tt.try(ctx, l, i)
							mu.Lock()
							if at := time.Since(began); err == nil && won == 0 {
								won = at
								end()
							} else if errors.Is(err, ErrTaken) && ctx.Err() == nil && held == 0 {
								held = at
							}
							mu.Unlock()
							fakenode.Sleep(ctx, time.Duration(rand.N(100))*time.Millisecond+1) //nolint:gosec // it is no secret
						}
					})
				}
				group.Wait()
				switch {
				case won == 0 || won > ttl/2:
					t.Errorf("somebody got the key after %v, want that within half a TTL of %v; 0: nobody", won, ttl)
				case held != 0 && held < won-10*trip:
					t.Errorf("somebody was told that the key is held %v before that was so", won-held)
				}
			})
		}
	}
}
