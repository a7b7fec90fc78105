package redlock

import (
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/internal/gate"
	"github.com/quorumlock/quorumlock/internal/protocol"
	"github.com/quorumlock/quorumlock/test/fakenode"
)

// guard10 is the guard of most of these tests.
func guard10() Option {
	return option(func(o *lockerOptions) { o.longest, o.bounded, o.guards = 10*time.Second, true, true })
}

// recordsAt returns the guard's keys at a node.
func recordsAt(f *fakeNode) map[string]string {
	found := map[string]string{}
	f.Change(func(f *fakeNode) {
		for _, key := range gate.RecordKeys {
			if held, ok := f.Get(key); ok {
				found[key] = held.Token
			}
		}
	})
	return found
}

// putRecord sets a record.
func putRecord(f *fakeNode, key, text string) { f.Plant(key, text, 1000*time.Hour) }

// admitTo gives a node records that admit it as it is.
func admitTo(f *fakeNode, ms int64, set string) {
	m := gate.Marker{Replid: protocol.Field(f.Info, "master_replid:"), Nonce: random.Nonce(), Ms: ms}
	putRecord(f, gate.EpochKey, gate.FormatEpoch(m.Nonce))
	putRecord(f, gate.MarkerKey, m.String())
	putRecord(f, gate.SetKey, set)
}

func TestAdmitLetsNewNodesVoteAtOnceAndChangesNothingAtTheNextStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var seen recorder
		locker, fakes := newLocker(t, 3, guard10(), seen.option())
		admit(t, locker)
		if slices.Contains(seen.kinds(), NodeQuarantined) {
			t.Errorf("the events of Admit are %v", seen.events)
		}
		lock := mustAcquire(t, locker, "k")
		before := recordsAt(fakes[0])
		next := another(t, fakes, guard10())
		if err := next.AdmitNewNodes(t.Context()); !errors.Is(err, ErrAdmitted) || errors.Is(err, ErrNoQuorum) {
			t.Errorf("a second Admit = %v, want ErrAdmitted", err)
		}
		if after := recordsAt(fakes[0]); !maps.Equal(before, after) {
			t.Errorf("a second Admit has made %v of %v", after, before)
		}
		mustRelease(t, lock)
		mustAcquire(t, next, "k")
	})
}

// "None that answers has a marker" is not enough: a node restarts, and it alone is heard.
func TestAdmitAdmitsNobodyWhereANodeDoesNotAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 3, guard10())
		fakes[1].Change(func(f *fakeNode) { f.Refused = driver.NotSent(fakenode.ErrCut) })
		err := locker.AdmitNewNodes(t.Context())
		if !errors.Is(err, ErrNoQuorum) || !strings.Contains(err.Error(), "node-2") || strings.Contains(err.Error(), "node-1") {
			t.Errorf("Admit = %v, want an error that names node-2 alone", err)
		}
		synctest.Wait()
		if found := recordsAt(fakes[0]); len(found) > 0 {
			t.Errorf("Admit has failed and left %v", found)
		}
		fakes[1].Change(func(f *fakeNode) { f.Refused = nil })
		time.Sleep(time.Second)
		admit(t, locker)
		mustAcquire(t, locker, "k")
		returns(t, ErrOption, "Admit without the guard")(another(t, fakes).AdmitNewNodes(t.Context()))
	})
}

// Of whatever version, age and type: somebody has used these nodes.
func TestAdmitAdmitsNobodyWhereANodeHoldsAKeyOfTheGuards(t *testing.T) {
	for _, key := range gate.RecordKeys {
		for _, text := range []string{"v1 " + someNonce, "v2 new", "", fakenode.List} {
			synctest.Test(t, func(t *testing.T) {
				locker, fakes := newLocker(t, 3, guard10(), WithKeyPrefix("p:"))
				putRecord(fakes[2], key+":p:", text)
				err := locker.AdmitNewNodes(t.Context())
				if !errors.Is(err, ErrAdmitted) || !strings.Contains(err.Error(), `node-3 holds "`+key+`:p:"`) || strings.Contains(err.Error(), "node-1") {
					t.Errorf("Admit where node-3 holds %q under %q = %v, want ErrAdmitted that names both", text, key, err)
				}
				synctest.Wait()
				if found := fakes[0].Keys; len(found) > 0 {
					t.Errorf("Admit has failed and left %v", found)
				}
			})
		}
	}
}

