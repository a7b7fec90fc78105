package drivertest

import (
	"context"
	"strconv"
	"sync"
	"time"

	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/test/scripted"
)

var lossCases = []testCase{
	{"a lost reply is an error and no second send", func(tr *trial) { lost(tr, scripted.LoseReply) }},
	{"a reset connection is an error and no second send", func(tr *trial) { lost(tr, scripted.ResetConn) }},
	{"half a reply is an error behind the replies before it", halfReply},
	{"a reply that arrives before the close counts", answerThenClose},
	{"a reply that never comes shifts no other", missingReply},
	{"an idle connection that the server closed is replaced", idleClosed},
}

// lost tries a fresh connection and one that has served before: some clients send
// again only on the latter.
func lost(tr *trial, kind scripted.Fault) {
	for _, state := range []string{"fresh", "used"} {
		key := "on a " + state + " connection"
		release := tr.server.Fault(key, kind)
		defer release()
		out := tr.doPatient(keyed("SET", key, "1", "NX", "PX", "10000"))
		tr.failed("a server that "+kind.String()+" "+key, out)
		tr.arrived(out)
		tr.honest(out, key)
		tr.recovers(kind.String())
		tr.sentOnce(key)

		// In a batch nothing is sent twice either, whether it was answered or not.
		out = tr.doPatient(keyed("SET", "before, "+key, "1"), keyed("SET", key, "1", "NX"), keyed("SET", "behind, "+key, "1"))
		tr.failed("a batch, and a server that "+kind.String()+" "+key, out)
		release()
		tr.recovers(kind.String())
		tr.sentOnce("before, " + key)
		if n := tr.server.Count("behind, " + key); n > 1 {
			tr.Errorf("the server received the command behind the loss %d times, want at most once", n)
		}
	}
}

func halfReply(tr *trial) {
	for i, script := range []string{"bulk string", "nested array", "simple string", "largest integer", "long string", "nil"} {
		key := "cut " + strconv.Itoa(i)
		release := tr.server.Fault(key, scripted.CutReply)
		defer release()
		out := tr.doPatient(
			keyed("SET", "a "+key, "1"),
			keyed("GET", "a "+key),
			keyed("GET", "missing"),
			canned("WRONGTYPE Operation against a key holding the wrong kind of value", "b "+key),
			canned(script, key),
			keyed("SET", "c "+key, "1"),
		)
		want := []driver.Reply{text("OK"), text("1"), nilReply(), refusal("WRONGTYPE Operation against a key holding the wrong kind of value")}
		tr.failed("half of a "+script, out)
		if len(out.replies) < len(want) {
			tr.Errorf("half of a %s: Do returned %d of the %d replies that had arrived", script, len(out.replies), len(want))
		}
		tr.arrived(out, want...)
		tr.honest(out, key)
		tr.recovers("half of a " + script)
		tr.sentOnce(key)

		out = tr.doPatient(canned(script, key)) // nothing came before it
		tr.failed("half of a "+script+" alone", out)
		tr.arrived(out)
		tr.recovers("half of a " + script)
	}
}

func answerThenClose(tr *trial) {
	for i := range 3 {
		key := "last words " + strconv.Itoa(i)
		release := tr.server.Fault(key, scripted.AnswerClose)
		defer release()
		out := tr.doPatient(keyed("SET", "before "+key, "1"), keyed("SET", key, "1", "NX"))
		if out.err != nil {
			tr.Errorf("all replies arrived before the server closed the connection, and Do = %v, want no error", out.err)
			continue
		}
		tr.expect(out, text("OK"), text("OK"))
		tr.sentOnce(key)
		tr.recovers("a close behind the last reply")
	}
}

// missingReply leaves a reply out, and the connection open.
func missingReply(tr *trial) {
	for i := range 3 {
		key := "left out " + strconv.Itoa(i)
		release := tr.server.Hostile(key, scripted.Hostility{Place: scripted.Instead, Ending: scripted.GoesOn})
		defer release()
		out := tr.doShort(keyed("SET", key, "1"), keyless("ECHO", "behind it"))
		tr.endedInTime("a server that leaves a reply out", out, context.DeadlineExceeded)
		tr.honest(out, key)
		var callers sync.WaitGroup
		for caller := range 8 {
			callers.Go(func() {
				words := key + " " + strconv.Itoa(caller)
				if out := tr.doShort(keyless("ECHO", words)); len(out.replies) > 0 {
					tr.expect(out, text(words))
				}
			})
		}
		callers.Wait()
		tr.recoversFrom("a server that leaves a reply out")
	}
}

func idleClosed(tr *trial) {
	for range 3 {
		tr.do(keyed("GET", "warm"))
		tr.server.Cut()
		tr.recovers("a close while the connection was idle")
	}
}

// failed fails the case unless the call failed by itself, long before its deadline.
func (tr *trial) failed(what string, out outcome) {
	tr.Helper()
	if out.err == nil {
		tr.Errorf("%s: Do returned %d replies and no error", what, len(out.replies))
	}
	if out.took > time.Second {
		tr.Errorf("%s: Do took %v to return, want as soon as the connection has ended", what, out.took.Round(time.Millisecond))
	}
}
