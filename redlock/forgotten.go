package redlock

import (
	"fmt"
	"math"
	"runtime"
	"strings"
	"time"

	kernel "github.com/quorumlock/quorumlock/internal/lease"
)

// forgotten reports whether the lease would be renewed for ever, because nobody can release the lock any
// more. A fixed lease, or a lock with a longest hold, ends by itself, and may have been meant to.
func (l *lease) forgotten() bool {
	return l.hold.Renewal != nil && l.hold.MaxHold == math.MaxInt64 && l.handed.Load() && l.handle.Value() == nil
}

// reclaim gives a forgotten lock back, and tells the hooks.
func (l *lease) reclaim() {
	age := l.locker.clock.Now().Sub(l.began)
	l.gone.Store(true)
	if !l.drop() {
		return
	}
	e := Event{Kind: LockForgotten, Time: time.Now(), Lasted: age, Err: fmt.Errorf(
		"redlock: the lock on %q, acquired at %s, was not released, and the program cannot reach it any more: it was given back; release it, or take it WithoutRenewal if its lease is to end by itself", l.hold.Key, l.caller())}
	if l.locker.hooks.Node != nil {
		l.locker.emit(e)
		return
	}
	l.locker.teller.put(mostNews, func() { l.locker.defaultLog().Node(e) })
}

// drop releases the lock, and waits for nobody. False: the lock was over.
func (l *lease) drop() bool {
	lost, err := l.hold.GiveUp(kernel.Released)
	if err != nil {
		return false
	}
	defer l.locker.board.Keys.Await(-1)
	if lost {
		l.locker.holds.remove(l)
		return false
	}
	l.giveBack(kernel.Released)
	return true
}

// caller is the place outside of this package at which the lock was acquired.
func (l *lease) caller() string {
	const ours = "github.com/quorumlock/quorumlock/redlock."
	depth := 0
	for depth < len(l.from) && l.from[depth] != 0 {
		depth++
	}
	at := "a place that is not known"
	for frames, more := runtime.CallersFrames(l.from[:depth]), depth > 0; more; {
		var f runtime.Frame
		f, more = frames.Next()
		if at = fmt.Sprintf("%s:%d", f.File, f.Line); !strings.HasPrefix(f.Function, ours) || strings.HasSuffix(f.File, "_test.go") {
			break
		}
	}
	return at
}
