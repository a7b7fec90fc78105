package note

import (
	"context"
	"time"

	"github.com/quorumlock/quorumlock/test/integration/fault/history"
)

const (
	heartbeat = 10 * time.Millisecond
	late      = 15 * time.Millisecond // more than a lease of a second allows a clock's reading to be in doubt
)

// Beat tells when this process does not get to run in time, because it is stopped or the
// machine has too much else to do, until ctx ends.
func Beat(ctx context.Context, tell func(starved history.Span)) {
	ticker := time.NewTicker(heartbeat)
	defer ticker.Stop()
	for last := Now(); ; {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		now := Now()
		if time.Duration(now-last) > heartbeat+late {
			tell(history.Span{From: last, To: now})
		}
		last = now
	}
}