// Two deployments at once: who comes second leaves the first one's records alone.
func TestAdmitGivesUpWhereAnotherIsFaster(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 1, guard10())
		before(fakes[:1], "SET", func(f *fakeNode, args []any) {
			if args[1] == gate.EpochKey {
				f.Answer = nil
				f.Put(gate.EpochKey, "v1 "+someNonce, time.Hour)
			}
		})
		says(t, ErrAdmitted, "meanwhile")(locker.AdmitNewNodes(t.Context()))
		if found := recordsAt(fakes[0]); found[gate.MarkerKey] != "" || found[gate.EpochKey] != "v1 "+someNonce {
			t.Errorf("the records are %v, want the other's epoch and no marker", found)
		}
	})
}

// What it forgot while it was admitted is told.
func TestAdmitNamesANodeThatIsStartedAnewMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 1, guard10())
		before(fakes[:1], "SET", func(f *fakeNode, args []any) {
			if args[1] == gate.MarkerKey && len(args) == 4 { // no probe
				f.Answer = nil
				anotherHistory(f)
			}
		})
		says(t, ErrQuarantine, "node-1")(locker.AdmitNewNodes(t.Context()))
	})
}

func TestAdmitTakesNoServerTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 3, guard10())
		fakes[2].Change(func(f *fakeNode) {
			f.Info = strings.Replace(f.Info, fakenode.History("node-3"), fakenode.History("node-1"), 1)
		})
		says(t, ErrNode, "node node-3", "of node node-1")(locker.AdmitNewNodes(t.Context()))
		if found := recordsAt(fakes[0]); len(found) > 0 {
			t.Errorf("Admit has failed and left %v", found)
		}
	})
}

func TestAForcedAdmissionAdmitsWhatAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := admittedLocker(t, 5)
		mustRelease(t, mustAcquire(t, locker, "k"))
		forEach(fakes[:2], (*fakeNode).Restart)
		fakes[2].Change(func(f *fakeNode) { f.Refused = driver.NotSent(fakenode.ErrCut) })
		putRecord(fakes[3], gate.SetKey, "v1 0:7@1")
		if _, err := locker.TryAcquire(t.Context(), "k"); !errors.Is(err, ErrQuarantine) {
			t.Fatalf("TryAcquire = %v, want ErrQuarantine", err)
		}
		err := locker.ForceAdmission(t.Context())
		for _, want := range []string{"node-3", "node-4", "7@1"} {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("a forced Admit = %v, want an error with %q", err, want)
			}
		}
		mustRelease(t, mustAcquire(t, locker, "k"))
		if got := recordsAt(fakes[3])[gate.SetKey]; got != "v1 0:7@1" {
			t.Errorf("a forced Admit has set %q to %q", gate.SetKey, got)
		}
	})
}

func TestAnAdmissionThatIsNoneIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, _ := newLocker(t, 1, guard10())
		_ = locker.Close()
		returns(t, ErrClosed, "Admit after Close")(locker.AdmitNewNodes(t.Context()))
	})
}

// Who may take longer leases than the markers say knows of leases that nobody waits for.
func TestAClientOfLongerLeasesThanTheMarkersSayIsRefusedAndRaisesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, fakes := admittedLocker(t, 3)
		fakes[2].Restart() // with nothing that says otherwise
		before := recordsAt(fakes[0])
		longer := another(t, fakes, WithLongestTTL(30*time.Second), WithRestartGuard())
		for range 10 {
			_, err := longer.Acquire(t.Context(), "k")
			if !errors.Is(err, ErrNodeSet) || !strings.Contains(err.Error(), "10s") || !strings.Contains(err.Error(), "30s") {
				t.Fatalf("Acquire = %v, want ErrNodeSet that names both times", err)
			}
			time.Sleep(7 * time.Second)
		}
		if after := recordsAt(fakes[0]); !maps.Equal(before, after) {
			t.Errorf("who was refused has made %v of %v", after, before)
		}
		if found := recordsAt(fakes[2])[gate.MarkerKey]; found != "" {
			t.Errorf("who was refused has admitted another node: %q", found)
		}
	})
}

