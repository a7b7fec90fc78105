package inspect

import (
	"cmp"
	"context"
	"crypto/rand"
	"slices"
	"sync"
	"time"

	"github.com/quorumlock/quorumlock/clockdrift"
	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/internal/nodeclock"
	"github.com/quorumlock/quorumlock/internal/protocol"
)

// Options say how an examination is made.
type Options struct {
	Settings

	// ReadOnly writes nothing: round trips are timed in place of acquires. Otherwise scratch keys
	// PREFIXquorumlock:doctor:<random> are written, which live for 10s at most.
	ReadOnly bool

	// For is how long nodes and this machine are watched: the longer, the sharper are the bounds of
	// drift and the rarer the pauses that show. The default is 2s. Nodes are used for no more than
	// 1s by default, and otherwise all the time, in rounds that are spread over it.
	For time.Duration

	// User is the user that locks have at the nodes, if the nodes are examined as another one.
	User string

	// Endpoints are how the nodes are reached, in the same order: a driver does not tell. Without
	// them certificates and addresses are not looked at.
	Endpoints []Endpoint

	// Only are the ids of the findings that count; nil: all. Accepted are those of known ones,
	// which are no more than worth knowing then, unless they are unfit.
	Only, Accepted []string
}

// usually is how long this machine is watched by default.
const usually = 2 * time.Second

// spare is how much longer nodes may take.
const spare = 900 * time.Millisecond

// IDs are the ids of all findings, in the order of the documentation.
var IDs = []string{
	"reach", "auth", "tls", "same-server", "same-host", "count", "version", "role", "cluster", "eviction", "persistence", "guard", "clock",
	"latency", "acl", "scripts", "wake-ups", "limits", "foreign", "here",
}

// Doctor examines the nodes, all at once, and says whether they are fit for locks of these
// settings. It takes at most 3s, or 1s more than o.For. What the nodes' user may not ask is
// [Unknown], never fit.
func Doctor(ctx context.Context, nodes []driver.Node, o Options) Report {
	e := newExam(nodes, o)
	during := cmp.Or(e.For, usually)
	ctx, cancel := context.WithTimeout(ctx, max(during, usually)+spare)
	defer cancel()
	var here machine
	var watching sync.WaitGroup
	watching.Go(func() { here.watch(ctx, during) })
	together(e.targets, func(_ int, t *target) { t.examine(ctx) }) // what has failed is a finding
	watching.Wait()
	together(e.targets, func(_ int, t *target) {
		if t.err == nil {
			t.fail(ctx, t.readClock(ctx, readings, patience))
		}
	})
	return e.judge(&here)
}

// together does something with each of them at the same time.
func together[T any](all []T, do func(i int, each T)) {
	var group sync.WaitGroup
	for i, each := range all {
		group.Go(func() { do(i, each) })
	}
	group.Wait()
}

// An exam is one examination.
type exam struct {
	Options
	targets []*target
	report  Report
	clock   *clockdrift.Clock
	until   clockdrift.Instant // nodes are not used for longer
}

func newExam(nodes []driver.Node, o Options) *exam {
	e := &exam{Options: o, clock: clockdrift.New()}
	e.Settings = o.withDefaults()
	e.until = e.clock.Now().Add(max(o.For, usually))
	e.report = Report{Schema: Schema, Time: time.Now().UTC(), Quorum: len(nodes)/2 + 1}
	for i, n := range nodes {
		t := &target{Node: n, exam: e, number: i + 1, cli: usualCLI(n.Name)}
		if i < len(o.Endpoints) {
			if t.endpoint = o.Endpoints[i].Endpoint; o.Endpoints[i].CLI != "" {
				t.cli = o.Endpoints[i].CLI
			}
		}
		t.report = NodeReport{Name: n.Name}
		t.trial.scratch, t.trial.token = e.Prefix+"quorumlock:doctor:"+random.Nonce(), random.Token("")
		t.trial.clock, _ = nodeclock.New(min(max(2*e.Drift, nodeclock.DefaultRate), 0.9)) // which is valid
		e.targets = append(e.targets, t)
	}
	return e
}

// random are bits that nobody can guess.
var random protocol.Random = func() (bits [16]byte) {
	rand.Read(bits[:]) // since Go 1.24 it never fails
	return bits
}

// find adds a finding about no single node.
func (e *exam) find(id string, s Severity, seen Seen, why string, mend ...string) {
	e.report.Findings = append(e.report.Findings, newFinding(id, "", s, seen, why, mend))
}

// examine collects what is to be known of a node.
func (t *target) examine(ctx context.Context) {
	var beside sync.WaitGroup
	beside.Go(func() {
		t.locate(ctx)
		t.expires, t.certified = t.certificate(ctx)
	})
	defer beside.Wait()
	if t.look(ctx); t.err != nil {
		t.otherwise = t.speaksOtherwise(ctx)
		return
	}
	t.fail(ctx, t.readClock(ctx, readings, patience))
	t.probe(ctx)
	for _, part := range []func(context.Context){t.stray, t.listen, t.tryRights, t.sample, t.use} {
		if t.err == nil {
			part(ctx)
		}
	}
}

// judge makes the findings, row by row.
func (e *exam) judge(here *machine) Report {
	for _, t := range e.targets {
		if t.reached(); t.err == nil {
			for _, row := range []func(*target){
				(*target).checkVersion, (*target).checkRole, (*target).checkCluster, (*target).checkEviction, (*target).checkPersistence,
				(*target).checkGuard, (*target).checkClock, (*target).checkLatency, (*target).checkRights, (*target).checkScripts,
				(*target).checkWakeUps, (*target).checkLimits, (*target).checkForeign,
			} {
				row(t)
			}
		}
	}
	e.checkCount()
	e.checkServers()
	e.checkFamilies()
	e.checkOffsets()
	e.checkQuorumLatency()
	for _, t := range e.targets {
		t.gather()
		e.report.Nodes = append(e.report.Nodes, t.summed())
	}
	e.report.Here = here.report(e.TTL)
	e.report.judgeBy(e.Only, e.Accepted)
	e.report.conclude()
	return e.report
}

// summed returns the report on a node with its numbers.
func (t *target) summed() NodeReport {
	r := t.report
	if t.err != nil {
		r.State = Down
	}
	if len(t.trial.pings) > 0 {
		r.RTT = slices.Min(t.trial.pings).Seconds()
	}
	r.Acquire = latency(t.trial.acquires)
	if t.wake.err == nil {
		r.Wake = t.wake.took.Seconds()
	}
	return r
}
