package redlock

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/internal/gate"
	"github.com/quorumlock/quorumlock/internal/protocol"
)

// guard10 is the guard of most of these tests.
func guard10() Option { return WithRestartGuard(10 * time.Second) }

// records returns the guard's keys at a node.
func (f *fakeNode) records() map[string]string {
	f.mu.Lock()
	defer f.mu.Unlock()
	found := map[string]string{}
	for _, key := range gate.RecordKeys {
		if held, ok := f.get(key); ok {
			found[key] = held.token
		}
	}
	return found
}

// put sets a record.
func (f *fakeNode) put(key, text string) { f.plant(key, text, 1000*time.Hour) }

// admitTo gives a node records that admit it as it is.
func (f *fakeNode) admitTo(ms int64, set string) {
	m := gate.Marker{Replid: protocol.Field(f.info, "master_replid:"), Nonce: random.Nonce(), Ms: ms}
	f.put(gate.EpochKey, gate.FormatEpoch(m.Nonce))
	f.put(gate.MarkerKey, m.String())
	f.put(gate.SetKey, set)
}

// all returns the events of all nodes.
func (r *recorder) all() []Event {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.events)
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
		before := fakes[0].records()
		next := another(t, fakes, guard10())
		if err := next.AdmitNewNodes(t.Context()); !errors.Is(err, ErrAdmitted) || errors.Is(err, ErrNoQuorum) {
			t.Errorf("a second Admit = %v, want ErrAdmitted", err)
		}
		if after := fakes[0].records(); !maps.Equal(before, after) {
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
		fakes[1].change(func(f *fakeNode) { f.refused = driver.NotSent(errCut) })
		err := locker.AdmitNewNodes(t.Context())
		if !errors.Is(err, ErrNoQuorum) || !strings.Contains(err.Error(), "node-2") || strings.Contains(err.Error(), "node-1") {
			t.Errorf("Admit = %v, want an error that names node-2 alone", err)
		}
		synctest.Wait()
		if found := fakes[0].records(); len(found) > 0 {
			t.Errorf("Admit has failed and left %v", found)
		}
		fakes[1].change(func(f *fakeNode) { f.refused = nil })
		time.Sleep(time.Second)
		admit(t, locker)
		mustAcquire(t, locker, "k")
		if err := another(t, fakes).AdmitNewNodes(t.Context()); !errors.Is(err, ErrOption) {
			t.Errorf("Admit without the guard = %v, want ErrOption", err)
		}
	})
}

// Of whatever version, age and type: somebody has used these nodes.
func TestAdmitAdmitsNobodyWhereANodeHoldsAKeyOfTheGuards(t *testing.T) {
	for _, key := range gate.RecordKeys {
		for _, text := range []string{"v1 " + someNonce, "v2 new", "", aList} {
			synctest.Test(t, func(t *testing.T) {
				locker, fakes := newLocker(t, 3, guard10(), WithKeyPrefix("p:"))
				fakes[2].put(key+":p:", text)
				err := locker.AdmitNewNodes(t.Context())
				if !errors.Is(err, ErrAdmitted) || !strings.Contains(err.Error(), `node-3 holds "`+key+`:p:"`) || strings.Contains(err.Error(), "node-1") {
					t.Errorf("Admit where node-3 holds %q under %q = %v, want ErrAdmitted that names both", text, key, err)
				}
				synctest.Wait()
				if found := fakes[0].keys; len(found) > 0 {
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
		fakes[0].change(func(f *fakeNode) {
			f.answer = func(args []any) *driver.Reply {
				if args[0] == "SET" && args[1] == gate.EpochKey {
					f.answer = nil
					f.keys[gate.EpochKey] = fakeKey{"v1 " + someNonce, f.now().Add(time.Hour)}
				}
				return nil
			}
		})
		if err := locker.AdmitNewNodes(t.Context()); !errors.Is(err, ErrAdmitted) || !strings.Contains(err.Error(), "meanwhile") {
			t.Errorf("Admit while another is faster = %v, want ErrAdmitted", err)
		}
		if found := fakes[0].records(); found[gate.MarkerKey] != "" || found[gate.EpochKey] != "v1 "+someNonce {
			t.Errorf("the records are %v, want the other's epoch and no marker", found)
		}
	})
}

// What it forgot while it was admitted is told.
func TestAdmitNamesANodeThatIsStartedAnewMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 1, guard10())
		fakes[0].change(func(f *fakeNode) {
			f.answer = func(args []any) *driver.Reply {
				if args[0] == "SET" && args[1] == gate.MarkerKey && len(args) == 4 { // no probe
					f.answer = nil
					anotherHistory(f)
				}
				return nil
			}
		})
		if err := locker.AdmitNewNodes(t.Context()); !errors.Is(err, ErrQuarantine) || !strings.Contains(err.Error(), "node-1") {
			t.Errorf("Admit of a node that is started anew meanwhile = %v, want ErrQuarantine that names it", err)
		}
	})
}

func TestAdmitTakesNoServerTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 3, guard10())
		fakes[2].change(func(f *fakeNode) { f.info = strings.Replace(f.info, fakeHistory("node-3"), fakeHistory("node-1"), 1) })
		if err := locker.AdmitNewNodes(t.Context()); !errors.Is(err, ErrNode) || !strings.Contains(err.Error(), "node node-3") || !strings.Contains(err.Error(), "of node node-1") {
			t.Errorf("Admit of one server twice = %v, want ErrNode that names both", err)
		}
		if found := fakes[0].records(); len(found) > 0 {
			t.Errorf("Admit has failed and left %v", found)
		}
	})
}

func TestAForcedAdmissionAdmitsWhatAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := admittedLocker(t, 5)
		mustRelease(t, mustAcquire(t, locker, "k"))
		for _, f := range fakes[:2] {
			f.restart()
		}
		fakes[2].change(func(f *fakeNode) { f.refused = driver.NotSent(errCut) })
		fakes[3].put(gate.SetKey, "v1 0:7@1")
		if _, err := locker.TryAcquire(t.Context(), "k"); !errors.Is(err, ErrQuarantine) {
			t.Fatalf("TryAcquire = %v, want ErrQuarantine", err)
		}
		err := locker.AdmitNewNodes(t.Context(), ForceAdmission())
		for _, want := range []string{"node-3", "node-4", "7@1"} {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("a forced Admit = %v, want an error with %q", err, want)
			}
		}
		mustRelease(t, mustAcquire(t, locker, "k"))
		if got := fakes[3].records()[gate.SetKey]; got != "v1 0:7@1" {
			t.Errorf("a forced Admit has set %q to %q", gate.SetKey, got)
		}
	})
}

func TestAnAdmissionThatIsNoneIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, _ := newLocker(t, 1, guard10())
		if err := locker.AdmitNewNodes(t.Context(), nil); !errors.Is(err, ErrOption) {
			t.Errorf("Admit with an option that is nil = %v, want ErrOption", err)
		}
		_ = locker.Close()
		if err := locker.AdmitNewNodes(t.Context()); !errors.Is(err, ErrClosed) {
			t.Errorf("Admit after Close = %v, want ErrClosed", err)
		}
	})
}
