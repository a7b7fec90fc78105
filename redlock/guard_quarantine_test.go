package redlock

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/internal/gate"
	"github.com/quorumlock/quorumlock/test/fakenode"
)

// A copy of an epoch that runs behind a FLUSHALL would bring back what was admitted.
func TestAnEpochIsNeverSentTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 1, guard10())
		sent := map[string]int{}
		fakes[0].Change(func(f *fakeNode) {
			f.Answer = func(args []any) *driver.Reply {
				if args[0] == "SET" && args[1] == gate.EpochKey {
					sent[args[2].(string)]++
				}
				return nil
			}
			f.Lose = func(name string) bool {
				return name == "SET" && len(sent) < 3 && f.Log[len(f.Log)-1] == "SET" && f.Keys[gate.EpochKey].Token != ""
			}
		})
		for range 100 {
			_, _ = locker.TryAcquire(t.Context(), "k")
			fakes[0].Change(func(f *fakeNode) { delete(f.Keys, gate.EpochKey) })
			time.Sleep(100 * time.Millisecond)
		}
		if len(sent) < 3 {
			t.Fatalf("the epochs are %v, want several", sent)
		}
		for text, times := range sent {
			if times > 1 {
				t.Errorf("the epoch %q was sent %d times", text, times)
			}
		}
	})
}

// FLUSHALL leaves the master_replid. A marker that was sent before it, and runs behind it,
// is not for the epoch that the node has then.
func TestAMarkerThatRunsBehindAFlushAdmitsNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		one, fakes := newLocker(t, 1, guard10())
		var late []any
		fakes[0].Change(func(f *fakeNode) {
			f.Answer = func(args []any) *driver.Reply {
				if args[0] == "SET" && args[1] == gate.MarkerKey && len(args) == 4 && late == nil {
					late = args
					return &driver.Reply{} // it is still on its way
				}
				return nil
			}
		})
		lock, err := one.TryAcquire(t.Context(), "k")
		for range 30 { // after the quarantine, by the second marker
			if err != nil {
				time.Sleep(time.Second)
				lock, err = one.TryAcquire(t.Context(), "k")
			}
		}
		must(t, err)
		fakes[0].Change(flushed)
		two := another(t, fakes, guard10())
		_, _ = two.TryAcquire(t.Context(), "k")
		synctest.Wait()                                        // there is an epoch again
		putRecord(fakes[0], gate.SetKey, gate.FormatSet(0, 1)) // that runs late as well
		fakes[0].Change(func(f *fakeNode) { f.RunOne(late) })
		if second, err := two.TryAcquire(t.Context(), "k"); !errors.Is(err, ErrQuarantine) {
			t.Errorf("behind a FLUSHALL and a late marker TryAcquire = %v, %v, want ErrQuarantine: the first is valid: %t", second, err, lock.Valid())
		}
	})
}

// Who wrote it may know rules that this client does not.
func TestARecordThatCannotBeReadClosesTheNodeAndIsLeftAlone(t *testing.T) {
	for _, tt := range []struct{ key, text, want string }{
		{gate.EpochKey, "mine", "no record"},
		{gate.EpochKey, "v2 " + someNonce, "newer version"},
		{gate.EpochKey, "v1 " + someNonce + " SEAL=1", "extension"},
		{gate.MarkerKey, "node-1 10000", "no record"},
		{gate.MarkerKey, "v1 " + someReplid + " " + someNonce + " 10000 X=1", "extension"},
		{gate.SetKey, "v1 0:1@", "no record"},
		{gate.SetKey, "v3", "newer version"},
		{gate.EpochKey, fakenode.List, "no record"},
		{gate.MarkerKey, fakenode.List, "no record"},
		{gate.SetKey, fakenode.List, "no record"},
	} {
		synctest.Test(t, func(t *testing.T) {
			var seen recorder
			locker, fakes := newLocker(t, 1, guard10(), seen.option())
			putRecord(fakes[0], tt.key, tt.text)
			var err error
			for range 10 {
				_, err = locker.Acquire(t.Context(), "k", WithMaxWait(5*time.Second))
				synctest.Wait()
			}
			if err == nil || !strings.Contains(err.Error(), tt.want) || !strings.Contains(err.Error(), `"`+tt.key+`"`) || strings.Contains(err.Error(), tt.text) && tt.text != fakenode.List {
				t.Errorf("%q holds %q: Acquire = %v, want an error that names the key and says %q", tt.key, tt.text, err, tt.want)
			}
			if got := recordsAt(fakes[0])[tt.key]; got != tt.text {
				t.Errorf("%q held %q and holds %q", tt.key, tt.text, got)
			}
			if m := recordsAt(fakes[0])[gate.MarkerKey]; tt.key != gate.MarkerKey && m != "" {
				t.Errorf("%q holds %q, and the node was admitted: %q", tt.key, tt.text, m)
			}
			if seen.of(NodeQuarantined, tt.want) == nil {
				t.Errorf("the events are %v, want one that says %q", seen.events, tt.want)
			}
		})
	}
}

