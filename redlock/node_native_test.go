package redlock

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/internal/node"
	"github.com/quorumlock/quorumlock/internal/protocol"
	"github.com/quorumlock/quorumlock/test/fakenode"
)

// natives are the servers that can do without scripts, and the command by which each
// deletes where the user may run none.
var natives = []struct {
	name    string
	kind    fakenode.Kind
	deletes string
}{
	{"Valkey 8.1", fakenode.Valkey8, "SET IFEQ"},
	{"Valkey 9", fakenode.Valkey9, "DELIFEQ"},
	{"Redis 8.4", fakenode.Redis84, "DELEX"},
}

// native returns a Locker on fake nodes of a kind.
func native(t *testing.T, n int, kind fakenode.Kind, scriptless bool, options ...Option) (*Locker, []*fakeNode) {
	t.Helper()
	locker, fakes := newLocker(t, n, options...)
	changeAll(fakes, func(f *fakeNode) { f.Kind, f.Scriptless = kind, scriptless })
	return locker, fakes
}

// onNatives runs the test on each kind, with scripts allowed and forbidden.
func onNatives(t *testing.T, test func(t *testing.T, kind fakenode.Kind, scriptless bool)) {
	t.Helper()
	bubble(t, "scripts alone", func(t *testing.T) { test(t, fakenode.Redis7, false) })
	for _, n := range natives {
		for _, scriptless := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s scriptless=%v", n.name, scriptless), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { test(t, n.kind, scriptless) })
			})
		}
	}
}

func TestANodeIsAskedForItsDialectAndNothingChanges(t *testing.T) {
	for _, tt := range []struct {
		kind       fakenode.Kind
		scriptless bool
		want       protocol.Dialect
		event      bool
	}{
		{fakenode.Redis7, false, protocol.Dialect{}, false},
		{fakenode.Redis7, true, protocol.Dialect{Scriptless: true}, true},
		{fakenode.Valkey8, false, protocol.Dialect{Swaps: true}, false},
		{fakenode.Valkey8, true, protocol.Dialect{Deletes: protocol.BySET, Swaps: true, Scriptless: true}, false},
		{fakenode.Valkey9, false, protocol.Dialect{Deletes: protocol.ByDELIFEQ, Swaps: true, Scriptless: false}, false},
		{fakenode.Valkey9, true, protocol.Dialect{Deletes: protocol.ByDELIFEQ, Swaps: true, Scriptless: true}, false},
		{fakenode.Redis84, false, protocol.Dialect{Deletes: protocol.ByDELEX, Swaps: true, Scriptless: false}, false},
		{fakenode.Redis84, true, protocol.Dialect{Deletes: protocol.ByDELEX, Swaps: true, Scriptless: true}, false},
	} {
		for _, holder := range []string{"", "another", "a list"} {
			synctest.Test(t, func(t *testing.T) {
				var seen recorder
				locker, fakes := native(t, 1, tt.kind, tt.scriptless, seen.option())
				if holder != "" {
					fakes[0].Plant("k", holder, time.Minute)
				}
				lock, err := locker.TryAcquire(t.Context(), "k")
				if gives := holder == "" && !tt.event; (err == nil) != gives {
					t.Errorf("kind %d, scriptless %v, %q has the key: TryAcquire = %v", tt.kind, tt.scriptless, holder, err)
				}
				synctest.Wait()
				got := locker.board.Nodes[0].Dialect()
				if forbidden := got.Forbidden != 0; forbidden != tt.scriptless {
					t.Errorf("kind %d, scriptless %v, %q has the key: commands are forbidden: %v", tt.kind, tt.scriptless, holder, forbidden)
				}
				if got.Forbidden = 0; got != tt.want {
					t.Errorf("kind %d, scriptless %v, %q has the key: the dialect is %+v, want %+v", tt.kind, tt.scriptless, holder, got, tt.want)
				}
				if token, left := fakes[0].Token("k"); holder != "" && (token != holder || left != time.Minute) ||
					lock != nil && (token != lock.Token() || left != 10*time.Second) || holder == "" && lock == nil && token != "" {
					t.Errorf("kind %d, scriptless %v: after the first contact the key of %q holds %q for %v", tt.kind, tt.scriptless, holder, token, left)
				}
				if got := slices.Contains(seen.kinds(), NodeLimited); got != tt.event {
					t.Errorf("kind %d, scriptless %v: events are %v, want NodeLimited: %v", tt.kind, tt.scriptless, seen.kinds(), tt.event)
				}
			})
		}
	}
}

