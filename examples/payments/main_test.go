package main

import (
	"errors"
	"testing"

	"github.com/quorumlock/quorumlock/examples/internal/programtest"
	"github.com/quorumlock/quorumlock/redlock"
	"github.com/quorumlock/quorumlock/test/leak"
)

func TestMain(m *testing.M) { leak.Main(m) }

func TestUnderTheLockEveryOrderIsChargedOnce(t *testing.T) {
	for _, down := range []int{0, 2} {
		_, err := programtest.Tells(t, down, run,
			"A queue delivers order A to two workers, without a lock:",
			"  worker [12] finds .* charges it", "  worker [12] finds .* charges it",
			"  order A was charged twice: .*",
			"A queue delivers order B to two workers, under a lock:",
			"  worker [12] has charged it", "  worker [12] finds it paid, and has nothing to do",
			"  order B was charged once",
			"A queue delivers order C to two workers, under a lock, and the first dies before the charge:",
			"  worker [12] dies before the charge: .*", "  worker [12] gets the lock after [23].*s",
			"  worker [12] finds its charge begun, but the bank has none: charges it",
			"  order C was charged once",
			"A queue delivers order D to two workers, under a lock, and the first dies after the charge:",
			"  worker [12] dies after the charge: .*", "  worker [12] gets the lock after [23].*s",
			"  worker [12] finds its charge begun, and the bank has it",
			"  order D was charged once")
		if err != nil {
			t.Errorf("%d of five nodes down: run = %v", down, err)
		}
	}
}

func TestNothingIsChargedWithoutAQuorum(t *testing.T) {
	_, err := programtest.Tells(t, 3, run, "A queue delivers order B to two workers, under a lock:", "  order B was charged not at all")
	if !errors.Is(err, redlock.ErrNoQuorum) {
		t.Errorf("run = %v, want no quorum", err)
	}
}
