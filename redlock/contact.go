package redlock

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/quorumlock/quorumlock/driver"
)

// inquiry asks a node what it is. INFO takes one section a command before Redis 7.
var inquiry = []driver.Command{
	{Args: []any{"INFO", "server"}},
	{Args: []any{"INFO", "replication"}},
	{Args: []any{"INFO", "memory"}},
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
	replies, err := n.do(ctx, inquiry)
	if err != nil {
		err = n.explain(ctx, err, l.timeout)
	}
	var found finding
	if err == nil {
		found, err = n.examine(replies)
	}
	if err == nil {
		err = n.tryProof(ctx, found)
	}
	cancel()
	now := l.clock.Now()

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
		n.listeners = 0
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
}

// examine reads what the node says of itself. What may not be is an error.
func (n *node) examine(replies []driver.Reply) (found finding, err error) {
	facts := map[string]string{}
	for i, reply := range replies {
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
	found.cluster = facts["redis_mode"] == "cluster"
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
