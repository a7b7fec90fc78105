package redigo

import "time"

// Connections are kept because asking the pool costs a goroutine: it may block. A call does
// not read the clock for that: it marks the connection as used, and a sweep returns to the
// pool what was not used since the sweep before.

// keep keeps c for the next call, unless the pool should have it.
func (d *adapter) keep(c *conn) bool {
	if d.keeps == 0 || c.Err() != nil || d.exhausted() {
		return false
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.kept) == d.keeps || d.sweeps-c.born >= d.maxSweeps {
		return false
	}
	c.used = true
	d.kept = append(d.kept, c)
	d.setSweep()
	return true
}

// exhausted reports whether the application may be waiting for a connection.
func (d *adapter) exhausted() bool {
	if d.pool.MaxActive <= 0 {
		return false
	}
	stats := d.pool.Stats()
	return stats.ActiveCount-stats.IdleCount >= d.pool.MaxActive
}

// setSweep is called with the mutex held.
func (d *adapter) setSweep() {
	if !d.sweeping && len(d.kept) > 0 {
		d.sweeping = true
		time.AfterFunc(sweepTime, d.sweep)
	}
}

func (d *adapter) sweep() {
	var idle []*conn
	d.mu.Lock()
	d.sweeps++
	busy := d.kept[:0]
	for _, c := range d.kept {
		if c.used {
			c.used = false
			busy = append(busy, c)
		} else {
			idle = append(idle, c)
		}
	}
	clear(d.kept[len(busy):])
	d.kept = busy
	d.sweeping = false
	d.setSweep()
	d.mu.Unlock()
	giveBack(idle)
}

// drop takes all that is kept away.
func (d *adapter) drop() []*conn {
	d.mu.Lock()
	defer d.mu.Unlock()
	kept := d.kept
	d.kept = nil
	return kept
}

func giveBack(idle []*conn) {
	for _, c := range idle {
		_ = c.Close()
	}
}
