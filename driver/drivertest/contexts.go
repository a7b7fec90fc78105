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

var contextCases = []testCase{
	{"a context that has ended sends nothing", contextDone},
	{"a deadline ends a call to a silent server", silentServer},
	{"a cancel ends a call before its deadline", cancelled},
	{"a deadline ends a batch larger than the buffers", largeBatch},
	{"a batch that is answered in part keeps no false replies", answeredInPart},
	{"a late reply goes to nobody else", lateReply},
	{"commands are not used after the return", notKept},
}

func contextDone(tr *trial) {
	cancelled, cancel := context.WithTimeout(context.Background(), time.Minute)
	cancel()
	expired, cancel := context.WithDeadline(context.Background(), time.Now().Add(-time.Second))
	defer cancel()
	tests := []struct {
		key  string
		ctx  context.Context //nolint:containedctx // the table's subject
		want error
	}{
		{"cancelled before the first connection", cancelled, context.Canceled},
		{"expired", expired, context.DeadlineExceeded},
		{"cancelled", cancelled, context.Canceled},
	}
	for _, tt := range tests {
		out := tr.call(tt.ctx, keyed("SET", tt.key, "1"), keyed("GET", tt.key))
		if !errors.Is(out.err, tt.want) {
			tr.Errorf("%s: Do = %v, want an error that is %q to errors.Is", tt.key, out.err, tt.want)
		}
		if len(out.replies) != 0 {
			tr.Errorf("%s: Do returned %d replies, want none", tt.key, len(out.replies))
		}
		if out.took > prompt {
			tr.Errorf("%s: Do returned after %v, want at once", tt.key, out.took)
		}
		if !errors.Is(out.err, driver.ErrNotSent) {
			tr.Logf("%s: Do = %v, which could wrap driver.ErrNotSent", tt.key, out.err)
		}
		tr.do(keyed("GET", "another key")) // behind whatever was sent before
		if n := tr.server.Count(tt.key); n != 0 {
			tr.Errorf("%s: %d commands reached the server, want none", tt.key, n)
		}
	}
}

func silentServer(tr *trial) {
	for _, kind := range []scripted.Fault{scripted.StopReading, scripted.KeepSilent} {
		tr.oneKeeps("a deadline, and a server that "+kind.String(), func(i int) outcome {
			key := kind.String() + " " + strconv.Itoa(i)
			release := tr.server.Fault(key, kind)
			out := tr.doShort(keyed("SET", key, "1"))
			release()
			tr.endedInTime("a server that "+kind.String(), out, context.DeadlineExceeded)
			if out.late > prompt {
				return out
			}
			tr.recovers("a call that was given up")
			tr.sentOnce(key)
			tr.honest(out, key)
			return out
		})
	}
}

func cancelled(tr *trial) {
	for _, kind := range []scripted.Fault{scripted.StopReading, scripted.KeepSilent} {
		key := kind.String()
		release := tr.server.Fault(key, kind)
		defer release()
		out := tr.cancelOnArrival(key, keyed("SET", key, "1"))
		release()
		tr.endedInTime("a cancel, and a server that "+kind.String(), out, context.Canceled)
		tr.recovers("a call that was cancelled")
		tr.sentOnce(key)
		tr.honest(out, key)
	}
}

// cancelOnArrival is a call that is cancelled as soon as the server has received its
// key, long before its deadline.
func (tr *trial) cancelOnArrival(key string, cmds ...driver.Command) outcome {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	go func() {
		tr.server.Await(key)
		cancel()
	}()
	return tr.call(ctx, cmds...)
}

func largeBatch(tr *trial) {
	tr.do(keyed("GET", "warm")) // so that the time goes into writing, not into connecting
	megabyte := strings.Repeat("x", 1<<20)
	cmds := []driver.Command{keyed("SET", "stop here", "1")}
	for i := range 20 {
		cmds = append(cmds, keyed("SET", "large "+strconv.Itoa(i), megabyte))
	}
	release := tr.server.Fault("stop here", scripted.StopReading)
	defer release()
	out := tr.doShort(cmds...)
	tr.endedInTime("20 MB to a server that stopped reading", out, context.DeadlineExceeded)
	tr.honest(out, "stop here")
	if len(out.replies) != 0 {
		tr.Errorf("Do returned %d replies of a server that sent none", len(out.replies))
	}
	release()
	tr.recovers("20 MB that were given up")
}

func answeredInPart(tr *trial) {
	cmds := []driver.Command{keyed("SET", "first", "1"), canned("nested array", "second"), keyed("SET", "stalled", "3"), keyed("GET", "fourth")}
	for _, kind := range []scripted.Fault{scripted.StopReading, scripted.KeepSilent} {
		release := tr.server.Fault("stalled", kind)
		defer release()
		out := tr.doShort(cmds...)
		release()
		tr.endedInTime("two replies, and a server that "+kind.String(), out, context.DeadlineExceeded)
		tr.arrived(out, text("OK"), cannedNamed("nested array").want)
		tr.honest(out, "stalled")
	}
}

func lateReply(tr *trial) {
	for i := range 4 {
		key := "late " + strconv.Itoa(i)
		release := tr.server.Fault(key, scripted.KeepSilent)
		defer release()
		out := tr.cancelOnArrival(key, keyed("SET", key, "1"), keyless("ECHO", "a late reply"), keyed("DEL", key))
		tr.endedInTime("a late reply", out, context.Canceled)
		release()
		for j := range 10 {
			words := "call " + strconv.Itoa(j) + " after a late reply"
			tr.expect(tr.do(keyless("ECHO", words)), text(words))
		}
	}
}

// notKept uses the slices again after Do has given up, as the core does. The race
// detector sees a call left behind that still reads them.
func notKept(tr *trial) {
	for _, blocks := range []bool{false, true} {
		thaw := tr.server.Freeze()
		defer thaw()
		cmds := make([]driver.Command, 64)
		for i := range cmds {
			cmds[i] = keyed("SET", "given up", strconv.Itoa(i))
			cmds[i].Blocks = blocks
		}
		out := tr.doShort(cmds...)
		tr.endedInTime("a server that is silent from the first byte", out, context.DeadlineExceeded)
		for i := range cmds {
			cmds[i].Args[1] = "of the next batch"
			cmds[i] = keyed("SET", "of the next batch", strconv.Itoa(i))
		}
		thaw()
		tr.recovers("a server that was silent")
		tr.settles()
		tr.honest(out, "given up")
	}
	if n := tr.server.Count("of the next batch"); n != 0 {
		tr.Errorf("a call that was left behind sent %d commands that were put into its slice after Do had returned", n)
	}
}
