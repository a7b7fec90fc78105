package fence

import "sync"

// A Guard remembers the greatest number for each resource, in memory: for a service that
// is one process, and whose state dies with it. Where the state outlives the process the
// number has to as well: keep it beside the state, and use [Check]. Nothing is dropped by
// itself: a Guard grows with the number of resources.
//
// The zero value is ready. All methods may be called from any goroutine.
type Guard struct {
	mu   sync.Mutex
	last map[string]int64
}

// Admit returns nil, and remembers the number, if none greater was admitted for the
// resource before. The errors are those of [Check].
//
// Admit does not hold others up: call it under the mutex under which the resource is
// written, or a later holder comes and writes between Admit and the write.
func (g *Guard) Admit(resource string, fence int64) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if err := Check(g.last[resource], fence); err != nil {
		return err
	}
	if g.last == nil {
		g.last = make(map[string]int64)
	}
	g.last[resource] = fence
	return nil
}

// Forget drops what is known of a resource that is gone. For one that is still written,
// it would let the latest of the late ones in.
func (g *Guard) Forget(resource string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.last, resource)
}
