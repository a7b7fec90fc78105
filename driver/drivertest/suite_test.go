package drivertest

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"testing"
	"time"
)

func TestRunPassesACorrectDriver(t *testing.T) {
	Run(t, func(t *testing.T, addr string) Subject {
		p := newPool(addr)
		t.Cleanup(func() { _ = p.Close() })
		return Subject{Driver: p, Stranger: p.Stranger}
	})
}

// A driver whose callers share one connection makes them wait for each other, and
// that is fair: the suite asks only that nobody gets another's error or reply.
func TestASharedConnectionIsFair(t *testing.T) {
	for _, name := range []string{
		"64 callers at once each get their own replies",
		"a deadline ends a call to a silent server",
		"a cancel ends a call before its deadline",
		"a late reply goes to nobody else",
		"half a reply is an error behind the replies before it",
		"our deadline is nobody else's",
		"our deadline at a stopped server is nobody else's",
		"our cancel is nobody else's",
		"our deadline behind a slow stranger is nobody else's",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // most of them wait
			caseNamed(t, name).try(t, func(addr string) Subject {
				s := &shared{pool: newPool(addr)}
				t.Cleanup(s.Close)
				return Subject{Driver: s}
			})
		})
	}
}

func TestADriverWithoutSubscriptionsIsTold(t *testing.T) {
	l := &recorder{}
	got := casesFor(l, do(nil))
	if len(got) != len(cases) || len(l.logged) != 1 || !anyHas(l.logged, "no driver.Subscriber") {
		t.Errorf("a driver that is no Subscriber gets %d cases and is told %q, want %d, and once what is left out", len(got), l.logged, len(cases))
	}
	l = &recorder{}
	if got := casesFor(l, newPool("")); len(got) != len(slices.Concat(cases, subscriberCases)) || len(l.logged) != 0 {
		t.Errorf("a Subscriber gets %d cases and is told %q, want all and nothing", len(got), l.logged)
	}
}

func TestOpenHasToReturnADriver(t *testing.T) {
	failures := watch(func(r reporter) { cases[0].try(r, func(string) Subject { return Subject{} }) })
	if !anyHas(failures, "without a Driver") {
		t.Errorf("a Subject without a Driver: the suite complains of %q, want it to say what is missing", failures)
	}
}

func TestACallIsNotLateWhileItsProcessStandsStill(t *testing.T) {
	const stop = 300 * time.Millisecond
	out := within(0, func(context.Context) error {
		script := fmt.Sprintf("kill -STOP %[1]d; sleep %[2]g; kill -CONT %[1]d", os.Getpid(), stop.Seconds())
		return exec.CommandContext(t.Context(), "sh", "-c", script).Run() //nolint:gosec,contextcheck // the test's own; the call's context has ended
	})
	if out.err != nil || out.clock-out.late < stop-2*beat || out.clock-out.took < stop-2*beat {
		t.Errorf("a call that was %v late by the clock counts as %v late, and took %v: %v; want %v less: the process stood still", out.clock, out.late, out.took, out.err, stop)
	}
}
