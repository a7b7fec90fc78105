// Package otelredlock tells OpenTelemetry what a [redlock.Locker] does, as metrics and spans.
//
//	telemetry, err := otelredlock.New()
//	…
//	locker, err := redlock.New(nodes, redlock.WithHooks(telemetry.Hooks()))
//	…
//	defer telemetry.Observe(locker)()
//
// The metrics are listed in [docs/operations.md], with the alerts and the dashboard that go with
// them. By default they have no attribute for the key, because keys hold ids: see [WithKeyName].
// Exemplars lead from a metric to the span of its acquire. No metric, span or error text has a
// token.
//
// The spans are redlock.acquire, which ends when the call returns, and redlock.release; further
// ones are options. If the span of an acquire is not sampled, its release and its hold have none.
// The context of a lock has the span of its acquire, so what is done under the lock is
// below that span. Of an acquire, a hold and a release the status is Error if no quorum answered,
// and in no other case: that somebody else has a key is no error.
//
// The module needs the API of OpenTelemetry alone. The program brings the SDK and the exporters.
//
// [docs/operations.md]:
// https://github.com/quorumlock/quorumlock/blob/main/docs/operations.md#metrics
package otelredlock

import (
	"runtime/debug"
	"sync"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/quorumlock/quorumlock/redlock"
)

// scope is the instrumentation scope of all that is told.
const scope = "github.com/quorumlock/quorumlock/otelredlock"

// version is that of this module in the program; "(devel)" where it is built from its own tree.
func version() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, module := range append(info.Deps, &info.Main) {
			if module.Path == scope && module.Version != "" {
				return module.Version
			}
		}
	}
	return "(devel)"
}

// A Telemetry tells what Lockers do. Make one with [New] for a process, and share it: it is safe
// for concurrent use.
type Telemetry struct {
	options options
	tracer  trace.Tracer
	metrics instruments
	names   vocabulary // of keys, by WithKeyName
	codes   vocabulary // of errors that servers reply

	mu     sync.RWMutex
	sets   map[attributes]metric.MeasurementOption
	places map[string]place // of nodes, by their names

	observed sync.Map // the observed *redlock.Locker
}

// New returns a Telemetry on the global providers of meters and tracers, or on those of the
// options. The error matches [redlock.ErrOption], or is what the provider says of an instrument.
func New(options ...Option) (*Telemetry, error) {
	o, err := configure(options)
	if err != nil {
		return nil, err
	}
	t := &Telemetry{
		options: o, tracer: o.tracers.Tracer(scope, trace.WithInstrumentationVersion(version())),
		names: vocabulary{most: mostNames, other: other}, codes: vocabulary{most: mostCodes, other: otherType},
		sets: make(map[attributes]metric.MeasurementOption), places: make(map[string]place),
	}
	meter := o.meters.Meter(scope, metric.WithInstrumentationVersion(version()))
	if t.metrics, err = newInstruments(meter, o.clientMetrics); err != nil {
		return nil, err
	}
	if err := t.watch(meter); err != nil {
		return nil, err
	}
	return t, nil
}

// Hooks returns the hooks for [redlock.WithHooks]. Any number of Lockers may have them.
func (t *Telemetry) Hooks() redlock.Hooks {
	return redlock.Hooks{
		AcquireStart: t.acquireStart, AcquireEnd: t.acquireEnd, HoldEnd: t.holdEnd,
		ReleaseEnd: t.releaseEnd, ExtendEnd: t.extendEnd, Batch: t.batch,
	}
}

// attributes are those of a measurement. What is zero is not there.
type attributes [3]attribute.KeyValue

// with returns the attributes as an option, which is made once: there are few different ones.
func (t *Telemetry) with(all ...attribute.KeyValue) metric.MeasurementOption {
	var key attributes
	copy(key[:], all)
	t.mu.RLock()
	set, ok := t.sets[key]
	t.mu.RUnlock()
	if ok {
		return set
	}
	var there []attribute.KeyValue
	for _, kv := range all {
		if kv.Valid() {
			there = append(there, kv)
		}
	}
	set = metric.WithAttributeSet(attribute.NewSet(there...))
	t.mu.Lock()
	t.sets[key] = set
	t.mu.Unlock()
	return set
}
