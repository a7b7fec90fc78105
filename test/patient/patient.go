// Package patient is for tests of what takes real time: of processes, servers and clients. What they
// say does not depend on how fast the machine is.
package patient

import (
	"errors"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"
)

// Guard is how long a test waits for what has to come. It bounds nothing but a hang.
const Guard = 5 * time.Minute

// beat is the pause between two looks, and what a [Watch] counts.
const beat = 5 * time.Millisecond

// Until waits until something holds of which nothing tells. It ends the test after a [Guard].
func Until(t testing.TB, what string, holds func() bool) {
	t.Helper()
	tick := time.NewTicker(beat)
	defer tick.Stop()
	for deadline := time.Now().Add(Guard); !holds(); <-tick.C {
		if time.Now().After(deadline) {
			t.Fatalf("after %v it is still not so that %s", Guard, what)
		}
	}
}

// AtScales makes a check whose deadlines are real with all its times as they are, then 4 times and
// 16 times as long, until it passes. A machine that is busy passes a later one, and what is wrong
// none. A check of something that takes no time, however long all times are, wants a [Watch].
func AtScales(t testing.TB, check func(scale time.Duration) error) {
	t.Helper()
	var err error
	for _, scale := range []time.Duration{1, 4, 16} {
		if err = check(scale); err == nil {
			return
		}
		t.Logf("with times %d times as long: %v", scale, err)
	}
	t.Error(err)
}

// Scaled is AtScales for a test that fails by its TB, on a goroutine of its own.
func Scaled(t testing.TB, test func(t testing.TB, scale time.Duration)) {
	t.Helper()
	AtScales(t, func(scale time.Duration) error {
		a, ended := &attempt{TB: t}, make(chan struct{})
		go func() {
			defer close(ended)
			test(a, scale)
		}()
		<-ended
		a.mu.Lock()
		defer a.mu.Unlock()
		return errors.Join(a.errs...)
	})
}

// An attempt is a test that may fail, and be made again.
type attempt struct {
	testing.TB
	mu   sync.Mutex
	errs []error
}

func (a *attempt) Error(args ...any) { a.Errorf("%s", fmt.Sprint(args...)) }

func (a *attempt) Errorf(format string, args ...any) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.errs = append(a.errs, fmt.Errorf(format, args...)) //nolint:err113 // a failure's text
}

func (a *attempt) Fatal(args ...any) { a.Fatalf("%s", fmt.Sprint(args...)) }

func (a *attempt) Fatalf(format string, args ...any) {
	a.Errorf(format, args...)
	runtime.Goexit()
}

// A Watch measures how long something takes, as a goroutine sees it that does nothing but wait: where
// the machine has no time for this process, the watch stands still.
type Watch struct {
	stop, stopped chan struct{}
	beats         time.Duration
}

// Start starts a watch. It runs until Took is called.
func Start() *Watch {
	w := &Watch{stop: make(chan struct{}), stopped: make(chan struct{})}
	go func() {
		defer close(w.stopped)
		tick := time.NewTicker(beat) // it leaves out what comes while nobody takes
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				w.beats++
			case <-w.stop:
				return
			}
		}
	}()
	return w
}

// Took stops the watch, and returns what it shows.
func (w *Watch) Took() time.Duration {
	close(w.stop)
	<-w.stopped
	return w.beats * beat
}
