package inspect

import (
	"strings"

	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/internal/acl"
	"github.com/quorumlock/quorumlock/internal/memory"
	"github.com/quorumlock/quorumlock/internal/protocol"
)

// askRecord asks for the record of the restart guard: see internal/memory.
func (s *Settings) askRecord() driver.Command {
	return onKey("HMGET", memory.Key(s.Prefix), "id", "for", "age")
}

// formerKeys are those of the guard of builds before the first release. Nothing reads them.
func (s *Settings) formerKeys() []string {
	var keys []string
	for _, name := range []string{"ql:epoch", "ql:admitted", "ql:set"} {
		keys = append(keys, strings.Replace(memory.Key(s.Prefix), "ql:memory", name, 1))
	}
	return keys
}

// record is the node's. Refused is an error that the node has answered; what is no record is one for settings that
// nobody has.
func (t *target) record() (own memory.Record, refused driver.Reply) {
	reply := t.replies[spell(t.exam.askRecord())]
	switch {
	case protocol.Says(reply, "WRONGTYPE"):
		own.For = reply.Str
	case reply.Kind == driver.Array && len(reply.Elems) == 3:
		own = memory.Record{ID: reply.Elems[0].Str, For: reply.Elems[1].Str, Age: memory.Age(reply.Elems[2].Str)}
	default:
		refused = reply
	}
	return own, refused
}

// rules are those of the clients.
func (e *exam) rules() *memory.Rules {
	return memory.New(memory.Settings{Longest: e.LongestTTL, NodeSet: e.NodeSet, Size: len(e.targets)})
}

// judge says what a client sees in the node's record.
func (t *target) judge(own memory.Record) (state memory.State, left float64) {
	state, rest := t.exam.rules().Judge(memory.Server{Role: t.info["role"], History: t.info["master_replid"]}, own)
	return state, rest.Seconds()
}

// checkGuard says whether the node votes for clients of these settings.
func (t *target) checkGuard() {
	t.checkFormer()
	own, refused := t.record()
	if !t.exam.RestartGuard {
		t.checkUnguarded(own, refused)
		return
	}
	if t.infoMissing("guard", "whether the node votes") {
		return
	}
	if refused.Kind == driver.Failure {
		t.recordRefused("whether the node votes", refused)
		return
	}
	t.checkBacklog()
	key := memory.Key(t.exam.Prefix)
	theirs, known := memory.Parse(own.For)
	to, leaving := memory.ParseLeaving(own.For)
	ours := t.exam.rules()
	switch state, left := t.judge(own); {
	case state == memory.Others && leaving:
		t.find("guard", Unfit, Seen{"changed_to": to.String(), "ours": ours.Text}, "its settings are being changed, and it votes for nobody until that is done",
			"# run quorumlock settings once more, with the same arguments")
	case state == memory.Others && !known:
		t.find("guard", Unfit, Seen{"record": key + " is no record of the guard's"}, "clients leave a node with such a record alone",
			"# find out who else uses the key; the node sits out the longest lease once it is gone:", t.redis("del", key))
	case state == memory.Others:
		t.find("guard", Unfit, Seen{"clients_longest_ttl_s": theirs.Longest.Seconds(), "clients": theirs.String(), "ours": ours.Text},
			"it is for clients with another longest lease, node set or number of nodes, and refuses clients of these settings",
			"# give all clients the same nodes, --node-set and --longest-ttl; or, to change the nodes' (--old-nodes for another list):",
			"# quorumlock settings --from "+quote(theirs.String())+" --to "+quote(ours.Text))
	case state == memory.Missing:
		t.quarantined(left, "none", "it is new or came back empty, and has no vote until it was watched for the longest lease of any")
	case state == memory.Forgot:
		t.quarantined(left, "of another history", "it may have forgotten locks, and has no vote until it was watched for the longest lease of any")
	case state == memory.Young:
		t.quarantined(left, "young", "it is new, or may have forgotten locks, and has no vote until it was watched for the longest lease of any")
	}
}

// checkFormer says that the node has keys of earlier builds.
func (t *target) checkFormer() {
	var there []string
	for _, key := range t.exam.formerKeys() {
		if reply := t.replies["GET "+key]; reply.Kind == driver.String || protocol.Says(reply, "WRONGTYPE") {
			there = append(there, key)
		}
	}
	if there != nil {
		t.find("guard", Info, Seen{"keys": strings.Join(there, " ")}, "they are of a build before the first release, and nothing reads them",
			t.redis(append([]string{"del"}, there...)...))
	}
}

// checkUnguarded says that other clients have the guard, and these have not.
func (t *target) checkUnguarded(own memory.Record, refused driver.Reply) {
	key := memory.Key(t.exam.Prefix)
	switch theirs, known := memory.Parse(own.For); {
	case known:
		t.find("guard", Unfit, Seen{"record": key, "longest_ttl_s": theirs.Longest.Seconds()},
			"clients with the guard use the node, and these take its vote also while it sits out: then two can hold a lock",
			"# give all clients --guard and the same --longest-ttl; or, if none has the guard any more:", t.redis("del", key))
	case protocol.Says(refused, "NOPERM"):
		t.recordRefused("whether other clients have the guard", refused)
	}
}

// recordRefused says that the record of the guard may not be read.
func (t *target) recordRefused(what string, reply driver.Reply) {
	if _, ofKey := forbids(reply); !ofKey {
		t.cannotTell("guard", what, "hmget", reply)
		return
	}
	lacks := wanted(reply.Str, t.exam.Prefix, acl.RestartGuard)
	t.find("guard", Unknown, Seen{"HMGET": refused(reply)}, "nobody can tell "+what+": its user may not read the guard's record",
		t.redis(append([]string{"acl", "setuser", t.asker()}, lacks...)...))
	t.because(lacks...)
}

// quarantined says for how long the node has to be watched yet.
func (t *target) quarantined(left float64, record, why string) {
	t.report.Quarantined = true
	t.find("guard", Warning, Seen{"left_s": left, "record": record}, why,
		"# let a client run until then, or: quorumlock doctor --wait")
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
