package inspect

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/quorumlock/quorumlock/clockdrift"
	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/internal/fault"
	"github.com/quorumlock/quorumlock/internal/gate"
	"github.com/quorumlock/quorumlock/internal/protocol"
)

// StatusSchema names the form of a [StatusReport] in JSON. Within v1 fields are only added.
const StatusSchema = "quorumlock.status/v1"

// StatusOptions say which keys are looked at, and how fast.
type StatusOptions struct {
	Settings

	// Keys are those to look at, without the prefix. Without any, all under the prefix are: every
	// node then goes through all keys of its database (SCAN), whatever the prefix.
	Keys []string

	// Full allows that on nodes of more than [MaxListed] keys.
	Full bool

	// Rate is how many keys a node goes through in a second, at most. The default is 50,000.
	Rate int
}

// A survey is one look at who holds what.
type survey struct {
	StatusOptions
	targets []*target
	states  []*nodeState
	report  StatusReport
	clock   *clockdrift.Clock
}

// A nodeState is what a survey knows of a node.
type nodeState struct {
	*NodeStatus
	err      error // why it does not take part any more
	unlisted error // why its keys are not listed
	refused  error // the first key that it refused
	told     bool  // of at least one key
}

// Status says who holds what: for each key what every node has, and what it means. It changes
// nothing, and is safe to call at any time, beside locks that are in use. It is a snapshot for
// operators: no decision about a lock may rest on it. It closes no driver.
//
// For keys that are named a node gets six small commands each. To list all keys takes as long as
// the largest node has keys, at the rate of o. A node has a second to answer each time; one that
// does not is left alone for the rest.
//
// The error is a [*ManyKeysError] if nodes have too many keys to list without o.Full. It matches
// redlock.ErrNoQuorum if too few nodes answer, or let their keys be listed, to see every lock that
// is held; redlock.ErrOption if an option is not valid, or a Redis Cluster wants keys to be named;
// or the context's error.
func Status(ctx context.Context, nodes []driver.Node, o StatusOptions) (StatusReport, error) {
	v := newSurvey(nodes, o)
	switch {
	case len(nodes) == 0:
		return v.report, fmt.Errorf("%w: nodes: there are none", fault.ErrOption)
	case o.Rate < 0:
		return v.report, fmt.Errorf("%w: Rate: %d keys a second: want more than 0", fault.ErrOption, o.Rate)
	case slices.Contains(o.Keys, ""):
		return v.report, fmt.Errorf("%w: Keys: one is empty", fault.ErrOption)
	}
	v.each(func(i int) { v.meet(ctx, i) })
	names := make(map[string]int)
	for _, key := range o.Keys {
		names[v.Prefix+key] = 0
	}
	err := v.answering()
	if err == nil && len(o.Keys) == 0 {
		names, err = v.list(ctx)
	}
	if err == nil {
		v.survey(ctx, names)
		err = v.answering()
	}
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	for i, s := range v.states {
		if why := cmp.Or(s.err, s.unlisted, s.refused); why != nil {
			v.report.Nodes[i].Error = printable(why.Error())
		}
	}
	return v.report, err
}

func newSurvey(nodes []driver.Node, o StatusOptions) *survey {
	o.Settings = o.withDefaults()
	o.Rate = cmp.Or(o.Rate, 50_000)
	v := &survey{
		StatusOptions: o, clock: clockdrift.New(),
		report: StatusReport{
			Schema: StatusSchema, Time: time.Now().UTC(), Quorum: len(nodes)/2 + 1,
			Nodes: make([]NodeStatus, len(nodes)), Keys: []KeyStatus{},
		},
	}
	e := newExam(nodes, Options{Settings: o.Settings}) // whose records say which node is in quarantine
	v.targets = e.targets
	for i, n := range nodes {
		v.report.Nodes[i].Name = n.Name
		v.states = append(v.states, &nodeState{NodeStatus: &v.report.Nodes[i]})
	}
	return v
}

// each does a step for all nodes that take part, at the same time.
func (v *survey) each(step func(i int)) {
	var group errgroup.Group
	for i, s := range v.states {
		if s.err == nil {
			group.Go(func() error {
				step(i)
				return nil
			})
		}
	}
	_ = group.Wait() // the failures are in the states
}

// meet asks a node what it is.
func (v *survey) meet(ctx context.Context, i int) {
	t, s := v.targets[i], v.states[i]
	cmds := []driver.Command{command("INFO")}
	if v.RestartGuard {
		for _, key := range gate.RecordKeys {
			cmds = append(cmds, onKey("GET", v.Prefix+key))
		}
	}
	if len(v.Keys) == 0 {
		cmds = append(cmds, command("ACL", "WHOAMI"), command("DBSIZE"))
	}
	replies, err := t.ask(ctx, patience, cmds...)
	if s.err = unanswered(err); err != nil {
		return
	}
	t.info = fields(replies[0].Str, ":")
	if t.info["loading"] == "1" {
		s.err = fmt.Errorf("%w: it is loading its data", fault.ErrNode)
		return
	}
	if len(v.Keys) == 0 {
		last := replies[len(replies)-2:]
		if last[0].Kind == driver.String {
			t.user = printable(last[0].Str)
		}
		v.meetList(s, t, last[1])
	}
	if !v.RestartGuard {
		return
	}
	t.replies = make(map[string]driver.Reply)
	for j, key := range gate.RecordKeys {
		t.replies["GET "+v.Prefix+key] = replies[1+j]
	}
	r := t.records()
	if why := cmp.Or(replies[0].Err(), r.refused.Err()); why != nil {
		s.refused = fmt.Errorf("whether it is in quarantine: %w", fault.Advise(why))
		return
	}
	s.Quarantined = r.fault != nil || !t.admitted(r)
}

