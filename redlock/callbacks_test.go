package redlock

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"
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
	{"Batch", true, func(call func()) Option { return WithHooks(Hooks{Batch: func(Batch) { call() }}) }},
	{"Node", true, func(call func()) Option { return WithHooks(Hooks{Node: func(Event) { call() }}) }},
	{"OnEvent", true, func(call func()) Option { return OnEvent(func(Event) { call() }) }},
	{"OnRenewal", true, func(call func()) Option { return OnRenewal(func(Renewal) { call() }) }},
}

// hook is what errors call it.
func (c aCallback) hook() string {
	if c.name == "OnEvent" {
		return "Node"
	}
	return c.name
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
		fakes[2].change(func(f *fakeNode) { f.cuts = 2 })
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
		queued := locker.Stats().Hooks
		began = time.Now()
		err := locker.Close()
		var hook *HookError
		if took := time.Since(began); took != closeTime || !errors.As(err, &hook) || hook.Hook != c.hook() || hook.Lost < int64(queued.Queued) || strings.Contains(err.Error(), "driver") {
			t.Errorf("after %v Close = %v, want after %v an error that names %s and %d lost calls", took, err, closeTime, c.name, queued.Queued)
		}
		if stats := locker.Stats().Hooks; hook == nil || stats.Queued != 0 || stats.Lost != hook.Lost {
			t.Errorf("of %d calls %+v is left", queued.Queued, stats)
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

func TestACallbackThatPanicsCostsNothing(t *testing.T) {
	eachCallback(t, func(t *testing.T, c aCallback) {
		if !c.aside {
			return // see TestAPanicAtTheEndOfAnAcquireLeavesTheLockToNobody
		}
		const what = "it is broken"
		var log bytes.Buffer
		before := slog.Default()
		slog.SetDefault(slog.New(slog.NewJSONHandler(&log, nil)))
		defer slog.SetDefault(before)
		panics, others := int64(0), int64(0)
		var events []Event
		options := []Option{WithTTL(3 * time.Second), c.set(func() { panics++; panic(what) }), c.set(func() { others++ })}
		if c.name == "OnRenewal" {
			options = options[:2] // the last one counts
		}
		heard := c.hook() != "Node"
		if heard {
			options = append(options, OnEvent(func(e Event) {
				if e.Kind == HookPanicked {
					events = append(events, e)
				}
			}))
		}
		locker, fakes := newLocker(t, 3, options...)
		mustRelease(t, busy(t, locker, fakes))
		if err := locker.Close(); err != nil {
			t.Errorf("Close = %v", err)
		}
		stats := locker.Stats().Hooks
		if panics == 0 || stats.Panics != panics || stats.Lost != 0 || c.name != "OnRenewal" && others != panics {
			t.Errorf("of %d panics %+v is told, and the other hook was called %d times", panics, stats, others)
		}
		var hook *HookError
		switch {
		case heard && int64(len(events)) != panics:
			t.Errorf("of %d panics %d events were told", panics, len(events))
		case heard && (!errors.As(events[0].Err, &hook) || hook.Hook != c.name || hook.Panic != what || !bytes.Contains(hook.Stack, []byte("callbacks_test.go"))):
			t.Errorf("the event is %+v", events[0])
		case !heard && (!strings.Contains(log.String(), what) || !strings.Contains(log.String(), "callbacks_test.go")):
			t.Errorf("a panic that no hook can be told of is not in the log:\n%s", &log)
		}
	})
}

func TestACallbackThatEndsItsGoroutineIsNotTheLastOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls := 0
		var events []Event
		locker, _ := newLocker(t, 3, OnEvent(func(e Event) { events = append(events, e) }), WithHooks(Hooks{HoldEnd: func(context.Context, HoldEnd) {
			calls++
			runtime.Goexit()
		}}))
		for range 3 {
			mustRelease(t, mustAcquire(t, locker, "k"))
		}
		if err := locker.Close(); err != nil || calls != 3 || locker.Stats().Hooks.Panics != 3 || events[len(events)-1].Kind != HookPanicked {
			t.Errorf("Close = %v after %d calls of 3; %+v", err, calls, events)
		}
	})
}

