package otelredlock

import (
	"errors"

	"go.opentelemetry.io/otel/metric"
)

// instruments are the metrics that hooks tell. Those that a callback reads are in
// [Telemetry.watch].
type instruments struct {
	acquired, held, extended, released, batches metric.Float64Histogram
	client                                      metric.Float64Histogram // nil without WithClientMetrics
	tries, spare, sizes                         metric.Int64Histogram
	lost, fenceRounds                           metric.Int64Counter
}

// seconds are the bounds of durations, in s, from what a node next door takes to what waits for
// long.
var seconds = []float64{
	.00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 25, 60,
}

// newInstruments makes them.
func newInstruments(meter metric.Meter, client bool) (i instruments, err error) {
	var errs []error
	duration := func(name, what string) metric.Float64Histogram {
		h, err := meter.Float64Histogram(name, metric.WithUnit("s"), metric.WithDescription(what), metric.WithExplicitBucketBoundaries(seconds...))
		errs = append(errs, err)
		return h
	}
	size := func(name, unit, what string, bounds ...float64) metric.Int64Histogram {
		h, err := meter.Int64Histogram(name, metric.WithUnit(unit), metric.WithDescription(what), metric.WithExplicitBucketBoundaries(bounds...))
		errs = append(errs, err)
		return h
	}
	counter := func(name, unit, what string) metric.Int64Counter {
		c, err := meter.Int64Counter(name, metric.WithUnit(unit), metric.WithDescription(what))
		errs = append(errs, err)
		return c
	}
	i = instruments{
		acquired:    duration("redlock.acquire.duration", "Time that calls took which take a lock, waiting included."),
		tries:       size("redlock.acquire.tries", "{try}", "How often an acquire asked the nodes.", 0, 1, 2, 3, 5, 10, 20, 50, 100),
		held:        duration("redlock.hold.duration", "Time that locks were held."),
		lost:        counter("redlock.lock.lost", "{lock}", "Locks that were lost while they were held."),
		extended:    duration("redlock.extend.duration", "Time from an extension to its deciding vote."),
		spare:       size("redlock.renewal.spare_votes", "{vote}", "Votes of a renewal beyond the quorum; 0: with one node less the lock is lost.", 0, 1, 2, 3, 4, 5),
		released:    duration("redlock.release.duration", "Time that releases took."),
		batches:     duration("redlock.node.batch.duration", "Time that a node took to answer a batch of requests."),
		sizes:       size("redlock.node.batch.size", "{request}", "Requests that went to a node together.", 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000),
		fenceRounds: counter("redlock.fence.rounds", "{round}", "Further rounds for a fence, because the first was not great enough."),
	}
	if client {
		// The bounds are those of the semantic conventions.
		i.client, err = meter.Float64Histogram("db.client.operation.duration", metric.WithUnit("s"),
			metric.WithDescription("Duration of database client operations."),
			metric.WithExplicitBucketBoundaries(.001, .005, .01, .05, .1, .5, 1, 5, 10))
		errs = append(errs, err)
	}
	return i, errors.Join(errs...)
}
