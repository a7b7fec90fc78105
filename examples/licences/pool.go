package main

import (
	"fmt"
	"io"
	"sync"
)

// A pool is the licences, and who uses them. It lets everybody use any of them, and counts the
// faults.
type pool struct {
	mu     sync.Mutex
	users  []int // by licence, of this moment
	jobs   int
	shared int // jobs that began with a licence which another one used
}

func newPool(licences int) *pool { return &pool{users: make([]int, licences)} }

func (p *pool) size() int { return len(p.users) }

// look returns a licence that nobody uses, if there is one.
func (p *pool) look() (licence int, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for licence, users := range p.users {
		if users == 0 {
			return licence, true
		}
	}
	return 0, false
}

// use notes that a job begins with the licence.
func (p *pool) use(licence int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.jobs++
	if p.users[licence]++; p.users[licence] > 1 {
		p.shared++
	}
}

// leave notes that it is done.
func (p *pool) leave(licence int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.users[licence]--
}

// judge says whether each licence was used by one at a time.
func (p *pool) judge(out io.Writer, noSemaphore bool) error {
	switch {
	case p.shared > 0 && !noSemaphore:
		return fmt.Errorf("%d of %d jobs shared a licence: the semaphore has given one slot twice", p.shared, p.jobs)
	case p.shared == 0 && noSemaphore:
		return fmt.Errorf("none of %d jobs shared a licence: by luck, or for want of others at the same time", p.jobs)
	case noSemaphore:
		_, _ = fmt.Fprintf(out, "They did %d jobs, and %d of them began with a licence that was in use.\n", p.jobs, p.shared)
	default:
		_, _ = fmt.Fprintf(out, "They did %d jobs, each with a licence of its own.\n", p.jobs)
	}
	return nil
}
