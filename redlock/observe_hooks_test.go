package redlock

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumlock/quorumlock/internal/fault"
	kernel "github.com/quorumlock/quorumlock/internal/lease"
	"github.com/quorumlock/quorumlock/internal/protocol"
	"github.com/quorumlock/quorumlock/internal/waiting"
)

// A callback is a function that the library calls.
type aCallback struct {
	name  string
	aside bool // in the goroutine of the Locker's own
	set   func(call func()) Option
}

var callbacks = []aCallback{
	{"AcquireStart", false, func(call func()) Option {
		return WithHooks(Hooks{AcquireStart: func(ctx context.Context, _ AcquireStart) context.Context { call(); return ctx }})
	}},
	{"AcquireEnd", false, func(call func()) Option {
		return WithHooks(Hooks{AcquireEnd: func(context.Context, AcquireEnd) { call() }})
	}},
	{"ReleaseEnd", false, func(call func()) Option {
		return WithHooks(Hooks{ReleaseEnd: func(context.Context, ReleaseEnd) { call() }})
	}},
	{"HoldEnd", true, func(call func()) Option {
		return WithHooks(Hooks{HoldEnd: func(context.Context, HoldEnd) { call() }})
	}},
	{"ExtendEnd", true, func(call func()) Option {
		return WithHooks(Hooks{ExtendEnd: func(context.Context, ExtendEnd) { call() }})
	}},
	{"Batch", true, func(call func()) Option { return WithHooks(Hooks{Batch: func(NodeBatch) { call() }}) }},
	{"Node", true, func(call func()) Option { return WithHooks(Hooks{Node: func(Event) { call() }}) }},
}

// eachCallback runs a test for each callback, in a bubble of its own.
func eachCallback(t *testing.T, test func(t *testing.T, c aCallback)) {
	for _, c := range callbacks {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { test(t, c) })
		})
	}
}

// busy takes locks and makes events for half a minute, in which a renewed lock has to be held.
func busy(t *testing.T, locker *Locker, fakes []*fakeNode) (renewed *Lock) {
	t.Helper()
	renewed = mustAcquire(t, locker, "renewed", WithRenewal())
	for range 30 {
		mustRelease(t, mustAcquire(t, locker, "another"))
		fakes[2].Change(func(f *fakeNode) { f.Cuts = 2 })
		time.Sleep(time.Second)
	}
	if !renewed.Valid() {
		t.Errorf("a renewed lock was lost: %v", context.Cause(renewed.Context()))
	}
	return renewed
}

func TestACallbackThatBlocksCostsNoLockAndHoldsUpNothing(t *testing.T) {
	eachCallback(t, func(t *testing.T, c aCallback) {
		if !c.aside {
			return // it holds up its caller, and nobody else
		}
		const closeTime = 5 * time.Second
		blocks := make(chan struct{})
		locker, fakes := newLocker(t, 3, WithTTL(3*time.Second), WithCloseTimeout(closeTime), c.set(func() { <-blocks }))
		lock := busy(t, locker, fakes)
		began := time.Now()
		mustRelease(t, lock)
		if took := time.Since(began); took != 0 {
			t.Errorf("a release took %v", took)
		}
		waiting := locker.Stats().Hooks.Queued - 1 // without the one that is under way
		began = time.Now()
		err := locker.Close()
		if took := time.Since(began); took != closeTime || err == nil || !strings.Contains(err.Error(), "hooks must not block") || strings.Contains(err.Error(), "driver") {
			t.Errorf("after %v Close = %v, want after %v an error that tells of the hook", took, err, closeTime)
		}
		if stats := locker.Stats().Hooks; stats.Queued != 0 || stats.Lost < int64(waiting) {
			t.Errorf("of %d calls %+v is left", waiting, stats)
		}
		close(blocks)
	})
}

func TestCloseTellsWhatIsStillToBeTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const locks = 5
		told := 0
		locker, _ := newLocker(t, 3, WithHooks(Hooks{HoldEnd: func(context.Context, HoldEnd) { time.Sleep(300 * time.Millisecond); told++ }}))
		for i := range locks {
			mustAcquire(t, locker, fmt.Sprint("k", i))
		}
		if err := locker.Close(); err != nil || told != locks {
			t.Errorf("Close = %v after %d ends of %d holds were told", err, told, locks)
		}
	})
}