func TestAReleaseByCommandIsARelease(t *testing.T) {
	for _, n := range natives {
		for _, tt := range []struct {
			name  string
			spoil func(f *fakeNode, lock *Lock)
			want  error
			left  string
		}{
			{"held", func(*fakeNode, *Lock) {}, nil, ""},
			{"reply lost", func(f *fakeNode, _ *Lock) {
				f.Change(func(f *fakeNode) { f.Lose = once(n.deletes) })
			}, nil, ""},
			{"missing", func(f *fakeNode, _ *Lock) { f.Change(func(f *fakeNode) { delete(f.Keys, "k") }) }, ErrLost, ""},
			{"taken over", func(f *fakeNode, _ *Lock) { f.Plant("k", "another", time.Minute) }, ErrLost, "another"},
			{"no lock", func(f *fakeNode, _ *Lock) { f.Plant("k", "a list", time.Minute) }, ErrLost, "a list"},
		} {
			synctest.Test(t, func(t *testing.T) {
				locker, fakes := native(t, 3, n.kind, true)
				warm(t, locker)
				lock := mustAcquire(t, locker, "k")
				for _, f := range fakes {
					tt.spoil(f, lock)
				}
				returns(t, tt.want, n.name, tt.name)(lock.Release())
				synctest.Wait()
				for _, f := range fakes {
					if token, _ := f.Token("k"); token != tt.left {
						t.Errorf("%s, %s: after Release the key holds %q, want %q", n.name, tt.name, token, tt.left)
					}
					if f.Count(n.deletes) == 0 || f.Count("EVALSHA")+f.Count("EVAL") > 0 {
						t.Errorf("%s, %s: the node got %v, want %s and no scripts", n.name, tt.name, f.Log, n.deletes)
					}
				}
			})
		}
	}
}

// once loses the reply to the first command of that name.
func once(name string) func(string) bool {
	lost := false
	return func(got string) bool {
		if lost || got != name {
			return false
		}
		lost = true
		return true
	}
}

func TestAnnouncementsFollowAReleaseByCommandWhereSomebodyListens(t *testing.T) {
	onNatives(t, func(t *testing.T, kind fakenode.Kind, scriptless bool) {
		ours, fakes := native(t, 3, kind, scriptless)
		theirs := another(t, fakes)
		warm(t, theirs) // a first release, which nobody has looked before
		published := fakes[0].Count("PUBLISH")
		mustRelease(t, mustAcquire(t, theirs, "k"))
		if more := fakes[0].Count("PUBLISH") - published; more > 0 {
			t.Errorf("a release that nobody waits for made %d announcements", more)
		}
		for round, known := range []bool{false, true} {
			lock := mustAcquire(t, theirs, "k")
			next := waitFor(t.Context(), ours)
			time.Sleep(500 * time.Millisecond)
			batches := fakes[0].Batches()
			probes := fakes[0].Count("PROBE") // two, once a second, whether scripts are still forbidden
			taught := fakes[0].Count("EVAL")  // a script that a try before has not reached
			released := time.Now()
			mustRelease(t, lock)
			got := <-next
			if got.err != nil || got.at.Sub(released) > 0 {
				t.Errorf("round %d: Acquire = %v, %v after the release, want it at once", round+1, got.err, got.at.Sub(released))
			}
			synctest.Wait()
			if scripted := kind == fakenode.Redis7 || kind == fakenode.Valkey8 && !scriptless; !scripted { // the release, and what follows it late; and the acquire
				sent := fakes[0].Batches() - batches - (fakes[0].Count("PROBE")-probes)/2 - (fakes[0].Count("EVAL") - taught)
				want := 3
				if known {
					want = 2
				}
				if sent != want && (scriptless || sent != want+1) { // where a node's vote is not the deciding one, the ticket may leave by itself
					t.Errorf("round %d: %d batches, want %d", round+1, sent, want)
				}
			}
			mustRelease(t, got.lock)
			synctest.Wait()
		}
	})
}

