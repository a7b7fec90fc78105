package server

import (
	"errors"
	"testing"
	"time"
)

func TestStepClock(t *testing.T) {
	const slack = time.Minute // for slow machines
	p := launchAs(t, Setup{Clock: true, Args: []string{"--appendonly", "yes", "--appendfsync", "always"}})
	ask(t, p, "SET", "half an hour", "1", "PX", "1800000")
	ask(t, p, "SET", "a day", "1", "PX", "86400000")
	for _, step := range []struct {
		name  string
		do    func() error
		ahead time.Duration
		short string // what the server then has at "half an hour"
		lease time.Duration
	}{
		{"at first", func() error { return nil }, 0, "1", 24 * time.Hour},
		{"a step back", func() error { return p.StepClock(-2 * time.Hour) }, -2 * time.Hour, "1", 26 * time.Hour},
		{"a step ahead", func() error { return p.StepClock(3 * time.Hour) }, time.Hour, "", 23 * time.Hour},
		{"a crash", func() error { return errors.Join(p.Kill(), p.Start()) }, time.Hour, "", 23 * time.Hour},
	} {
		if err := step.do(); err != nil {
			t.Fatalf("%s: %v", step.name, err)
		}
		if got, err := p.wallClock(); err != nil || (got-step.ahead).Abs() > slack {
			t.Errorf("after %s the server's clock is %v ahead (%v), want %v", step.name, got, err, step.ahead)
		}
		if got := ask(t, p, "GET", "half an hour"); got != step.short {
			t.Errorf("after %s a key of half an hour is %q, want %q", step.name, got, step.short)
		}
		left, err := time.ParseDuration(ask(t, p, "PTTL", "a day") + "ms")
		if err != nil || (left-step.lease).Abs() > slack {
			t.Errorf("after %s a key of a day has %v left (%v), want %v", step.name, left, err, step.lease)
		}
	}
}

func TestStepClockNeedsAClock(t *testing.T) {
	if err := launch(t).StepClock(time.Hour); err == nil {
		t.Error("a server without a clock of its own was stepped")
	}
}
