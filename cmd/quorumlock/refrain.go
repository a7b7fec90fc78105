//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package main

import (
	"sync"
	"time"
)

// A refrain decides when what lasts is said again: at once, and then after 1, 2, 4, … minutes, for
// each kind of it. It is safe for concurrent use.
type refrain struct {
	mu    sync.Mutex
	since time.Time // when the first of what lasts was seen
	next  map[string]verse
}

// A verse is when one kind is said next.
type verse struct {
	at    time.Time
	pause time.Duration
}

const firstRefrain = time.Minute

// due reports whether something of this kind, which is seen now, is to be said.
func (f *refrain) due(kind string, now time.Time) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.next == nil {
		f.since, f.next = now, make(map[string]verse)
	}
	v, known := f.next[kind]
	switch {
	case !known:
		v = verse{now, firstRefrain}
	case now.Before(v.at):
		return false
	}
	f.next[kind] = verse{now.Add(v.pause), 2 * v.pause}
	return true
}

// over ends it, and returns for how long something was seen; 0: nothing was.
func (f *refrain) over(now time.Time) (lasted time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.next != nil {
		lasted = now.Sub(f.since)
	}
	f.next = nil
	return lasted
}
