package redlock

import (
	"errors"
	"maps"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/internal/gate"
)

// Who may take longer leases than the markers say knows of leases that nobody waits for.
func TestAClientOfLongerLeasesThanTheMarkersSayIsRefusedAndRaisesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, fakes := admittedLocker(t, 3)
		fakes[2].restart() // with nothing that says otherwise
		before := fakes[0].records()
		longer := another(t, fakes, WithRestartGuard(30*time.Second))
		for range 10 {
			_, err := longer.Acquire(t.Context(), "k")
			if !errors.Is(err, ErrNodeSet) || !strings.Contains(err.Error(), "10s") || !strings.Contains(err.Error(), "30s") {
				t.Fatalf("Acquire = %v, want ErrNodeSet that names both times", err)
			}
			time.Sleep(7 * time.Second)
		}
		if after := fakes[0].records(); !maps.Equal(before, after) {
			t.Errorf("who was refused has made %v of %v", after, before)
		}
		if found := fakes[2].records()[gate.MarkerKey]; found != "" {
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
			fakes[0].admitTo(10_000, "v1 0:3@1")
			fakes[1].admitTo(30_000, "v1 0:3@1")
			fakes[2].change(func(f *fakeNode) { f.refused = driver.NotSent(errCut) })
			fakes[slow].change(func(f *fakeNode) { f.delay = 20 * time.Millisecond })
			locker := another(t, fakes, guard10())
			_, err := locker.TryAcquire(t.Context(), "k")
			if !errors.Is(err, ErrNodeSet) || !strings.Contains(err.Error(), "10s") || !strings.Contains(err.Error(), "30s") {
				t.Errorf("where node-%d answers last TryAcquire = %v, want ErrNodeSet that names both times", slow+1, err)
			}
		})
	}
}

// It has seen that others hold for longer, so it waits for as long.
func TestAQuarantineTakesTheLongestTimeThatAnyMarkerNames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, fakes := newLocker(t, 3)
		for _, f := range fakes {
			f.admitTo(30_000, "v1 0:3@1")
		}
		locker := another(t, fakes, guard10())
		mustRelease(t, mustAcquire(t, locker, "k"))
		fakes[0].restart()
		var admitted time.Duration
		for start := time.Now(); admitted == 0; {
			mustRelease(t, mustAcquire(t, locker, "k"))
			synctest.Wait()
			if fakes[0].records()[gate.MarkerKey] != "" {
				admitted = time.Since(start)
			}
			time.Sleep(100 * time.Millisecond)
		}
		if admitted < 30*time.Second+clockAllowance(locker, 30*time.Second) || admitted > 32*time.Second {
			t.Errorf("the node was admitted after %v, want 30s and what clocks run apart", admitted)
		}
		if m, err := gate.ParseMarker(fakes[0].records()[gate.MarkerKey]); err != nil || m.Ms != 30_000 {
			t.Errorf("the marker is %v, want one for 30s", m)
		}
	})
}

func clockAllowance(l *Locker, d time.Duration) time.Duration {
	return gate.SitOut(d, l.options.drift) - d
}

// mergeNodes makes the third of three nodes silent, and the second two addresses with the first.
func mergeNodes(fakes []*fakeNode) {
	fakes[2].change(func(f *fakeNode) { f.refused = driver.NotSent(errCut) })
	fakes[1].change(func(f *fakeNode) {
		f.info = strings.Replace(f.info, fakeHistory("node-2"), fakeHistory("node-1"), 1)
		for _, key := range gate.RecordKeys {
			f.keys[key] = fakes[0].keys[key]
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
		_, err := locker.TryAcquire(t.Context(), "k")
		if !errors.Is(err, ErrNode) || !strings.Contains(err.Error(), "vote twice") {
			t.Errorf("TryAcquire with one server as two nodes = %v, want ErrNode", err)
		}
		synctest.Wait()
		if names := stray(fakes, "k"); len(names) > 0 {
			t.Errorf("what was no vote is left at %v", names)
		}
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
				f.admitTo(10_000, tt.set)
			}
			before := fakes[0].records()
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
			for _, f := range fakes {
				f.change(func(f *fakeNode) { delete(f.keys, gate.MarkerKey) })
			}
			for range 5 {
				time.Sleep(5 * time.Second)
				_, _ = locker.TryAcquire(t.Context(), "k")
			}
			if after := fakes[0].records(); tt.want != nil && after[gate.MarkerKey] != "" {
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
				f.admitTo(10_000, tt.set)
			}
			locker := another(t, fakes, guard10(), WithNodeSet(7))
			_, _ = locker.TryAcquire(t.Context(), "k")
			fakes[0].restart()
			for range 8 {
				time.Sleep(3 * time.Second)
				_, _ = locker.TryAcquire(t.Context(), "k")
				synctest.Wait()
			}
			if set := fakes[0].records()[gate.SetKey]; set != tt.want {
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
		if set, _ := fakes[0].token(gate.SetKey + ":p:"); set != "v1 42:3@1" {
			t.Errorf("the node set is %q, want that of the client", set)
		}
	})
}

func TestNodeSetsThatNobodyLooksAtAreRefused(t *testing.T) {
	_, nodes := fakeNodes(3)
	for _, options := range [][]Option{{WithNodeSet(1)}, {guard10(), WithNodeSet(1 << 63)}} {
		if _, err := New(nodes, options...); !errors.Is(err, ErrOption) {
			t.Errorf("New = %v, want ErrOption", err)
		}
	}
}
