package goredis

// Rested reports whether all connections to the driver's one server have been idle for so
// long that a batch looks at one before it goes out on it.
func Rested(d *Driver) bool {
	s := d.to.(*server)
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, w := range s.wires {
		if w.ctx != nil || w.since.IsZero() {
			return false
		}
	}
	return true
}
