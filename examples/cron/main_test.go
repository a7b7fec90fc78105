package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
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

func newCron(nodes redlocktest.Nodes, out io.Writer) *cron {
	return &cron{
		log:     log.New(out, "", 0),
		connect: func() ([]driver.Node, error) { return nodes.Drivers(), nil },
		clocks:  clocks,
	}
}

// fates are those of the ticks of a run that began at the bubble's beginning.
func fates(c *cron, began time.Time) (got [ticks]string) {
	for i := range got {
		got[i], _ = c.journal.fate(began.Add(time.Duration(i+1) * period))
	}
	return got
}

func TestATickIsRunOnceAndMissedWhereItsSchedulerDies(t *testing.T) {
	tests := []struct {
		name   string
		clocks []time.Duration
		down   int
	}{
		{"clocks that differ", clocks, 0},
		{"clocks that are the same", make([]time.Duration, 5), 0},
		{"two nodes down", clocks, 2},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				nodes := redlocktest.StartInBubble(t, 5)
				for _, node := range nodes {
					node.SlowDown(time.Millisecond) // as over a network
				}
				nodes[:tt.down].Close()
				var out bytes.Buffer
				c := newCron(nodes, &out)
				c.clocks = tt.clocks
				began := time.Now()
				if err := c.run(t.Context()); err != nil {
					t.Errorf("run = %v", err)
				}
				if got, want := fates(c, began), [ticks]string{once, missed, once}; got != want {
					t.Errorf("the ticks were %q, want %q, after:\n%s", got, want, &out)
				}
				if !strings.Contains(out.String(), ": missed (scheduler ") {
					t.Errorf("the tick that was missed is not reported in:\n%s", &out)
				}
			})
		})
	}
}

func TestWithoutTheLockEveryTickIsRunMoreThanOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		c := newCron(redlocktest.StartInBubble(t, 5), &out)
		c.noLock = true
		began := time.Now()
		if err := c.run(t.Context()); err == nil || strings.Count(err.Error(), double) != ticks {
			t.Errorf("run = %v, want every tick %s", err, double)
		}
		if got, want := fates(c, began), [ticks]string{double, double, double}; got != want {
			t.Errorf("the ticks were %q, want %q, after:\n%s", got, want, &out)
		}
	})
}

func TestWithoutAQuorumATickIsMissedRatherThanRunTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nodes := redlocktest.StartInBubble(t, 5)
		nodes[:3].Close()
		var out bytes.Buffer
		c := newCron(nodes, &out)
		began := time.Now()
		if err := c.run(t.Context()); err == nil || strings.Count(err.Error(), "nobody began it") != ticks-1 {
			t.Errorf("run = %v, want all ticks missed, and only one of them as expected", err)
		}
		if got, want := fates(c, began), [ticks]string{missed, missed, missed}; got != want {
			t.Errorf("the ticks were %q, want %q, after:\n%s", got, want, &out)
		}
		if !strings.Contains(out.String(), "cannot know whether the tick is free") || !strings.Contains(out.String(), "no quorum") {
			t.Errorf("nobody says why the ticks were left alone, in:\n%s", &out)
		}
	})
}

// newScheduler makes a scheduler that is not run.
func newScheduler(t *testing.T, nodes redlocktest.Nodes, out io.Writer) *scheduler {
	t.Helper()
	locker, err := redlock.New(nodes.Drivers(), redlock.WithTTL(hold))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = locker.Close() })
	return &scheduler{cron: newCron(nodes, out), name: "scheduler 1", locker: locker}
}

func TestASchedulerThatWasAsleepLeavesTheTickAlone(t *testing.T) {
	for late, want := range map[time.Duration]string{grace: once, grace + time.Millisecond: missed} {
		synctest.Test(t, func(t *testing.T) {
			var out bytes.Buffer
			s := newScheduler(t, redlocktest.StartInBubble(t, 5), &out)
			tick := time.Now()
			time.Sleep(late)
			if err := s.tick(t.Context(), tick); err != nil {
				t.Errorf("tick, %v late = %v", late, err)
			}
			if fate, _ := s.journal.fate(tick); fate != want {
				t.Errorf("a scheduler comes %v late: the tick is %s, want %s", late, fate, want)
			}
			if says := fmt.Sprintf("comes %v late, and leaves the tick alone", late); want == missed && !strings.Contains(out.String(), says) {
				t.Errorf("a scheduler comes %v late, and does not say that it %s, but:\n%s", late, says, &out)
			}
		})
	}
}

func TestATickForWhichNobodyGetsEnoughVotesAtFirstIsStillRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nodes := redlocktest.StartInBubble(t, 5)
		s := newScheduler(t, nodes, io.Discard)
		tick := time.Now()
		for i, other := range []string{"scheduler 2", "scheduler 2", "scheduler 3", "scheduler 3"} {
			nodes[i].Set(fmt.Sprintf("cron:report:%d", tick.Unix()), other, grace/10)
		}
		if err := s.tick(t.Context(), tick); err != nil {
			t.Errorf("tick = %v", err)
		}
		if fate, who := s.journal.fate(tick); fate != once {
			t.Errorf("two others had two votes of five each, and gave them back: the tick is %s (%s), want %s", fate, who, once)
		}
	})
}

var errInterrupted = errors.New("interrupted")

func TestAnInterruptLeavesTheTickTaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nodes := redlocktest.StartInBubble(t, 5)
		ctx, cancel := context.WithCancelCause(t.Context())
		var taken time.Time
		c := newCron(nodes, &programtest.Trigger{On: "begins the report", Do: func() {
			taken = time.Now()
			cancel(errInterrupted)
		}})
		if err := c.run(ctx); !errors.Is(err, errInterrupted) {
			t.Errorf("run = %v, want the interrupt", err)
		}
		if left := hold - time.Since(taken); left > hold/10 {
			t.Errorf("after an interrupt the tick was given back %v before its time", left)
		}
	})
}

// The clients take turns, and again where all ticks were missed: on a machine that is busy
// nobody may get to take one within its grace of 250ms.
func TestTheProgram(t *testing.T) {
	for _, client := range []string{"goredis", "redigo", "rueidis"} {
		t.Run(client, func(t *testing.T) {
			ctx, cancel := context.WithCancelCause(t.Context())
			out := &programtest.Trigger{On: "begins the report", Do: func() { cancel(errInterrupted) }}
			args := []string{"--client", client}
			err := run(ctx, out, args)
			for err != nil && ctx.Err() == nil && strings.Contains(err.Error(), "nobody began it") {
				err = run(ctx, out, args)
			}
			if !errors.Is(err, errInterrupted) {
				t.Errorf("run %q = %v, want the interrupt of its first report", args, err)
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
		{[]string{"daily"}, `"daily" is not part of a flag`},
	}
	for _, tt := range tests {
		if err := run(t.Context(), io.Discard, tt.args); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("run %q = %v, want an error with %q", tt.args, err, tt.want)
		}
	}
	var out bytes.Buffer
	if err := run(t.Context(), &out, []string{"--help"}); err != nil || !strings.Contains(out.String(), "-no-lock") {
		t.Errorf("run --help = %v, and prints\n%swant the flags", err, &out)
	}
}