func TestAPanicAtTheEndOfAnAcquireLeavesTheLockToNobody(t *testing.T) {
	for name, take := range map[string]func(ctx context.Context, l *Locker) error{
		"Acquire": func(ctx context.Context, l *Locker) error { _, err := l.Acquire(ctx, "k", WithRenewal()); return err },
		"AcquireShared": func(ctx context.Context, l *Locker) error {
			_, err := l.AcquireShared(ctx, "k", WithRenewal())
			return err
		},
		"AcquireAll": func(ctx context.Context, l *Locker) error {
			_, err := l.AcquireAll(ctx, []string{"k", "l"}, WithRenewal())
			return err
		},
		"Semaphore": func(ctx context.Context, l *Locker) error {
			s, _ := l.Semaphore("k", 2)
			_, err := s.Acquire(ctx, WithRenewal())
			return err
		},
		"Downgrade": func(ctx context.Context, l *Locker) error {
			lock, err := l.Acquire(ctx, "first", WithRenewal())
			if err == nil {
				_, err = lock.Downgrade(ctx)
			}
			return err
		},
		"TryUpgrade": func(ctx context.Context, l *Locker) error {
			lock, err := l.AcquireShared(ctx, "first", WithRenewal())
			if err == nil {
				_, err = lock.TryUpgrade(ctx)
			}
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const what = "it is broken"
				told := 0
				locker, fakes := newLocker(t, 3, WithHooks(Hooks{
					AcquireEnd: func(_ context.Context, a AcquireEnd) {
						if a.Converts || a.Key != "first" {
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
					t.Errorf("the acquire has returned %v", take(t.Context(), locker))
				}()
				synctest.Wait()
				for _, f := range fakes {
					f.change(func(f *fakeNode) {
						delete(f.keys, "ql:permits:{k}") // how many there are, for whoever comes next
						if len(f.keys) != 0 || len(f.readers) != 0 {
							t.Errorf("%s has %v %v", f.name, f.keys, f.readers)
						}
					})
				}
				if stats := locker.Stats(); stats.Held != 0 || told == 0 {
					t.Errorf("%d locks are held, and %d ends of holds were told", stats.Held, told)
				}
			})
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
				err = free.Release(t.Context())
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
			fakes[2].change(func(f *fakeNode) { f.cuts = 2 })
			time.Sleep(2 * time.Second)
			_ = lock.Release(t.Context())
		}
		began := time.Now()
		if err := locker.Close(); err != nil || time.Since(began) != 0 || closed == 0 {
			t.Errorf("Close behind %d Closes by a callback = %v after %v", closed, err, time.Since(began))
		}
		if _, err := locker.Acquire(t.Context(), "k"); !errors.Is(err, ErrClosed) {
			t.Errorf("Acquire of a Locker that a callback has closed = %v", err)
		}
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
			HoldEnd: func(_ context.Context, h HoldEnd) { told = append(told, h.Why.String()) },
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
		var hook *HookError
		if err := locker.Close(); !errors.As(err, &hook) || hook.Lost == 0 {
			t.Errorf("Close = %v, want an error that tells of the hook that has not returned", err)
		}
		_ = read.Close()
	})
}

func TestWhatCallbacksAreNotToldIsCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const more = 321
		blocks := make(chan struct{})
		var told, lost, events int64
		locker, _ := newLocker(t, 3,
			WithHooks(Hooks{Batch: func(Batch) { told++; <-blocks }}),
			OnEvent(func(e Event) {
				told++
				var hook *HookError
				if e.Kind == HooksLost && errors.As(e.Err, &hook) {
					events++
					if lost += hook.Lost; hook.Hook != "Batch" || e.Node != "" {
						t.Errorf("the event is %v", e)
					}
				}
			}))
		mustRelease(t, mustAcquire(t, locker, "k"))
		synctest.Wait()
		first, before := locker.Stats().Hooks, told
		for range mostReports - first.Queued + more {
			locker.teller.put(hookBatch, mostReports, func() { told++; <-blocks })
		}
		locker.teller.put(hookHoldEnd, mostNews, func() { told++ }) // for which there is room
		if s := locker.Stats().Hooks; s.Lost != more || s.Queued != mostReports+1 {
			t.Errorf("%+v, want %d lost, and %d in the queue", s, more, mostReports+1)
		}
		close(blocks)
		if err := locker.Close(); err != nil {
			t.Errorf("Close = %v", err)
		}
		told -= before + events
		if s := locker.Stats().Hooks; lost != more || events != 1 || s.Lost != more || s.Queued != 0 || told != mostReports+1 {
			t.Errorf("%d events tell of %d lost calls, and Stats of %+v; want %d; %d calls of %d were made", events, lost, s, more, told, mostReports+1)
		}
	})
}

func TestALockerThatHasNothingToTellHasNoGoroutineForIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, _ := newLocker(t, 3, WithHooks(Hooks{HoldEnd: func(context.Context, HoldEnd) {}, Batch: func(Batch) {}, Node: func(Event) {}}))
		mustRelease(t, mustAcquire(t, locker, "k"))
		synctest.Wait()
		if l := &locker.teller; l.busy || cap(l.queue) > fewCalls {
			t.Errorf("an idle Locker's queue is busy (%v), or kept (%d)", l.busy, cap(l.queue))
		}
	})
}