func TestAnnouncementsOutliveLostReplies(t *testing.T) {
	for _, lost := range []string{"DELIFEQ", "PUBSUB", "PUBLISH"} {
		synctest.Test(t, func(t *testing.T) {
			ours, fakes := native(t, 3, fakenode.Valkey9, false)
			theirs := another(t, fakes)
			warm(t, theirs)
			lock := mustAcquire(t, theirs, "k")
			next := waitFor(t.Context(), ours)
			changeAll(fakes, func(f *fakeNode) { f.Lose = once(lost) })
			released := time.Now()
			noError(t, lock.Release(), "the reply to", lost, "is lost: Release")
			if got := <-next; got.err != nil || got.at.Sub(released) > 0 {
				t.Errorf("the reply to %s is lost: Acquire = %v, %v after the release", lost, got.err, got.at.Sub(released))
			}
		})
	}
}

func TestCloseWaitsForAnnouncements(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ours, fakes := native(t, 3, fakenode.Valkey9, false)
		theirs := another(t, fakes)
		warm(t, theirs)
		lock := mustAcquire(t, theirs, "k")
		next := waitFor(t.Context(), ours)
		far(fakes, 10*time.Millisecond)
		noError(t, errors.Join(lock.Release(), theirs.Close()), "Release and Close")
		closed := time.Now()
		if got := <-next; got.err != nil || got.at.Sub(closed) > time.Second {
			t.Errorf("released and closed at once: Acquire = %v after %v, want that the release was announced", got.err, got.at.Sub(closed))
		}
	})
}

func TestInAClusterAnnouncementsComeAfterTheReleases(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := native(t, 1, fakenode.Valkey9, false)
		fakes[0].Info += "redis_mode:cluster\r\n"
		mustRelease(t, mustAcquire(t, locker, "k"))
		synctest.Wait()
		got := fakes[0].Log
		if want := []string{"SET", "DELIFEQ", "PUBLISH"}; !slices.Equal(got[len(got)-3:], want) || fakes[0].Batches() != 4 {
			t.Errorf("the node got %v in %d batches, want %v at the end, each by itself", got, fakes[0].Batches(), want)
		}
	})
}

func TestWhereChannelsAreForbiddenReleasesByCommandAreMuted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var seen recorder
		locker, fakes := native(t, 3, fakenode.Valkey9, true, seen.option())
		changeAll(fakes, func(f *fakeNode) { f.Mute = true })
		for range 5 {
			noError(t, mustAcquire(t, locker, "k").Release())
			synctest.Wait()
		}
		if tries := fakes[0].Count("PUBLISH"); tries != 1 {
			t.Errorf("where it is forbidden, %d of 5 releases were announced, want that the first finds out", tries)
		}
		if !slices.Contains(seen.kinds(), NodeMuted) {
			t.Errorf("events are %v, want NodeMuted among them", seen.kinds())
		}
	})
}

func TestAWholeHoldWithoutScripts(t *testing.T) {
	onNatives(t, func(t *testing.T, kind fakenode.Kind, scriptless bool) {
		locker, fakes := native(t, 3, kind, scriptless)
		lock := mustAcquire(t, locker, "k")
		fakes[0].Change(func(f *fakeNode) { delete(f.Keys, "k") })
		must(t, lock.Extend(t.Context(), time.Minute))
		until := lock.Until()
		must(t, lock.Extend(t.Context(), time.Second), "a shorter Extend")
		if !lock.Until().Equal(until) {
			t.Errorf("an extension to less than is left moved Until by %v", lock.Until().Sub(until))
		}
		synctest.Wait()
		for _, f := range fakes {
			if token, left := f.Token("k"); token != lock.Token() || left != time.Minute {
				t.Errorf("after extensions to 1m and 1s %s has %q for %v", f.Name(), token, left)
			}
		}
		plant(fakes[:2], "k", "another", time.Second)
		returns(t, ErrLost, "Extend of a key that two of three nodes have given to another")(lock.Extend(t.Context(), time.Hour))
		synctest.Wait()
		if _, left := fakes[0].Token("k"); left != time.Second {
			t.Errorf("another's lease is %v after our extension, want 1s still", left)
		}
		if scriptless && fakes[0].Count("EVALSHA")+fakes[0].Count("EVAL") > 0 {
			t.Errorf("a node that forbids scripts got %v", fakes[0].Log)
		}
	})
}

