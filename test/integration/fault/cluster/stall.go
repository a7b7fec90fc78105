package cluster

import (
	"errors"
	"sync"
	"time"

	"github.com/quorumlock/quorumlock/test/integration/proxy"
)

// stalled is how long one stall lasts: longer than a node may take to answer.
const stalled = 400 * time.Millisecond

// stall stalls the node until the fault ends, with pauses of the fault's amount.
func (h *harmed) stall(stop, goOn func() error) (func() error, error) {
	var (
		ended   = make(chan struct{})
		err     error
		running sync.WaitGroup
	)
	unwatch := h.watch()
	running.Go(func() {
		for err == nil {
			err = stop()
			over := sleep(stalled, ended)
			err = errors.Join(err, goOn())
			if over || sleep(h.fault.Amount, ended) {
				return
			}
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
	return h.stall(
		func() (err error) { mend, err = h.cut(proxy.Both); return err },
		func() error { return mend() },
	)
}
