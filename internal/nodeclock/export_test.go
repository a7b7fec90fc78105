package nodeclock

import (
	"time"

	"github.com/quorumlock/quorumlock/clockdrift"
)

// Width is High - Low, or the longest Duration if that is out of range.
func (b Bounds) Width() time.Duration { return sub(b.High, b.Low) }

// Span is over what time drift is told.
func (e *Estimator) Span() (first, last clockdrift.Instant, ok bool) { return e.span() }
