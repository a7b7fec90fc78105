package otelredlock

import (
	"context"
	"errors"
	"slices"

	"go.opentelemetry.io/otel/metric"

	"github.com/quorumlock/quorumlock/redlock"
)

// Observe adds a Locker to those whose locks, waiters, clean-ups and nodes are read
// ([redlock.Locker.Stats]) when metrics are collected, until stop is called: call it when the
// Locker is closed. A node that is down is asked again by that, in the background. Numbers of
// several Lockers are added up; of a node that they share, the worst that one of them knows is
// told.
func (t *Telemetry) Observe(l *redlock.Locker) (stop func()) {
	t.observed.Store(l, nil)
	return func() { t.observed.Delete(l) }
}

// states are those of a node, the worst last.
var states = [...]string{"unknown", "up", "down", "quarantined"}

// merge puts together what two Lockers know of one node.
func merge(a, b redlock.NodeStats) redlock.NodeStats {
	if slices.Index(states[:], b.State) > slices.Index(states[:], a.State) {
		a.State = b.State
	}
	a.Queue, a.Behind = a.Queue+b.Queue, a.Behind+b.Behind
	a.QuarantineLeft = max(a.QuarantineLeft, b.QuarantineLeft)
	if !a.ClockKnown {
		a.ClockKnown, a.OffsetLow, a.OffsetHigh = b.ClockKnown, b.OffsetLow, b.OffsetHigh
	}
	if !a.DriftKnown {
		a.DriftKnown, a.DriftLow, a.DriftHigh = b.DriftKnown, b.DriftLow, b.DriftHigh
	}
	return a
}

// watch registers the metrics that are read when somebody collects them.
func (t *Telemetry) watch(meter metric.Meter) error {
	var errs []error
	number := func(name, unit, what string) metric.Int64ObservableUpDownCounter {
		c, err := meter.Int64ObservableUpDownCounter(name, metric.WithUnit(unit), metric.WithDescription(what))
		errs = append(errs, err)
		return c
	}
	gauge := func(name, unit, what string) metric.Float64ObservableGauge {
		g, err := meter.Float64ObservableGauge(name, metric.WithUnit(unit), metric.WithDescription(what))
		errs = append(errs, err)
		return g
	}
	locks := number("redlock.locks", "{lock}", "Locks that are held.")
	waiters := number("redlock.waiters", "{waiter}", "Acquires that wait for a lock.")
	cleanups := number("redlock.cleanups", "{cleanup}", "Tokens that may be left at a node and are to be deleted.")
	up := number("redlock.node.up", "{node}", "1: the node answers and votes; 0: it is down, unfit or in quarantine.")
	quarantine := gauge("redlock.node.quarantine.remaining", "s", "For how long the node does not vote, at least.")
	queue := gauge("redlock.node.queue.length", "{request}", "Requests that wait to leave for the node, or for another one of their key.")
	offset := gauge("redlock.node.clock.offset", "s", "How far the node's clock is ahead of this machine's, in the middle of what is known.")
	drift := gauge("redlock.node.clock.drift", "1", "By which part of the time the node's clock certainly runs faster than this machine's; below 0: slower.")
	if err := errors.Join(errs...); err != nil {
		return err
	}
	_, err := meter.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		var all redlock.Stats
		nodes := make(map[string]redlock.NodeStats)
		found := false
		for l := range t.observed.Range {
			s := l.(*redlock.Locker).Stats()
			found = true
			all.Locks, all.Waiting, all.Owed = all.Locks+s.Locks, all.Waiting+s.Waiting, all.Owed+s.Owed
			for _, n := range s.Nodes {
				if known, ok := nodes[n.Name]; ok {
					n = merge(known, n)
				}
				nodes[n.Name] = n
			}
		}
		if !found {
			return nil
		}
		o.ObserveInt64(locks, int64(all.Locks))
		o.ObserveInt64(waiters, int64(all.Waiting))
		o.ObserveInt64(cleanups, int64(all.Owed))
		for _, n := range nodes {
			p := t.place(n.Name)
			at := t.with(p[0], p[1])
			if n.State != "unknown" {
				var votes int64
				if n.State == "up" {
					votes = 1
				}
				o.ObserveInt64(up, votes, at)
			}
			o.ObserveFloat64(quarantine, n.QuarantineLeft.Seconds(), at)
			o.ObserveFloat64(queue, float64(n.Queue+n.Behind), at)
			if n.ClockKnown {
				o.ObserveFloat64(offset, (n.OffsetLow + (n.OffsetHigh-n.OffsetLow)/2).Seconds(), at)
			}
			if n.DriftKnown {
				o.ObserveFloat64(drift, min(max(0, n.DriftLow), n.DriftHigh), at)
			}
		}
		return nil
	}, locks, waiters, cleanups, up, quarantine, queue, offset, drift)
	return err
}
