package main

import (
	"slices"
	"strings"
	"testing"
	"time"
)

// admit runs the command under a guard of a minute. A variable never stands for --undo-guard.
func (s *site) admit(args ...string) result {
	s.t.Helper()
	return run(s.t, []string{"QUORUMLOCK_NODES=" + strings.Join(s.urls, ","), "QUORUMLOCK_GUARD=true", "QUORUMLOCK_LONGEST_TTL=1m", "QUORUMLOCK_UNDO_GUARD=true"},
		append([]string{"admit"}, args...)...)
}

func TestAdmitAdmitsNewNodesAndRefusesThoseThatWereInUse(t *testing.T) {
	t.Parallel()
	s := newSite(t, 3, time.Minute)
	markers := func() []string { return s.at("ql:admitted") }
	if got := s.admit(); got.code != exitOK || !strings.Contains(got.out, "3 nodes are admitted") || slices.Contains(markers(), "") {
		t.Fatalf("admit of new nodes = %+v, and their markers are %q; want all admitted", got, markers())
	}
	do(t, s.servers[1].Addr, "FLUSHALL") // as a node that was replaced
	before := markers()
	got := s.admit()
	if got.code != exitConfig || !strings.Contains(got.talk, s.servers[0].Addr+" holds") || !strings.Contains(got.talk, "can make two holders: stop all clients for 1m0s first") {
		t.Errorf("admit of nodes that were in use = %+v, want code %d, which were, and what to do", got, exitConfig)
	}
	if after := markers(); !slices.Equal(after, before) || after[1] != "" {
		t.Errorf("what was refused has changed the markers from %q to %q", before, after)
	}
	if got := s.admit("--undo-guard"); got.code != exitOK || slices.Contains(markers(), "") {
		t.Errorf("admit --undo-guard = %+v, and the markers are %q; want all admitted", got, markers())
	}
}

func TestAdmitWantsAllNodesAndAGuard(t *testing.T) {
	t.Parallel()
	s := newSite(t, 3, time.Minute)
	if got := s.admit("--guard=false"); got.code != exitUsage || !strings.Contains(got.talk, "nothing to admit") {
		t.Errorf("admit without a guard = %+v, want code %d and why", got, exitUsage)
	}
	s.servers[2].Kill()
	if got := s.admit(); got.code != exitUnavailable || !strings.Contains(got.talk, s.servers[2].Addr) {
		t.Errorf("admit with a node that is down = %+v, want code %d and which node", got, exitUnavailable)
	}
	for _, server := range s.servers[:2] {
		if marker := do(t, server.Addr, "GET", "ql:admitted"); marker != "" {
			t.Errorf("with a node that is down another has got a marker: %q", marker)
		}
	}
}
