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
	wants(t, "doctor --wait on new nodes", run(t, guard, "doctor", "--wait"), exitOK,
		"all 3 nodes vote\n", "2> 3 of 3 nodes do not vote yet, 3 of them sit out: about 2s left")
	wants(t, "run behind doctor --wait", run(t, guard, "run", "--no-wait", "k", "--", "true"), exitOK)
	wants(t, "doctor --wait with another node set", run(t, append(guard, "QUORUMLOCK_NODE_SET=7"), "doctor", "--wait"), exitConfig, `2> "2000 0:3"`, `2> "2000 7:3"`)
}
