package main

import (
	"context"
	"runtime"
	"time"
)

// census counts goroutines, so that those that a session leaves behind are seen.
type census int

// takeCensus counts before the session is opened.
func takeCensus() census { return census(runtime.NumGoroutine()) }

// note puts among the values how many there are more than before, once those that are
// about to end have had a second. The fault, if any, still lasts: the goroutines that
// watch over the servers that are down do not count.
func (before census) note(ctx context.Context, f Fault, values map[string]float64) error {
	const most, every = time.Second, 5 * time.Millisecond
	for deadline := time.Now().Add(most); ; {
		more := runtime.NumGoroutine() - (int(before) - f.down)
		values["goroutines"] = float64(max(0, more))
		if more <= 0 || time.Now().After(deadline) {
			return nil
		}
		if err := pause(ctx, every); err != nil {
			return err
		}
	}
}
