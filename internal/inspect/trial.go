package inspect

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/internal/nodeclock"
	"github.com/quorumlock/quorumlock/internal/protocol"
	"github.com/quorumlock/quorumlock/internal/scripts"
)

// A trial is what a node did when it was used as locks use it.
type trial struct {
	scratch  string // the key
	token    string
	tried    bool         // a key was acquired, and the reply is first
	first    driver.Reply // to SET with NX and GET
	missed   driver.Reply // why a later one was refused, if it was
	acquires []time.Duration
	failures int           // in a row
	longest  time.Duration // without an answer to what was asked
	silent   time.Time     // since when there is none, if the last one is missing
	pings    []time.Duration
	clock    *nodeclock.Estimator
	steps    []nodeclock.Bounds
	shows    bool // it tells its time
}

const (
	rounds    = 200                    // of acquire and release, or more
	scratchMs = "10000"                // for which a scratch key lives
	readings  = 8                      // of the clock, at the beginning and at the end
	tooMany   = 3                      // questions in a row without an answer: it is down
	pace      = 20 * time.Millisecond  // of rounds, or less
	moment    = 300 * time.Millisecond // for an announcement on its way, and for readings
)

// waited notes how long a question took to be answered, or to be given up. Those that were given up
// before belong to it: the node was silent since the first one.
func (tr *trial) waited(sent time.Time, answered bool) {
	since := cmp.Or(tr.silent, sent)
	tr.longest, tr.silent = max(tr.longest, time.Since(since)), since
	if answered {
		tr.silent = time.Time{}
	}
}

// readClock reads the node's clock some times, as far as that is done in a moment.
func (t *target) readClock(ctx context.Context, times int, within time.Duration) error {
	begun := t.exam.clock.Now()
	for i := 0; i < times && t.exam.clock.Now().Sub(begun) < moment; i++ {
		sent := t.exam.clock.Now()
		replies, err := t.ask(ctx, within, protocol.AskTime)
		received := t.exam.clock.Fresh()
		if err != nil {
			return err
		}
		shown, ok := protocol.ReadTime(replies[0])
		if t.trial.shows = ok; !ok {
			t.replies["TIME"] = replies[0]
			return nil
		}
		if step, stepped := t.trial.clock.Add(nodeclock.Sample{Sent: sent, Received: received, Node: shown}); stepped {
			t.trial.steps = append(t.trial.steps, step)
		}
		t.trial.pings = append(t.trial.pings, received.Sub(sent))
	}
	return nil
}

// probe asks what the node does in place of scripts. It changes nothing.
func (t *target) probe(ctx context.Context) {
	replies, err := t.ask(ctx, patience, protocol.Probes(t.trial.scratch, t.trial.token, random.Token(""))...)
	if err != nil {
		t.fail(ctx, err)
		return
	}
	t.dialect = protocol.DecodeProbes(replies)
	t.nameless = protocol.Says(replies[0], "ERR unknown") || protocol.Says(replies[1], "ERR unknown")
	for i, name := range []string{"delifeq", "delex"} {
		if protocol.Says(replies[2+i], "NOPERM") {
			t.native = append(t.native, name)
		}
	}
}

// checkScripts says what the node does for releases, and what that costs.
func (t *target) checkScripts() {
	d := t.dialect
	seen := Seen{"scripts": !d.Scriptless, "compare_and_delete": d.Deletes != protocol.ByScript}
	switch {
	case d.Limits() != nil && t.nameless: // which no right mends
		t.find("scripts", Unfit, seen, d.Limits().Error(),
			"# take the lines rename-command EVAL and EVALSHA out of redis.conf and restart the server; or give a server that runs scripts")
	case d.Limits() != nil:
		t.find("scripts", Unfit, seen, d.Limits().Error(), t.allow("+eval", "+evalsha"))
		t.because("+eval", "+evalsha")
	case d.Deletes == protocol.ByScript && len(t.native) > 0:
		t.find("scripts", Warning, seen, "a release runs a script, which costs the server twice as much as the command that it has",
			t.allow("+"+strings.Join(t.native, " +")))
	case d.Deletes == protocol.ByScript:
		t.find("scripts", Info, seen, "a release runs a script: Valkey 9 and Redis 8.4 have a command that costs half as much")
	}
}