// The advice to admit it made two holders.
func TestANodeThatCameBackEmptyIsNotToBeAdmitted(t *testing.T) {
	for _, fresh := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			var seen recorder
			locker, fakes := newLocker(t, 3, guard10(), seen.option())
			admit(t, locker)
			mustRelease(t, mustAcquire(t, locker, "k"))
			time.Sleep(time.Second)
			fakes[0].Restart()
			fakes[1].Change(func(f *fakeNode) { f.Refused = driver.NotSent(fakenode.ErrCut) })
			if fresh { // another process, which has seen nothing of it
				locker = another(t, fakes, guard10(), seen.option())
			}
			_, _ = locker.TryAcquire(t.Context(), "k")
			synctest.Wait()
			time.Sleep(time.Second)
			_, err := locker.TryAcquire(t.Context(), "k")
			var said []string
			for _, e := range append(seen.of(NodeQuarantined), Event{Kind: NodeQuarantined, Err: err}) {
				said = append(said, e.String())
			}
			for _, text := range said {
				// A process that is new may have looked at no other node before.
				unknown := fresh && strings.Contains(text, "keep a Locker open until then")
				if !strings.Contains(text, "came back empty") || !unknown && (!strings.Contains(text, "by itself; do not admit it") || strings.Contains(text, "Locker.AdmitNewNodes")) {
					t.Errorf("a process that is new: %t, is told %q", fresh, text)
				}
			}
			if len(said) < 2 {
				t.Errorf("said was %q, want an event and an error", said)
			}
			if err == nil || !strings.Contains(err.Error(), "it votes again in 9.") {
				t.Errorf("TryAcquire a second after the node came back = %v, want the time that is left", err)
			}
		})
	}
}

// What keeps a quarantine from ending is named, and tried again now and then.
func TestARecordThatMayNotBeSetIsNamedAndTriedAgain(t *testing.T) {
	t.Parallel()
	for _, key := range gate.RecordKeys[:some(len(gate.RecordKeys))] {
		for refusal, want := range map[string]string{
			"NOPERM this user may not":              "+mget",
			"OOM command not allowed when used mem": "maxmemory",
		} {
			synctest.Test(t, func(t *testing.T) {
				var seen recorder
				locker, fakes := newLocker(t, 1, guard10(), seen.option())
				tries := 0
				fakes[0].Change(func(f *fakeNode) {
					f.Answer = func(args []any) *driver.Reply {
						if args[0] != "SET" || args[1] != key {
							return nil
						}
						tries++
						return &driver.Reply{Kind: driver.Failure, Str: refusal}
					}
				})
				var err error
				for start := time.Now(); time.Since(start) < 10*time.Minute; time.Sleep(100 * time.Millisecond) {
					_, err = locker.TryAcquire(t.Context(), "k")
				}
				if !errors.Is(err, ErrQuarantine) || !strings.Contains(err.Error(), `"`+key+`"`) || !strings.Contains(err.Error(), refusal) || !strings.Contains(err.Error(), want) {
					t.Errorf("where %q cannot be set TryAcquire = %v, want ErrQuarantine that names it and says %q", key, err, want)
				}
				if tries < 50 || tries > 85 {
					t.Errorf("%q was tried %d times in 10 minutes, want once in 10s", key, tries)
				}
				if named := seen.of(NodeQuarantined, key, want); len(named) != 1 {
					t.Errorf("of the events %v %d name the key, want one", seen.events, len(named))
				}
				if _, err := locker.Acquire(t.Context(), "k"); err == nil || errors.Is(err, ErrTaken) {
					t.Errorf("Acquire = %v, want it to fail at once, for waiting mends nothing", err)
				}
				fakes[0].Change(func(f *fakeNode) { f.Answer = nil })
				for start := time.Now(); ; time.Sleep(100 * time.Millisecond) {
					if _, err = locker.TryAcquire(t.Context(), "k"); err == nil {
						break
					}
					if time.Since(start) > time.Minute {
						t.Fatalf("a minute after the key may be set TryAcquire = %v", err)
					}
				}
			})
		}
	}
}

