package drivertest

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/quorumlock/quorumlock/driver"
)

// The server turns bad only after open has returned, because some clients connect
// as soon as they are made. What they have connected is cut, so that a call has to
// connect again; the first ones may still find out that the connection has gone.
var connectCases = []testCase{
	{"a refused port fails at once", refusedPort},
	{"a deadline ends a call while connecting", silentHandshake},
	{"a server that wants a password is heard", passwordWanted},
}

// attempts is enough to get past connections that have gone.
const attempts = 4

func refusedPort(tr *trial) {
	tr.server.refuse()
	var out outcome
	for range attempts {
		out = tr.doPatient(keyed("SET", "refused", "1"))
		if out.err == nil {
			tr.Fatalf("a refused port: Do returned %d replies and no error", len(out.replies))
		}
		tr.arrived(out)
		if out.took > prompt {
			tr.Fatalf("a refused port: Do = %v after %v, want at once", out.err, out.took.Round(time.Millisecond))
		}
	}
	tr.Logf("a refused port: Do took %v, wraps driver.ErrNotSent: %t", out.took.Round(100*time.Microsecond), errors.Is(out.err, driver.ErrNotSent))
}

func silentHandshake(tr *trial) {
	thaw := tr.server.freeze()
	defer thaw()
	tr.server.cut()
	var timedOut bool
	var outs []outcome
	for i := range attempts {
		out := tr.doShort(keyed("SET", "connecting "+strconv.Itoa(i), "1"))
		outs = append(outs, out)
		if out.late > -short/2 {
			timedOut = true
			tr.endedInTime("a server that accepts and says nothing", out, context.DeadlineExceeded)
		} else if out.err == nil {
			tr.Errorf("a server that accepts and says nothing: Do returned %d replies and no error", len(out.replies))
		}
	}
	if !timedOut {
		tr.Logf("a server that accepts and says nothing: every call failed before its deadline, the last with %q", outs[len(outs)-1].err)
	}
	thaw()
	tr.recovers("a server that accepted and said nothing")
	tr.settles()
	for i, out := range outs {
		tr.honest(out, "connecting "+strconv.Itoa(i))
	}
}

func passwordWanted(tr *trial) {
	tr.server.guard()
	tr.server.cut()
	var publication []string
	for range attempts {
		out := tr.doPatient(keyed("SET", "guarded", "1"))
		if out.late > 0 {
			tr.Errorf("a server that wants a password: Do returned %v after %v, want the server's refusal", out.err, out.took)
		}
		switch {
		case out.err != nil:
			publication = append(publication, out.err.Error())
		case len(out.replies) == 1 && out.replies[0].Err() != nil:
			publication = append(publication, out.replies[0].Str)
		default:
			tr.Fatalf("a server that wants a password: Do returned %d replies and no error, want an error reply or an error", len(out.replies))
		}
	}
	if last := publication[len(publication)-1]; !strings.Contains(last, "NOAUTH") {
		tr.Errorf("the server said %q to every command, but Do says %q", noAuth, last)
	}
}
