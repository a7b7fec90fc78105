package inspect

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/internal/acl"
	"github.com/quorumlock/quorumlock/internal/gate"
	"github.com/quorumlock/quorumlock/internal/protocol"
)

// Records are what the restart guard keeps on a node: see package gate.
type records struct {
	nonce   string
	marker  gate.Marker // zero: none
	entries []gate.NodeEntry
	refused driver.Reply // why they cannot be read
	fault   error        // a record that is none
	there   bool         // there is any
}

// records reads them.
func (t *target) records() (r records) {
	parse := map[string]func(string) error{
		gate.EpochKey:  func(text string) (err error) { r.nonce, err = gate.ParseEpoch(text); return err },
		gate.MarkerKey: func(text string) (err error) { r.marker, err = gate.ParseMarker(text); return err },
		gate.SetKey:    func(text string) (err error) { r.entries, err = gate.ParseSet(text); return err },
	}
	for _, name := range gate.RecordKeys {
		key := gate.RecordKey(t.exam.Prefix, name)
		switch reply := t.replies["GET "+key]; reply.Kind {
		case driver.Nil:
		case driver.String:
			r.there = true
			if err := parse[name](reply.Str); err != nil {
				r.fault = &gate.RecordError{Key: key, Why: err}
			}
		default:
			r.refused = reply
		}
	}
	return r
}

// checkGuard says whether the node is admitted for clients of these settings.
func (t *target) checkGuard() {
	if !t.exam.RestartGuard {
		t.checkUnguarded()
		return
	}
	if t.infoMissing("guard", "whether the node is admitted") {
		return
	}
	r := t.records()
	if r.refused.Kind == driver.Failure {
		t.recordsRefused("whether the node is admitted", r.refused)
		return
	}
	t.checkBacklog()
	own := fmt.Sprintf("%d:%d", t.exam.NodeSet, len(t.exam.targets))
	stop := "# stop all clients for the longest lease of any; then:"
	longest := t.exam.LongestTTL
	switch {
	case errors.Is(r.fault, gate.ErrNewer), errors.Is(r.fault, gate.ErrExtension):
		t.find("guard", Unfit, Seen{"record": r.fault.Error()}, "clients of this version get no vote from it", "# update the clients")
	case r.fault != nil:
		t.find("guard", Unfit, Seen{"record": r.fault.Error()}, "clients leave a node with such a record alone",
			"# find out who else uses the key; the node sits out the longest lease once it is gone:", t.redis("del", faulty(r.fault)))
	case r.entries != nil && !listed(r.entries, t.exam.NodeSet, len(t.exam.targets)):
		t.find("guard", Unfit, Seen{"node_set": t.replies["GET "+gate.RecordKey(t.exam.Prefix, gate.SetKey)].Str, "ours": own},
			"it belongs to other nodes than these, and refuses clients of this list",
			"# give all clients the same nodes and --node-set; or, to change the list,", stop, t.redis("del", gate.RecordKey(t.exam.Prefix, gate.SetKey)))
	case r.marker != (gate.Marker{}) && r.marker.Ms < longest.Milliseconds():
		t.find("guard", Unfit, Seen{"admitted_for_s": float64(r.marker.Ms) / 1000, "longest_ttl_s": longest.Seconds()},
			"it is admitted for shorter leases than these clients take, and refuses them",
			"# give all clients the same --longest-ttl; or, to raise it,", stop, t.redis("del", gate.RecordKey(t.exam.Prefix, gate.MarkerKey)))
	case r.marker.Ms > longest.Milliseconds():
		t.find("guard", Unfit, Seen{"admitted_for_s": float64(r.marker.Ms) / 1000, "longest_ttl_s": longest.Seconds()},
			"other clients take longer leases than these settings say: a node that restarts sits out too short a time",
			fmt.Sprintf("# give these clients --longest-ttl %v; or, to lower it everywhere,", time.Duration(r.marker.Ms)*time.Millisecond), stop, t.redis("del", gate.RecordKey(t.exam.Prefix, gate.MarkerKey)))
	case !t.admitted(r):
		t.quarantined(r)
	}
}

// checkUnguarded says that other clients have the guard, and these have not.
func (t *target) checkUnguarded() {
	switch r := t.records(); {
	case r.there && r.fault == nil, errors.Is(r.fault, gate.ErrNewer), errors.Is(r.fault, gate.ErrExtension):
		keys := []string{"del"}
		for _, name := range gate.RecordKeys {
			keys = append(keys, gate.RecordKey(t.exam.Prefix, name))
		}
		t.find("guard", Unfit, Seen{"records": strings.Join(keys[1:], " "), "longest_ttl_s": float64(r.marker.Ms) / 1000},
			"clients with the guard use the node, and these take its vote also while it sits out: then two can hold a lock",
			"# give all clients --guard and the same --longest-ttl; or, if none has the guard any more:", t.redis(keys...))
	case protocol.Says(r.refused, "NOPERM"):
		t.recordsRefused("whether other clients have the guard", r.refused)
	}
}

