package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quorumlock/quorumlock/internal/acquire"
	"github.com/quorumlock/quorumlock/test/integration/fault/cluster"
	"github.com/quorumlock/quorumlock/test/integration/fault/history"
	"github.com/quorumlock/quorumlock/test/integration/fault/note"
	"github.com/quorumlock/quorumlock/test/integration/fault/register"
	"github.com/quorumlock/quorumlock/test/integration/fault/schedule"
	"github.com/quorumlock/quorumlock/test/integration/fault/worker"
)

// A Trial is clients that take locks on a cluster while faults happen to both.
type Trial struct {
	Seed         uint64
	For          time.Duration   // at least so long
	Acquisitions int64           // and at least so many
	Clients      []string        // the client library of each process
	Job          worker.Job      // of each of them, but for what differs
	Kinds        []schedule.Kind // of faults; nil: all that the cluster can have
	Program      string          // the worker's
	Tell         func(had int64) // is told every 20 seconds how many locks were had; may be nil
}

// A trial that runs.
type running struct {
	Trial
	cluster *cluster.Cluster
	members []*member
	began   history.Moment
	had     atomic.Int64
	done    chan struct{} // closed when there are to be no more faults

	mu      sync.Mutex
	faults  []history.Fault
	unwell  [][]history.Span // of each node
	broken  []history.Span   // when clocks went forward
	starved []history.Span   // when this process did not get to run
	errs    []error
}

// Run runs the trial on a cluster, whose clocks it leaves as they were set, and judges what
// happened and what was left behind.
func (t Trial) Run(ctx context.Context, c *cluster.Cluster) (*Report, error) {
	store, err := t.serve()
	if err != nil {
		return nil, err
	}
	defer func() { _ = store.Close() }()
	r := &running{Trial: t, cluster: c, done: make(chan struct{}), unwell: make([][]history.Span, len(c.Masters()))}
	for i, client := range t.Clients {
		job := t.Job
		job.Name, job.Client, job.Nodes, job.Register = fmt.Sprint(client, "-", i+1), client, c.Links(i), store.Addr()
		job.Seed = t.Seed + uint64(i)<<16
		r.members = append(r.members, &member{program: t.Program, job: job, had: func() { r.had.Add(1) }, stops: map[string][]history.Span{}})
	}
	r.began = note.Now()
	for i := range r.unwell { // at first all are as after a restart
		r.unwell[i] = []history.Span{{From: r.began, To: r.began + history.Moment(schedule.Kill.Recovery(t.Job.Pace()))}}
	}
	for _, m := range r.members {
		r.try(m.start())
	}
	beating, still := context.WithCancel(ctx)
	var beat sync.WaitGroup
	beat.Go(func() { note.Beat(beating, r.starve) })
	r.harm(ctx)
	still()
	beat.Wait()
	report := &Report{Began: r.began, Took: r.elapsed()}
	r.finish(report) //nolint:contextcheck // what is left is looked for when the trial was broken off, too
	report.Log = r.log()
	r.try(inspect(store, report.Log))
	if err := errors.Join(append(r.errs, ctx.Err())...); err != nil {
		return nil, err
	}
	report.Verdict = history.Judge(report.Log, bound, "caller") // one that gives up does so by itself
	return report, nil
}

// inspect visits all registers once more, so that the last visit to each is judged, too.
func inspect(store *register.Server, log *history.Log) error {
	look, err := register.Dial(store.Addr())
	if err != nil {
		return err
	}
	seen := map[string]bool{}
	for _, v := range log.Visits {
		if seen[v.Key] {
			continue
		}
		seen[v.Key] = true
		called := note.Now()
		found, err := look.Read(v.Key, math.MaxInt64)
		if err != nil {
			return errors.Join(err, look.Close())
		}
		log.Visits = append(log.Visits, history.Visit{
			Client: "the end", Key: v.Key, Fence: math.MaxInt64, Called: called, Returned: note.Now(), Found: found, Left: "the end of " + v.Key,
		})
	}
	return look.Close()
}

// serve serves the register: one that looks at fences, if there are any.
func (t Trial) serve() (*register.Server, error) {
	if t.Job.Library != "quorumlock" || slices.Contains(t.Job.Without, "fences") {
		return register.ServeUnfenced()
	}
	return register.Serve()
}