// Nobody has to ask for it: a watch that has begun ends in an admission.
func TestAQuarantineEndsWhileNobodyAsks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 1, guard10())
		_, _ = locker.TryAcquire(t.Context(), "k")
		time.Sleep(11 * time.Second)
		if recordsAt(fakes[0])[gate.MarkerKey] == "" {
			t.Error("11s after one try the node is not admitted")
		}
		mustAcquire(t, locker, "k")
	})
}

func TestWhereRecordsMayNotBeReadTheErrorSaysWhatToAllow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 1, guard10(), WithKeyPrefix("app:"))
		fakes[0].Change(func(f *fakeNode) { f.Answer = failing("MGET", "NOPERM this user may not") })
		says(t, ErrNode, "allow +mget ~ql:epoch:app: ~ql:admitted:app: ~ql:set:app:: ")(locker.TryAcquire(t.Context(), "k"))
		fakes[0].Change(func(f *fakeNode) { f.Answer = failing("GET", "NOPERM this user may not") })
		if err := locker.AdmitNewNodes(t.Context()); err == nil || !strings.Contains(err.Error(), "allow ~ql:* with +set +get") {
			t.Errorf("Admit where records may not be read = %v, want an error that says what to allow", err)
		}
	})
}

// Who waits for a quarantine hears that it will not end.
func TestARecordThatAppearsDuringAQuarantineIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var seen recorder
		locker, fakes := newLocker(t, 1, guard10(), seen.option())
		_, _ = locker.TryAcquire(t.Context(), "k")
		synctest.Wait()
		putRecord(fakes[0], gate.MarkerKey, "v2 new")
		for range 3 {
			_, _ = locker.TryAcquire(t.Context(), "k")
		}
		if told := seen.of(NodeQuarantined, "newer version"); len(told) != 1 {
			t.Errorf("the events are %v, want one that says that the record is newer", seen.events)
		}
	})
}

// It begins anew with either half of a history, also where nobody has seen the node without
// an epoch.
func TestAQuarantineBeginsAnewWithAFlush(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 1, guard10())
		_, _ = locker.TryAcquire(t.Context(), "k")
		time.Sleep(6 * time.Second)
		fakes[0].Change(flushed)
		putRecord(fakes[0], gate.EpochKey, gate.FormatEpoch(random.Nonce())) // another client's
		putRecord(fakes[0], gate.SetKey, "v1 0:1@1")
		for range 9 {
			if lock, err := locker.TryAcquire(t.Context(), "k"); !errors.Is(err, ErrQuarantine) {
				t.Fatalf("less than the longest TTL after FLUSHALL: TryAcquire = %v, %v, want ErrQuarantine", lock, err)
			}
			time.Sleep(time.Second)
		}
		time.Sleep(2 * time.Second)
		mustAcquire(t, locker, "k")
	})
}

