package redlock

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/internal/protocol"
	"github.com/quorumlock/quorumlock/test/fakenode"
)

const (
	aReplica = "role:slave\r\nmaster_host:h\r\nmaster_port:1\r\n"
	evicting = "role:master\r\nmaxmemory:1\r\nmaxmemory_policy:allkeys-lru\r\n"
)

// unfits are ways in which the server behind an address becomes unfit to vote.
var unfits = map[string]func(f *fakeNode){
	"a replica": func(f *fakeNode) { f.Info = "run_id:" + f.Name() + "\r\n" + aReplica },
	"evicts":    func(f *fakeNode) { f.Info = "run_id:" + f.Name() + "\r\n" + evicting },
	"loads":     func(f *fakeNode) { f.Answer = failing("INFO", "LOADING Redis is loading the dataset in memory") },
	"wants to log in": func(f *fakeNode) {
		f.Answer = answering(fakenode.Refusal("NOAUTH Authentication required."), func([]any) bool { return true })
	},
	"silent": (*fakeNode).Hang,
	"a replica, and the user may not ask": func(f *fakeNode) {
		f.Answer = func(args []any) *driver.Reply {
			text := map[string]string{"INFO": "NOPERM no permissions to run the 'info' command", "SET": "READONLY You can't write against a read only replica."}
			if reply := fakenode.Refusal(text[fakenode.CommandName(args)]); reply.Str != "" {
				return &reply
			}
			return nil
		}
	},
}

func TestANodeWhoseAddressHasMovedOnIsFoundAgain(t *testing.T) {
	for name, harm := range unfits {
		for moved := 1; moved <= 3; moved++ {
			bubble(t, name, func(t *testing.T) {
				locker, fakes := newLocker(t, 3)
				mustRelease(t, mustAcquire(t, locker, "k"))
				synctest.Wait()
				others, _ := fakeNodes(3)
				for i, f := range fakes[:moved] {
					others[i].Change(func(o *fakeNode) { o.Info = fakenode.Info("new " + o.Name()) })
					f.Change(harm)
					f.MoveTo(others[i])
				}
				began := time.Now()
				for {
					lock, err := locker.TryAcquire(t.Context(), "moved")
					synctest.Wait()
					if err == nil && !slices.ContainsFunc(others[:moved], func(o *fakeNode) bool { return o.Count("SET") == 0 }) {
						mustRelease(t, lock)
						break
					}
					if err == nil {
						mustRelease(t, lock)
					}
					if time.Since(began) > 5*time.Second {
						t.Fatalf("%d of 3 addresses lead elsewhere, and 5s later TryAcquire = %v, and not all new servers were asked for their votes", moved, err)
					}
					time.Sleep(100 * time.Millisecond)
				}
			})
		}
	}
}

func TestAnUnfitNodeIsRenewedOnceAProbeAndAFitOneNever(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 3)
		for range 30 {
			mustRelease(t, mustAcquire(t, locker, "k"))
			time.Sleep(100 * time.Millisecond)
		}
		fakes[0].Change(unfits["a replica"])
		time.Sleep(time.Second)
		mustRelease(t, mustAcquire(t, locker, "k")) // and the node is found unfit
		synctest.Wait()
		asked, renewed := fakes[0].Count("INFO"), fakes[0].Renewals()
		for range 300 {
			mustRelease(t, mustAcquire(t, locker, "k"))
			time.Sleep(7 * time.Millisecond)
		}
		synctest.Wait()
		probes := (fakes[0].Count("INFO") - asked) / len(protocol.AskFitness)
		if got := fakes[0].Renewals() - renewed; probes < 10 || got != probes {
			t.Errorf("a node that was probed %d times was renewed %d times, want once each", probes, got)
		}
		for _, f := range fakes[1:] {
			if got := f.Renewals(); got != 0 {
				t.Errorf("a node that is well was renewed %d times", got)
			}
		}
	})
}

// The address of a node leads to the server of another one for a while, or for good.
func TestATwinIsRenewedAndItsOtherHalfOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 3)
		mustRelease(t, mustAcquire(t, locker, "k"))
		synctest.Wait()
		fakes[0].LeadTo(fakes[1])
		for range 50 {
			time.Sleep(100 * time.Millisecond)
			mustRelease(t, mustAcquire(t, locker, "k"))
		}
		synctest.Wait()
		renewed := [2]int{fakes[0].Renewals(), fakes[1].Renewals()}
		if renewed[0] < 3 || renewed[1] != 1 {
			t.Errorf("the twin was renewed %d times and its other half %d times, want before each probe and once", renewed[0], renewed[1])
		}
		other := fakenode.New("other")
		fakes[0].MoveTo(other)
		time.Sleep(2 * time.Second)
		mustRelease(t, mustAcquire(t, locker, "k"))
		time.Sleep(time.Second)
		mustRelease(t, mustAcquire(t, locker, "k"))
		synctest.Wait()
		if other.Count("SET") == 0 {
			t.Error("the new server behind the address of the twin was not asked for its vote")
		}
	})
}

