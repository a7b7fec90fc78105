package main

import (
	"bytes"
	"io"
	"log"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/quorumlock/quorumlock/redlock"
	"github.com/quorumlock/quorumlock/redlocktest"
)

func newPrinter(t *testing.T, out io.Writer, options ...redlock.Option) *printer {
	t.Helper()
	nodes := redlocktest.StartInBubble(t, 5)
	p := &printer{log: log.New(out, "", 0)}
	for range offices {
		locker, err := redlock.New(nodes.Drivers(), options...)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = locker.Close() })
		p.offices = append(p.offices, locker)
	}
	return p
}

func TestJobsArePrintedInTurnAndTheUrgentOneFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		if err := newPrinter(t, &out, redlock.WithFairness()).work(t.Context(), true); err != nil {
			t.Errorf("work = %v\n%s", err, &out)
		}
	})
}

func TestWithoutTurnsAllAreStillPrintedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPrinter(t, io.Discard)
		_ = p.work(t.Context(), false) // in some order
		if slices.Sort(p.printed); !slices.Equal(p.printed, []int{0, 1, 2, 3, 4, 5, 6, 7, 8}) {
			t.Errorf("printed %v, want each job once", p.printed)
		}
	})
}
