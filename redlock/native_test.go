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
)

// natives are the servers that can do without scripts, and the command by which each
// deletes where the user may run none.
var natives = []struct {
	name    string
	kind    fakeKind
	deletes string
}{
	{"Valkey 8.1", valkey8, "SET IFEQ"},
	{"Valkey 9", valkey9, "DELIFEQ"},
	{"Redis 8.4", redis84, "DELEX"},
	{"Tair", tair, "CAD"},
}

// native returns a Locker on fake nodes of a kind.
func native(t *testing.T, n int, kind fakeKind, scriptless bool, options ...Option) (*Locker, []*fakeNode) {
	t.Helper()
	locker, fakes := newLocker(t, n, options...)
	for _, f := range fakes {
		f.change(func(f *fakeNode) { f.kind, f.scriptless = kind, scriptless })
	}
	return locker, fakes
}

// onNatives runs the test on each kind, with scripts allowed and forbidden.
func onNatives(t *testing.T, test func(t *testing.T, kind fakeKind, scriptless bool)) {
	t.Helper()
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
		kind       fakeKind
		scriptless bool
		want       protocol.Dialect
		event      bool
	}{
		{redis7, false, protocol.Dialect{}, false},
		{redis7, true, protocol.Dialect{Scriptless: true}, true},
		{valkey8, false, protocol.Dialect{Swaps: protocol.BySetIf}, false},
		{valkey8, true, protocol.Dialect{Deletes: protocol.BySET, Swaps: protocol.BySetIf, Scriptless: true}, false},
		{valkey9, false, protocol.Dialect{Deletes: protocol.ByDELIFEQ, Swaps: protocol.BySetIf, Scriptless: false}, false},
		{valkey9, true, protocol.Dialect{Deletes: protocol.ByDELIFEQ, Swaps: protocol.BySetIf, Scriptless: true}, false},
		{redis84, true, protocol.Dialect{Deletes: protocol.ByDELEX, Swaps: protocol.BySetIf, Scriptless: true}, false},
		{tair, true, protocol.Dialect{Deletes: protocol.ByCAD, Swaps: protocol.ByCAS, Scriptless: true}, false},
	} {
		for _, holder := range []string{"", "another", "a list"} {
			synctest.Test(t, func(t *testing.T) {
				var seen recorder
				locker, fakes := native(t, 1, tt.kind, tt.scriptless, seen.option())
				if holder != "" {
					fakes[0].plant("k", holder, time.Minute)
				}
				lock, err := locker.TryAcquire(t.Context(), "k")
				if (err == nil) != (holder == "") {
					t.Errorf("kind %d, scriptless %v, %q has the key: TryAcquire = %v", tt.kind, tt.scriptless, holder, err)
				}
				synctest.Wait()
				if got := locker.board.Nodes[0].Dialect(); got != tt.want {
					t.Errorf("kind %d, scriptless %v, %q has the key: the dialect is %+v, want %+v", tt.kind, tt.scriptless, holder, got, tt.want)
				}
				if token, left := fakes[0].token("k"); holder != "" && (token != holder || left != time.Minute) ||
					holder == "" && (token != lock.Token() || left != 10*time.Second) {
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
				f.change(func(f *fakeNode) { f.lose = once(n.deletes) })
			}, nil, ""},
			{"missing", func(f *fakeNode, _ *Lock) { f.change(func(f *fakeNode) { delete(f.keys, "k") }) }, ErrLost, ""},
			{"taken over", func(f *fakeNode, _ *Lock) { f.plant("k", "another", time.Minute) }, ErrLost, "another"},
			{"no lock", func(f *fakeNode, _ *Lock) { f.plant("k", "a list", time.Minute) }, ErrLost, "a list"},
		} {
			synctest.Test(t, func(t *testing.T) {
				locker, fakes := native(t, 3, n.kind, true)
				warm(t, locker)
				lock := mustAcquire(t, locker, "k")
				for _, f := range fakes {
					tt.spoil(f, lock)
				}
				if err := lock.Release(t.Context()); !errors.Is(err, tt.want) {
					t.Errorf("%s, %s: Release = %v, want %v", n.name, tt.name, err, tt.want)
				}
				synctest.Wait()
				for _, f := range fakes {
					if token, _ := f.token("k"); token != tt.left {
						t.Errorf("%s, %s: after Release the key holds %q, want %q", n.name, tt.name, token, tt.left)
					}
					if f.count(n.deletes) == 0 || f.count("EVALSHA")+f.count("EVAL") > 0 {
						t.Errorf("%s, %s: the node got %v, want %s and no scripts", n.name, tt.name, f.log, n.deletes)
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

func TestOnlyWhereItIsFasterACommandReleasesInsteadOfTheScript(t *testing.T) {
	for _, tt := range []struct {
		kind    fakeKind
		command string
	}{{redis7, "EVAL"}, {valkey8, "EVAL"}, {valkey9, "DELIFEQ"}, {redis84, "DELEX"}, {tair, "CAD"}} {
		synctest.Test(t, func(t *testing.T) {
			locker, fakes := native(t, 3, tt.kind, false)
			if err := mustAcquire(t, locker, "k").Release(t.Context()); err != nil {
				t.Errorf("Release = %v", err)
			}
			synctest.Wait()
			if fakes[0].count(tt.command) == 0 {
				t.Errorf("kind %d, where scripts may run, got %v, want %s", tt.kind, fakes[0].log, tt.command)
			}
		})
	}
}

func TestAnnouncementsFollowAReleaseByCommandWhereSomebodyListens(t *testing.T) {
	onNatives(t, func(t *testing.T, kind fakeKind, scriptless bool) {
		ours, fakes := native(t, 3, kind, scriptless)
		theirs := another(t, fakes)
		warm(t, theirs) // a first release, which nobody has looked before
		published := fakes[0].count("PUBLISH")
		if err := mustAcquire(t, theirs, "k").Release(t.Context()); err != nil {
			t.Fatalf("Release = %v", err)
		}
		if more := fakes[0].count("PUBLISH") - published; more > 0 {
			t.Errorf("a release that nobody waits for made %d announcements", more)
		}
		for round, known := range []bool{false, true} {
			lock := mustAcquire(t, theirs, "k")
			next := waitFor(t.Context(), ours)
			time.Sleep(500 * time.Millisecond)
			batches := fakes[0].batches()
			probes := fakes[0].count("PROBE") // two, once a second, whether scripts are still forbidden
			released := time.Now()
			if err := lock.Release(t.Context()); err != nil {
				t.Fatalf("Release = %v", err)
			}
			got := <-next
			if got.err != nil || got.at.Sub(released) > 0 {
				t.Errorf("round %d: Acquire = %v, %v after the release, want it at once", round+1, got.err, got.at.Sub(released))
			}
			synctest.Wait()
			if scripted := kind == valkey8 && !scriptless; !scripted { // the release, and what follows it late; and the acquire
				sent := fakes[0].batches() - batches - (fakes[0].count("PROBE")-probes)/2
				if known && sent != 2 || !known && sent != 3 {
					t.Errorf("round %d: %d batches", round+1, sent)
				}
			}
			if err := got.lock.Release(t.Context()); err != nil {
				t.Fatalf("Release = %v", err)
			}
			synctest.Wait()
		}
	})
}

func TestAnnouncementsOutliveLostReplies(t *testing.T) {
	for _, lost := range []string{"DELIFEQ", "PUBSUB", "PUBLISH"} {
		synctest.Test(t, func(t *testing.T) {
			ours, fakes := native(t, 3, valkey9, false)
			theirs := another(t, fakes)
			warm(t, theirs)
			lock := mustAcquire(t, theirs, "k")
			next := waitFor(t.Context(), ours)
			for _, f := range fakes {
				f.change(func(f *fakeNode) { f.lose = once(lost) })
			}
			released := time.Now()
			if err := lock.Release(t.Context()); err != nil {
				t.Errorf("the reply to %s is lost: Release = %v", lost, err)
			}
			if got := <-next; got.err != nil || got.at.Sub(released) > 0 {
				t.Errorf("the reply to %s is lost: Acquire = %v, %v after the release", lost, got.err, got.at.Sub(released))
			}
		})
	}
}

func TestCloseWaitsForAnnouncements(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ours, fakes := native(t, 3, valkey9, false)
		theirs := another(t, fakes)
		warm(t, theirs)
		lock := mustAcquire(t, theirs, "k")
		next := waitFor(t.Context(), ours)
		for _, f := range fakes {
			f.change(func(f *fakeNode) { f.delay = 10 * time.Millisecond })
		}
		if err := errors.Join(lock.Release(t.Context()), theirs.Close()); err != nil {
			t.Errorf("Release and Close = %v", err)
		}
		closed := time.Now()
		if got := <-next; got.err != nil || got.at.Sub(closed) > time.Second {
			t.Errorf("released and closed at once: Acquire = %v after %v, want that the release was announced", got.err, got.at.Sub(closed))
		}
	})
}

func TestInAClusterAnnouncementsComeAfterTheReleases(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := native(t, 1, valkey9, false)
		fakes[0].info += "redis_mode:cluster\r\n"
		if err := mustAcquire(t, locker, "k").Release(t.Context()); err != nil {
			t.Fatalf("Release = %v", err)
		}
		synctest.Wait()
		got := fakes[0].log
		if want := []string{"SET", "DELIFEQ", "PUBLISH"}; !slices.Equal(got[len(got)-3:], want) || fakes[0].batches() != 4 {
			t.Errorf("the node got %v in %d batches, want %v at the end, each by itself", got, fakes[0].batches(), want)
		}
	})
}

func TestWhereChannelsAreForbiddenReleasesByCommandAreMuted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var seen recorder
		locker, fakes := native(t, 3, valkey9, true, seen.option())
		for _, f := range fakes {
			f.change(func(f *fakeNode) { f.mute = true })
		}
		for range 5 {
			if err := mustAcquire(t, locker, "k").Release(t.Context()); err != nil {
				t.Errorf("Release = %v", err)
			}
			synctest.Wait()
		}
		if tries := fakes[0].count("PUBLISH"); tries != 1 {
			t.Errorf("where it is forbidden, %d of 5 releases were announced, want that the first finds out", tries)
		}
		if !slices.Contains(seen.kinds(), NodeMuted) {
			t.Errorf("events are %v, want NodeMuted among them", seen.kinds())
		}
	})
}

