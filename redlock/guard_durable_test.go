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

	"github.com/quorumlock/quorumlock/internal/node"
	"github.com/quorumlock/quorumlock/test/fakenode"
)

// slowly makes the nodes take so long until what was written is safe.
func slowly(nodes []*proofNode, d time.Duration) {
	setAll(nodes, func(f *proofNode) { f.Sync = d })
}

func TestOneProofServesABatchOfMany(t *testing.T) {
	for _, option := range []Option{WithDurability(Durability{Replicas: 2}), WithDurability(Durability{Disk: true, Replicas: 1})} {
		synctest.Test(t, func(t *testing.T) {
			fakes := proofNodes(3)
			locker := another(t, fakes, option)
			warm(t, locker)
			slowly(fakes, 500*time.Millisecond)
			for _, f := range fakes {
				f.Proofs()
			}
			began := time.Now()
			const callers = 1000
			var group sync.WaitGroup
			for i := range callers {
				group.Go(func() {
					returns(t, nil)(locker.TryAcquire(t.Context(), fmt.Sprint("k", i)))
				})
			}
			group.Wait()
			wantWithin(t, time.Second, began, callers, "callers at the same time took")
			synctest.Wait()
			for _, f := range fakes {
				seen := f.Proofs()
				writes := 0
				for _, p := range seen {
					writes += p.Behind
				}
				if len(seen) > 10 || writes != callers {
					t.Errorf("%s got %d proofs behind %d commands, want a few behind %d", f.Name(), len(seen), writes, callers)
				}
				if f.Most > node.MaxDurable {
					t.Errorf("%d batches with proofs were out at %s at once", f.Most, f.Name())
				}
			}
		})
	}
}

func TestTheProofSaysWhatIsAskedFor(t *testing.T) {
	for name, tt := range map[string]struct {
		options []Option
		want    []any
	}{
		"replicated":          {[]Option{WithDurability(Durability{Replicas: 2})}, []any{"WAIT", "2", "2000"}},
		"durable":             {[]Option{WithDurability(Durability{Disk: true})}, []any{"WAITAOF", "1", "0", "2000"}},
		"durable at replicas": {[]Option{WithDurability(Durability{Disk: true, Replicas: 1, Timeout: 999500 * time.Microsecond})}, []any{"WAITAOF", "1", "1", "1000"}},
		"a short TTL":         {[]Option{WithDurability(Durability{Disk: true}), WithTTL(time.Second)}, []any{"WAITAOF", "1", "0", "375"}},
	} {
		synctest.Test(t, func(t *testing.T) {
			fakes := proofNodes(1)
			locker := another(t, fakes, tt.options...)
			lock, err := locker.TryAcquire(t.Context(), "k")
			must(t, err, name)
			noError(t, lock.Extend(t.Context(), 20*time.Second), name)
			if _, err := lock.Confirm(t.Context()); err != nil {
				t.Errorf("%s: Held = %v", name, err)
			}
			noError(t, lock.Release(), name)
			seen := fakes[0].Proofs() // the extension was sent twice: the script was not there
			if len(seen) != 3 {
				t.Errorf("%s: %d proofs, want one each for the acquire and the two sendings of the extension", name, len(seen))
			}
			for _, p := range seen {
				if !slices.Equal(p.Args, tt.want) {
					t.Errorf("%s: the proof is %v, want %v", name, p.Args, tt.want)
				}
			}
		})
	}
}