func TestACallbackThatPanicsOrEndsItsGoroutineCostsNothing(t *testing.T) {
	for what, breaks := range map[string]func(){"it is broken": func() { panic("it is broken") }, "runtime.Goexit, as t.FailNow calls it": runtime.Goexit} {
		eachCallback(t, func(t *testing.T, c aCallback) {
			if !c.aside {
				return // see TestAPanicAtTheEndOfAnAcquireLeavesTheLockToNobody
			}
			log := defaultLog(t, slog.NewJSONHandler)
			broken, others := int64(0), int64(0)
			locker, fakes := newLocker(t, 3, WithTTL(3*time.Second), c.set(func() { broken++; breaks() }), c.set(func() { others++ }))
			mustRelease(t, busy(t, locker, fakes))
			noError(t, locker.Close())
			if stats := locker.Stats().Hooks; broken < 2 || stats.Panics != broken || stats.Lost != 0 || others != broken {
				t.Errorf("of %d panics %+v is told, and the other hook was called %d times", broken, stats, others)
			}
			if all := records(t, log); len(all) != 1 || all[0]["panic"] != what || !strings.Contains(fmt.Sprint(all[0]["stack"]), "observe_hooks_test.go") {
				t.Errorf("the log is %s, want the first panic, with its place", log)
			}
		})
	}
}

func TestAPanicAtTheEndOfAnAcquireLeavesTheLockToNobody(t *testing.T) {
	for name, take := range kindsOfLocks {
		bubble(t, name, func(t *testing.T) {
			const what = "it is broken"
			told := 0
			locker, fakes := newLocker(t, 3, WithHooks(Hooks{
				AcquireEnd: func(_ context.Context, a AcquireEnd) {
					if a.Converts || !strings.HasPrefix(name, "what was") { // the lock that is converted is had
						panic(what)
					}
				},
				HoldEnd: func(context.Context, HoldEnd) { told++ },
			}))
			func() {
				defer func() {
					if cause := recover(); cause != what {
						t.Errorf("the caller recovers %v, want %q", cause, what)
					}
				}()
				lock, err := take(locker, t.Context(), WithRenewal())
				t.Errorf("the acquire has returned %v, %v", lock, err)
			}()
			synctest.Wait()
			changeAll(fakes, func(f *fakeNode) {
				delete(f.Keys, "ql:permits:{k}") // how many there are, for whoever comes next
				if len(f.Keys) != 0 || len(f.Readers) != 0 {
					t.Errorf("%s has %v %v", f.Name(), f.Keys, f.Readers)
				}
			})
			if stats := locker.Stats(); stats.Locks != 0 || told == 0 {
				t.Errorf("%d locks are held, and %d ends of holds were told", stats.Locks, told)
			}
		})
	}
}

func TestAnAcquireThatDoesNotWaitIsDirect(t *testing.T) {
	for _, options := range [][]Option{nil, {WithFairness()}} {
		synctest.Test(t, func(t *testing.T) {
			var ends []AcquireEnd
			locker, _ := newLocker(t, 3, append(options, WithHooks(Hooks{AcquireEnd: func(_ context.Context, e AcquireEnd) { ends = append(ends, e) }}))...)
			for range 3 { // the nodes' clocks are known from the first on
				mustRelease(t, mustAcquire(t, locker, "k"))
			}
			lock := mustAcquire(t, locker, "k")
			waits := waitFor(t.Context(), locker)
			time.Sleep(time.Second)
			mustRelease(t, lock)
			mustRelease(t, mustGet(t, waits).lock)
			mustRelease(t, mustAcquire(t, locker, "k"))
			for i, want := range []string{pathDirect, pathDirect, pathDirect, pathDirect, pathHandedOver, pathDirect} {
				if e := ends[i]; e.Path != want || want == pathDirect && e.Tries != 1 {
					t.Errorf("%d options, acquire %d: %s, with %d tries, want %s", len(options), i+1, e.Path, e.Tries, want)
				}
			}
		})
	}
}

func TestACallbackMayRelease(t *testing.T) {
	eachCallback(t, func(t *testing.T, c aCallback) {
		var lock *Lock
		var err error
		locker, fakes := newLocker(t, 3, WithTTL(3*time.Second), c.set(func() {
			if free := lock; free != nil {
				lock = nil
				err = free.Release()
			}
		}))
		free := mustAcquire(t, locker, "k")
		synctest.Wait()
		lock = free
		mustRelease(t, busy(t, locker, fakes))
		if synctest.Wait(); lock != nil || err != nil || free.Valid() {
			t.Errorf("Release by a callback = %v, and the lock is %v", err, free)
		}
	})
}