func TestAWholeHoldWithoutScripts(t *testing.T) {
	onNatives(t, func(t *testing.T, kind fakeKind, scriptless bool) {
		locker, fakes := native(t, 3, kind, scriptless)
		lock := mustAcquire(t, locker, "k")
		fakes[0].change(func(f *fakeNode) { delete(f.keys, "k") })
		if err := lock.Extend(t.Context(), time.Minute); err != nil {
			t.Fatalf("Extend = %v", err)
		}
		if err := lock.Extend(t.Context(), time.Second); err != nil {
			t.Fatalf("a shorter Extend = %v", err)
		}
		synctest.Wait()
		for _, f := range fakes {
			if token, left := f.token("k"); token != lock.Token() || left != time.Minute {
				t.Errorf("after extensions to 1m and 1s %s has %q for %v", f.name, token, left)
			}
		}
		for _, f := range fakes[:2] {
			f.plant("k", "another", time.Second)
		}
		if err := lock.Extend(t.Context(), time.Hour); !errors.Is(err, ErrLost) {
			t.Errorf("Extend of a key that two of three nodes have given to another = %v, want ErrLost", err)
		}
		synctest.Wait()
		if _, left := fakes[0].token("k"); left != time.Second {
			t.Errorf("another's lease is %v after our extension, want 1s still", left)
		}
		if scriptless && fakes[0].count("EVALSHA")+fakes[0].count("EVAL") > 0 {
			t.Errorf("a node that forbids scripts got %v", fakes[0].log)
		}
	})
}

