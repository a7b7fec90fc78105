package redlock

import (
	"log/slog"
	"sync"
)

// maxOpen is how many Lockers of a process may be open on one node before the log says so.
const maxOpen = 64

// openOn counts the open Lockers of each node in this process, by its name.
var openOn = openLockers{of: make(map[string]int)}

type openLockers struct {
	mu   sync.Mutex
	of   map[string]int
	told bool
}

// enter notes that a Locker is open on a node. If too many are, enter tells the default log, once in the
// life of the process: programs with a Locker for each request have no hooks for it.
func (o *openLockers) enter(node string) {
	o.mu.Lock()
	o.of[node]++
	tells := o.of[node] > maxOpen && !o.told
	o.told = o.told || tells
	o.mu.Unlock()
	if tells {
		slog.Default().Warn("redlock: many Lockers are open on one node: make one and share it, or close each, or connections stay open", "node", node, "open", maxOpen+1)
	}
}

// leave notes that a Locker is closed.
func (o *openLockers) leave(node string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.of[node]--; o.of[node] == 0 {
		delete(o.of, node)
	}
}
