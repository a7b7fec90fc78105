package main

import (
	"bytes"
	"errors"
	"io"
	"log"
	"testing"
	"testing/synctest"

	"github.com/quorumlock/quorumlock/redlock"
	"github.com/quorumlock/quorumlock/redlocktest"
)

func newTable(t *testing.T, out io.Writer) *table {
	t.Helper()
	locker, err := redlock.New(redlocktest.StartInBubble(t, 5).Drivers())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = locker.Close() })
	return &table{log: log.New(out, "", 0), locker: locker}
}

func TestAllEatAndADeadlockIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		table := newTable(t, &out)
		if err := table.dine(t.Context()); err != nil {
			t.Errorf("dine = %v\n%s", err, &out)
		}
		for i := range philosophers {
			if eaten := table.eaten[i].Load(); eaten != meals {
				t.Errorf("philosopher %d has eaten %d times, want %d", i+1, eaten, meals)
			}
		}
		if table.deadlocks.Load() == 0 {
			t.Error("nobody was told of a deadlock, though all had their left fork")
		}
	})
}

func TestWithoutTheContextTheyWaitForEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table := newTable(t, io.Discard)
		table.noContext = true
		if err := table.dine(t.Context()); !errors.Is(err, redlock.ErrTaken) || errors.Is(err, redlock.ErrDeadlock) {
			t.Errorf("dine = %v, want somebody who waits in vain", err)
		}
	})
}