func TestAVoteThatIsNotSafeIsNoVote(t *testing.T) {
	for name, tt := range map[string]struct {
		option Option
		how    func(f *proofNode)
		says   []string
	}{
		"too few replicas": {
			WithDurability(Durability{Replicas: 2}), func(f *proofNode) { f.Replicas = 1 },
			[]string{"1 of 2 replicas had it within 2s", "connected"},
		},
		"not on the node's disk": {
			WithDurability(Durability{Disk: true}), func(f *proofNode) { f.Local = 0 },
			[]string{"not synced to the node's disk within 2s", "appendfsync always"},
		},
		"too slow a disk": {
			WithDurability(Durability{Disk: true}), func(f *proofNode) { f.Sync = 3 * time.Second },
			[]string{"not synced to the node's disk within 2s"},
		},
		"not on the replicas' disks": {
			WithDurability(Durability{Disk: true, Replicas: 1}), func(f *proofNode) { f.Replicas = 0 },
			[]string{"0 of 1 replicas", "on disk"},
		},
		"refused": {
			WithDurability(Durability{Disk: true}), func(f *proofNode) {
				f.Says = "UNBLOCKED force unblock from blocking operation, instance state changed (master -> replica?)"
			},
			[]string{"UNBLOCKED"},
		},
		"the append-only file was turned off": {
			WithDurability(Durability{Disk: true}), func(f *proofNode) {
				f.Says = "ERR WAITAOF cannot be used when numlocal is set but appendonly is disabled."
			},
			[]string{"unfit node", "set appendonly yes"},
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			var events recorder
			fakes := proofNodes(5)
			locker := another(t, fakes, tt.option, events.option())
			warm(t, locker)
			setAll(fakes[:2], tt.how)
			lock, err := locker.TryAcquire(t.Context(), "k")
			must(t, err, name, "TryAcquire with a quorum of safe votes")
			time.Sleep(3 * time.Second)
			if vote := lock.Votes()[0]; vote.Answer != failedVote {
				t.Errorf("%s: the vote that is not safe is %v", name, vote)
			}
			noError(t, lock.Release(), name)
			synctest.Wait()
			wantFree(t, plainNodes(fakes), "k", name)

			fakes[2].ChangeProofs(tt.how)
			_, err = locker.TryAcquire(t.Context(), "k")
			if !errors.Is(err, ErrNoQuorum) || errors.Is(err, ErrTaken) {
				t.Errorf("%s: TryAcquire with two safe votes of five = %v, want ErrNoQuorum", name, err)
			}
			for _, want := range append(tt.says, "node-1", "node-3") {
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("%s: the error does not say %q: %v", name, want, err)
				}
			}
			time.Sleep(3 * time.Second)
			wantFree(t, plainNodes(fakes), "k", name)
			if kinds := events.kinds(); slices.Contains(kinds, NodeDown) {
				t.Errorf("%s: the node was taken for dead: %v", name, kinds)
			}
		})
	}
}

func TestAReleaseDoesNotWaitBehindAProof(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fakes := proofNodes(3)
		locker := another(t, fakes, WithDurability(Durability{Disk: true}))
		warm(t, locker)
		lock := mustTry(t, locker, "a")
		far(fakes, time.Millisecond)
		slowly(fakes, time.Second)
		var group sync.WaitGroup
		for i := range 10 { // more than may be out
			time.Sleep(time.Millisecond)
			group.Go(func() {
				returns(t, nil)(locker.TryAcquire(t.Context(), fmt.Sprint("b", i)))
			})
		}
		began := time.Now()
		wantHeld(t, lock, true)
		noError(t, lock.Release())
		wantWithin(t, 2*time.Millisecond, began, "Held and Release behind votes that take 1s took")
		slowly(fakes, 1990*time.Millisecond) // for those who have waited for a second
		group.Wait()
		synctest.Wait()
		for _, f := range fakes {
			if f.Most != 2 {
				t.Errorf("%d batches with proofs were out at %s at once, want 2", f.Most, f.Name())
			}
		}
		for _, n := range locker.board.Nodes {
			if trip := n.Trip(); trip > time.Millisecond {
				t.Errorf("%s is thought to be %v away, and is 1ms", n.Name(), trip)
			}
		}
		if d := locker.board.Trip(); d > time.Millisecond {
			t.Errorf("the nodes are thought to be %v away, and are 1ms", d)
		}
	})
}

// At a minority the votes still wait when the lock is released: the releases stand
// behind them, and neither they nor the nodes are taken for dead.
func TestAReleaseInItsLaneOutwaitsTheVote(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var events recorder
		fakes := proofNodes(3)
		locker := another(t, fakes, WithDurability(Durability{Disk: true}), events.option())
		warm(t, locker)
		fakes[0].ChangeProofs(func(f *proofNode) { f.Sync = 1900 * time.Millisecond })
		calls := fakes[0].Count("EVALSHA")
		lock := mustTry(t, locker, "k")
		synctest.Wait() // or the vote would not be asked for any more
		noError(t, lock.Release())
		time.Sleep(1899 * time.Millisecond)
		if token, _ := fakes[0].Token("k"); token != lock.Token() {
			t.Errorf("the slow node has %q: the release has overtaken its acquire", token)
		}
		time.Sleep(time.Millisecond)
		synctest.Wait()
		wantFree(t, plainNodes(fakes), "k")
		if n := fakes[0].Count("EVALSHA") - calls; n != 1 {
			t.Errorf("the slow node got %d releases", n)
		}
		if kinds := events.kinds(); slices.Contains(kinds, NodeDown) {
			t.Errorf("the slow node was taken for dead: %v", kinds)
		}
	})
}