// A process whose leases are shorter, and which has read no other marker, admits a node too
// early for a client of longer ones. What it has read by the time of the decision counts.
func TestAMarkerForShorterLeasesThanAnothersOfTheQuorumIsNoVote(t *testing.T) {
	for _, slow := range []int{0, 1} {
		synctest.Test(t, func(t *testing.T) {
			_, fakes := newLocker(t, 3)
			admitTo(fakes[0], 10_000, "v1 0:3@1")
			admitTo(fakes[1], 30_000, "v1 0:3@1")
			fakes[2].Change(func(f *fakeNode) { f.Refused = driver.NotSent(fakenode.ErrCut) })
			fakes[slow].Change(func(f *fakeNode) { f.Delay = 20 * time.Millisecond })
			locker := another(t, fakes, guard10())
			says(t, ErrNodeSet, "10s", "30s")(locker.TryAcquire(t.Context(), "k"))
		})
	}
}

// It has seen that others hold for longer, so it waits for as long.
func TestAQuarantineTakesTheLongestTimeThatAnyMarkerNames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, fakes := newLocker(t, 3)
		for _, f := range fakes {
			admitTo(f, 30_000, "v1 0:3@1")
		}
		locker := another(t, fakes, guard10())
		mustRelease(t, mustAcquire(t, locker, "k"))
		fakes[0].Restart()
		var admitted time.Duration
		for start := time.Now(); admitted == 0; {
			mustRelease(t, mustAcquire(t, locker, "k"))
			synctest.Wait()
			if recordsAt(fakes[0])[gate.MarkerKey] != "" {
				admitted = time.Since(start)
			}
			time.Sleep(100 * time.Millisecond)
		}
		if admitted < 30*time.Second+clockAllowance(locker, 30*time.Second) || admitted > 32*time.Second {
			t.Errorf("the node was admitted after %v, want 30s and what clocks run apart", admitted)
		}
		if m, err := gate.ParseMarker(recordsAt(fakes[0])[gate.MarkerKey]); err != nil || m.Ms != 30_000 {
			t.Errorf("the marker is %v, want one for 30s", m)
		}
	})
}

func clockAllowance(l *Locker, d time.Duration) time.Duration {
	return gate.SitOut(d, l.options.drift) - d
}

// mergeNodes makes the third of three nodes silent, and the second two addresses with the first.
func mergeNodes(fakes []*fakeNode) {
	fakes[2].Change(func(f *fakeNode) { f.Refused = driver.NotSent(fakenode.ErrCut) })
	fakes[1].Change(func(f *fakeNode) {
		f.Info = strings.Replace(f.Info, fakenode.History("node-2"), fakenode.History("node-1"), 1)
		for _, key := range gate.RecordKeys {
			f.Keys[key] = fakes[0].Keys[key]
		}
	})
}

// Extensions that share a command are votes as any others.
func TestEachExtensionOfACommandIsJudgedByItsLook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := admittedLocker(t, 3)
		var locks []*Lock
		for i := range 8 {
			locks = append(locks, mustAcquire(t, locker, strconv.Itoa(i)))
		}
		synctest.Wait()
		mergeNodes(fakes)
		time.Sleep(time.Second)
		for i, err := range extendAll(t, locks, fakes[0], func(int) time.Duration { return 10 * time.Second }) {
			if !errors.Is(err, ErrNode) || !strings.Contains(err.Error(), "vote twice") {
				t.Errorf("extension %d with one server as two nodes = %v, want ErrNode", i, err)
			}
		}
	})
}

// Two addresses of one server, of which nobody could tell before.
func TestTwoNodesWithOneHistoryAreOneVote(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := admittedLocker(t, 3)
		mustRelease(t, mustAcquire(t, locker, "k"))
		synctest.Wait()
		mergeNodes(fakes)
		says(t, ErrNode, "vote twice")(locker.TryAcquire(t.Context(), "k"))
		synctest.Wait()
		wantFree(t, fakes, "k")
	})
}

