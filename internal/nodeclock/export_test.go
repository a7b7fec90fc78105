package nodeclock

import "github.com/quorumlock/quorumlock/clockdrift"

// Span is over what time drift is told.
func (e *Estimator) Span() (first, last clockdrift.Instant, ok bool) { return e.span() }
