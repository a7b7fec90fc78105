package drivertest

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"runtime/pprof"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/test/scripted"
)

// FuzzReplies gives a driver replies outside the protocol: bytes of the fuzzer's choice
// instead of a reply, behind one, or on an idle connection, and behind them a cut, a reset,
// silence or normal service. Without -fuzz it runs some hundred replies that have hurt
// clients.
//
//	func FuzzReplies(f *testing.F) {
//		drivertest.FuzzReplies(f, func(tb testing.TB, addr string) driver.Driver { … })
//	}
//
// What it asks of a driver: it does not panic, nor does the client on a goroutine of
// its own. It returns in time. It takes no memory for announced lengths. Its replies are of
// the kinds that there are, and no more than there were commands. The next call gets its own
// replies or an error, and a few calls later all is well. Nothing is left behind.
//
// open returns a driver for the server at addr and registers its own clean-up. It is
// called once.
func FuzzReplies(f *testing.F, open func(tb testing.TB, addr string) driver.Driver) {
	for i, raw := range hostileReplies {
		for where := range scripted.Places {
			for then := range scripted.Endings {
				// Silence takes time: that, only here and there.
				if then != scripted.StaysSilent || where == 0 && i%4 == 0 {
					f.Add([]byte(raw), uint8(where), uint8(then))
				}
			}
		}
	}
	on := newStage(f, func(addr string) driver.Driver { return open(f, addr) })
	on.probe(f)
	f.Fuzz(func(t *testing.T, raw []byte, where, then uint8) {
		h := scripted.Hostility{Raw: string(raw), Place: scripted.Place(where) % scripted.Places, Ending: scripted.Ending(then) % scripted.Endings}
		if h.Place != scripted.Instead && h.Ending == scripted.StaysSilent {
			h.Ending = scripted.GoesOn
		}
		on.survives(t, h)
	})
}

// HostileReplies runs what is too large for [FuzzReplies].
func HostileReplies(t *testing.T, open func(tb testing.TB, addr string) driver.Driver) {
	on := newStage(t, func(addr string) driver.Driver { return open(t, addr) })
	for _, large := range largeReplies {
		t.Run(large.name, func(t *testing.T) {
			raw := large.head + strings.Repeat(large.again, large.times) + large.tail
			on.survives(t, scripted.Hostility{Raw: raw, Place: scripted.Instead, Ending: scripted.StaysSilent})
		})
	}
}

// stage is a hostile server and a driver that has to bear with it.
type stage struct {
	server *scripted.Server
	driver driver.Driver
	calls  int

	// reads: the client reads even when it waits for no reply. It may not have read hostile
	// bytes when the next call comes.
	reads bool
}

func newStage(r reporter, open func(addr string) driver.Driver) *stage {
	tr := &trial{reporter: r, server: startServer(r)}
	tr.mark()
	defer pprof.SetGoroutineLabels(context.Background()) // or the fuzzer's own goroutines had it
	before := tr.goroutines()
	r.Cleanup(func() {
		if n, gone := tr.falls(before, 3*patience); !gone {
			r.Errorf("a hostile server has left %d goroutines behind:\n%s", n-before, profile())
		}
	})
	tr.Driver = open(tr.server.Addr())
	return &stage{server: tr.server, driver: tr.Driver}
}

// probe finds out whether the client reads when it waits for no reply.
func (on *stage) probe(r reporter) {
	tr := on.trial(r)
	defer pprof.SetGoroutineLabels(context.Background())
	h := scripted.Hostility{Raw: "+OK\r\n", Place: scripted.Later, Ending: scripted.HangsUp}
	release := on.server.Hostile("polite", h)
	defer release()
	tr.do(keyless("ECHO", "polite"))
	on.reads = on.server.Interject(on.server.Polite(), h, time.Second)
	tr.recoversFrom("a server that says OK to nobody")
}

// trial is one hostility's.
func (on *stage) trial(r reporter) *trial {
	on.calls++
	on.server.Forget()
	tr := &trial{reporter: r, Subject: Subject{Driver: on.driver}, server: on.server}
	tr.mark()
	return tr
}

