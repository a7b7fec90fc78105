package otel

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/quorumlock/quorumlock/otelredlock"
	"github.com/quorumlock/quorumlock/redlock"
	"github.com/quorumlock/quorumlock/redlocktest"
	"github.com/quorumlock/quorumlock/test/leak"
)

func TestMain(m *testing.M) { leak.Main(m) }

// size is the number of nodes.
const size = 3

// A lab is a Locker over embedded nodes, whose telemetry stays in memory.
type lab struct {
	t         testing.TB
	nodes     redlocktest.Nodes
	telemetry *otelredlock.Telemetry
	locker    *redlock.Locker
	reader    *metric.ManualReader
	spans     *tracetest.InMemoryExporter
	recorder  *tracetest.SpanRecorder // has also those that have not ended
}

// settings are those of a lab.
type settings struct {
	telemetry []otelredlock.Option
	locker    []redlock.Option
}

// newLab makes one on these nodes.
func newLab(t testing.TB, nodes redlocktest.Nodes, s settings) *lab {
	t.Helper()
	l := &lab{t: t, nodes: nodes, reader: metric.NewManualReader(), spans: tracetest.NewInMemoryExporter(), recorder: tracetest.NewSpanRecorder()}
	meters := metric.NewMeterProvider(metric.WithReader(l.reader))
	tracers := trace.NewTracerProvider(trace.WithSyncer(l.spans), trace.WithSpanProcessor(l.recorder))
	options := []otelredlock.Option{otelredlock.WithMeterProvider(meters), otelredlock.WithTracerProvider(tracers)}
	l.telemetry = must(otelredlock.New(append(options, s.telemetry...)...))(t)
	l.locker = l.open(append(s.locker, redlock.WithHooks(l.telemetry.Hooks()))...)
	t.Cleanup(l.telemetry.Observe(l.locker))
	return l
}

// open returns a Locker on the nodes. Without the hooks it tells nobody, as one of another process.
func (l *lab) open(options ...redlock.Option) *redlock.Locker {
	l.t.Helper()
	locker := must(redlock.New(l.nodes.Drivers(), options...))(l.t)
	l.t.Cleanup(func() { _ = locker.Close() }) // with nodes that are down, it fails
	return locker
}

// inBubble runs do in virtual time.
func inBubble(t *testing.T, s settings, do func(t *testing.T, l *lab)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { do(t, newLab(t, redlocktest.StartInBubble(t, size), s)) })
}

// acquire takes a lock, which there must be.
func (l *lab) acquire(key string, options ...redlock.AcquireOption) *redlock.Lock {
	l.t.Helper()
	lock := must(l.locker.Acquire(l.t.Context(), key, options...))(l.t)
	l.t.Cleanup(func() { runtime.KeepAlive(lock) }) // or it is forgotten
	return lock
}

// must returns the value, or fails the test.
func must[T any](value T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return value
	}
}

// release releases a lock that all nodes have: what has not left for one by then is not sent there.
func release(t testing.TB, lock interface{ Release() error }) {
	t.Helper()
	synctest.Wait()
	if err := lock.Release(); err != nil {
		t.Fatal(err)
	}
}

// A point is one time series of a metric.
type point struct {
	Attributes string // name=value, in order
	Value      float64
	Count      uint64 // of a histogram, whose sum Value is
	Exemplars  []string
}

// collect reads all metrics.
func (l *lab) collect() map[string]metricdata.Metrics {
	l.t.Helper()
	var read metricdata.ResourceMetrics
	if err := l.reader.Collect(context.Background(), &read); err != nil {
		l.t.Fatal(err)
	}
	all := make(map[string]metricdata.Metrics)
	for _, scope := range read.ScopeMetrics {
		if scope.Scope.Version == "" {
			l.t.Errorf("the metrics' scope is %+v, want a version", scope.Scope)
		}
		for _, m := range scope.Metrics {
			all[m.Name] = m
		}
	}
	return all
}

// points returns the time series of a metric, once hooks were told of all that has happened: a
// goroutine of the Locker's own tells them.
func (l *lab) points(name string) []point {
	l.t.Helper()
	synctest.Wait()
	return pointsOf(l.collect()[name])
}

func pointsOf(m metricdata.Metrics) (all []point) {
	switch data := m.Data.(type) {
	case metricdata.Histogram[float64]:
		all = histogram(data)
	case metricdata.Histogram[int64]:
		all = histogram(data)
	case metricdata.Sum[int64]:
		all = numbers(data.DataPoints)
	case metricdata.Gauge[float64]:
		all = numbers(data.DataPoints)
	}
	slices.SortFunc(all, func(a, b point) int { return strings.Compare(a.Attributes, b.Attributes) })
	return all
}

func histogram[N int64 | float64](data metricdata.Histogram[N]) (all []point) {
	for _, d := range data.DataPoints {
		p := point{Attributes: encode(d.Attributes), Value: float64(d.Sum), Count: d.Count}
		for _, e := range d.Exemplars {
			p.Exemplars = append(p.Exemplars, fmt.Sprintf("%x", e.TraceID))
		}
		all = append(all, p)
	}
	return all
}

func numbers[N int64 | float64](data []metricdata.DataPoint[N]) (all []point) {
	for _, d := range data {
		all = append(all, point{Attributes: encode(d.Attributes), Value: float64(d.Value)})
	}
	return all
}

// encode writes attributes as name=value, in order.
func encode(set attribute.Set) string { return set.Encoded(attribute.DefaultEncoder()) }

// find returns the time series of a metric that has exactly these attributes.
func (l *lab) find(name, attributes string) (point, bool) {
	l.t.Helper()
	all := l.points(name)
	i := slices.IndexFunc(all, func(p point) bool { return p.Attributes == attributes })
	if i < 0 {
		return point{}, false
	}
	return all[i], true
}

// want fails the test if a metric has no time series with exactly these attributes, or a histogram
// another number of values than count.
func (l *lab) want(name, attributes string, count uint64) point {
	l.t.Helper()
	p, ok := l.find(name, attributes)
	if !ok || p.Count != count {
		l.t.Errorf("%s{%s} has %d values, want %d; all are %v", name, attributes, p.Count, count, l.points(name))
	}
	return p
}

// wantValue fails the test if a metric has not that value with exactly these attributes.
func (l *lab) wantValue(name, attributes string, value float64) {
	l.t.Helper()
	if p, ok := l.find(name, attributes); !ok || p.Value != value {
		l.t.Errorf("%s{%s} = %v, want %v; all are %v", name, attributes, p.Value, value, l.points(name))
	}
}

// named returns the spans of a name, without those before.
func (l *lab) named(name string) (all []tracetest.SpanStub) {
	for _, s := range l.spans.GetSpans() {
		if s.Name == name {
			all = append(all, s)
		}
	}
	return all
}

// has reports whether a span has the attribute.
func has(s tracetest.SpanStub, name, value string) bool {
	return slices.ContainsFunc(s.Attributes, func(kv attribute.KeyValue) bool {
		return string(kv.Key) == name && kv.Value.String() == value
	})
}

// soon is longer than anything takes in a bubble that does not wait for a lease.
const soon = 100 * time.Millisecond
