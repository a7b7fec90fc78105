package worker

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quorumlock/quorumlock/test/integration/fault/note"
)

// Rushed is the key that a rush is for.
const Rushed = "rushed"

const (
	triesEach   = time.Millisecond
	triesAtOnce = 2
	triesMost   = 4096 // that are under way
)

// rush has a process try for one key again and again, however long the answers take, and
// hold it most of the time if hold. What it returns ends that, and notes how many tries there
// were.
func rush(ctx context.Context, employ func(id int) *worker, hold bool) (end func()) {
	ctx, stop := context.WithCancel(ctx)
	first := employ(0).job.Workers // those before are at work
	var (
		running sync.WaitGroup
		count   atomic.Int64
		idle    = make(chan *worker, triesMost)
	)
	if hold {
		w := employ(first)
		running.Go(func() { w.hold(ctx) })
	}
	for i := range triesMost {
		idle <- employ(first + 1 + i)
	}
	running.Go(func() {
		ticker := time.NewTicker(triesEach)
		defer ticker.Stop()
		for ctx.Err() == nil {
			for range triesAtOnce {
				select {
				case w := <-idle:
					running.Go(func() {
						count.Add(1)
						w.try(ctx)
						idle <- w
					})
				default:
				}
			}
			select {
			case <-ticker.C:
			case <-ctx.Done():
			}
		}
	})
	return func() {
		stop()
		running.Wait()
		employ(first).pen.Tried(count.Load())
	}
}

// hold has the key most of the time.
func (w *worker) hold(ctx context.Context) {
	for ctx.Err() == nil {
		w.pen.Asked(w.id, Rushed, note.Hasty)
		lock, err := w.locks.acquire(ctx, Rushed, renew)
		if err != nil {
			w.pen.Failed(w.id, name(err))
			rest(ctx, 10*time.Millisecond)
			continue
		}
		w.pen.Had(w.id, note.At(lock.Until()), lock.Fence())
		w.stay(ctx, Rushed, lock)
		w.release(ctx, lock)
	}
}

// try asks for the key once, and releases it if it has got it. Only then it makes notes.
func (w *worker) try(ctx context.Context) {
	asked := note.Now()
	lock, err := w.locks.acquire(ctx, Rushed, try)
	if err != nil {
		return
	}
	w.pen.AskedAt(asked, w.id, Rushed, note.Hasty)
	w.pen.Had(w.id, note.At(lock.Until()), lock.Fence())
	w.release(ctx, lock)
}
