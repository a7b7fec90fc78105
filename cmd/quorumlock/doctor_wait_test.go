package main

import (
	"strings"
	"testing"
	"time"
)

// A script that deploys nodes needs nothing else.
func TestDoctorWaitsUntilNewNodesVote(t *testing.T) {
	t.Parallel()
	s := newSite(t, 3, time.Minute)
	guard := []string{"QUORUMLOCK_NODES=" + strings.Join(s.urls, ","), "QUORUMLOCK_GUARD=true", "QUORUMLOCK_TTL=2s", "QUORUMLOCK_LONGEST_TTL=2s", "QUORUMLOCK_NODE_TIMEOUT=1900ms"}
	got := run(t, guard, "doctor", "--wait")
	if got.code != exitOK || got.out != "all 3 nodes vote\n" || !strings.Contains(got.talk, "3 of 3 nodes do not vote yet, 3 of them sit out: about 2s left") {
		t.Errorf("doctor --wait on new nodes = %+v, want that it waits for 2s, and code 0", got)
	}
	if got = run(t, guard, "run", "--no-wait", "k", "--", "true"); got.code != exitOK {
		t.Errorf("run behind doctor --wait = %+v, want a lock", got)
	}
	if got = run(t, append(guard, "QUORUMLOCK_NODE_SET=7"), "doctor", "--wait"); got.code != exitConfig || !strings.Contains(got.talk, `"2000 0:3"`) || !strings.Contains(got.talk, `"2000 7:3"`) {
		t.Errorf("doctor --wait with another node set = %+v, want code %d, and both settings", got, exitConfig)
	}
}
