package main

import (
	"strings"
	"testing"
	"time"
)

// A client that asks first, as a deployment in the wrong order has it: the nodes were not admitted, and
// neither its error nor admit says so, or advises what is too late.
func TestAdmitBehindAnAcquireSaysThatNobodyWasAdmitted(t *testing.T) {
	t.Parallel()
	s := newSite(t, 3, time.Minute)
	guard := []string{"QUORUMLOCK_NODES=" + strings.Join(s.urls, ","), "QUORUMLOCK_GUARD=true", "QUORUMLOCK_LONGEST_TTL=1m"}
	w := start(t, strings.Join(s.urls, ","), []string{"run", "--guard", "--longest-ttl", "1m", "--node-timeout", "20s", "--no-wait", "k", "--", "true"})
	if code := w.code(); code != exitUnavailable || !strings.Contains(w.talk.String(), "let a client run until then") || strings.Contains(w.talk.String(), "admit\"") {
		t.Errorf("run on new nodes ends with %d and says %q, want %d, and no advice to admit them now", code, w.talk.String(), exitUnavailable)
	}
	got := s.admit()
	if got.code != exitTaken || strings.Contains(got.talk, "admitted before") || !strings.Contains(got.talk, "sit out") || !strings.Contains(got.talk, " holds \"ql:epoch\"") {
		t.Errorf("admit behind an acquire = %+v, want code %d, and that the nodes sit out", got, exitTaken)
	}
	doctor := run(t, append(guard, "QUORUMLOCK_NODE_TIMEOUT=5s"), "doctor", "--for", "100ms", "--check=guard")
	if doctor.code != 2 || !strings.Contains(doctor.out, "marker none") || strings.Contains(doctor.out, "quorumlock admit") {
		t.Errorf("doctor = %+v, want that nodes have no marker, and no advice to admit them", doctor)
	}
}