func TestALateExtensionWithoutScriptsCutsNothing(t *testing.T) {
	onNatives(t, func(t *testing.T, kind fakenode.Kind, scriptless bool) {
		locker, fakes := native(t, 3, kind, scriptless)
		warm(t, locker)
		lock := mustAcquire(t, locker, "k")
		name := "PEXPIRE"
		if !scriptless {
			name = "EVALSHA"
		}
		fakes[0].Change(func(f *fakeNode) { // from the second sending on it is silent
			f.Answer = func(args []any) *driver.Reply {
				if args[0] == name {
					f.Hang()
				}
				return nil
			}
		})
		for _, ttl := range []time.Duration{15 * time.Second, time.Minute} {
			must(t, lock.Extend(t.Context(), ttl), "Extend to", ttl)
			time.Sleep(time.Second)
		}
		fakes[0].Change(func(f *fakeNode) { f.Answer = nil })
		fakes[0].Resume()
		time.Sleep(2 * time.Second)
		noError(t, lock.Extend(t.Context(), 58*time.Second))
		synctest.Wait()
		for _, f := range fakes {
			if _, left := f.Token("k"); left < 55*time.Second {
				t.Errorf("%s has the key for %v more, and the holder believes in %v", f.Name(), left, time.Until(lock.Until()))
			}
		}
	})
}

func TestAKeyThatChangesHandsBetweenTheTwoSendingsIsNotProlonged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := native(t, 1, fakenode.Valkey9, true)
		lock := mustAcquire(t, locker, "k")
		before(fakes[:1], "PEXPIRE", func(f *fakeNode, _ []any) { f.Put("k", "another", time.Hour) })
		returns(t, ErrLost)(lock.Extend(t.Context(), time.Minute))
		if token, left := fakes[0].Token("k"); token != "another" || left != time.Hour {
			t.Errorf("the key holds %q for %v, want another's lease as it was", token, left)
		}
	})
}

func TestAHandOverWithoutScripts(t *testing.T) {
	onNatives(t, func(t *testing.T, kind fakenode.Kind, scriptless bool) {
		locker, fakes := native(t, 5, kind, scriptless)
		lock := mustAcquire(t, locker, "k")
		next := waitFor(t.Context(), locker)
		fakes[0].Change(func(f *fakeNode) { delete(f.Keys, "k") })
		fakes[1].Plant("k", "another", time.Minute)
		fakes[2].Change(func(f *fakeNode) { f.Lose = once("SET") })
		mustRelease(t, lock)
		got := <-next
		synctest.Wait()
		if got.err != nil {
			t.Fatalf("the heir: %v", got.err)
		}
		for i, f := range fakes {
			want, ttl := got.lock.Token(), 10*time.Second
			if i == 1 {
				want, ttl = "another", time.Minute
			}
			if token, left := f.Token("k"); token != want || left != ttl {
				t.Errorf("after the hand-over %s has %q for %v, want %q for %v", f.Name(), token, left, want, ttl)
			}
		}
		noError(t, got.lock.Release(), "Release by the heir")
		synctest.Wait()
		wantFree(t, slices.Concat(fakes[:1], fakes[2:]), "k")
	})
}

func TestATokenOfOnesOwnWithoutScripts(t *testing.T) {
	onNatives(t, func(t *testing.T, kind fakenode.Kind, scriptless bool) {
		locker, fakes := native(t, 3, kind, scriptless)
		for _, tt := range []struct{ ttl, left time.Duration }{
			{20 * time.Second, 20 * time.Second},
			{5 * time.Second, 20 * time.Second}, // a retry that asks for less cuts nothing
			{time.Minute, time.Minute},
		} {
			mustAcquire(t, another(t, fakes), "k", WithToken("my own"), WithTTL(tt.ttl))
			if _, left := fakes[0].Token("k"); left != tt.left {
				t.Errorf("an acquire of %v with the same token leaves %v, want %v", tt.ttl, left, tt.left)
			}
		}
		returns(t, ErrTaken, "an acquire with another token")(locker.TryAcquire(t.Context(), "k", WithToken("another's")))
	})
}