// recordsRefused says that the records of the guard may not be read.
func (t *target) recordsRefused(what string, reply driver.Reply) {
	if _, ofKey := forbids(reply); !ofKey {
		t.cannotTell("guard", what, "get", reply)
		return
	}
	lacks := wanted(reply.Str, t.exam.Prefix, acl.RestartGuard)
	t.find("guard", Unknown, Seen{"GET": refused(reply)}, "nobody can tell "+what+": its user may not read the guard's records",
		t.redis(append([]string{"acl", "setuser", t.asker()}, lacks...)...))
	t.because(lacks...)
}

// admitted reports whether the marker is of the node's present history.
func (t *target) admitted(r records) bool {
	return r.nonce != "" && r.entries != nil && r.marker.Replid == t.info["master_replid"] && r.marker.Nonce == r.nonce
}

// quarantined says for how long the node sits out at most: from its start on, if it was restarted.
func (t *target) quarantined(r records) {
	out := gate.SitOut(t.exam.LongestTTL, t.exam.Drift)
	left := out
	if up, ok := t.count("uptime_in_seconds"); ok {
		if since := time.Duration(up) * time.Second; since < out {
			left = out - since
		}
	}
	seen := Seen{"left_at_most_s": left.Seconds(), "marker": "of another history"}
	why := "it may have forgotten locks, and has no vote until it has sat out the longest lease of any"
	if r.marker == (gate.Marker{}) {
		seen["marker"] = "none"
		why = "it is new or came back empty, and has no vote until it has sat out the longest lease of any"
	}
	mend := "# wait: clients admit it by themselves"
	if !slices.ContainsFunc(t.exam.targets, func(other *target) bool { return other.err == nil && other.records().there }) {
		mend = "# wait: clients admit it by themselves; or, if all nodes are new and no lock was taken yet: quorumlock admit"
	}
	t.report.Quarantined = true
	t.find("guard", Warning, seen, why, mend)
}

// faulty is the key of a record.
func faulty(err error) string {
	var record *gate.RecordError
	_ = errors.As(err, &record)
	return record.Key
}

// checkBacklog says that replicas that leave change the node's history.
func (t *target) checkBacklog() {
	if replicas, ok := t.count("connected_slaves"); !ok || replicas == 0 {
		return
	}
	switch ttl, reply, ok := t.config("repl-backlog-ttl"); {
	case !ok:
		t.cannotTell("guard", "whether its history changes when no replica was there for long", "config|get", reply)
	case ttl != "0":
		t.find("guard", Warning, Seen{"repl-backlog-ttl": ttl + "s"},
			"when no replica was there for so long its history changes, and it sits out the longest lease for nothing",
			t.redis("config", "set", "repl-backlog-ttl", "0"), alsoInFile)
	}
}

// listed reports whether entries list a configuration of one group, in which the node votes.
func listed(entries []gate.NodeEntry, id uint64, size int) bool {
	return slices.ContainsFunc(entries, func(e gate.NodeEntry) bool {
		return e.ID == id && !e.Retired && slices.Equal(e.Sizes, []uint64{uint64(size)}) //nolint:gosec // it counts nodes
	})
}

// A configuration is a list of nodes, as records name it: an id and the number of nodes.
type configuration struct {
	id   uint64
	size int
}

func (c configuration) String() string { return fmt.Sprintf("%d:%d", c.id, c.size) }

// checkSets says that the nodes are part of several configurations: whose quorums do not meet, or
// while one changes to another.
func (e *exam) checkSets() {
	if !e.RestartGuard {
		return
	}
	own := configuration{e.NodeSet, len(e.targets)}
	members := map[configuration][]string{} // those of our nodes that vote in it
	for _, t := range e.targets {
		if t.err != nil {
			continue
		}
		for _, entry := range t.records().entries {
			if c := (configuration{id: entry.ID}); !entry.Retired && len(entry.Sizes) == 1 {
				c.size = int(entry.Sizes[0]) //nolint:gosec // a number of nodes
				members[c] = append(members[c], t.Name)
			}
		}
	}
	for c, names := range members {
		if c == own {
			continue
		}
		slices.Sort(names)
		seen := Seen{"ours": own.String(), "other": c.String(), "nodes": strings.Join(names, " ")}
		if apart(members[own], own.size, names, c.size) {
			e.find("sets", Unfit, seen, "a quorum of the one list and a quorum of the other share no node: two can hold a lock",
				"# give all clients one list and one --node-set; to change them, stop all clients first")
			continue
		}
		e.find("sets", Warning, seen, "the list of nodes is being changed: some of them still belong to another list",
			"# finish the deployment: then all nodes list one set")
	}
}

// apart reports whether a quorum of a list of nodes and one of another may share no node. Of
// both lists only some members are known; the others may be any.
func apart(a []string, sizeA int, b []string, sizeB int) bool {
	// The unknown members vote first: known ones are needed for what they leave.
	needA := max(0, sizeA/2+1-(sizeA-len(a)))
	needB := max(0, sizeB/2+1-(sizeB-len(b)))
	both := slices.Clone(a)
	for _, name := range b {
		if !slices.Contains(a, name) {
			both = append(both, name)
		}
	}
	return needA+needB <= len(both)
}
