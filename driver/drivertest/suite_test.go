package drivertest

import "testing"

func TestRunPassesACorrectDriver(t *testing.T) {
	Run(t, func(t *testing.T, addr string) Subject {
		p := &pool{addr: addr}
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
				s := &shared{addr: addr}
				t.Cleanup(s.Close)
				return Subject{Driver: s}
			})
		})
	}
}

func TestOpenHasToReturnADriver(t *testing.T) {
	failures := watch(cases[0], func(reporter, string) Subject { return Subject{} })
	if !anyHas(failures, "without a Driver") {
		t.Errorf("a Subject without a Driver: the suite complains of %q, want it to say what is missing", failures)
	}
}
