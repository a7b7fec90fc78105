package clockdrift

// Span is over what time drift is told.
func (e *Estimator) Span() (first, last Instant, ok bool) { return e.span() }
