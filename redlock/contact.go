package redlock

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/quorumlock/quorumlock/driver"
)

// inquiry asks a node what it is. INFO takes one section a command before Redis 7.
var inquiry = []driver.Command{
	{Args: []any{"INFO", "server"}},
	{Args: []any{"INFO", "replication"}},
	{Args: []any{"INFO", "memory"}},
	askTime,
}

// contact asks the node what it is: before its first batch, and again after it has
// failed, for it may have come back as something else.
func (n *node) contact() {
	l := n.locker
	started := l.clock.Now()
	timeout := l.timeout
	if n.unknown() {
		timeout *= firstContact
	}
	ctx, cancel := context.WithTimeout(l.life, timeout)
	replies, err := n.do(ctx, append(slices.Clip(inquiry), probes(n.head())...))
	if err != nil {
		err = n.explain(ctx, err, l.timeout)
	}
	var found finding
	if err == nil {
		found, err = n.examine(replies[:len(inquiry)])
		found.heed(n, replies[len(inquiry):])
	}
	now := l.clock.Fresh()
	if err == nil {
		n.heardTime(replies[len(inquiry)-1], started, now)
	}
	if err == nil {
		err = n.tryProof(ctx, found)
	}
	cancel()

	n.mu.Lock()
	if err != nil {
		if n.health.state != down {
			n.news = append(n.news, Event{NodeDown, n.name, err})
		}
		n.health.fail(err)
		n.health.rest(now, now.Sub(started))
		n.fail(err)
	} else {
		n.health.state, n.health.cause, n.health.answer = up, nil, now
		if found.reborn {
			n.health.reborn = started
		}
		n.news = append(append(n.news, found.warnings...), Event{NodeUp, n.name, nil})
		n.lines[0].window.note(now.Sub(started))
		n.cluster, n.apart, n.muted = found.cluster, found.cluster, false
		n.listeners, n.unasked = 0, true
		n.dialect = found.dialect
		for i := range n.lines {
			n.lines[i].summon()
		}
	}
	n.mu.Unlock()
	n.announce()
}

// firstContact is how many time-outs the first question may take: making a connection
// takes several round trips more.
const firstContact = 4

// A finding is what a node has said of itself.
type finding struct {
	warnings []Event // what it would not say
	reborn   bool    // it is another server than before
	cluster  bool    // keys live on several servers
	dialect  dialect
}

// examine reads what the node says of itself. What may not be is an error.
func (n *node) examine(replies []driver.Reply) (found finding, err error) {
	facts := map[string]string{}
	for i, reply := range replies[:len(inquiry)-1] {
		if err := reply.Err(); err != nil {
			section := inquiry[i].Args[1]
			found.warnings = append(found.warnings, Event{NodeUnchecked, n.name, fmt.Errorf(
				"%w: INFO %s is not allowed, so nobody checks that this is a master of its own that keeps its keys: allow +info", err, section)})
			if !answers(err) {
				return found, advised(err)
			}
			continue
		}
		readInfo(reply.Str, facts)
	}
	if role := facts["role"]; role != "" && role != "master" {
		return found, fmt.Errorf("%w: it is a replica (of %s:%s): give the master's address",
			ErrNode, facts["master_host"], facts["master_port"])
	}
	twin, reborn := n.locker.identify(n, facts["run_id"])
	if twin != nil {
		return found, fmt.Errorf("%w: it is the same server as node %s, and would vote twice: give each node a server of its own",
			ErrNode, twin.name)
	}
	found.reborn = reborn
	if err := replies[len(inquiry)-1].Err(); err != nil && n.locker.options.fences {
		found.warnings = append(found.warnings, Event{NodeUnchecked, n.name, fmt.Errorf(
			"%w: TIME is not allowed, so fences do not follow its clock: allow +time", err)})
	}
	found.cluster = facts["redis_mode"] == "cluster"
	switch o := &n.locker.options; {
	case o.guard > 0 && found.cluster:
		return found, fmt.Errorf("%w: it is a Redis Cluster, whose servers come and go by themselves: WithRestartGuard needs single servers", ErrNode)
	case o.guard > 0 && facts["master_replid"] == "":
		return found, errNoHistory
	case o.clockGuard > 0 && replies[len(inquiry)-1].Kind != driver.Array:
		return found, fmt.Errorf("%w: it does not tell its time, which WithClockGuard needs: allow +time", ErrNode)
	}
	if policy := facts["maxmemory_policy"]; facts["maxmemory"] != "0" && policy != "" && policy != "noeviction" {
		err := fmt.Errorf("%w: it evicts keys when its memory is full, and live locks with them (maxmemory %s, maxmemory-policy %s): set maxmemory-policy noeviction",
			ErrNode, facts["maxmemory"], policy)
		if !n.locker.options.evictingOK {
			return found, err
		}
		found.warnings = append(found.warnings, Event{NodeEvicts, n.name, err})
	}
	return found, nil
}

// heed reads what the node can do without scripts.
func (f *finding) heed(n *node, replies []driver.Reply) {
	f.dialect = heed(replies)
	if err := f.dialect.limits(); err != nil {
		f.warnings = append(f.warnings, Event{NodeLimited, n.name, err})
	}
}

// answers reports whether a node that refused INFO may be ready for work all the same.
func answers(err error) bool {
	var reply *driver.ServerError
	return errors.As(err, &reply) && (reply.Code == "NOPERM" || reply.Code == "ERR")
}

// readInfo adds the fields of a reply to INFO to facts.
func readInfo(text string, facts map[string]string) {
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimRight(line, "\r\n"), ":"); ok {
			facts[name] = value
		}
	}
}
