package drivertest

import (
	"context"
	"errors"
	"net"
	"strconv"
	"time"

	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/test/scripted"
)

const (
	// short is the deadline of a call that cannot be answered.
	short = 250 * time.Millisecond
	// prompt is how far a call may outlast its context. The contract says 50ms; the
	// rest is for a busy machine with the race detector on.
	prompt = 500 * time.Millisecond
	// hopeless is how far a call has to outlast its context to be given up.
	hopeless = time.Second
	// beat is the unit in which these two are measured.
	beat = 5 * time.Millisecond
)

// patience is the deadline of a call that has no reason to wait: it bounds nothing but a hang. Tests
// of drivers that are wrong have less.
var patience = time.Minute

// reporter is the part of *testing.T that a case uses, so that the suite's own
// tests can watch a case fail.
type reporter interface {
	Helper()
	Logf(format string, args ...any)
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
	Cleanup(func())
}

// trial is one case at work on one driver.
type trial struct {
	reporter
	Subject
	server  *scripted.Server
	idle    int // goroutines before the first call
	flushes int // subscriptions that were there to wait for
}

// try runs the case against a server and a driver of its own.
func (c testCase) try(r reporter, open func(addr string) Subject) {
	r.Helper()
	tr := &trial{reporter: r, server: startServer(r)}
	tr.mark()
	tr.Subject = open(tr.server.Addr())
	if tr.Driver == nil {
		r.Fatalf("open returned a Subject without a Driver")
	}
	tr.idle = tr.goroutines()
	c.check(tr)
}

// outcome is what a call of Do came to.
type outcome struct {
	cmds    []driver.Command
	replies []driver.Reply
	err     error

	// took is how long the call took, and late how long after the end of its context it
	// returned, as a goroutine saw it that waited for both: on a busy machine that is late as
	// well. clock is late by the clock. They are negative for a call that returned before the end.
	took, late, clock time.Duration
}

// errHung stands for the error of a call that did not return.
var errHung = errors.New("had not returned a second after its context's end")

// call is Do, but comes back even when Do does not. Any goroutine may use it. Like
// every call of a driver it needs a deadline.
func (tr *trial) call(ctx context.Context, cmds ...driver.Command) outcome {
	out := bounded(ctx, func() outcome {
		replies, err := tr.Driver.Do(ctx, cmds)
		return outcome{replies: replies, err: err}
	})
	out.cmds = cmds
	return out
}

// bounded calls the driver and comes back even when the driver does not. It measures the call by what
// it sees itself, which only waits: where the machine has no time for this process, that stands still.
func bounded(ctx context.Context, call func() outcome) outcome {
	start := time.Now()
	returned := make(chan outcome, 1)
	go func() {
		out := call()
		out.took = time.Since(start) //nolint:forbidigo // beside what whoever waits has seen
		returned <- out
	}()
	beats := time.NewTicker(beat) // it leaves out what comes while nobody takes
	defer beats.Stop()
	ended, _ := ctx.Deadline()
	var seen, since time.Duration // since the start, and since the context's end
	for done := ctx.Done(); ; {
		select {
		case out := <-returned:
			out.clock = start.Add(out.took).Sub(ended)
			out.late, out.took = min(out.clock, since+beat), min(out.took, seen+beat)
			return out
		case <-done:
			ended, done = time.Now(), nil
		case <-beats.C:
			seen += beat
			if done != nil {
				continue
			}
			if since += beat; since >= hopeless {
				return outcome{err: errHung, took: seen, late: since, clock: since}
			}
		}
	}
}

// do is a call that has no reason to fail. It ends the case when it does.
func (tr *trial) do(cmds ...driver.Command) outcome {
	tr.Helper()
	out := tr.doPatient(cmds...)
	if out.err != nil {
		tr.Fatalf("Do(%s) on a healthy server = %v after %v, want its replies", describe(cmds), out.err, out.took)
	}
	if len(out.replies) != len(cmds) {
		tr.Fatalf("Do(%s) returned %d replies for %d commands and no error", describe(cmds), len(out.replies), len(cmds))
	}
	return out
}

// doPatient is a call that should not need its deadline.
func (tr *trial) doPatient(cmds ...driver.Command) outcome { return tr.doWithin(patience, cmds...) }

// doShort is a call whose deadline is short.
func (tr *trial) doShort(cmds ...driver.Command) outcome { return tr.doWithin(short, cmds...) }

