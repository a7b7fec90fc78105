package drivertest

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/test/scripted"
)

// The server turns bad only after open has returned, because some clients connect
// as soon as they are made. What they have connected is cut, so that a call has to
// connect again; the first ones may still find out that the connection has gone.
var connectCases = []testCase{
	{"a refused port fails at once", refusedPort},
	{"a deadline ends a call while connecting", silentHandshake},
	{"a server that wants a password is heard", passwordWanted},
	{"a server that takes no connection is heard, whether it was asked or not", turnedAway},
}

// attempts is enough to get past connections that have gone.
const attempts = 4

func refusedPort(tr *trial) {
	tr.server.Refuse()
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
	thaw := tr.server.Freeze()
	defer thaw()
	tr.server.Cut()
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
	tr.server.Guard()
	tr.server.Cut()
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
		tr.Errorf("the server said %q to every command, but Do says %q", scripted.NoAuth, last)
	}
}

// Servers say why they take no connection before anybody has asked, and hang up.
func turnedAway(tr *trial) {
	const tail = "and so on"
	denied := "DENIED Redis is running in protected mode\a " + strings.Repeat("because it is ", 80) + tail
	for _, asked := range []bool{false, true} {
		tr.server.TurnAway(denied, asked)
		tr.server.Cut()
		var last outcome
		for range attempts {
			last = tr.doPatient(keyed("SET", "turned away", "1"), keyed("GET", "turned away"))
			if last.late > 0 || last.err == nil {
				tr.Fatalf("a server that takes no connection: Do = %d replies, %v after %v, want an error at once", len(last.replies), last.err, last.took)
			}
		}
		switch text := last.err.Error(); {
		case tr.Deaf:
		case len(last.replies) == 1 && strings.HasPrefix(last.replies[0].Str, "DENIED"): // the core puts it into the error
		case !strings.Contains(text, "DENIED Redis is running in protected mode"):
			tr.Errorf("the server said %.60q and hung up (asked: %t), but Do says %q", denied, asked, text)
		case strings.Contains(text, "\a") || strings.Contains(text, tail):
			tr.Errorf("Do repeats all that the server says, want 200 printable bytes: %q", text)
		}
	}
	tr.server.TurnAway("", false)
	tr.recovers("a server that took no connection")
}