// A client that is given other nodes must not make a node its own that has forgotten whose it
// was: an old client has a quorum with it, and this one with the nodes that are new.
func TestAClientOfOtherNodesDoesNotEndAQuarantine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fakes, _ := fakeNodes(5)
		old := another(t, fakes[:3], guard10())
		admit(t, old)
		young := another(t, fakes, guard10())
		fakes[0].Restart()
		for range 30 {
			time.Sleep(time.Second)
			if got, err := young.TryAcquire(t.Context(), "other"); err == nil {
				mustRelease(t, got)
			}
		}
		fakes[0].Change(func(f *fakeNode) { f.Refused = driver.NotSent(fakenode.ErrCut) })
		first := mustAcquire(t, old, "k")
		synctest.Wait()
		fakes[0].Change(func(f *fakeNode) { f.Refused = nil })
		time.Sleep(time.Second)
		if second, err := young.TryAcquire(t.Context(), "k"); err == nil && first.Valid() {
			t.Errorf("a client of three nodes and one of five both hold the key; a node has %v", second)
		}
		if set := recordsAt(fakes[0])[gate.SetKey]; set != "" {
			t.Errorf("the node that came back empty was listed as %q by a client of five nodes", set)
		}
		time.Sleep(time.Minute) // looked at now and then
		mustRelease(t, mustAcquire(t, old, "k2"))
		time.Sleep(time.Minute)
		mustRelease(t, mustAcquire(t, old, "k2"))
		synctest.Wait()
		if set := recordsAt(fakes[0])[gate.SetKey]; set != gate.FormatSet(0, 3) {
			t.Errorf("the node that came back empty is listed as %q, want %q", set, gate.FormatSet(0, 3))
		}
	})
}

// A fresh process that may take shorter leases than the others, and hears nobody who tells it,
// must not end a quarantine.
func TestAClientOfShorterLeasesEndsNoQuarantineByItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fakes, _ := fakeNodes(3)
		long := another(t, fakes, WithLongestTTL(30*time.Second), WithRestartGuard(), WithTTL(30*time.Second))
		admit(t, long)
		hang := func(nodes ...int) {
			for _, n := range nodes {
				fakes[n].Stop()
			}
		}
		resume := func(nodes ...int) {
			for _, n := range nodes {
				fakes[n].Change((*fakeNode).Wake)
			}
		}
		fakes[1].Restart()
		hang(0, 2)
		short := another(t, fakes, guard10())
		var told string
		for range 30 {
			time.Sleep(time.Second)
			if _, err := short.TryAcquire(t.Context(), "other"); errors.Is(err, ErrQuarantine) {
				told = err.Error()
			}
		}
		if m := recordsAt(fakes[1])[gate.MarkerKey]; m != "" {
			t.Errorf("the node was admitted, %q, by a client that has heard of no other node", m)
		}
		for _, text := range []string{"no node that is admitted", fakes[0].Name() + ", " + fakes[2].Name(), "ForceAdmission"} {
			if !strings.Contains(told, text) {
				t.Errorf("the last error is %q, want one that says %q", told, text)
			}
		}
		_ = short.Close()
		resume(0, 2)
		for range 2 {
			time.Sleep(time.Minute)
			mustRelease(t, mustAcquire(t, long, "other"))
			synctest.Wait()
		}
		if m, err := gate.ParseMarker(recordsAt(fakes[1])[gate.MarkerKey]); err != nil || m.Ms != 30_000 {
			t.Errorf("the node is admitted for %d ms, %v, want 30000", m.Ms, err)
		}
	})
}

// A probe asks once for itself and up to twice for the clock. Where they shared one time-out, a node
// that is far, but in time, was down for as long as it was far, and new nodes were never admitted.
func TestNewNodesAreAdmittedThoughEachAnswerOfTwoTakesMostOfATimeOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 5, guard10(), WithClockGuard())
		for _, f := range fakes[3:] {
			f.Change(func(f *fakeNode) { f.Refused = fakenode.ErrCut })
		}
		_, _ = locker.TryAcquire(t.Context(), "down") // the next probe is not a node's first, which may take longer
		for _, f := range fakes[3:] {
			f.Change(func(f *fakeNode) { f.Delay, f.Refused = 200*time.Millisecond, nil })
		}
		time.Sleep(12 * time.Second)
		_, _ = locker.TryAcquire(t.Context(), "probe")
		time.Sleep(time.Second)
		mustAcquire(t, locker, "k")
		for _, n := range locker.board.Nodes {
			if why := n.DownFor(); why != nil {
				t.Errorf("%s is down: %v", n.Name(), why)
			}
		}
	})
}

