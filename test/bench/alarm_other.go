//go:build !linux

package main

import "time"

// alarm sleeps as exactly as Go's timers do.
type alarm struct{}

func newAlarm() (*alarm, error) { return &alarm{}, nil }

func (*alarm) sleep(d time.Duration) { time.Sleep(d) }
