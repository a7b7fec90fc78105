//go:build darwin || freebsd || netbsd || openbsd || dragonfly

package supervise

import "time"

// An alarm rings at a moment, or late by the length of a sleep of the machine.
type alarm struct {
	timer *time.Timer
	rings <-chan time.Time
}

func newAlarm() (*alarm, error) {
	timer := time.NewTimer(time.Hour)
	timer.Stop()
	return &alarm{timer, timer.C}, nil
}

// set lets it ring at a moment, and not at the one before; 0: never.
func (a *alarm) set(at time.Duration) {
	a.timer.Stop()
	if at != 0 {
		a.timer.Reset(at - now())
	}
}