func TestWithoutScriptsAndCommandsANodeGivesNoLocksAndSaysSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var seen recorder
		locker, fakes := native(t, 3, fakenode.Redis7, true, seen.option())
		for name, take := range map[string]func() (*Lock, error){
			"TryAcquire": func() (*Lock, error) { return locker.TryAcquire(t.Context(), "k") },
			"Acquire":    func() (*Lock, error) { return locker.Acquire(t.Context(), "k", WithMaxWait(time.Minute)) },
			"an acquire with a token": func() (*Lock, error) {
				return locker.TryAcquire(t.Context(), "k", WithToken("a token of the test's own"))
			},
		} {
			began := time.Now()
			if _, err := take(); !errors.Is(err, ErrNode) || !strings.Contains(err.Error(), "allow +eval +evalsha") || time.Since(began) > time.Second {
				t.Errorf("%s = %v after %v, want ErrNode and what to allow, at once", name, err, time.Since(began))
			}
		}
		synctest.Wait()
		for i, f := range fakes {
			if token, _ := f.Token("k"); token != "" {
				t.Errorf("node %d, which deletes no lock, was given %q", i+1, token)
			}
		}
		if limits := seen.of(NodeLimited); len(limits) != 3 {
			t.Errorf("events are %v, want NodeLimited once of each node", limits)
		}

		changeAll(fakes, func(f *fakeNode) { f.Scriptless = false })
		time.Sleep(time.Second)
		lock, err := locker.TryAcquire(t.Context(), "k")
		if err != nil { // and the nodes were asked again
			synctest.Wait()
			lock = mustAcquire(t, locker, "k")
		}
		noError(t, lock.Release(), "Release where scripts are allowed by now")
		mustRelease(t, mustShare(t, locker, "k"))
		mustRelease(t, mustAcquireAll(t, locker, []string{"k", "l"}))
		if news := seen.kinds(); news[len(news)-1] != NodeUp {
			t.Errorf("the events are %v, want NodeUp at the end", news)
		}
	})
}

func TestANodeThatComesBackAsAnotherVersionIsAskedAgain(t *testing.T) {
	for _, tt := range []struct {
		from, to fakenode.Kind
		want     protocol.Deletion
	}{{fakenode.Valkey9, fakenode.Redis7, protocol.ByScript}, {fakenode.Redis7, fakenode.Valkey9, protocol.ByDELIFEQ}, {fakenode.Valkey8, fakenode.Redis84, protocol.ByDELEX}} {
		for _, noticed := range []bool{true, false} {
			synctest.Test(t, func(t *testing.T) {
				locker, fakes := native(t, 3, tt.from, false)
				lock := mustAcquire(t, locker, "k")
				if noticed {
					changeAll(fakes, func(f *fakeNode) { f.Refused = fakenode.ErrCut })
					_ = locker.Check(t.Context()) // an acquire may be decided before all were asked
					synctest.Wait()
				}
				changeAll(fakes, func(f *fakeNode) { f.Kind, f.Refused = tt.to, nil })
				time.Sleep(node.MaxCooldown)
				noError(t, lock.Release(), "from kind", tt.from, "to", tt.to, "noticed", noticed)
				synctest.Wait()
				wantFree(t, fakes, "k", tt.from, tt.to, noticed)
				if got := locker.board.Nodes[0].Dialect().Deletes; noticed && got != tt.want {
					t.Errorf("from kind %d to %d: deletes by %d, want %d", tt.from, tt.to, got, tt.want)
				}
			})
		}
	}
}

// What the script answers is a number, and the commands that stand in for it answer
// otherwise: a number from them is no vote, whatever the script would mean by it.
func TestANumberIsNoAnswerOfWhatStandsInForTheScript(t *testing.T) {
	for _, command := range []string{"SET", "GET", "SET IFEQ"} {
		for number := range int64(4) {
			synctest.Test(t, func(t *testing.T) {
				locker, fakes := native(t, 1, fakenode.Valkey9, true, WithFences())
				lock := mustAcquire(t, locker, "k")
				fakes[0].Change(func(f *fakeNode) {
					f.Answer = func(args []any) *driver.Reply {
						if fakenode.CommandName(args) != command {
							return nil
						}
						return &driver.Reply{Kind: driver.Integer, Int: number}
					}
				})
				if command != "SET IFEQ" {
					returns(t, ErrNoQuorum, "where", command, "answers", number)(lock.Extend(t.Context(), time.Minute))
					return
				}
				heir := waitFor(t.Context(), locker, WithMaxWait(time.Second))
				noError(t, lock.Release())
				got := <-heir
				if got.lock != nil && got.lock.hold.Acquire.Op == protocol.Exclusive.Inherit {
					t.Errorf("where %s answers %d, the heir has the lock by it", command, number)
				}
			})
		}
	}
}