func TestAnExtensionThatIsNotSafeDoesNotProlong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fakes := proofNodes(3)
		locker := another(t, fakes, WithDurability(Durability{Disk: true}), WithTTL(5*time.Second))
		warm(t, locker)
		lock := mustAcquire(t, locker, "k")
		until := lock.Until()
		setAll(fakes[:2], func(f *proofNode) { f.Local = 0 })
		if err := lock.Extend(t.Context(), 20*time.Second); !errors.Is(err, ErrNoQuorum) || errors.Is(err, ErrLost) {
			t.Errorf("Extend with one safe vote of three = %v, want ErrNoQuorum", err)
		}
		if !lock.Until().Equal(until) || !lock.Valid() {
			t.Errorf("the extension that failed moved the deadline by %v", lock.Until().Sub(until))
		}
		// This one is safe one second after the deadline.
		setAll(fakes, func(f *proofNode) { f.Local, f.Sync = 1, 1500*time.Millisecond })
		time.Sleep(time.Until(until) - 500*time.Millisecond)
		returns(t, ErrLost, "Extend that is safe after the deadline")(lock.Extend(t.Context(), 20*time.Second))
		time.Sleep(5 * time.Second)
		wantFree(t, plainNodes(fakes), "k")
	})
}

func TestRenewalWaitsForItsProofs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fakes := proofNodes(5)
		slowly(fakes, time.Second)
		locker := another(t, fakes, WithDurability(Durability{Disk: true}), WithRenewal())
		lock := mustTry(t, locker, "k")
		time.Sleep(time.Minute)
		if !lock.Valid() {
			t.Errorf("a lock that is renewed on disks of 1s is over after a minute: %v", context.Cause(lock.Context()))
		}
		slowly(fakes, time.Hour)
		<-lock.Context().Done()
		if cause := context.Cause(lock.Context()); !errors.Is(cause, ErrLost) || !strings.Contains(cause.Error(), "not synced to the node's disk") {
			t.Errorf("the lock ended with %v, want ErrLost and what was not safe", cause)
		}
	})
}

// A node answers for what the connection has written, so a retry with the user's own
// token, which finds the key there, must write.
func TestOnesOwnTokenIsWrittenBeforeItCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fakes := proofNodes(3)
		first := another(t, fakes, WithDurability(Durability{Disk: true}))
		mustAcquire(t, first, "k", WithToken("mine"), WithTTL(time.Minute))
		second := another(t, fakes, WithDurability(Durability{Disk: true}))
		for _, f := range fakes {
			f.Proofs()
			f.ChangeProofs(func(f *proofNode) { f.Local = 0 })
		}
		returns(t, ErrNoQuorum, "TryAcquire of what is there and not safe")(second.TryAcquire(t.Context(), "k", WithToken("mine")))
		for _, f := range fakes {
			f.ChangeProofs(func(f *proofNode) { f.Local = 1 })
			if !slices.ContainsFunc(f.Proofs(), func(p fakenode.Proof) bool { return p.Wrote }) {
				t.Errorf("%s was asked for a proof of nothing", f.Name())
			}
			if _, left := f.Token("k"); left < 50*time.Second {
				t.Errorf("the retry has cut the lease at %s to %v", f.Name(), left)
			}
		}
		returns(t, nil, "TryAcquire once it is safe")(second.TryAcquire(t.Context(), "k", WithToken("mine")))
	})
}

