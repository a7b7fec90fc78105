package main

import (
	"fmt"
	"slices"

	"github.com/quorumlock/quorumlock/test/integration/fault/history"
	"github.com/quorumlock/quorumlock/test/integration/fault/note"
	"github.com/quorumlock/quorumlock/test/integration/fault/schedule"
	"github.com/quorumlock/quorumlock/test/integration/fault/worker"
)

func (r *running) note(f schedule.Fault, what string, span history.Span) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.faults = append(r.faults, history.Fault{Span: span, What: what, Whom: whom(f)})
	for _, i := range f.Unwell() {
		r.unwell[i] = append(r.unwell[i], history.Span{From: span.From, To: span.To + history.Moment(f.Kind.Recovery(r.Job.Pace()))})
	}
	if f.Step() > 0 {
		r.broken = append(r.broken, history.Span{From: span.From, To: span.To + history.Moment(r.Job.Lease)})
	}
}

// whom says in short what is harmed.
func whom(f schedule.Fault) string {
	what, victims := "node ", f.Nodes
	if f.Nodes == nil {
		what, victims = "client ", f.Clients
	}
	numbers := make([]int, len(victims))
	for i, n := range victims {
		numbers[i] = n + 1
	}
	return fmt.Sprint(what, numbers)
}

func (r *running) log() *history.Log {
	log := &history.Log{
		Starved: r.starved, Deaf: long(r.starved), Lease: r.Job.Lease, Faults: r.faults, Hot: worker.Rushed, Crowd: worker.Crowd, Excused: r.excused(),
		Stopped: map[string][]history.Span{},
	}
	for _, m := range r.members {
		m.log(log)
	}
	for _, retry := range r.cluster.Retries() {
		from := note.At(retry.From)
		into := &log.Retries
		if retry.Vote {
			into = &log.Votes
		}
		*into = append(*into, history.Retry{
			Span: history.Span{From: from, To: note.At(retry.To)}, Client: r.members[retry.Client].at(from).name, Node: fmt.Sprint("node ", retry.Node+1),
		})
	}
	log.Healthy = history.Majority(history.Span{From: r.began, To: note.Now()}, r.unwell)
	return log
}

// starve notes that this process did not get to run, nor what it forwards for the clients.
func (r *running) starve(when history.Span) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.starved = append(r.starved, when)
	for i := range r.unwell {
		r.unwell[i] = append(r.unwell[i], long([]history.Span{when})...)
	}
}

// excused returns when a clock went forward that a process could not have seen: one that had
// not been there for long enough to have reached all nodes before.
func (r *running) excused() []history.Span {
	reach := history.Moment(2 * r.Job.Lease)
	return slices.DeleteFunc(slices.Clone(r.broken), func(s history.Span) bool {
		return !slices.ContainsFunc(r.members, func(m *member) bool {
			return slices.ContainsFunc(m.all, func(l *life) bool { return l.began < s.To && l.began+reach > s.From })
		})
	})
}
