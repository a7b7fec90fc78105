package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"sync"
	"testing"

	"github.com/quorumlock/quorumlock/internal/leak"
	"github.com/quorumlock/quorumlock/redlock"
	"github.com/quorumlock/quorumlock/redlocktest"
)

func TestMain(m *testing.M) { leak.Main(m) }

// bankOf returns a bank with locks on nodes of the test's own.
func bankOf(t *testing.T) *bank {
	t.Helper()
	locker, err := redlock.New(redlocktest.Start(t, 3).Drivers())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := locker.Close(); err != nil {
			t.Errorf("Close = %v", err)
		}
	})
	return newBank(locker)
}

// both makes a transfer and one the other way round at the same time.
func both(ctx context.Context, move func(ctx context.Context, from, to string, amount int) error) (errs []error) {
	errs = make([]error, 2)
	var group sync.WaitGroup
	group.Go(func() { errs[0] = move(ctx, name(0), name(1), 10) })
	group.Go(func() { errs[1] = move(ctx, name(1), name(0), 20) })
	group.Wait()
	return errs
}

// together lets nobody go on before two have come.
func together() func() {
	var barrier sync.WaitGroup
	barrier.Add(2)
	return func() {
		barrier.Done()
		barrier.Wait()
	}
}

func TestTheSumStaysUnderLocksOnBothAccounts(t *testing.T) {
	for _, client := range []string{"goredis", "redigo", "rueidis"} {
		var out bytes.Buffer
		err := run(t.Context(), &out, []string{"--client", client, "--callers", "4", "--times", "5"})
		if want := "20 transfers were made. All accounts together had 4000, and have 4000 now."; err != nil || !strings.Contains(out.String(), want) {
			t.Errorf("%s: run = %v, and prints\n%swant %q", client, err, &out, want)
		}
	}
}

func TestTransfersTheOtherWayRoundDoNotWaitForEachOther(t *testing.T) {
	b := bankOf(t)
	for range 20 {
		if err := errors.Join(both(t.Context(), b.transfer)...); err != nil {
			t.Fatalf("transfers with both locks as one = %v", err)
		}
	}
	if got := b.read(name(0)); got != deposit+20*10 {
		t.Errorf("the first account has %d, want %d", got, deposit+20*10)
	}
}

func TestWithoutTheLocksATransferUndoesAnother(t *testing.T) {
	b := newBank(nil)
	wait := together() // both have read before one writes
	b.think = func(context.Context) { wait() }
	var group sync.WaitGroup
	for _, to := range []int{1, 2} {
		group.Go(func() { _ = b.move(t.Context(), name(0), name(to), 10) })
	}
	group.Wait()
	if got := b.sum(); got != accounts*deposit+10 {
		t.Errorf("after two transfers from what both have read the sum is %d, want 10 out of nothing", got)
	}
}

func TestLocksThatAreTakenOneByOneWaitForEachOther(t *testing.T) {
	b := bankOf(t)
	b.first = together() // each has one lock
	errs := both(t.Context(), b.transferOneByOne)
	if errors.Is(errs[0], redlock.ErrDeadlock) == errors.Is(errs[1], redlock.ErrDeadlock) {
		t.Errorf("two transfers that have one account each = %v and %v, want one deadlock", errs[0], errs[1])
	}
	if got := b.sum(); got != accounts*deposit {
		t.Errorf("the sum is %d", got)
	}
}

func TestFlagsThatAreWrong(t *testing.T) {
	for want, args := range map[string][]string{
		"at least 1":      {"--times", "0"},
		"but not both":    {"--no-lock", "--one-by-one"},
		"want goredis":    {"--client", "redis"},
		"not part of a f": {"5"},
	} {
		if err := run(t.Context(), io.Discard, args); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("run %q = %v, want an error with %q", args, err, want)
		}
	}
}