func TestACallbackMayClose(t *testing.T) {
	eachCallback(t, func(t *testing.T, c aCallback) {
		var locker *Locker
		closed := 0
		locker, fakes := newLocker(t, 3, WithTTL(3*time.Second), c.set(func() {
			began := time.Now()
			if err := locker.Close(); err != nil || time.Since(began) != 0 {
				t.Errorf("Close by a callback = %v after %v", err, time.Since(began))
			}
			closed++
		}))
		for range 5 {
			lock, err := locker.Acquire(t.Context(), "k", WithRenewal())
			if err != nil {
				break
			}
			fakes[2].Change(func(f *fakeNode) { f.Cuts = 2 })
			time.Sleep(2 * time.Second)
			_ = lock.Release()
		}
		began := time.Now()
		if err := locker.Close(); err != nil || time.Since(began) != 0 || closed == 0 {
			t.Errorf("Close behind %d Closes by a callback = %v after %v", closed, err, time.Since(began))
		}
		returns(t, ErrClosed, "Acquire of a Locker that a callback has closed")(locker.Acquire(t.Context(), "k"))
	})
}

func TestACallbackMayCloseWhileCloseWaitsForCallbacks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var locker *Locker
		locker, _ = newLocker(t, 3, WithHooks(Hooks{HoldEnd: func(context.Context, HoldEnd) { _ = locker.Close() }}))
		mustAcquire(t, locker, "k")
		began := time.Now()
		if err := locker.Close(); err != nil || time.Since(began) != 0 {
			t.Errorf("Close = %v after %v", err, time.Since(began))
		}
	})
}

func TestACallbackIsToldOfTheEndOfAHoldBehindThatOfItsAcquire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var locker *Locker
		var told []string
		locker, _ = newLocker(t, 3, WithHooks(Hooks{
			AcquireEnd: func(context.Context, AcquireEnd) {
				_ = locker.Close() // which ends the hold
				synctest.Wait()
				told = append(told, "acquire")
			},
			HoldEnd: func(_ context.Context, h HoldEnd) { told = append(told, h.Reason) },
		}))
		mustAcquire(t, locker, "k")
		if synctest.Wait(); fmt.Sprint(told) != "[acquire closed]" {
			t.Errorf("the ends are told in the order %v", told)
		}
	})
}

func TestALogThatNobodyReadsCostsNoLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		read, write := io.Pipe()
		locker, fakes := newLocker(t, 3, WithTTL(3*time.Second), WithHooks(LogTo(slog.New(slog.NewTextHandler(write, nil)))))
		mustRelease(t, busy(t, locker, fakes))
		if err := locker.Close(); err == nil || !strings.Contains(err.Error(), "hooks must not block") {
			t.Errorf("Close = %v, want an error that tells of the hook that has not returned", err)
		}
		_ = read.Close()
	})
}

func TestWhatCallbacksAreNotToldIsCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const more, underWay = 321, 1
		blocks := make(chan struct{})
		told := 0
		hooks := new(teller)
		for range underWay + mostReports + more {
			hooks.put(mostReports, func() { told++; <-blocks })
			synctest.Wait()
		}
		hooks.put(mostNews, func() { told++ }) // for which there is room
		var s Stats
		if hooks.count(&s); s.Hooks.Lost != more || s.Hooks.Queued != underWay+mostReports+1 {
			t.Errorf("%+v, want %d lost, and %d in the queue", s.Hooks, more, underWay+mostReports+1)
		}
		close(blocks)
		noError(t, hooks.drain(time.Minute))
		if hooks.count(&s); s.Hooks.Lost != more || s.Hooks.Queued != 0 || told != underWay+mostReports+1 {
			t.Errorf("%d calls were made, and %+v; want %d", told, s.Hooks, underWay+mostReports+1)
		}
		hooks.put(mostReports, func() { told++ }) // a node that answers late is told of when Close has returned
		if synctest.Wait(); told != underWay+mostReports+2 {
			t.Errorf("behind the end the hooks were told %d times, want once more", told-underWay-mostReports-1)
		}
	})
}

func TestUnknownAnswersAndKindsHaveAName(t *testing.T) {
	if text := endOf(99) + pathOf(99) + EventKind(99).String(); !strings.Contains(text, "99") {
		t.Errorf("unknown values are called %q", text)
	}
}

