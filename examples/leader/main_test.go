package main

import (
	"bytes"
	"io"
	"log"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/redlocktest"
)

func newService(t *testing.T, out io.Writer) *service {
	t.Helper()
	nodes := redlocktest.StartInBubble(t, 5)
	for _, node := range nodes {
		node.SlowDown(time.Millisecond) // as over a network
	}
	return &service{log: log.New(out, "", 0), connect: func() ([]driver.Node, error) { return nodes.Drivers(), nil }}
}

func TestOneReplicaLeadsAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		s := newService(t, &out)
		if err := s.run(t.Context()); err != nil {
			t.Errorf("run = %v\n%s", err, &out)
		}
		if want := replicas * invoices; len(s.ledger) != want || s.ledger[want-1] != want || !slices.IsSorted(s.ledger) {
			t.Errorf("the ledger has %v, want 1 to %d", s.ledger, want)
		}
		if len(s.seen) == 0 || len(s.seen) > replicas || len(slices.Compact(slices.Sorted(slices.Values(s.seen)))) != len(s.seen) {
			t.Errorf("the proxy saw %v: it goes back to a leader that was replaced, or sees none", s.seen)
		}
	})
}

func TestWithoutAnElectionNumbersAreGivenTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newService(t, io.Discard)
		s.noElection = true
		if err := s.run(t.Context()); err == nil || !strings.Contains(err.Error(), "written more than once") {
			t.Errorf("run = %v, want numbers that were given twice", err)
		}
	})
}