// doWithin is a call with a deadline.
func (tr *trial) doWithin(limit time.Duration, cmds ...driver.Command) outcome {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	return tr.call(ctx, cmds...)
}

// within calls the driver with a deadline, and comes back even when the driver does not.
func within(limit time.Duration, call func(ctx context.Context) error) outcome {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	return bounded(ctx, func() outcome { return outcome{err: call(ctx)} })
}

// expect compares the replies with what the commands should have been answered.
func (tr *trial) expect(out outcome, want ...driver.Reply) {
	tr.Helper()
	if len(out.replies) != len(want) {
		tr.Errorf("Do(%s) returned %d replies, want %d", describe(out.cmds), len(out.replies), len(want))
		return
	}
	for i := range want {
		if !same(out.replies[i], want[i]) {
			tr.Errorf("reply %d of Do(%s) = %s, want %s", i+1, describe(out.cmds), show(out.replies[i]), show(want[i]))
		}
	}
}

// endedInTime fails the case unless the call failed because its context ended, soon
// after that.
func (tr *trial) endedInTime(what string, out outcome, cause error) {
	tr.Helper()
	switch {
	case errors.Is(out.err, errHung):
		tr.Fatalf("%s: Do %v", what, out.err)
	case out.err == nil:
		tr.Errorf("%s: Do returned no error after %v, want one that says %q", what, out.took, cause)
	case !says(out.err, cause):
		tr.Errorf("%s: Do = %q, which is not %q to errors.Is", what, out.err, cause)
	}
	if out.late > prompt {
		tr.Errorf("%s: Do returned %v after its context had ended, want at most 50ms", what, out.late.Round(time.Millisecond))
	}
	tr.Logf("%s: Do returned %v after its context's end", what, out.late.Round(100*time.Microsecond))
}

// oneKeeps makes calls until one keeps the contract's own figure, and fails the case if none does. A
// busy machine is late for reasons of its own: a call counts against the driver if whoever watched it
// saw it late as well.
func (tr *trial) oneKeeps(what string, call func(i int) outcome) {
	tr.Helper()
	const allowed, tries = 50 * time.Millisecond, 10
	late := 0
	for i := range 10 * tries {
		out := call(i)
		if out.clock <= allowed || out.late > prompt { // which has been said
			return
		}
		if out.late > allowed {
			late++
		}
		if late == tries {
			tr.Fatalf("%s: of %d calls none returned within %v, the last after %v", what, i+1, allowed, out.late)
		}
	}
	tr.Logf("%s: this machine is too busy to tell whether a call returns within %v", what, allowed)
}

// arrived fails the case if a failed call returned replies that had not arrived.
// Each reply may be missing only together with those behind it.
func (tr *trial) arrived(out outcome, want ...driver.Reply) {
	tr.Helper()
	if len(out.replies) > len(want) {
		tr.Errorf("Do(%s) returned %d replies beside its error, but only %d had arrived", describe(out.cmds), len(out.replies), len(want))
		return
	}
	tr.expect(out, want[:len(out.replies)]...)
}

// honest fails the case if the call said that nothing was sent although something
// has arrived.
func (tr *trial) honest(out outcome, key string) {
	tr.Helper()
	if n := tr.server.Count(key); n > 0 && errors.Is(out.err, driver.ErrNotSent) {
		tr.Errorf("Do = %q, which wraps driver.ErrNotSent, but the server received %d commands of it", out.err, n)
	}
}

// recovers fails the case unless a call succeeds again within a few tries: the first
// ones may find connections that have ended.
func (tr *trial) recovers(after string) {
	tr.Helper()
	var out outcome
	for i := range 5 {
		words := "try " + strconv.Itoa(i) + " after " + after
		if out = tr.doPatient(keyless("ECHO", words)); out.err == nil {
			tr.expect(out, text(words))
			return
		}
	}
	tr.Fatalf("after %s: Do = %v in 5 tries on a server that is well again", after, out.err)
}

// sentOnce fails the case unless exactly one command with this key has arrived.
func (tr *trial) sentOnce(key string) {
	tr.Helper()
	if n := tr.server.Count(key); n != 1 {
		tr.Errorf("the server received the command with key %q %d times, want once", key, n)
	}
}

// says reports whether the error matches how the context ended. For a deadline, the time-out
// of a socket will do.
func says(err, cause error) bool {
	var timeout net.Error
	if errors.Is(cause, context.DeadlineExceeded) && errors.As(err, &timeout) && timeout.Timeout() {
		return true
	}
	return errors.Is(err, cause)
}