// Without scripts a key of one's own is prolonged by PEXPIRE GT, which writes nothing where
// the node has it for longer already; and WAIT says yes at once behind nothing.
func TestAHoldWithoutScriptsThatHasWrittenNothingIsNoVote(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fakes := proofNodes(3)
		changeAll(fakes, func(f *fakeNode) { f.Kind, f.Scriptless = fakenode.Valkey9, true })
		first := another(t, fakes, WithDurability(Durability{Disk: true}))
		held := mustAcquire(t, first, "k", WithToken("mine"), WithTTL(time.Minute))
		for _, f := range fakes {
			f.Proofs()
			f.ChangeProofs(func(f *proofNode) { f.Local = 0 })
		}
		second := another(t, fakes, WithDurability(Durability{Disk: true}))
		says(t, ErrNoQuorum, "longer TTL")(second.TryAcquire(t.Context(), "k", WithToken("mine")))
		returns(t, ErrNoQuorum, "Extend to less than what is left")(held.Extend(t.Context(), 20*time.Second))
		for _, f := range fakes {
			for _, p := range f.Proofs() {
				if p.Wrote {
					t.Errorf("%s has written: the test does not show what it is for", f.Name())
				}
			}
			f.ChangeProofs(func(f *proofNode) { f.Local = 1 })
			if _, left := f.Token("k"); left < 50*time.Second {
				t.Errorf("%s has the key for %v, want the minute of the first lock", f.Name(), left)
			}
		}
		time.Sleep(time.Second)
		noError(t, held.Extend(t.Context(), time.Minute), "Extend to more")
		returns(t, nil, "TryAcquire for more")(second.TryAcquire(t.Context(), "k", WithToken("mine"), WithTTL(2*time.Minute)))
	})
}

func TestABatchThatIsSentOnceMoreIsProvedOnceMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fakes := proofNodes(3)
		locker := another(t, fakes, WithDurability(Durability{Disk: true}))
		warm(t, locker)
		for _, f := range fakes {
			f.Proofs()
			f.Change(func(f *fakeNode) { f.Cuts = 1 }) // an idle connection turns out dead
		}
		lock := mustAcquire(t, locker, "k")
		for _, f := range fakes {
			if seen := f.Proofs(); len(seen) != 1 || !seen[0].Wrote {
				t.Errorf("%s got %v, want one proof behind a write", f.Name(), seen)
			}
		}

		// The connections break while the nodes sync: a hold is written again.
		setAll(fakes, func(f *proofNode) { f.Breaks, f.Sync = 1, time.Second })
		noError(t, lock.Extend(t.Context(), time.Minute))
		synctest.Wait()
		for _, f := range fakes {
			seen := f.Proofs()
			if len(seen) != 2 || !seen[1].Wrote || seen[1].Timeout != 1500*time.Millisecond {
				t.Errorf("%s got %v, want a second proof behind a write, with the 1.5s that are left", f.Name(), seen)
			}
		}

		// A SET is not: it finds what the first one has set, and answers for nothing.
		setAll(fakes, func(f *proofNode) { f.Breaks = 1 })
		says(t, ErrNoQuorum, "the connection broke behind the vote")(locker.TryAcquire(t.Context(), "other"))
		empty := 0
		for _, f := range fakes {
			if seen := f.Proofs(); len(seen) == 2 && !seen[1].Wrote {
				empty++
			}
		}
		if empty < 2 { // the third is not sent any more where two have decided
			t.Errorf("the test does not show the fault: %d nodes were asked for a proof of nothing", empty)
		}
		time.Sleep(time.Second)
		wantFree(t, plainNodes(fakes), "other")
	})
}

func TestANodeThatIsSlowToProveIsNotTakenForDead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var events recorder
		fakes := proofNodes(3)
		locker := another(t, fakes, WithDurability(Durability{Replicas: 2}), events.option())
		warm(t, locker)
		slowly(fakes, 2*time.Second)
		for _, f := range fakes {
			f.Change(func(f *fakeNode) { f.Delay = 200 * time.Millisecond }) // of 250
		}
		began := time.Now()
		lock, err := locker.TryAcquire(t.Context(), "k")
		if err != nil || time.Since(began) != 2200*time.Millisecond {
			t.Fatalf("TryAcquire = %v after %v, want a lock after all the time that is allowed", err, time.Since(began))
		}
		if want := began.Add(10*time.Second - 102*time.Millisecond); !lock.Until().Equal(want) {
			t.Errorf("Until is %v off: the time of the proof is not counted", lock.Until().Sub(want))
		}
		slowly(fakes, time.Hour)
		returns(t, ErrNoQuorum)(locker.TryAcquire(t.Context(), "other"))
		if kinds := events.kinds(); slices.Contains(kinds, NodeDown) {
			t.Errorf("the node was taken for dead: %v", kinds)
		}
		// But one that says nothing at all is.
		time.Sleep(10 * time.Second) // until nothing is to be cleaned up
		slowly(fakes, 0)
		fakes[0].Stop()
		began = time.Now()
		_, _ = locker.TryAcquire(t.Context(), "third")
		time.Sleep(time.Until(began.Add(2250 * time.Millisecond)))
		synctest.Wait()
		if !slices.ContainsFunc(events.events, func(e Event) bool { return e.Kind == NodeDown && strings.Contains(e.Err.Error(), "2.25s") }) {
			t.Errorf("a silent node is thought to be slow after 2.25s: %v", events.events)
		}
		fakes[0].Resume()
	})
}

