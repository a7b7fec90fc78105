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
	left    []*debt // when it was stopped, or later
}

type debt struct {
	key, node string
	timer     *time.Timer
}

// add lets try be called after a pause, unless the Locker is closed before.
func (ds *debts) add(pause time.Duration, key, node string, try func()) {
	ds.mu.Lock()
	defer ds.mu.Unlock()
	d := &debt{key: key, node: node}
	if ds.stopped {
		ds.left = append(ds.left, d)
		return
	}
	if ds.waiting == nil {
		ds.waiting = make(map[*debt]struct{})
	}
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

// stop lets no more tries begin.
func (ds *debts) stop() {
	ds.mu.Lock()
	defer ds.mu.Unlock()
	ds.stopped = true
	for d := range ds.waiting {
		d.timer.Stop()
		ds.left = append(ds.left, d)
	}
	ds.waiting = nil
}

// undone says which clean-ups were left undone.
func (ds *debts) undone() error {
	ds.mu.Lock()
	defer ds.mu.Unlock()
	if len(ds.left) == 0 {
		return nil
	}
	const most = 3
	var some []string
	for _, d := range ds.left[:min(most, len(ds.left))] {
		some = append(some, fmt.Sprintf("%q at %s", d.key, d.node))
	}
	if more := len(ds.left) - len(some); more > 0 {
		some = append(some, fmt.Sprintf("and %d more", more))
	}
	return fmt.Errorf("redlock: close: nobody can say whether these keys are free: %s; they go away by themselves, one TTL after their nodes answer again at the latest", strings.Join(some, ", "))
}
