package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/examples/internal/programtest"
	"github.com/quorumlock/quorumlock/redlock"
	"github.com/quorumlock/quorumlock/redlocktest"
)

func newShop(nodes redlocktest.Nodes, out io.Writer) *shop {
	return &shop{log: log.New(out, "", 0), connect: func() ([]driver.Node, error) { return nodes.Drivers(), nil }}
}

// charged checks how often the orders A, B and C were charged.
func charged(t *testing.T, s *shop, want [3]int, out *bytes.Buffer) {
	t.Helper()
	if got := [3]int{s.bank.statement("A"), s.bank.statement("B"), s.bank.statement("C")}; got != want {
		t.Errorf("orders A, B and C were charged %v times, want %v, after:\n%s", got, want, out)
	}
}

func TestEveryOrderIsChargedOnce(t *testing.T) {
	for _, down := range []int{0, 2} {
		synctest.Test(t, func(t *testing.T) {
			nodes := redlocktest.StartInBubble(t, 5)
			for _, node := range nodes {
				node.SlowDown(time.Millisecond) // as over a network
			}
			nodes[:down].Close()
			var out bytes.Buffer
			s := newShop(nodes, &out)
			began := time.Now()
			if err := s.open(t.Context()); err != nil {
				t.Errorf("%d of 5 nodes down: open = %v", down, err)
			}
			charged(t, s, [3]int{1, 1, 1}, &out)
			for _, order := range []string{"A", "B", "C"} {
				if s.ledger.look(order) != paid {
					t.Errorf("%d of 5 nodes down: the ledger does not say that order %s is paid", down, order)
				}
			}
			// Two die. Nobody has their orders before their leases end, or long after that.
			if took := time.Since(began); took < 2*lease || took > 2*(lease+time.Second) {
				t.Errorf("%d of 5 nodes down: the orders took %v, want two leases of %v and little more", down, took, lease)
			}
			for _, node := range nodes[down:] {
				if keys := node.Keys(); len(keys) > 0 {
					t.Errorf("%d of 5 nodes down: %s still has %q", down, node.Addr(), keys)
				}
			}
		})
	}
}

func TestWhatIsLeftOutIsMissed(t *testing.T) {
	tests := []struct {
		name             string
		noLock, noRecord bool
		want             [3]int
		says             []string
	}{
		{"without the lock", true, false, [3]int{2, 1, 2}, []string{"order A was charged twice", "order C was charged twice"}},
		{"without the record", false, true, [3]int{1, 1, 2}, []string{"order C was charged twice"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var out bytes.Buffer
				s := newShop(redlocktest.StartInBubble(t, 5), &out)
				s.noLock, s.noRecord = tt.noLock, tt.noRecord
				err := s.open(t.Context())
				charged(t, s, tt.want, &out)
				for _, says := range tt.says {
					if err == nil || !strings.Contains(err.Error(), says) {
						t.Errorf("open = %v, want an error with %q", err, says)
					}
				}
			})
		})
	}
}

func TestNothingIsChargedWithoutAQuorum(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nodes := redlocktest.StartInBubble(t, 5)
		nodes[:3].Close()
		var out bytes.Buffer
		s := newShop(nodes, &out)
		err := s.open(t.Context())
		if !errors.Is(err, redlock.ErrNoQuorum) || !strings.Contains(err.Error(), "order A was charged 0 times") {
			t.Errorf("open = %v, want no quorum, and order A not charged", err)
		}
		charged(t, s, [3]int{0, 0, 0}, &out)
	})
}

func TestTheProgram(t *testing.T) {
	for _, client := range []string{"goredis", "redigo", "rueidis"} {
		t.Run(client, func(t *testing.T) {
			t.Parallel()
			interrupted := errors.New("interrupted")
			ctx, cancel := context.WithCancelCause(t.Context())
			var out bytes.Buffer
			before := &programtest.Trigger{On: "Both workers get order B", Do: func() { cancel(interrupted) }}
			args := []string{"--client", client}
			err := run(ctx, io.MultiWriter(&out, before), args)
			if !errors.Is(err, interrupted) || strings.Contains(err.Error(), "order A") || !strings.Contains(out.String(), "A: charged once") {
				t.Errorf("run %q = %v, want order A charged once before the interrupt, after:\n%s", args, err, &out)
			}
			args = append(args, "--no-lock")
			if err := run(t.Context(), io.Discard, args); err == nil || !strings.Contains(err.Error(), "order A was charged twice") {
				t.Errorf("run %q = %v, want order A charged twice", args, err)
			}
		})
	}
}

func TestFlagsThatAreWrong(t *testing.T) {
	tests := []struct {
		args []string
		want string
	}{
		{[]string{"--client", "redis"}, `--client "redis": want goredis, redigo or rueidis`},
		{[]string{"--bogus"}, "--help"},
		{[]string{"A"}, `"A" is not part of a flag`},
	}
	for _, tt := range tests {
		if err := run(t.Context(), io.Discard, tt.args); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("run %q = %v, want an error with %q", tt.args, err, tt.want)
		}
	}
	var out bytes.Buffer
	if err := run(t.Context(), &out, []string{"--help"}); err != nil || !strings.Contains(out.String(), "-no-record") {
		t.Errorf("run --help = %v, and prints\n%swant the flags", err, &out)
	}
}