// The connections of both break, those of one, or none.
func TestNodesThatHaveChangedPlacesVoteAgain(t *testing.T) {
	for name, swap := range map[string]func(one, other *fakeNode){
		"both keep their connections": func(one, other *fakeNode) { one.LeadTo(other); other.LeadTo(one) },
		"one keeps its connections":   func(one, other *fakeNode) { one.LeadTo(other); other.MoveTo(one) },
	} {
		bubble(t, name, func(t *testing.T) {
			locker, fakes := newLocker(t, 2)
			mustRelease(t, mustAcquire(t, locker, "k"))
			synctest.Wait()
			swap(fakes[0], fakes[1])
			for range 10 {
				time.Sleep(time.Second)
				_, _ = locker.TryAcquire(t.Context(), "k")
				synctest.Wait()
			}
			time.Sleep(12 * time.Second) // what was set as another node ends with its TTL
			mustAcquire(t, locker, "k")
		})
	}
}

// Clients dial anew where an idle connection has ended, and do not say so.
func TestAServerThatIsAnotherThanBeforeHasItsSubscriptionsOpenedAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var seen recorder
		locker, fakes := newLocker(t, 1, seen.option())
		lock := mustAcquire(t, another(t, fakes), "k", WithRenewal())
		waits := waitFor(t.Context(), locker)
		synctest.Wait()
		fakes[0].Change(func(f *fakeNode) { f.Info = fakenode.Info("another") })
		time.Sleep(10 * time.Second)
		if renewed, subscribed := fakes[0].Renewals(), fakes[0].Subscribed; renewed != 2 || subscribed != 2 {
			t.Errorf("a node that has become another server was renewed %d times by two Lockers and subscribed to %d times, want twice each", renewed, subscribed)
		}
		if muted := seen.of(NodeMuted); len(muted) != 0 {
			t.Errorf("that connections are made anew is told as %v", muted)
		}
		mustRelease(t, lock)
		mustRelease(t, mustGet(t, waits).lock)
	})
}

// While the node is unfit the pauses before a subscription is tried again grow to seconds.
func TestANodeThatIsFitAgainIsSubscribedToAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 3)
		lock := mustAcquire(t, another(t, fakes), "k", WithRenewal())
		waits := waitFor(t.Context(), locker)
		synctest.Wait()
		fakes[0].Change(unfits["a replica"])
		for range 200 {
			time.Sleep(100 * time.Millisecond)
			mustRelease(t, mustAcquire(t, locker, "other"))
		}
		fakes[0].Change(func(f *fakeNode) { f.Info = fakenode.Info(f.Name()) })
		for fakes[0].Listeners(protocol.WakeChannel) > 0 { // until the probe that finds it fit
			time.Sleep(10 * time.Millisecond)
			mustRelease(t, mustAcquire(t, locker, "other"))
		}
		for !locker.board.Nodes[0].Up() {
			time.Sleep(10 * time.Millisecond)
			mustRelease(t, mustAcquire(t, locker, "other"))
		}
		synctest.Wait()
		if fakes[0].Listeners(protocol.WakeChannel) == 0 {
			t.Error("the node is up, and nobody listens there")
		}
		mustRelease(t, lock)
		mustRelease(t, mustGet(t, waits).lock)
	})
}

func TestAVoteOfTheServerThatWasThereBeforeDoesNotCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 1)
		mustRelease(t, mustAcquire(t, locker, "k"))
		synctest.Wait()
		fakes[0].Change(func(f *fakeNode) { f.Delay = 20 * time.Millisecond })
		result := async(func() error { return passing(locker.TryAcquire(t.Context(), "k")) })
		time.Sleep(5 * time.Millisecond)
		n := locker.board.Nodes[0]
		noError(t, n.OnFitness([]driver.Reply{{Kind: driver.String, Str: "run_id:elsewhere\r\n"}}, locker.clock.Now()))
		if err := <-result; !errors.Is(err, ErrNoQuorum) || !strings.Contains(err.Error(), "another server") {
			t.Errorf("TryAcquire = %v, want that the address leads to another server", err)
		}
	})
}