// harm makes the faults of the trial, until it has been long enough, and returns when
// all of them are over.
func (r *running) harm(ctx context.Context) {
	var lasting sync.WaitGroup
	defer lasting.Wait()
	defer close(r.done)
	if r.Tell != nil {
		lasting.Go(r.tell)
	}
	kinds := r.Kinds
	if kinds == nil {
		kinds = r.cluster.Kinds()
	}
	if r.Job.Tidy() {
		kinds = slices.DeleteFunc(slices.Clone(kinds), schedule.Kind.Loses)
	}
	stage := schedule.Stage{
		Nodes: len(r.unwell), Replicas: r.cluster.Replicas(), Clients: len(r.members), Lease: r.Job.Pace(), Kinds: kinds,
	}
	// No node begins the guard's record before a client has met all nodes, so none may die before.
	for r.had.Load() == 0 && !r.enough() && ctx.Err() == nil {
		time.Sleep(10 * time.Millisecond) // the tenures are other processes'
	}
	met := r.elapsed()
	for f := range schedule.Faults(r.Seed, stage) {
		for r.elapsed() < met+f.At {
			if r.enough() || ctx.Err() != nil {
				return
			}
			time.Sleep(min(met+f.At-r.elapsed(), 100*time.Millisecond)) // the schedule is one of time
		}
		lasting.Go(func() { r.last(f) })
	}
	for !r.enough() && ctx.Err() == nil {
		time.Sleep(100 * time.Millisecond) // a trial without faults, of time too
	}
}

func (r *running) tell() {
	ticker := time.NewTicker(20 * time.Second)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			r.Tell(r.had.Load())
		case <-r.done:
			return
		}
	}
}

func (r *running) elapsed() time.Duration { return time.Duration(note.Now() - r.began) }

func (r *running) enough() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.errs) > 0 || r.elapsed() >= r.For && r.had.Load() >= r.Acquisitions
}

// last makes one fault last, and notes it down.
func (r *running) last(f schedule.Fault) {
	asked := note.Now()
	end, err := r.begin(f)
	if err != nil {
		r.try(fmt.Errorf("%v: %w", f, err))
	}
	select {
	case <-time.After(f.For):
	case <-r.done:
	}
	what := string(f.Kind)
	if end != nil {
		switch err := end(); {
		case errors.Is(err, cluster.ErrMissed):
			what += " (missed)"
		case err != nil:
			r.try(fmt.Errorf("the end of %v: %w", f, err))
		}
	}
	r.note(f, what, history.Span{From: asked, To: note.Now()})
}

func (r *running) begin(f schedule.Fault) (end func() error, err error) {
	switch f.Kind {
	case schedule.StopClient:
		return r.members[f.Clients[0]].harmed((*member).stop)
	case schedule.KillClient:
		return r.members[f.Clients[0]].harmed((*member).kill)
	case schedule.HotKey:
		return r.rush(f.Clients)
	case schedule.BlockCallbacks, schedule.PanicCallbacks:
		order := map[schedule.Kind]string{schedule.BlockCallbacks: worker.Block, schedule.PanicCallbacks: worker.Panic}[f.Kind]
		return r.members[f.Clients[0]].ordered(order)
	}
	return r.cluster.Harm(f)
}

// rush has clients try for one key again and again, which the first of them holds.
func (r *running) rush(clients []int) (end func() error, err error) {
	var ends []func() error
	// In this order, or two faults could wait for each other.
	for _, i := range slices.Sorted(slices.Values(clients)) {
		order := worker.Rush
		if i == clients[0] {
			order = worker.Hold
		}
		end, failed := r.members[i].ordered(order)
		ends, err = append(ends, end), errors.Join(err, failed)
	}
	return func() error {
		var errs []error
		for _, end := range ends {
			errs = append(errs, end())
		}
		return errors.Join(errs...)
	}, err
}

// finish has all clients rest, and then close, and looks for what they still do, and for what
// is left of them.
func (r *running) finish(report *Report) {
	members := slices.DeleteFunc(slices.Clone(r.members), func(m *member) bool { return m.current == nil }) // that could not be started
	for _, m := range members {
		r.try(m.current.order(worker.Rest))
	}
	var err error
	report.Calmed, err = r.calm()
	if err != nil {
		report.Remains = append(report.Remains, err.Error())
	}
	if r.Job.Tidy() {
		report.Remains = append(report.Remains, r.leftovers(" right after the last release", acquire.QuietLife, keysOn)...)
	}
	for _, m := range members {
		r.try(m.current.order(worker.Stop))
	}
	for _, m := range members {
		said, err := m.current.farewell()
		r.try(err)
		report.Remains = append(report.Remains, reproach(m.current.name, said)...)
	}
	report.Remains = append(report.Remains, r.leftovers("", lingering, leftOn)...)
	for _, m := range members {
		r.try(m.close())
	}
}

func (r *running) try(err error) {
	if err == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.errs = append(r.errs, err)
}
