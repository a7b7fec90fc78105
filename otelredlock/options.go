package otelredlock

import (
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/quorumlock/quorumlock/redlock"
)

// An Option changes what is told, and whom.
type Option func(*options)

type options struct {
	meters        metric.MeterProvider
	tracers       trace.TracerProvider
	keyName       func(key string) string
	named         bool
	withoutKeys   bool
	holdSpans     bool
	batchSpans    bool
	clientMetrics bool
}

// WithMeterProvider sets who is told the metrics. The default is [otel.GetMeterProvider].
func WithMeterProvider(p metric.MeterProvider) Option { return func(o *options) { o.meters = p } }

// WithTracerProvider sets who is told the spans. The default is [otel.GetTracerProvider].
func WithTracerProvider(p trace.TracerProvider) Option { return func(o *options) { o.tracers = p } }

// WithKeyName adds the attribute redlock.key.name to the metrics of acquires and holds: what the
// function makes of the key, such as "orders" of "orders:42". Each name costs memory in this
// process and in every system behind it, so a name must not hold an id: after 200 different ones,
// all others are "_other". So are the empty name and that of a key for which the function panics.
// Several keys of one lock have their names with commas between them.
//
// The function is called once for each acquire, at the same time for different ones, and must not
// block. By default no metric has an attribute for the key.
func WithKeyName(name func(key string) string) Option {
	return func(o *options) { o.keyName, o.named = name, true }
}

// WithoutKeys leaves keys out of spans, and with them the text of errors, which has the key. By
// default a span has the whole key as redlock.key. Metrics never do.
func WithoutKeys() Option { return func(o *options) { o.withoutKeys = true } }

// WithHoldSpans adds a span redlock.hold from the acquire to the end of the hold. It is lost if the
// process dies meanwhile.
func WithHoldSpans() Option { return func(o *options) { o.holdSpans = true } }

// WithBatchSpans adds a span redlock.batch for each batch of requests to a node. Batches serve many
// callers, so the span has no parent but links to the acquires of its first 32 locks.
func WithBatchSpans() Option { return func(o *options) { o.batchSpans = true } }

// WithClientMetrics adds db.client.operation.duration, each batch one operation, for clients that
// do not measure it themselves. With an instrumented client it would be counted twice.
func WithClientMetrics() Option { return func(o *options) { o.clientMetrics = true } }

// configure puts the options together, and refuses what is not valid.
func configure(all []Option) (options, error) {
	o := options{meters: otel.GetMeterProvider(), tracers: otel.GetTracerProvider()}
	for _, option := range all {
		if option == nil {
			return o, &redlock.OptionError{Option: "options", Reason: "one of them is nil"}
		}
		option(&o)
	}
	switch {
	case o.meters == nil:
		return o, &redlock.OptionError{Option: "MeterProvider", Reason: "it is nil: leave the option out for the global one"}
	case o.tracers == nil:
		return o, &redlock.OptionError{Option: "TracerProvider", Reason: "it is nil: leave the option out for the global one"}
	case o.named && o.keyName == nil:
		return o, &redlock.OptionError{Option: "KeyName", Reason: "it is nil: leave the option out for metrics without keys"}
	}
	return o, nil
}