func TestALateExtensionWithoutScriptsCutsNothing(t *testing.T) {
	onNatives(t, func(t *testing.T, kind fakeKind, scriptless bool) {
		locker, fakes := native(t, 3, kind, scriptless)
		warm(t, locker)
		lock := mustAcquire(t, locker, "k")
		name := "PEXPIRE"
		if !scriptless {
			name = "EVALSHA"
		}
		fakes[0].change(func(f *fakeNode) { // from the second sending on it is silent
			f.answer = func(args []any) *driver.Reply {
				if args[0] == name && f.hung == nil {
					f.hung = make(chan struct{})
				}
				return nil
			}
		})
		for _, ttl := range []time.Duration{15 * time.Second, time.Minute} {
			if err := lock.Extend(t.Context(), ttl); err != nil {
				t.Fatalf("Extend to %v = %v", ttl, err)
			}
			time.Sleep(time.Second)
		}
		fakes[0].change(func(f *fakeNode) { f.answer = nil })
		fakes[0].resume()
		time.Sleep(2 * time.Second)
		if err := lock.Extend(t.Context(), 58*time.Second); err != nil {
			t.Errorf("Extend = %v", err)
		}
		synctest.Wait()
		for _, f := range fakes {
			if _, left := f.token("k"); left < 55*time.Second {
				t.Errorf("%s has the key for %v more, and the holder believes in %v", f.name, left, time.Until(lock.Until()))
			}
		}
	})
}

