package redlock

import (
	"fmt"
	"strings"
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

type debt struct {
	key, node string
	timer     *time.Timer
}

// add lets try be called after a pause, unless the Locker is closed before.
func (ds *debts) add(pause time.Duration, key, node string, try func()) {
	ds.mu.Lock()
	defer ds.mu.Unlock()
	if ds.stopped {
		return
	}
	if ds.waiting == nil {
		ds.waiting = make(map[*debt]struct{})
	}
	d := &debt{key: key, node: node}
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

// stop lets no more tries begin. The error says which clean-ups that leaves undone.
func (ds *debts) stop() error {
	ds.mu.Lock()
	defer ds.mu.Unlock()
	ds.stopped = true
	if len(ds.waiting) == 0 {
		return nil
	}
	const most = 3
	var some []string
	for d := range ds.waiting {
		d.timer.Stop()
		if len(some) < most {
			some = append(some, fmt.Sprintf("%q at %s", d.key, d.node))
		}
	}
	if more := len(ds.waiting) - len(some); more > 0 {
		some = append(some, fmt.Sprintf("and %d more", more))
	}
	ds.waiting = nil
	return fmt.Errorf("redlock: close: nobody can say whether these keys are free: %s; they go away by themselves, one TTL after their nodes answer again at the latest", strings.Join(some, ", "))
}
