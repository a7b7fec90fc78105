package main

import (
	"fmt"
	"io"
	"slices"
	"sync"
	"time"
)

// A journal has the times of all calls that were made, whatever the window says.
type journal struct {
	mu    sync.Mutex
	calls []time.Time
}

func (j *journal) add(at time.Time) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.calls = append(j.calls, at)
}

// busiest is the number of calls in the second that has the most of them, wherever it
// begins.
func (j *journal) busiest() int {
	j.mu.Lock()
	defer j.mu.Unlock()
	slices.SortFunc(j.calls, time.Time.Compare)
	most, first := 0, 0
	for last, at := range j.calls {
		for at.Sub(j.calls[first]) >= second {
			first++
		}
		most = max(most, last-first+1)
	}
	return most
}

// judge says whether the limit was kept.
func (j *journal) judge(out io.Writer, limit int, noLock bool) error {
	busiest := j.busiest()
	switch {
	case busiest > limit && !noLock:
		return fmt.Errorf("%d calls were made in one second, where %d are allowed: the lock has let two in at once", busiest, limit)
	case busiest <= limit && noLock:
		return fmt.Errorf("%d calls were made in the busiest second, where %d are allowed: by luck, or for want of others at the same time, there were not too many", busiest, limit)
	case noLock:
		_, _ = fmt.Fprintf(out, "They made %d calls, and %d in the busiest second: %d too many.\n", len(j.calls), busiest, busiest-limit)
	default:
		_, _ = fmt.Fprintf(out, "They made %d calls, and %d in the busiest second: the limit was kept.\n", len(j.calls), busiest)
	}
	return nil
}