func TestAKeyThatChangesHandsBetweenTheTwoSendingsIsNotProlonged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := native(t, 1, valkey9, true)
		lock := mustAcquire(t, locker, "k")
		fakes[0].change(func(f *fakeNode) {
			f.answer = func(args []any) *driver.Reply {
				if args[0] == "PEXPIRE" {
					f.keys["k"] = fakeKey{"another", time.Now().Add(time.Hour)}
				}
				return nil
			}
		})
		if err := lock.Extend(t.Context(), time.Minute); !errors.Is(err, ErrLost) {
			t.Errorf("Extend = %v, want ErrLost", err)
		}
		if token, left := fakes[0].token("k"); token != "another" || left != time.Hour {
			t.Errorf("the key holds %q for %v, want another's lease as it was", token, left)
		}
	})
}

func TestAHandOverWithoutScripts(t *testing.T) {
	onNatives(t, func(t *testing.T, kind fakeKind, scriptless bool) {
		locker, fakes := native(t, 5, kind, scriptless)
		lock := mustAcquire(t, locker, "k")
		next := waitFor(t.Context(), locker)
		fakes[0].change(func(f *fakeNode) { delete(f.keys, "k") })
		fakes[1].plant("k", "another", time.Minute)
		fakes[2].change(func(f *fakeNode) { f.lose = once("SET") })
		if err := lock.Release(t.Context()); err != nil {
			t.Fatalf("Release = %v", err)
		}
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
			if token, left := f.token("k"); token != want || left != ttl {
				t.Errorf("after the hand-over %s has %q for %v, want %q for %v", f.name, token, left, want, ttl)
			}
		}
		if err := got.lock.Release(t.Context()); err != nil {
			t.Errorf("Release by the heir = %v", err)
		}
		synctest.Wait()
		if left := stray(slices.Concat(fakes[:1], fakes[2:]), "k"); left != nil {
			t.Errorf("after the heir's release %v have the key", left)
		}
	})
}

func TestATokenOfOnesOwnWithoutScripts(t *testing.T) {
	onNatives(t, func(t *testing.T, kind fakeKind, scriptless bool) {
		locker, fakes := native(t, 3, kind, scriptless)
		for _, tt := range []struct{ ttl, left time.Duration }{
			{20 * time.Second, 20 * time.Second},
			{5 * time.Second, 20 * time.Second}, // a retry that asks for less cuts nothing
			{time.Minute, time.Minute},
		} {
			mustAcquire(t, another(t, fakes), "k", WithToken("my own"), WithTTL(tt.ttl))
			if _, left := fakes[0].token("k"); left != tt.left {
				t.Errorf("an acquire of %v with the same token leaves %v, want %v", tt.ttl, left, tt.left)
			}
		}
		if _, err := locker.TryAcquire(t.Context(), "k", WithToken("another's")); !errors.Is(err, ErrTaken) {
			t.Errorf("an acquire with another token = %v, want ErrTaken", err)
		}
	})
}