// fail notes that the node has stopped answering, unless the time of the examination is over.
func (t *target) fail(ctx context.Context, err error) {
	if t.err == nil && ctx.Err() == nil {
		t.err = err
	}
}

// acquire acquires the scratch key and releases it, and notes how long the first took: the node
// time-out, if there was no answer. It reports whether to go on.
func (t *target) acquire(ctx context.Context) bool {
	tr, timeout := &t.trial, t.exam.NodeTimeout
	sent := t.exam.clock.Now()
	replies, err := t.ask(ctx, timeout, onKey("SET", tr.scratch, tr.token, "NX", "GET", "PX", scratchMs))
	took := t.exam.clock.Fresh().Sub(sent)
	switch {
	case ctx.Err() != nil:
		return false // the time is over
	case err != nil:
		tr.acquires = append(tr.acquires, timeout)
		return t.late(ctx, err)
	case !tr.tried:
		tr.tried, tr.first = true, replies[0]
	}
	tr.failures = 0
	if replies[0].Kind == driver.Failure {
		tr.missed = replies[0]
		return false
	}
	tr.acquires = append(tr.acquires, took)
	_ = t.release(ctx) // the next acquire says so, or the key's expiry does it
	return true
}

// late notes that the node did not answer in time. It reports whether to go on.
func (t *target) late(ctx context.Context, err error) bool {
	if t.trial.failures++; t.trial.failures == tooMany {
		t.fail(ctx, err)
	}
	return t.trial.failures < tooMany
}

// release deletes the scratch key if it holds the token.
func (t *target) release(ctx context.Context) error {
	tr := &t.trial
	cmd := scripts.Release.One(nil, tr.scratch, tr.token)
	if t.dialect.Scriptless {
		cmd = onKey("DEL", tr.scratch) // nobody else has the key's name
	}
	replies, err := t.ask(ctx, t.exam.NodeTimeout, cmd)
	if err == nil && protocol.Says(replies[0], "NOSCRIPT") {
		_, err = t.ask(ctx, t.exam.NodeTimeout, scripts.WithSource(cmd))
	}
	return err
}

// use uses the node as locks do, in rounds that are spread over the time: a node that stands still
// now and then would have answered most of them in between, if they followed each other.
func (t *target) use(ctx context.Context) {
	during := cmp.Or(t.exam.For, time.Second)
	begun := t.exam.clock.Now()
	until := min(begun.Add(during), t.exam.until)
	for next := begun; t.round(ctx); {
		next = max(next.Add(min(during/rounds, pace)), t.exam.clock.Now())
		if next >= until {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(next.Sub(t.exam.clock.Now())):
		}
	}
}

// round reads the node's clock, and acquires and releases the scratch key. It reports whether to go
// on.
func (t *target) round(ctx context.Context) bool {
	if err := t.readClock(ctx, 1, t.exam.NodeTimeout); err != nil {
		return ctx.Err() == nil && t.late(ctx, err)
	}
	if t.exam.ReadOnly {
		t.trial.failures = 0
		return t.trial.shows
	}
	return t.acquire(ctx)
}

// latency sums up how long things took; nil: nothing was tried.
func latency(samples []time.Duration) *Latency {
	if len(samples) == 0 {
		return nil
	}
	sorted := slices.Sorted(slices.Values(samples))
	at := func(share float64) float64 { return sorted[int(share*float64(len(sorted)-1))].Seconds() }
	return &Latency{Samples: len(sorted), P50: at(0.5), P99: at(0.99), Max: at(1)}
}

// timed are the times that locks would take at the node: of acquires, or else of round trips.
func (t *target) timed() []time.Duration {
	if t.exam.ReadOnly {
		return t.trial.pings
	}
	return t.trial.acquires
}

// ofQuorum is when a quorum of the nodes had answered, round by round.
func (e *exam) ofQuorum() (samples []time.Duration) {
	for i := 0; ; i++ {
		var round []time.Duration
		for _, t := range e.targets {
			if times := t.timed(); i < len(times) {
				round = append(round, times[i])
			}
		}
		if len(round) < e.report.Quorum {
			return samples
		}
		slices.Sort(round)
		samples = append(samples, round[e.report.Quorum-1])
	}
}
