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
	last map[string]Marks
}

// Admit returns nil, and remembers the number, if none greater was admitted for the
// resource before, and no reader's as great. The errors are those of [Write].
//
// Admit does not hold others up: call it under the mutex under which the resource is
// written, or a later holder comes and writes between Admit and the write.
func (g *Guard) Admit(resource string, fence int64) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.admit(resource, fence, Write)
}

// AdmitRead does the same for the number of a reader: see [Read]. Call it under the mutex under
// which the resource is read.
func (g *Guard) AdmitRead(resource string, fence int64) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.admit(resource, fence, Read)
}

// admit remembers the marks that are behind a read or a write. g.mu is held.
func (g *Guard) admit(resource string, fence int64, as func(Marks, int64) (Marks, error)) error {
	m, err := as(g.last[resource], fence)
	if err != nil {
		return err
	}
	if g.last == nil {
		g.last = make(map[string]Marks)
	}
	g.last[resource] = m
	return nil
}

// Forget drops what is known of a resource that is gone. For one that is still written,
// it would let the latest of the late ones in.
func (g *Guard) Forget(resource string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.last, resource)
}