// unanswered words why a node does not take part any more.
func unanswered(err error) error {
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("no answer within %v: %w", patience, err)
	}
	return fault.Advise(err)
}

// answering says that too few nodes answer, or nil.
func (v *survey) answering() error {
	var why []error
	for i, s := range v.states {
		err := s.err
		if !s.told {
			err = cmp.Or(err, s.refused)
		}
		if err != nil {
			why = append(why, fmt.Errorf("%s: %w", v.targets[i].Name, err))
		}
	}
	if len(v.states)-len(why) < v.report.Quorum {
		return fmt.Errorf("status: %w: %d of %d nodes answer, and %d must: %w", fault.ErrNoQuorum, len(v.states)-len(why), len(v.states), v.report.Quorum, errors.Join(why...))
	}
	return nil
}

// chunk is how many keys are asked for in one round trip.
const chunk = 200

// survey looks at keys, which may be semaphores of at least so many slots.
func (v *survey) survey(ctx context.Context, names map[string]int) {
	keys := make([]string, 0, len(names))
	for name := range names {
		keys = append(keys, name)
	}
	slices.Sort(keys)
	begun := v.clock.Now()
	for part := range slices.Chunk(keys, chunk) {
		for i, sights := range v.read(ctx, part) {
			key := part[i]
			k := v.judge(key[len(v.Prefix):], sights)
			switch {
			case len(v.Keys) == 0 && noLock(sights):
				v.report.Others++
			case k.State != KeyFree:
				v.report.Keys = append(v.report.Keys, k)
			}
			s, used := v.semaphore(ctx, key, max(names[key], permits(sights)))
			if used {
				v.report.Keys = append(v.report.Keys, s)
			}
			if k.State == KeyFree && !used && len(v.Keys) > 0 {
				v.report.Keys = append(v.report.Keys, k)
			}
		}
		begun = v.pause(ctx, begun, len(part))
	}
}

// read asks all nodes about keys, at the same time.
func (v *survey) read(ctx context.Context, keys []string) (sights [][]sight) {
	for range keys {
		sights = append(sights, make([]sight, len(v.states)))
	}
	v.each(func(i int) {
		s := v.states[i]
		got, err := v.targets[i].see(ctx, patience, keys...)
		if s.err = unanswered(err); err != nil {
			return
		}
		for j := range keys {
			if sights[j][i] = got[j]; got[j].err == nil {
				s.told = true
			} else if s.refused == nil {
				s.refused = got[j].err
			}
		}
	})
	for i, s := range v.states {
		for j := range keys {
			if s.err != nil {
				sights[j][i] = sight{err: s.err}
			}
		}
	}
	return sights
}

// permits is how many permits most nodes count for a semaphore; 0: the key is none.
func permits(sights []sight) (count int) {
	votes := make(map[int]int)
	for i := range sights {
		if n, err := strconv.Atoi(sights[i].permits); err == nil && n > 0 && n <= protocol.MaxPermits {
			votes[n]++
		}
	}
	for n := range votes {
		if votes[n] > votes[count] || votes[n] == votes[count] && n > count {
			count = n
		}
	}
	return count
}

// semaphore looks at the slots of a key. It reports whether any is in use.
func (v *survey) semaphore(ctx context.Context, key string, count int) (k KeyStatus, used bool) {
	k = KeyStatus{Key: key[len(v.Prefix):], State: KeyPermits, Permits: count, Votes: []VoteStatus{}, Left: new(float64)}
	slots := make([]string, count)
	for i := range slots {
		slots[i] = protocol.SlotKey(key, i)
	}
	var left []*float64
	for i, sights := range v.read(ctx, slots) {
		slot := v.judge(k.Key, sights)
		if slot.State == KeyFree {
			continue
		}
		slot.Slot = &i
		k.Slots = append(k.Slots, slot)
		if slot.Left == nil || *slot.Left > 0 {
			k.Taken, left = k.Taken+1, append(left, slot.Left)
		}
		k.Fault = cmp.Or(k.Fault, slot.Fault)
	}
	if k.Taken >= count {
		k.Left = soonest(left)
	}
	k.Text = fmt.Sprintf("%d of %d permits", k.Taken, count)
	return k, len(k.Slots) > 0
}

// soonest is the least of times, of which nil is never.
func soonest(times []*float64) (least *float64) {
	for _, t := range times {
		if t != nil && (least == nil || *t < *least) {
			least = t
		}
	}
	return least
}
