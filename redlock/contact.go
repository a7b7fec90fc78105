package redlock

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/quorumlock/quorumlock/driver"
)

// inquiry asks a node what it is, and its time.
var inquiry = append(slices.Clip(askFitness), askTime)

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
	switch {
	case err != nil:
	case l.options.clockGuard > 0: // sharper than what the connection was made for
		_, err = n.readClock(ctx, 2)
	default:
		_, _ = n.heardTime(replies[len(inquiry)-1], started, now)
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
		n.health.state, n.health.cause, n.health.met = up, nil, true
		if found.reborn {
			n.health.reborn = started
		}
		n.news = append(append(n.news, found.warnings...), Event{NodeUp, n.name, nil})
		n.lines[0].window.note(now.Sub(started))
		n.cluster, n.apart, n.muted = found.cluster, found.cluster, false
		n.fit = fitness{due: now.Add(fitnessPeriod), unchecked: found.unchecked, evicts: found.evicts}
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
	warnings  []Event // what it would not say
	unchecked bool    // its user may not ask
	evicts    bool    // it does, and may
	reborn    bool    // it is another server than before
	cluster   bool    // keys live on several servers
	dialect   dialect
}

// examine reads what the node says of itself. What may not be is an error.
func (n *node) examine(replies []driver.Reply) (found finding, err error) {
	for i, reply := range replies[:len(askFitness)] {
		if err := reply.Err(); err != nil {
			found.warnings = append(found.warnings[:0], n.unchecked(i, err)) // one right is missing
			found.unchecked = true
			if !answers(err) {
				return found, advised(err)
			}
		}
	}
	f := readFacts(replies[:len(askFitness)])
	if err := f.replica(); err != nil {
		return found, err
	}
	if found.reborn, err = n.identify(&f); err != nil {
		return found, err
	}
	told := replies[len(askFitness)]
	if err := told.Err(); err != nil && n.locker.options.fences {
		found.warnings = append(found.warnings, Event{NodeUnchecked, n.name, fmt.Errorf(
			"%w: TIME is not allowed, so fences do not follow its clock: allow +time", err)})
	}
	found.cluster = f.mode == "cluster"
	switch o := &n.locker.options; {
	case o.guard > 0 && found.cluster:
		return found, fmt.Errorf("%w: it is a Redis Cluster, whose servers come and go by themselves: WithRestartGuard needs single servers", ErrNode)
	case o.guard > 0 && f.history == "":
		return found, errNoHistory
	case o.clockGuard > 0 && told.Kind != driver.Array:
		return found, fmt.Errorf("%w: it does not tell its time, which WithClockGuard needs: allow +time", ErrNode)
	}
	if err := f.evicting(); err != nil {
		if !n.locker.options.evictingOK {
			return found, err
		}
		found.evicts = true
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
