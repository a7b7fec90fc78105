package main

import (
	"errors"
	"testing"

	"github.com/quorumlock/quorumlock/examples/internal/programtest"
	"github.com/quorumlock/quorumlock/test/leak"
)

func TestMain(m *testing.M) { leak.Main(m) }

func TestWithFencesTheLateWriteIsRefused(t *testing.T) {
	_, err := programtest.Tells(t, 0, run,
		"Without fences .*",
		"  the first worker has the lock, with the fence 0, and reads 100", "  the first worker is stopped before it writes, .*",
		"  the second worker has the lock, with the fence 0, and reads 100", "  the second worker has written 150",
		"  the first worker goes on.*", "  the first worker has written 110",
		"  the account has 110: the 50 of the second are lost, and nobody was told",
		"With fences: .*",
		"  the first worker has the lock, with the fence [1-9].*, and reads 100", "  the first worker is stopped before it writes, .*",
		"  the second worker has the lock, with the fence [1-9].*, and reads 100", "  the second worker has written 150",
		"  the first worker goes on.*", "  the first worker wants to write 110, and is refused: .*",
		"  the account has 150: what the second has written stands, .*")
	if err != nil {
		t.Errorf("run = %v", err)
	}
}

// The fences are next to one another, and as great as they get.
func TestTheAccountRefusesASmallerFence(t *testing.T) {
	const one, two, three = 1<<53 - 4, 1<<53 - 3, 1<<53 - 2
	account := &account{balance: 100}
	for _, step := range []struct {
		write  int // 0: read
		fence  int64
		stale  bool
		leaves int
	}{
		{110, one, false, 110},
		{120, one, false, 120},
		{0, two, false, 120},
		{130, one, true, 120}, // the second has read
		{0, one, true, 120},
		{140, three, false, 140},
		{150, two, true, 140},
	} {
		var err error
		if step.write > 0 {
			err = account.write(step.write, step.fence)
		} else {
			_, err = account.read(step.fence)
		}
		if errors.Is(err, errStale) != step.stale || !step.stale && err != nil || account.balance != step.leaves {
			t.Errorf("%+v: %v, and the balance is %d", step, err, account.balance)
		}
	}
}