// Conversions between them are by number.
func TestAnswersEventsPathsAndReasonsHaveTheNumbersOfTheLayersBelow(t *testing.T) {
	for ours, below := range map[any]any{
		NodeUp: fault.NodeUp, NodeDown: fault.NodeDown, NodeUnchecked: fault.NodeUnchecked, NodeEvicts: fault.NodeEvicts, NodeMuted: fault.NodeMuted,
		NodeClockStepped: fault.NodeClockStepped, NodeClockDrifts: fault.NodeClockDrifts, NodeQuarantined: fault.NodeQuarantined, NodeAdmitted: fault.NodeAdmitted,
		NodeLimited: fault.NodeLimited, LockForgotten: fault.LockForgotten,
	} {
		if reflect.ValueOf(ours).Uint() != reflect.ValueOf(below).Uint() {
			t.Errorf("%v is %d, and %d below", ours, ours, below)
		}
	}
	for want, is := range map[string]string{
		pathDirect: pathOf(waiting.Direct), pathWoken: pathOf(waiting.Woken), pathHandedOver: pathOf(waiting.HandedOver), pathPolled: pathOf(waiting.Polled),
		"released": endOf(kernel.Released), endLost: endOf(kernel.Lost), endClosed: endOf(kernel.Closed), "abandoned": endOf(kernel.Abandoned), "converted": endOf(kernel.Converted),
		pendingVote: answers[protocol.Pending], grantedVote: answers[protocol.Granted], takenVote: answers[protocol.Taken],
		absentVote: answers[protocol.Absent], failedVote: answers[protocol.Failed], outbidVote: answers[protocol.Outbid],
	} {
		if is != want {
			t.Errorf("%q is what is %q below", want, is)
		}
	}
	if maxPermits != protocol.MaxPermits {
		t.Errorf("a semaphore has up to %d permits, and %d below", maxPermits, protocol.MaxPermits)
	}
}

// defaultLog is what the default logger writes from now on, until the test ends.
func defaultLog[H slog.Handler](t *testing.T, handler func(io.Writer, *slog.HandlerOptions) H) *bytes.Buffer {
	t.Helper()
	log, before := new(bytes.Buffer), slog.Default()
	slog.SetDefault(slog.New(handler(log, nil)))
	t.Cleanup(func() { slog.SetDefault(before) })
	return log
}

// records returns what was logged, and each record by its message and level.
func records(t *testing.T, log *bytes.Buffer) (all []map[string]any) {
	t.Helper()
	for line := range strings.Lines(log.String()) {
		record := map[string]any{}
		must(t, json.Unmarshal([]byte(line), &record))
		all = append(all, record)
	}
	return all
}

func TestALostLockAndRenewalsThatAreShortOfVotesAreLoggedWithoutTokens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer // one record at a time: see slog.Handler
		locker, fakes := newLocker(t, 3, WithTTL(3*time.Second), WithHooks(LogTo(slog.New(slog.NewJSONHandler(&log, nil)))))
		lock := mustAcquire(t, locker, "k", WithRenewal())
		short := mustAcquire(t, locker, "released")
		mustRelease(t, short)
		fakes[2].Change(func(f *fakeNode) { f.Answer = failing("EVALSHA", "LOADING it loads") })
		time.Sleep(2500 * time.Millisecond)
		synctest.Wait()
		warned := 0
		for _, r := range records(t, &log) {
			if r["msg"] == "a renewal is short of votes" && r["level"] == "WARN" {
				warned++
				votes, _ := json.Marshal(r["renewal"])
				if text := string(votes); !strings.Contains(text, fakes[2].Name()) || strings.Contains(text, fakes[0].Name()) {
					t.Errorf("the renewal's record is %s, want the node that has not granted it alone", text)
				}
			}
		}
		if warned == 0 {
			t.Errorf("no renewal was logged:\n%s", &log)
		}
		changeAll(fakes[:2], func(f *fakeNode) { f.Answer = failing("EVALSHA", "LOADING it loads") })
		time.Sleep(10 * time.Second)
		synctest.Wait()
		lost := 0
		for _, r := range records(t, &log) {
			if r["msg"] == "a lock was lost" {
				lost++
				if r["level"] != "ERROR" || r["key"] != "k" || r["kind"] != "exclusive" || r["held_s"] == 0.0 || r["error"] == nil {
					t.Errorf("the record of the loss is %v", r)
				}
			}
		}
		if lost != 1 {
			t.Errorf("the loss of a lock was logged %d times, want once:\n%s", lost, &log)
		}
		for _, token := range []string{lock.Token(), short.Token()} {
			if strings.Contains(log.String(), strings.TrimPrefix(token, "ql:")) {
				t.Errorf("the token %q is in the log:\n%s", token, &log)
			}
		}
	})
}