// What a quarantine waits for may be up for a moment only, too short for anybody to ask it.
func TestANodeThatComesUpIsLookedAtByItsProbe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 5, guard10())
		for _, f := range fakes[3:] {
			f.Change(func(f *fakeNode) { f.Refused = fakenode.ErrCut })
		}
		time.Sleep(time.Second) // the clock shows more than nothing
		_, _ = locker.TryAcquire(t.Context(), "k")
		time.Sleep(5 * time.Second)
		for _, f := range fakes[3:] {
			f.Change(func(f *fakeNode) {
				f.Refused = nil
				f.Hold = func(string) <-chan struct{} { // it answers once
					f.Refused = fakenode.ErrCut
					return nil
				}
			})
		}
		_, _ = locker.TryAcquire(t.Context(), "k")
		time.Sleep(7 * time.Second)
		if recordsAt(fakes[0])[gate.MarkerKey] == "" {
			t.Error("a node was not admitted although the others had answered while it sat out")
		}
	})
}

// A connection takes a round trip each for TCP, TLS, HELLO and what else a client says.
func TestTheFirstProbeOfAFarNodeHasTimeForAConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 3, guard10())
		connected := time.Now().Add(7 * 240 * time.Millisecond)
		fakes[0].Change(func(f *fakeNode) {
			f.Hold = func(string) <-chan struct{} {
				late := make(chan struct{})
				time.AfterFunc(time.Until(connected), func() { close(late) })
				return late
			}
		})
		_, _ = locker.TryAcquire(t.Context(), "k")
		time.Sleep(time.Until(connected))
		synctest.Wait()
		if why := locker.board.Nodes[0].DownFor(); why != nil || !locker.board.Nodes[0].Up() {
			t.Errorf("after a connection was made in seven round trips of 240ms the node is down: %v", why)
		}
	})
}

// Who ends a quarantine by its own settings looks once more before it writes: what it knows of
// the node may be as old as its watch.
func TestTheEndOfAWatchDoesNotUndoAnAdmission(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fakes, _ := fakeNodes(3)
		admit(t, another(t, fakes, guard10()))
		changeAll(fakes, func(f *fakeNode) { delete(f.Keys, gate.MarkerKey) })
		short := another(t, fakes, guard10())
		_, _ = short.TryAcquire(t.Context(), "k")
		synctest.Wait() // it watches all of them
		long := another(t, fakes, WithLongestTTL(30*time.Second), WithRestartGuard())
		must(t, long.ForceAdmission(t.Context()))
		time.Sleep(15 * time.Second) // its watches are over
		for _, f := range fakes {
			if m, err := gate.ParseMarker(recordsAt(f)[gate.MarkerKey]); err != nil || m.Ms != 30_000 {
				t.Errorf("%s is admitted for %d ms, %v, want 30000", f.Name(), m.Ms, err)
			}
		}
	})
}

// After a power cut some nodes may never come back. Those that have kept their files know what
// they were admitted for.
func TestNodesThatComeBackWithTheirFilesNeedNoOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fakes, _ := fakeNodes(5)
		admit(t, another(t, fakes, guard10()))
		for i, f := range fakes {
			f.Change(anotherHistory)
			if i > 2 {
				f.Change(func(f *fakeNode) { f.Refused = driver.NotSent(fakenode.ErrCut) })
			}
		}
		locker := another(t, fakes, guard10())
		returns(t, ErrQuarantine, "the nodes were started anew")(locker.TryAcquire(t.Context(), "k"))
		time.Sleep(11 * time.Second)
		mustRelease(t, mustAcquire(t, locker, "k"))
	})
}
