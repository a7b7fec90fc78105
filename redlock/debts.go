package redlock

import (
	"sync"
	"time"
)

// debts are the clean-ups that wait for their next try.
type debts struct {
	lanes   *lanes
	mu      sync.Mutex
	waiting map[*debt]struct{}
	stopped bool
}

type debt struct{ timer *time.Timer }

// add lets try be called after a pause, unless the Locker is closed before.
func (ds *debts) add(pause time.Duration, try func()) {
	ds.mu.Lock()
	defer ds.mu.Unlock()
	if ds.stopped {
		return
	}
	if ds.waiting == nil {
		ds.waiting = make(map[*debt]struct{})
	}
	d := new(debt)
	d.timer = time.AfterFunc(pause, func() {
		if ds.take(d) {
			try()
			ds.lanes.owe(-1)
		}
	})
	ds.waiting[d] = struct{}{}
	ds.lanes.owe(+1)
}

func (ds *debts) take(d *debt) bool {
	ds.mu.Lock()
	defer ds.mu.Unlock()
	_, ok := ds.waiting[d]
	delete(ds.waiting, d)
	return ok
}

// stop lets no more tries begin, and returns how many clean-ups that leaves undone.
func (ds *debts) stop() int {
	ds.mu.Lock()
	defer ds.mu.Unlock()
	ds.stopped = true
	left := len(ds.waiting)
	for d := range ds.waiting {
		d.timer.Stop()
	}
	ds.waiting = nil
	return left
}