// The key was ours until the hand-over took it, whatever becomes of the heir's votes.
func TestAHandOverThatIsNotSafeIsStillARelease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fakes := proofNodes(3)
		locker := another(t, fakes, WithDurability(Durability{Replicas: 1}))
		warm(t, locker)
		lock := mustTry(t, locker, "k")
		got := make(chan *Lock, 1)
		go func() {
			next, err := locker.Acquire(t.Context(), "k")
			noError(t, err)
			got <- next
		}()
		time.Sleep(100 * time.Millisecond)
		setAll(fakes, func(f *proofNode) { f.Replicas = 0 })
		noError(t, lock.Release())
		select {
		case <-got:
			t.Errorf("the waiter has a lock that no replica has")
		default:
		}
		setAll(fakes, func(f *proofNode) { f.Replicas = 1 })
		if next := <-got; next != nil {
			noError(t, next.Release())
		}
		time.Sleep(5 * time.Second) // long before a TTL: a clean-up may have to be tried again
		wantFree(t, plainNodes(fakes), "k")
	})
}

func TestNodesThatCannotProveAreRefusedInWords(t *testing.T) {
	for name, tt := range map[string]struct {
		option Option
		info   string
		says   string // to the proof
		want   []string
	}{
		"an old server": {
			option: WithDurability(Durability{Disk: true}), says: "ERR unknown command 'WAITAOF', with args beginning with: '1' '0' '1' ",
			want: []string{"no WAITAOF", "Redis 7.2, Valkey 8.0"},
		},
		"no append-only file": {
			option: WithDurability(Durability{Disk: true}), says: "ERR WAITAOF cannot be used when numlocal is set but appendonly is disabled.",
			want: []string{"appendonly yes", "appendfsync always"},
		},
		"not allowed": {
			option: WithDurability(Durability{Replicas: 1}), says: "NOPERM User lock has no permissions to run the 'wait' command",
			want: []string{"allow +wait"},
		},
		"renamed away": {
			option: WithDurability(Durability{Replicas: 1}), says: "ERR unknown command 'WAIT', with args beginning with: '0' '1' ",
			want: []string{"does not know WAIT", "rename-command"},
		},
		"a Cluster": {option: WithDurability(Durability{Disk: true}), info: "redis_mode:cluster\r\n", want: []string{"Cluster"}},
		"a Cluster with replicas": {
			option: WithDurability(Durability{Replicas: 1}), info: "redis_mode:cluster\r\n", want: []string{"Cluster"},
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			fakes := proofNodes(3)
			for _, f := range fakes[:2] {
				f.Info += tt.info
				f.Says = tt.says
			}
			locker := another(t, fakes, tt.option)
			began := time.Now()
			_, err := locker.TryAcquire(t.Context(), "k")
			if !errors.Is(err, ErrNode) || !errors.Is(err, ErrNoQuorum) || time.Since(began) > 0 {
				t.Errorf("%s: TryAcquire = %v after %v, want ErrNode at once", name, err, time.Since(began))
			}
			for _, want := range append(tt.want, "node-2") {
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("%s: the error does not say %q: %v", name, want, err)
				}
			}
		})
	}
}

func TestALeaseHasRoomForDurableVotes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker := another(t, proofNodes(1), WithDurability(Durability{Disk: true}))
		var option *OptionError
		if _, err := locker.TryAcquire(t.Context(), "k", WithTTL(2*time.Second)); !errors.As(err, &option) || option.Option != "TTL" {
			t.Errorf("TryAcquire with a TTL that has no room for a vote = %v, want an OptionError", err)
		}
		lock := mustTry(t, locker, "k", WithTTL(3*time.Second))
		if err := lock.Extend(t.Context(), 2*time.Second); !errors.As(err, &option) || option.Option != "TTL" {
			t.Errorf("Extend to a TTL that has no room for a vote = %v, want an OptionError", err)
		}
	})
}
