package inspect

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/quorumlock/quorumlock/clockdrift"
	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/internal/fault"
	"github.com/quorumlock/quorumlock/internal/memory"
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

	// Rate is how many keys a node goes through in a second, at most. The default is 100,000.
	Rate int
}

// A survey is one look at who holds what.
type survey struct {
	StatusOptions
	targets []*target
	states  []*nodeState
	report  StatusReport
	clock   *clockdrift.Clock
	next    clockdrift.Instant // when the nodes may be asked again
	seen    *seen
}

// A nodeState is what a survey knows of a node.
type nodeState struct {
	*NodeStatus
	err      error // why it does not take part any more
	unlisted error // why its keys are not listed
	refused  error // the first key that it refused
	told     bool  // of at least one key

	cursor string   // of its scan; "": not begun, "0": at the end
	names  []string // that the scan has just returned
}

// Status says who holds what: for each key what every node has, and what it means. It changes
// nothing. A node has a second to answer each time, or the node time-out if that is longer; one that
// does not is left alone for the rest.
//
// The error matches redlock.ErrNoQuorum if too few nodes answer, or let their keys be listed, to see
// every lock that is held; redlock.ErrOption if an option is not valid, nodes have too many keys to list
// without o.Full, or a Redis Cluster wants keys to be named; or the context's error.
func Status(ctx context.Context, nodes []driver.Node, o StatusOptions) (report StatusReport, err error) {
	keys := []KeyStatus{}
	for report, err = range StatusParts(ctx, nodes, o) {
		keys = append(keys, report.Keys...)
	}
	slices.SortStableFunc(keys, func(a, b KeyStatus) int { return strings.Compare(a.Key, b.Key) })
	report.Keys = keys
	return report, err
}

// StatusParts is [Status] for more keys than one wants to keep: it yields each key as soon as it is
// found. Each report has those that were found since the last one, maybe none, in no order. The
// last one says what nodes did not say, and has the error, if any. Behind an error keys may be
// missing.
//
// A key that comes or goes meanwhile may be missed. Where there are more than [MaxListed] locks one
// may also be found twice, or be missed if it gets back a vote meanwhile.
func StatusParts(ctx context.Context, nodes []driver.Node, o StatusOptions) iter.Seq2[StatusReport, error] {
	return func(yield func(StatusReport, error) bool) {
		v := newSurvey(nodes, o)
		inner, cancel := context.WithCancel(ctx)
		pages := make(chan []found)
		var err error
		go func() { // the nodes are asked for the next page while this one is judged
			defer close(pages)
			err = v.run(inner, pages)
		}()
		defer func() {
			cancel()
			for range pages { // until it has ended
			}
		}()
		for page := range pages {
			if v.report.Keys = v.judgeAll(page); !yield(v.report, nil) {
				return
			}
		}
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		for i, s := range v.states {
			if why := cmp.Or(s.err, s.unlisted, s.refused); why != nil {
				v.report.Nodes[i].Error = Printable(why.Error())
			}
		}
		v.report.Keys = []KeyStatus{}
		yield(v.report, err)
	}
}

// run asks the nodes, and sends what they have, until all was looked at.
func (v *survey) run(ctx context.Context, pages chan<- []found) error {
	if slices.Contains(v.Keys, "") {
		return fmt.Errorf("%w: Keys: one is empty", fault.ErrOption)
	}
	for _, key := range v.Keys {
		if err := v.checkKey(key); err != nil {
			return err
		}
	}
	v.each(func(i int) { v.meet(ctx, i) })
	if err := v.answering(); err != nil {
		return err
	}
	v.next = v.clock.Now()
	if len(v.Keys) == 0 {
		return v.list(ctx, pages)
	}
	var candidates []candidate
	for _, key := range v.Keys {
		candidates = append(candidates, candidate{key: v.Prefix + key, once: true})
	}
	slices.SortFunc(candidates, func(a, b candidate) int { return strings.Compare(a.key, b.key) })
	for part := range slices.Chunk(slices.Compact(candidates), chunk) {
		if err := v.send(ctx, part, pages); err != nil {
			return err
		}
	}
	return nil
}

// send looks at candidates, and sends what the nodes have there.
func (v *survey) send(ctx context.Context, candidates []candidate, pages chan<- []found) error {
	page := v.look(ctx, candidates)
	if err := v.answering(); err != nil {
		return err
	}
	select {
	case pages <- page:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func newSurvey(nodes []driver.Node, o StatusOptions) *survey {
	o.Settings = o.withDefaults()
	o.Rate = cmp.Or(o.Rate, 100_000)
	v := &survey{
		StatusOptions: o, clock: clockdrift.New(), seen: newSeen(MaxListed),
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
	together(v.states, func(i int, s *nodeState) {
		if s.err == nil {
			step(i)
		}
	})
}

// meet asks a node what it is.
func (v *survey) meet(ctx context.Context, i int) {
	t, s := v.targets[i], v.states[i]
	cmds := []driver.Command{command("INFO")}
	if v.RestartGuard {
		cmds = append(cmds, v.askRecord())
	}
	if len(v.Keys) == 0 {
		cmds = append(cmds, command("ACL", "WHOAMI"), command("DBSIZE"))
	}
	replies, err := t.ask(ctx, v.within(), cmds...)
	if s.err = v.unanswered(err); err != nil {
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
			t.user = Printable(last[0].Str)
		}
		v.meetList(s, t, last[1])
	}
	if !v.RestartGuard {
		return
	}
	t.replies = map[string]driver.Reply{spell(v.askRecord()): replies[1]}
	own, refused := t.record()
	if why := cmp.Or(replies[0].Err(), refused.Err()); why != nil {
		s.refused = fmt.Errorf("whether it is in quarantine: %w", fault.Advise(why))
		return
	}
	state, _ := t.judge(own)
	s.Quarantined = state != memory.Votes
}

// unanswered words why a node does not take part any more.
func (v *survey) unanswered(err error) error {
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("no answer within %v: %w", v.within(), err)
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