func TestANodeRefusesClientsThatItDoesNotList(t *testing.T) {
	for _, tt := range []struct {
		set     string
		nodes   int
		options []Option
		want    []string // of the error; nil: it votes
	}{
		{"v1 0:3@1", 3, nil, nil},
		{"v1 0:3@1", 5, nil, []string{`"0:3@1"`, `"0:5"`, "5 nodes"}},
		{"v1 0:3@1", 3, []Option{WithNodeSet(7)}, []string{`"0:3@1"`, `"7:3"`}},
		{"v1 0:3@1,7:3@1", 3, []Option{WithNodeSet(7)}, nil},
		{"v1 7:3@4 note=x", 3, []Option{WithNodeSet(7)}, nil},
		{"v1 0:3+5@1,7:3@2", 3, []Option{WithNodeSet(7)}, nil},
		{"v1 0:3+5@1", 3, nil, []string{`"0:3+5@1"`, `"0:3"`}},
		{"v1 0:3@0,7:3@1", 3, nil, []string{`"0:3@0,7:3@1"`, `"0:3"`, "left"}},
		{"v1 0:3@1,0:3@0", 3, nil, []string{"left"}},
	} {
		synctest.Test(t, func(t *testing.T) {
			_, fakes := newLocker(t, tt.nodes)
			for _, f := range fakes {
				admitTo(f, 10_000, tt.set)
			}
			before := recordsAt(fakes[0])
			locker := another(t, fakes, append(tt.options, guard10())...)
			_, err := locker.Acquire(t.Context(), "k")
			if listed := tt.want == nil; listed != (err == nil) || !listed && !errors.Is(err, ErrNodeSet) {
				t.Errorf("%d nodes that say %q: Acquire = %v, want ErrNodeSet: %t", tt.nodes, tt.set, err, !listed)
			}
			for _, want := range tt.want {
				if err != nil && !strings.Contains(err.Error(), want) {
					t.Errorf("%d nodes that say %q: %v, want %q in it", tt.nodes, tt.set, err, want)
				}
			}
			changeAll(fakes, func(f *fakeNode) { delete(f.Keys, gate.MarkerKey) })
			for range 5 {
				time.Sleep(5 * time.Second)
				_, _ = locker.TryAcquire(t.Context(), "k")
			}
			if after := recordsAt(fakes[0]); tt.want != nil && after[gate.MarkerKey] != "" {
				t.Errorf("who is not listed has made %v of %v", after, before)
			}
		})
	}
}

// It lists no configuration of others: a change of nodes that they tell of may not be over.
func TestWhoEndsAQuarantineListsItsOwnConfigurationIfAnAdmittedNodeDoes(t *testing.T) {
	for _, tt := range []struct{ set, want string }{
		{"v1 0:3@1,7:3@1", "v1 7:3@1"},
		{"v1 7:3@1 note=x", "v1 7:3@1"},
		{"v1 0:3@1", ""},
	} {
		synctest.Test(t, func(t *testing.T) {
			_, fakes := newLocker(t, 3)
			for _, f := range fakes {
				admitTo(f, 10_000, tt.set)
			}
			locker := another(t, fakes, guard10(), WithNodeSet(7))
			_, _ = locker.TryAcquire(t.Context(), "k")
			fakes[0].Restart()
			for range 8 {
				time.Sleep(3 * time.Second)
				_, _ = locker.TryAcquire(t.Context(), "k")
				synctest.Wait()
			}
			if set := recordsAt(fakes[0])[gate.SetKey]; set != tt.want {
				t.Errorf("where others say %q the node that came back is given %q, want %q", tt.set, set, tt.want)
			}
		})
	}
}

func TestTheFirstClientListsItsOwnConfiguration(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, fakes := newLocker(t, 3)
		locker := another(t, fakes, guard10(), WithNodeSet(42), WithKeyPrefix("p:"))
		admit(t, locker)
		mustAcquire(t, locker, "k")
		if set, _ := fakes[0].Token(gate.SetKey + ":p:"); set != "v1 42:3@1" {
			t.Errorf("the node set is %q, want that of the client", set)
		}
	})
}