func TestNewsOfANodeAreLoggedAtMostSoOftenAndTheOthersAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		tell := LogTo(slog.New(slog.NewJSONHandler(&log, nil))).Node
		const at = "10.0.0.1:6379"
		for range 25 {
			tell(Event{Kind: NodeDown, Node: at})
		}
		tell(Event{Kind: NodeUp, Node: "10.0.0.2:6379"}) // which has a budget of its own
		all := records(t, &log)
		if len(all) != logBurst+1 || all[0]["level"] != "WARN" || all[logBurst]["level"] != "INFO" {
			t.Errorf("of 25 pieces of news at once and one of another node %d are logged, want %d:\n%s", len(all), logBurst+1, &log)
		}
		log.Reset()
		time.Sleep(logPause)
		tell(Event{Kind: NodeDown, Node: at})
		tell(Event{Kind: NodeDown, Node: at})
		if all := records(t, &log); len(all) != 1 || all[0]["omitted"] != 15.0 {
			t.Errorf("%v later the log is\n%swant one record more, that counts the 15 before it", logPause, &log)
		}
	})
}

func TestTheSummaryOfAnErrorIsItsBeginningAndTheSameWhateverTheNodesTake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 3)
		other := another(t, fakes)
		mustAcquire(t, other, "k", WithTTL(time.Hour))
		summaries := make(map[string]int)
		for i := range 5 {
			changeAll(fakes, func(f *fakeNode) { f.Delay = time.Duration(i) * time.Millisecond })
			_, once := locker.TryAcquire(t.Context(), "k")
			_, often := locker.Acquire(t.Context(), "k", WithMaxWait(time.Duration(i)*time.Second))
			for _, err := range []error{once, often} {
				summary := Summary(err)
				summaries[summary]++
				if !strings.HasPrefix(err.Error(), summary) || len(summary) > 60 {
					t.Errorf("the summary of %q is %q", err, summary)
				}
			}
		}
		if len(summaries) != 1 {
			t.Errorf("errors that are alike have the summaries %v", summaries)
		}
	})
}

func TestTheSummariesOfCheckAndCloseNameNoNodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 3)
		mustAcquire(t, locker, "k")
		forEach(fakes, (*fakeNode).Stop)
		for want, err := range map[string]error{
			"redlock: check: no quorum: 3 of 3 nodes have no vote":             locker.Check(t.Context()),
			"redlock: close: no quorum has confirmed the release of some keys": locker.Close(),
		} {
			if got := Summary(err); got != want {
				t.Errorf("the summary of %q is %q, want %q", err, got, want)
			}
		}
	})
}

func TestALogHasNoAddressesForKeysNoBareDurationsAndNoZeroes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		locker, fakes := newLocker(t, 3, WithTTL(3*time.Second), WithHooks(LogTo(slog.New(slog.NewJSONHandler(&log, nil)))))
		mustAcquire(t, locker, "k", WithRenewal())
		synctest.Wait()
		forEach(fakes[1:], (*fakeNode).Stop)
		time.Sleep(10 * time.Second)
		synctest.Wait()
		_, err := another(t, fakes).Acquire(t.Context(), "k", WithMaxWait(time.Second))
		slog.New(slog.NewJSONHandler(&log, nil)).Error("no lock", "error", err)
		text := log.String()
		for _, want := range []string{`"held_s":`, `"lasted_s":`, `"waited_s":`, `"summary":"redlock: renew \"k\": lock lost"`, `"votes":["node-1: `} {
			if !strings.Contains(text, want) {
				t.Errorf("the log has no %s:\n%s", want, text)
			}
		}
		for _, wrong := range []string{`"omitted":0`, `"node-1":`, `"node-2":`, `"held":`, `"lasted":`, `"waited":`, `ms)`} {
			if strings.Contains(text, wrong) {
				t.Errorf("the log has %s:\n%s", wrong, text)
			}
		}
		forEach(fakes[1:], (*fakeNode).Resume)
	})
}
