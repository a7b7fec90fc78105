package main

import (
	"context"
	"errors"
	"slices"

	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/trace"

	"github.com/quorumlock/quorumlock/otelredlock"
	"github.com/quorumlock/quorumlock/redlock"
)

var hooks = Case{
	Name: "hooks",
	About: "cycles on keys of their own: without hooks, with hooks that do nothing, and with those of otelredlock, which tell OpenTelemetry's SDK metrics alone, " +
		"and spans of which one in a hundred is recorded",
	Columns: slices.Concat(loadColumns[:1], []Column{{"share", "of that without hooks", percent}}, loadColumns[1:], throughputColumns),
	Run:     runHooks,
}

func runHooks(ctx context.Context, b *Bench, t *Table) error {
	some := *b
	some.Contenders = hooked()
	err := some.turns(ctx, t, b.Rounds, []int{1, 128}, func(c Contender, goroutines int) error {
		session, err := c.Open(b.Site.Addrs(), Setup{Goroutines: goroutines, TTL: ttl})
		if err != nil {
			return err
		}
		err = measureThroughput(ctx, b, t, Key{Contender: c.Name(), Goroutines: goroutines}, session, b.Site.Cluster)
		return errors.Join(err, b.Site.Flush())
	})
	for _, row := range t.Rows {
		plain := t.Row(Key{Contender: some.Contenders[0].Name(), Goroutines: row.Goroutines})
		for i := range min(len(row.Rounds["cycles"]), len(plain.Rounds["cycles"])) {
			row.Rounds["share"] = append(row.Rounds["share"], row.Rounds["cycles"][i]/plain.Rounds["cycles"][i])
		}
	}
	return err
}

// hooked is our library without hooks and with others.
func hooked() []Contender {
	with := func(mode string, hooks func() (redlock.Hooks, error)) Contender {
		c := find("redlock", "go-redis", "")
		open := c.Open
		c.Mode = mode
		c.Open = func(addrs []string, setup Setup) (Session, error) {
			h, err := hooks()
			if err != nil {
				return nil, err
			}
			setup.Options = append(setup.Options, redlock.WithHooks(h))
			return open(addrs, setup)
		}
		return c
	}
	plain := find("redlock", "go-redis", "")
	plain.Mode = "without hooks"
	return []Contender{
		plain,
		with("idle hooks", func() (redlock.Hooks, error) { return idleHooks, nil }),
		with("metrics", func() (redlock.Hooks, error) { return telling() }),
		with("metrics and spans", func() (redlock.Hooks, error) {
			return telling(otelredlock.WithTracerProvider(trace.NewTracerProvider(trace.WithSampler(trace.TraceIDRatioBased(0.01)))))
		}),
	}
}

// idleHooks are all there are, and do nothing.
var idleHooks = redlock.Hooks{
	AcquireStart: func(ctx context.Context, _ redlock.AcquireStart) context.Context { return ctx },
	AcquireEnd:   func(context.Context, redlock.AcquireEnd) {},
	HoldEnd:      func(context.Context, redlock.HoldEnd) {},
	ReleaseEnd:   func(context.Context, redlock.ReleaseEnd) {},
	ExtendEnd:    func(context.Context, redlock.ExtendEnd) {},
	Batch:        func(redlock.Batch) {},
	Node:         func(redlock.Event) {},
}

// telling are hooks that tell the SDK metrics, which stay in memory, and more by the options.
func telling(more ...otelredlock.Option) (redlock.Hooks, error) {
	meters := metric.NewMeterProvider(metric.WithReader(metric.NewManualReader()))
	telemetry, err := otelredlock.New(append(more, otelredlock.WithMeterProvider(meters))...)
	if err != nil {
		return redlock.Hooks{}, err
	}
	return telemetry.Hooks(), nil
}
