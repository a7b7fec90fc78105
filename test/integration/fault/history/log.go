// Package history judges what happened to locks, by what their holders noted down while
// faults happened to them and to the nodes.
//
// Everything here is a pure function of a [Log]. What is noted is what a holder can know:
// a moment before each call, and one after it. Whatever a checker calls a violation
// follows from that, however long a process was stopped between a call and its note.
package history

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
)

// A Moment is a reading of the machine's monotonic clock, which all its processes share.
type Moment time.Duration

// Never is the end of what has none.
const Never Moment = math.MaxInt64

// A Span is a stretch of time, [From, To).
type Span struct{ From, To Moment }

// A Tenure is one lock that was had. Its window is [Had, Ended).
type Tenure struct {
	Client string // the process and the worker in it: "process/worker"
	Key    string
	Asked  Moment // the call to acquire it
	Had    Moment // that call's return: from here on it is valid
	Ended  Moment // the earlier of its deadline, as last extended, and the call to release it
	Fence  int64  // 0 if the locks have no fences
	Shared bool   // together with others who share it

	Release Span   // the call to release it, up to Never if that did not return; empty if there was none
	Lost    Moment // when it ended though it was to be renewed; 0: it did not
	Why     string // it did
}

// A Visit is one read and one write of a register under the lock: one step for who looks
// at it from outside. Visits that the register refused, or that did not get to their write,
// changed nothing, and are not noted.
type Visit struct {
	Client           string
	Key              string // of the lock, and of the register that it protects
	Fence            int64
	Called, Returned Moment // Returned is Never if nobody knows whether it was written
	Found, Left      string // what was read ("" at first), and what was written: no two visits leave the same
}

// A Wait is one call to acquire.
type Wait struct {
	Client, Key     string
	Asked, Answered Moment // Answered is Never if the call did not return
	Err             string // the name of its error, or "" if it was served
}

// A Retry is a token that was released at a node that stalled, from the first time to the last; or
// one that a vote was asked for, from the last time at a near node to that at a far one.
type Retry struct {
	Span
	Client string // the process
	Node   string
}

// A Fault is what was done to a node or to a client.
type Fault struct {
	Span
	What string // its kind: "killed", "stopped", "clock set forward"
	Whom string // "node 3", or a client's process
}

// A Log is all that was noted, in any order.
type Log struct {
	Lease   time.Duration // the TTL of the locks; 0: neither renewals nor releases are judged
	Tenures []Tenure
	Visits  []Visit
	Waits   []Wait
	Rounds  []Wait // calls that begin at one instant, for keys that are new, and do not wait
	Retries []Retry
	Votes   []Retry // that came to a node that was far, or slow, after they came to the others
	Faults  []Fault
	Hot     string // the key that all try for again and again
	Crowd   string // what the names of keys begin with that many wait for at any time; "": none
	Tries   int64  // for it, in vain or not

	// Healthy says when a majority of the nodes was well, and had been for long enough to
	// vote.
	Healthy []Span
	// Stopped says when a client's process (the part of Client before the "/") was
	// stopped. One that was killed is stopped until Never.
	Stopped map[string][]Span
	// Starved says when some process did not get to run in time, because the machine was busy:
	// then no lock of a short lease can be sure to be renewed.
	Starved []Span
	// Deaf says when no client could reach any node, for what forwards did not get to run.
	Deaf []Span
	// Excused says when the assumptions of a lease did not hold: from just before a clock
	// was set forward to the end of every lease that a node may have granted before, the
	// longest TTL after it was set.
	Excused []Span
}

// process returns the process that a client is a worker of.
func process(client string) string {
	name, _, _ := strings.Cut(client, "/")
	return name
}

// Notes finds what no holder can have noted: what ends before it begins, a lease that has
// no end, what belongs to nobody. The other rules would be blind to some of it. And a log
// in which no lock was had proves nothing.
func Notes(l *Log) []Violation {
	var found []Violation
	check := func(sound bool, e event, what string) {
		if !sound {
			found = append(found, Violation{Rule: "notes", Key: e.key(), Span: hull([]event{e}), What: what, parties: []event{e}})
		}
	}
	for _, t := range l.Tenures {
		check(t.Client != "" && t.Key != "", t, "a tenure of nobody, or of nothing")
		check(t.Asked <= t.Had, t, t.Client+" had a lock before it asked for it")
		check(t.Asked <= t.Ended, t, t.Client+"'s lock had ended before it asked for it")
		check(t.Release.From <= t.Release.To, t, t.Client+"'s release returned before it was called")
		check(t.Had != Never && t.Ended != Never, t, t.Client+"'s lock has no end, or was not had")
	}
	for _, v := range l.Visits {
		check(v.Client != "" && v.Key != "", v, "a visit of nobody, or of nothing")
		check(v.Called <= v.Returned, v, v.Client+"'s visit returned before it was called")
	}
	for _, w := range l.Waits {
		check(w.Client != "" && w.Key != "", w, "a wait of nobody, or for nothing")
		check(w.Asked <= w.Answered, w, w.Client+" was answered before it asked")
	}
	for _, f := range l.Faults {
		check(f.From <= f.To, f, f.Whom+" was well again before its fault: "+f.What)
	}
	spans := slices.Concat(l.Healthy, l.Excused)
	for _, stopped := range l.Stopped {
		spans = append(spans, stopped...)
	}
	for _, s := range spans {
		check(s.From <= s.To, Fault{Span: s}, fmt.Sprintf("a span ends before it begins: %v", s))
	}
	if len(l.Tenures) == 0 {
		found = append(found, Violation{Rule: "notes", What: "no lock was had: there is nothing to judge"})
	}
	return found
}
