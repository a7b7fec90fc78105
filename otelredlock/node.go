package otelredlock

import (
	"context"
	"net"
	"strconv"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/quorumlock/quorumlock/redlock"
)

// A place is the address of a node. One that is named otherwise has its name for an address, and no
// port.
type place [2]attribute.KeyValue

// place returns that of the node.
func (t *Telemetry) place(node string) place {
	t.mu.RLock()
	p, ok := t.places[node]
	t.mu.RUnlock()
	if ok {
		return p
	}
	p = place{attribute.String("server.address", text(node))}
	if host, port, err := net.SplitHostPort(node); err == nil {
		if number, err := strconv.ParseUint(port, 10, 16); err == nil {
			p = place{attribute.String("server.address", text(host)), attribute.Int("server.port", int(number))}
		}
	}
	t.mu.Lock()
	t.places[node] = p
	t.mu.Unlock()
	return p
}

// clientSystem and clientOperation are what the semantic conventions say of a batch.
var (
	clientSystem    = attribute.String("db.system.name", "redis")
	clientOperation = attribute.String("db.operation.name", "PIPELINE")
)

func (t *Telemetry) batch(b redlock.NodeBatch) {
	at := t.place(b.Node)
	var failure attribute.KeyValue
	if b.Err != nil {
		failure = errorKey.String(t.failureOf(b.Err))
	}
	ctx := context.Background()
	if t.options.batchSpans {
		ctx = t.batchSpan(b, at, failure)
	}
	set := t.with(at[0], at[1], failure)
	t.metrics.batches.Record(ctx, b.Latency.Seconds(), set)
	t.metrics.sizes.Record(ctx, int64(b.Requests), set)
	if t.metrics.client != nil {
		t.metrics.client.Record(ctx, b.Latency.Seconds(), set, metric.WithAttributes(clientSystem, clientOperation))
	}
}

// mostLinks is the number of acquires that the span of a batch leads to.
const mostLinks = 32

// batchSpan tells a batch that is back, and returns the context of its span.
func (t *Telemetry) batchSpan(b redlock.NodeBatch, at place, failure attribute.KeyValue) context.Context {
	var links []trace.Link
	for _, ctx := range b.Contexts(mostLinks) {
		links = append(links, trace.LinkFromContext(ctx))
	}
	now := time.Now()
	about := []attribute.KeyValue{clientSystem, clientOperation, at[0], attribute.Int("db.operation.batch.size", b.Commands), attribute.Int("redlock.requests", b.Requests)}
	for _, kv := range []attribute.KeyValue{at[1], failure} {
		if kv.Valid() {
			about = append(about, kv)
		}
	}
	ctx, span := t.tracer.Start(context.Background(), "redlock.batch", trace.WithSpanKind(trace.SpanKindClient),
		trace.WithTimestamp(now.Add(-b.Latency)), trace.WithLinks(links...), trace.WithAttributes(about...))
	if failure.Valid() {
		span.SetStatus(codes.Error, failure.Value.AsString())
	}
	span.End(trace.WithTimestamp(now))
	return ctx
}
