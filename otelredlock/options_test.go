package otelredlock

import (
	"errors"
	"strings"
	"testing"

	"github.com/quorumlock/quorumlock/redlock"
)

func TestOptionsThatAreWrongAreRefused(t *testing.T) {
	for name, option := range map[string]Option{
		"options":        nil,
		"MeterProvider":  WithMeterProvider(nil),
		"TracerProvider": WithTracerProvider(nil),
		"KeyName":        WithKeyName(nil),
	} {
		telemetry, err := New(option)
		if telemetry != nil || !errors.Is(err, redlock.ErrOption) || !strings.Contains(err.Error(), name) {
			t.Errorf("New = %v, %v, want an error about %s", telemetry, err, name)
		}
	}
}

func TestNothingIsNeededButTheGlobalProviders(t *testing.T) {
	telemetry, err := New()
	if err != nil {
		t.Fatal(err)
	}
	call := redlock.AcquireStart{Key: "k", Kind: "exclusive"}
	hooks := telemetry.Hooks()
	hooks.AcquireEnd(hooks.AcquireStart(t.Context(), call), redlock.AcquireEnd{AcquireStart: call})
	hooks.HoldEnd(t.Context(), redlock.HoldEnd{Key: "k", Reason: "released"}) // another hook has not kept the context
}

func TestOfANodeThatTwoLockersKnowTheWorstIsTold(t *testing.T) {
	well := redlock.NodeStats{Name: "n", State: "up", Queue: 2, ClockKnown: true}
	ill := redlock.NodeStats{Name: "n", State: "down", Queue: 3, QuarantineLeft: 1, DriftKnown: true, DriftHigh: 1}
	for _, m := range []redlock.NodeStats{merge(well, ill), merge(ill, well)} {
		if m.State != "down" || m.Queue != 5 || m.QuarantineLeft != 1 || !m.ClockKnown || !m.DriftKnown || m.DriftHigh != 1 {
			t.Errorf("merge = %+v, want the worst of both", m)
		}
	}
}
