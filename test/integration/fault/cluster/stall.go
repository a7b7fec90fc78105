package cluster

import (
	"errors"
	"sync"
	"time"

	"github.com/quorumlock/quorumlock/test/integration/proxy"
)

// A node may take 250 ms to answer.
const (
	stalled = 400 * time.Millisecond // how long one stall lasts: longer than that
	slowed  = 200 * time.Millisecond // four fifths of it: answers are late, and in time
	between = 40 * time.Millisecond  // those, for the node to answer all that has come
)

func stallNode(h *harmed) (func() error, error) {
	return h.stall(stalled, h.fault.Amount, h.watch(), h.server.Pause, h.server.Continue)
}

func slow(h *harmed) (func() error, error) {
	return h.stall(slowed, between, h.watchVotes(), h.server.Pause, h.server.Continue)
}

// stall stalls the node again and again until the fault ends, with pauses.
func (h *harmed) stall(lasts, pause time.Duration, unwatch func(), stop, goOn func() error) (func() error, error) {
	var (
		ended   = make(chan struct{})
		err     = stop() // before anybody can look
		running sync.WaitGroup
	)
	running.Go(func() {
		for err == nil {
			over := sleep(lasts, ended)
			if err = goOn(); over || sleep(pause, ended) {
				return
			}
			err = errors.Join(err, stop())
		}
	})
	return func() error {
		close(ended)
		running.Wait()
		unwatch()
		return err
	}, nil
}

// sleep reports whether it has ended early.
func sleep(d time.Duration, ended <-chan struct{}) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ended:
		return true
	case <-timer.C:
		return false
	}
}

func stallLinks(h *harmed) (func() error, error) {
	var mend func() error
	return h.stall(stalled, h.fault.Amount, h.watch(),
		func() (err error) { mend, err = h.cut(proxy.Both); return err },
		func() error { return mend() },
	)
}