const (
	// brief is the deadline of a call that a hostile server may leave unanswered.
	brief = 30 * time.Millisecond
	// tries is how many calls may fail behind a hostile reply, on a busy machine.
	tries = 10
	// modest is what a call may allocate, besides what has come.
	modest = 32 << 20
)

// survives makes a call that the server answers in a hostile way, and sees to the calls
// behind it.
func (on *stage) survives(r reporter, h scripted.Hostility) {
	r.Helper()
	tr := on.trial(r)
	what := fmt.Sprintf("a server that says %s %v and then %v", quote(h.Raw), h.Place, h.Ending)
	key := "hostile " + strconv.Itoa(on.calls)
	release := tr.server.Hostile(key, h)
	defer release()

	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	first, last := "first of "+key, "last of "+key
	cmds := []driver.Command{keyless("ECHO", first), keyed("SET", key, "1"), keyless("ECHO", last)}
	if h.Place == scripted.Behind {
		cmds, last = cmds[:2], key
	}
	out := tr.doWithin(brief, cmds...)
	tr.lawful(what, out)
	if len(out.replies) > 0 && !same(out.replies[0], text(first)) {
		tr.Errorf("%s: the reply before it is %s, want %q", what, show(out.replies[0]), first)
	}
	switch {
	case h.Place == scripted.Later:
		if c := tr.server.Polite(); c != nil {
			most := time.Duration(0)
			if on.reads {
				most = 4 * brief // unless that is no reason to hang up
			}
			tr.server.Interject(c, h, most)
		}
	case h.Ending == scripted.StaysSilent:
		tr.server.Cut() // it would be silent for ever
	case h.Ending == scripted.GoesOn:
		tr.server.HasAnswered(last, 4*brief) // if the client has sent it
		if on.reads && out.err == nil {
			// What is too much it reads when it comes to that, and hangs up.
			switch {
			case h.Place == scripted.Behind:
				tr.server.HasHungUp(last, 4*brief) // unless it is a push
			case !same(out.replies[len(out.replies)-1], text(last)):
				tr.server.HasHungUp(last, 5*time.Second)
			}
		}
	}
	tr.recoversFrom(what)

	runtime.ReadMemStats(&after)
	if took := after.TotalAlloc - before.TotalAlloc; took > modest+8*uint64(len(h.Raw)) {
		tr.Errorf("%s: %d MB were allocated", what, took>>20)
	}
	if n := tr.server.Conns(); n > 2*mayRemain {
		tr.Errorf("%s: the driver has %d connections", what, n)
	}
}

// lawful fails the case unless the call returned what a call may return. That it returns
// within 50ms of its deadline is for other cases to see: among thousands of calls there
// is one for which a busy machine has no time.
func (tr *trial) lawful(what string, out outcome) {
	tr.Helper()
	switch {
	case errors.Is(out.err, errHung):
		tr.Fatalf("%s: Do %v", what, out.err)
	case len(out.replies) > len(out.cmds), out.err == nil && len(out.replies) < len(out.cmds):
		tr.Errorf("%s: Do returned %d replies to %d commands, and the error %v", what, len(out.replies), len(out.cmds), out.err)
	}
	for _, reply := range out.replies {
		if !known(reply) {
			tr.Errorf("%s: Do returned %s", what, show(reply))
		}
	}
}

// known reports whether all of a reply is of the kinds that there are.
func known(r driver.Reply) bool {
	for _, elem := range r.Elems {
		if !known(elem) {
			return false
		}
	}
	return r.Kind <= driver.Failure
}

// recoversFrom fails the case unless calls soon succeed again, and none gets what was not
// said to it.
func (tr *trial) recoversFrom(what string) {
	tr.Helper()
	var out outcome
	for i := range tries {
		words := strconv.Itoa(i) + " after " + strconv.FormatInt(time.Now().UnixNano(), 10)
		out = tr.doWithin(4*brief, keyless("ECHO", words))
		tr.lawful(what, out)
		if len(out.replies) > 0 && !same(out.replies[0], text(words)) {
			tr.Errorf("%s: call %d after it got the reply %s, want %q", what, i+1, show(out.replies[0]), words)
		}
		if out.err == nil {
			return
		}
		if out.late >= 0 {
			tr.server.Cut() // what has no end would never end
		}
	}
	tr.Fatalf("%s: Do = %v in %d tries afterwards", what, out.err, tries)
}
