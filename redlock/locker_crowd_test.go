package redlock

import (
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumlock/quorumlock/driver"
)

// A program that makes a Locker for each request, and closes none, is told so once: by the log, for it
// has no hooks. Whoever closes them may have made any number.
func TestManyOpenLockersOnOneNodeAreToldOnceByTheLog(t *testing.T) {
	log := defaultLog(t, slog.NewTextHandler)
	openOn.mu.Lock()
	openOn.told = false
	openOn.mu.Unlock()
	var open []*Locker
	more := func(n int) {
		t.Helper()
		for range n {
			nodes := []driver.Node{{Name: "crowded", Driver: new(ownerNode)}} // made anew, as the idiom has it
			l, err := New(nodes)
			if err != nil {
				t.Fatal(err)
			}
			open = append(open, l)
		}
	}
	shut := func(n int) {
		t.Helper()
		for _, l := range open[:n] {
			if err := l.Close(); err != nil {
				t.Fatal(err)
			}
		}
		open = open[n:]
	}
	for range 3 {
		more(maxOpen)
		shut(maxOpen / 2)
		more(maxOpen / 2)
		shut(maxOpen)
	}
	if log.Len() > 0 {
		t.Errorf("of %d open Lockers the log says %q, want nothing", maxOpen, log)
	}
	more(maxOpen + 1)
	if said := log.String(); strings.Count(said, "\n") != 1 || !strings.Contains(said, "node=crowded open=65") {
		t.Errorf("of one more the log says %q, want one line with the node and how many", said)
	}
	more(maxOpen)
	shut(len(open))
	more(maxOpen + 1)
	shut(len(open))
	if said := log.String(); strings.Count(said, "\n") != 1 {
		t.Errorf("later the log says %q, want nothing more", said)
	}
	if left := openOn.of["crowded"]; left != 0 {
		t.Errorf("when all are closed %d are open", left)
	}
}

func TestALockerThatNobodyClosesLeavesNoGoroutine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fakes, _ := fakeNodes(3)
		locker, err := New(driversOf(fakes), WithFences(), WithDeadlockDetection(time.Second))
		must(t, err)
		lock := mustAcquire(t, locker, "k")
		served := async(func() error { return passing(locker.Acquire(t.Context(), "k")) })
		time.Sleep(time.Minute) // the lock is renewed, and the waiter listens
		mustRelease(t, lock)
		noError(t, <-served)
		time.Sleep(5 * time.Second) // the bubble ends only once all goroutines have
	})
}
