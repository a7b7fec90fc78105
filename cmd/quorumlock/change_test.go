package main

import (
	"strings"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/test/patient"
)

// guarded is the environment of a client with these nodes and settings.
func guarded(urls []string, longest, set string) []string {
	return []string{"QUORUMLOCK_NODES=" + strings.Join(urls, ","), "QUORUMLOCK_GUARD=true", "QUORUMLOCK_TTL=" + longest, "QUORUMLOCK_LONGEST_TTL=" + longest, "QUORUMLOCK_NODE_SET=" + set, "QUORUMLOCK_NODE_TIMEOUT=900ms"}
}

// getsTheLock waits until a new client has had the lock: a busy machine may need the whole second of its lease.
func getsTheLock(t *testing.T, client []string) {
	t.Helper()
	patient.Until(t, "a new client has the lock", func() bool {
		return run(t, client, "run", "--no-wait", "k", "--", "true").code == exitOK
	})
}

func TestSettingsChangeTheLongestLease(t *testing.T) {
	t.Parallel()
	s := newSite(t, 3, time.Minute)
	s.ripen(2*time.Second, 0)
	change := []string{"settings", "--from", "2000 0:3", "--to", "1000 0:3"}
	before, after := guarded(s.urls, "2s", "0"), guarded(s.urls, "1s", "0")
	wants(t, "a new client before the change", run(t, after, "run", "--no-wait", "k", "--", "true"), exitConfig, `2> "2000 0:3"`, `2> quorumlock settings --from "2000 0:3" --to "1000 0:3"`)

	thaw := s.servers[2].Freeze()
	wants(t, "settings with a node that is silent", run(t, after, change...), exitUnavailable, "2> "+s.servers[2].Addr, "2> no node has entered")
	wants(t, "a new client then", run(t, after, "run", "--no-wait", "k", "--", "true"), exitConfig, "2> run quorumlock settings once more")
	wants(t, "doctor then", run(t, after, "doctor", "--check=guard"), 2, "changed to 1000 0:3")
	thaw()
	for range 2 { // the second changes nothing
		wants(t, "settings", run(t, after, change...), exitOK, `3 nodes are for clients with "1000 0:3"`)
	}
	wants(t, "an old client", run(t, before, "run", "--no-wait", "k", "--", "true"), exitConfig, `2> "1000 0:3"`, `2> "2000 0:3"`)
	wants(t, "a new client at once", run(t, after, "run", "--no-wait", "k", "--", "true"), exitUnavailable, "2> quarantine")
	wants(t, "doctor --wait", run(t, after, "doctor", "--wait"), exitOK, "all 3 nodes vote")
	if age := do(t, s.servers[0], "HGET", "ql:memory", "age"); len(age) < 7 {
		t.Errorf("the memory votes at the age of %s µs", age)
	}
	getsTheLock(t, after)
}

func TestSettingsChangeTheNodes(t *testing.T) {
	t.Parallel()
	s := newSite(t, 4, time.Minute)
	w := &ward{t: t, servers: s.servers[:3]}
	w.ripen(time.Second, 0)
	after := guarded([]string{s.urls[0], s.urls[1], s.urls[3]}, "1s", "1")
	change := []string{"settings", "--old-nodes", strings.Join(s.urls[:3], ","), "--from", "1000 0:3", "--to", "1000 1:3"}
	s.servers[2].Kill()
	wants(t, "settings with a node that is down", run(t, after, change...), exitUnavailable, "2> "+s.servers[2].Addr, "2> have not left")
	if got := do(t, s.servers[3], "TYPE", "ql:memory"); got != "none" {
		t.Errorf("a new node has entered while an old one has not left: %q", got)
	}
	wants(t, "settings without the node that is lost", run(t, after, append(change, "--gone", s.servers[2].Addr)...), exitOK, `"1000 1:3"`)
	wants(t, "doctor --wait", run(t, after, "doctor", "--wait"), exitOK, "all 3 nodes vote")
	getsTheLock(t, after)
}

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
