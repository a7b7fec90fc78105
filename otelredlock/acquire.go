package otelredlock

import (
	"context"
	"errors"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/quorumlock/quorumlock/redlock"
)

// The attributes of metrics and spans.
const (
	outcomeKey    = attribute.Key("redlock.outcome")
	pathKey       = attribute.Key("redlock.path")
	nameKey       = attribute.Key("redlock.key.name")
	endKey        = attribute.Key("redlock.end")
	renewalKey    = attribute.Key("redlock.renewal")
	handedOverKey = attribute.Key("redlock.handed_over")
	errorKey      = attribute.Key("error.type")

	keyKey   = attribute.Key("redlock.key")
	kindKey  = attribute.Key("redlock.kind")
	triesKey = attribute.Key("redlock.tries")
	fenceKey = attribute.Key("redlock.fence")
	votesKey = attribute.Key("redlock.votes")
)

// A call is an acquire, and the hold that follows. Its context carries it, by the Telemetry.
type call struct {
	name attribute.KeyValue // of the key; not valid without WithKeyName
	span trace.Span         // of the acquire; nil: nobody began it
	told bool               // somebody records it; where nobody does, nobody wants those below it
	hold trace.Span         // nil: there is none
}

// call returns what acquireStart has put into the context, or an empty one if another hook has not
// kept it.
func (t *Telemetry) call(ctx context.Context) *call {
	if c, ok := ctx.Value(t).(*call); ok {
		return c
	}
	return new(call)
}

// about are the attributes of a span that is about a lock.
func (t *Telemetry) about(key, kind string) trace.SpanStartEventOption {
	if t.options.withoutKeys {
		return trace.WithAttributes(kindKey.String(kind))
	}
	return trace.WithAttributes(kindKey.String(kind), keyKey.String(text(key)))
}

// failed notes an error at a span: only that no quorum answered is one.
func (t *Telemetry) failed(span trace.Span, what string, err error) {
	if what != noQuorum {
		return
	}
	span.SetAttributes(errorKey.String(what))
	if t.options.withoutKeys { // an error has the key
		span.SetStatus(codes.Error, what)
		return
	}
	span.SetStatus(codes.Error, text(err.Error()))
}

func (t *Telemetry) acquireStart(ctx context.Context, a redlock.AcquireStart) context.Context {
	c := new(call)
	if name := t.name(a); name != "" {
		c.name = nameKey.String(name)
	}
	ctx, c.span = t.tracer.Start(ctx, "redlock.acquire", t.about(a.Key, a.Kind))
	c.told = c.span.IsRecording()
	return context.WithValue(ctx, t, c)
}

func (t *Telemetry) acquireEnd(ctx context.Context, a redlock.AcquireEnd) {
	c := t.call(ctx)
	came, way := outcome(a.Err, "acquired"), path(a.Path)
	t.metrics.acquired.Record(ctx, a.Waited.Seconds(), t.with(outcomeKey.String(came), pathKey.String(way), c.name))
	t.metrics.tries.Record(ctx, int64(a.Tries), t.with(outcomeKey.String(came)))
	if a.FenceRounds > 0 {
		t.metrics.fenceRounds.Add(ctx, int64(a.FenceRounds))
	}
	if c.told {
		c.span.SetAttributes(outcomeKey.String(came), pathKey.String(way), triesKey.Int(a.Tries))
		if a.Fence != 0 {
			c.span.SetAttributes(fenceKey.Int64(a.Fence))
		}
		if a.Err != nil {
			t.refusal(c.span, a.Votes())
		}
		t.failed(c.span, came, a.Err)
		c.span.End()
	}
	if t.options.holdSpans && c.told && a.Lock != nil {
		_, c.hold = t.tracer.Start(ctx, "redlock.hold", t.about(a.Key, a.Kind))
	}
}

// refusal adds the votes of the last try, which has failed, to the span of an acquire.
func (t *Telemetry) refusal(span trace.Span, votes []redlock.Vote) {
	if votes == nil {
		return
	}
	said := make([]string, len(votes))
	for i, v := range votes {
		said[i] = text(v.Node + ": " + v.Answer)
	}
	span.AddEvent("redlock.try.failed", trace.WithAttributes(votesKey.StringSlice(said)))
}

func (t *Telemetry) holdEnd(ctx context.Context, h redlock.HoldEnd) {
	c := t.call(ctx)
	end := h.Reason
	t.metrics.held.Record(ctx, h.Lasted.Seconds(), t.with(endKey.String(end), c.name))
	var why string
	if h.Reason == "lost" {
		why = lossOf(h.Err)
		t.metrics.lost.Add(ctx, 1, t.with(errorKey.String(why), c.name))
	}
	if c.hold == nil {
		return
	}
	c.hold.SetAttributes(endKey.String(end))
	if why != "" {
		c.hold.SetAttributes(errorKey.String(why))
	}
	t.failed(c.hold, why, h.Err)
	c.hold.End()
}

func (t *Telemetry) releaseEnd(ctx context.Context, r redlock.ReleaseEnd) {
	came := outcome(r.Err, "released")
	t.metrics.released.Record(ctx, r.Latency.Seconds(), t.with(outcomeKey.String(came), handedOverKey.Bool(r.HandedOver)))
	if !t.call(ctx).told {
		return
	}
	now := time.Now()
	_, span := t.tracer.Start(ctx, "redlock.release", t.about(r.Key, r.Kind), trace.WithTimestamp(now.Add(-r.Latency)),
		trace.WithAttributes(outcomeKey.String(came), handedOverKey.Bool(r.HandedOver)))
	t.failed(span, came, r.Err)
	span.End(trace.WithTimestamp(now))
}

func (t *Telemetry) extendEnd(ctx context.Context, e redlock.ExtendEnd) {
	t.metrics.extended.Record(ctx, e.Latency.Seconds(), t.with(outcomeKey.String(outcome(e.Err, "extended")), renewalKey.Bool(e.Renewal)))
	over := errors.Is(e.Err, redlock.ErrReleased) || errors.Is(e.Err, redlock.ErrClosed) // and so the renewal had no more to do
	if e.Renewal && e.Need > 0 && !over {
		t.metrics.spare.Record(ctx, int64(max(0, e.Granted-e.Need)))
	}
}