func TestWithoutScriptsAndCommandsANodeIsLimitedAndSaysSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var seen recorder
		locker, _ := native(t, 3, redis7, true, seen.option())
		lock := mustAcquire(t, locker, "k")
		if err := lock.Extend(t.Context(), time.Minute); err != nil {
			t.Errorf("Extend = %v", err)
		}
		next := waitFor(t.Context(), locker, WithMaxWait(2*time.Minute))
		began := time.Now()
		err := lock.Release(t.Context())
		if !errors.Is(err, ErrNoQuorum) || !strings.Contains(err.Error(), "+evalsha") {
			t.Errorf("Release = %v, want ErrNoQuorum and what to allow", err)
		}
		if got := <-next; got.err != nil || got.at.Sub(began) < 59*time.Second {
			t.Errorf("the next: %v after %v, want the lock after its TTL", got.err, got.at.Sub(began))
		}
		limits := 0
		for _, kind := range seen.kinds() {
			if kind == NodeLimited {
				limits++
			}
		}
		if limits != 1 {
			t.Errorf("events are %v, want NodeLimited once", seen.kinds())
		}
	})
}

func TestANodeThatComesBackAsAnotherVersionIsAskedAgain(t *testing.T) {
	for _, tt := range []struct {
		from, to fakeKind
		want     protocol.Deletion
	}{{valkey9, redis7, protocol.ByScript}, {redis7, valkey9, protocol.ByDELIFEQ}, {tair, redis84, protocol.ByDELEX}} {
		for _, noticed := range []bool{true, false} {
			synctest.Test(t, func(t *testing.T) {
				locker, fakes := native(t, 3, tt.from, false)
				lock := mustAcquire(t, locker, "k")
				if noticed {
					for _, f := range fakes {
						f.change(func(f *fakeNode) { f.refused = errCut })
					}
					_ = locker.Check(t.Context()) // an acquire may be decided before all were asked
					synctest.Wait()
				}
				for _, f := range fakes {
					f.change(func(f *fakeNode) { f.kind, f.refused = tt.to, nil })
				}
				time.Sleep(node.MaxCooldown)
				if err := lock.Release(t.Context()); err != nil {
					t.Errorf("from kind %d to %d, noticed %v: Release = %v", tt.from, tt.to, noticed, err)
				}
				synctest.Wait()
				if left := stray(fakes, "k"); left != nil {
					t.Errorf("from kind %d to %d, noticed %v: %v have the key", tt.from, tt.to, noticed, left)
				}
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
				locker, fakes := native(t, 1, valkey9, true, WithFences())
				lock := mustAcquire(t, locker, "k")
				fakes[0].change(func(f *fakeNode) {
					f.answer = func(args []any) *driver.Reply {
						if commandName(args) != command {
							return nil
						}
						return &driver.Reply{Kind: driver.Integer, Int: number}
					}
				})
				if command != "SET IFEQ" {
					if err := lock.Extend(t.Context(), time.Minute); !errors.Is(err, ErrNoQuorum) {
						t.Errorf("where %s answers %d, Extend = %v, want ErrNoQuorum", command, number, err)
					}
					return
				}
				heir := waitFor(t.Context(), locker, WithMaxWait(time.Second))
				if err := lock.Release(t.Context()); err != nil {
					t.Errorf("Release = %v", err)
				}
				got := <-heir
				if got.lock != nil && got.lock.acquire.Op == protocol.Exclusive.Inherit {
					t.Errorf("where %s answers %d, the heir has the lock by it", command, number)
				}
			})
		}
	}
}
