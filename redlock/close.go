package redlock

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"reflect"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/quorumlock/quorumlock/driver"
)

// Close ends the contexts of all locks with the cause [ErrClosed], releases them, and ends the Locker's
// goroutines and waits for them. Within the time of [WithCloseTimeout] it waits until a quorum has confirmed
// every release, and until [Hooks] were told of all, unless a hook has called it. It then closes the clients
// that the adapters made themselves, unless another open Locker of this process has the nodes. It takes 1s
// more for a driver or a hook that does not return, and 1s for the clients.
//
// The error matches [ErrNoQuorum] if a quorum did not confirm all releases, and names the keys, which expire by
// their TTL, and their nodes. Further calls return the same.
func (l *Locker) Close() error {
	l.once.Do(func() {
		l.quiet = time.Now().Add(max(l.options.cleanup, lastCalls))
		l.failure = l.shut()
	})
	if calledByHook() {
		return l.failure
	}
	l.hush.Do(func() { l.outcome = errors.Join(l.failure, l.teller.drain(max(time.Until(l.quiet), lastCalls))) })
	return l.outcome
}

// lastCalls is the least time that hooks get to be told of all.
const lastCalls = time.Second

func (l *Locker) shut() error {
	l.board.Close()
	close(l.closing)
	l.board.Renewals.Stop()
	for _, lock := range l.holds.close() {
		lock.quit()
	}
	calm := l.board.Keys.Shut()
	timeout := l.options.timeout(l.options.acquire.ttl)
	defer time.AfterFunc(timeout-timeout/8, l.board.Keys.Hurry).Stop() // what is below takes time, too
	bound := time.NewTimer(l.options.cleanup)
	defer bound.Stop()
	select {
	case <-calm:
	case <-bound.C:
	}
	l.kill()
	l.board.StopCleanups()
	for _, n := range l.board.Nodes {
		n.Close()
		openOn.leave(n.Name())
	}
	if err := l.join(); err != nil {
		for _, n := range l.board.Nodes {
			users.leave(n.Driver) // another Locker may close it
		}
		return errors.Join(err, l.unreleased())
	}
	return errors.Join(append(l.closeDrivers(), l.unreleased())...)
}

// unreleased names the keys whose release no quorum has confirmed.
func (l *Locker) unreleased() error {
	nodes := l.board.Unreleased()
	if len(nodes) == 0 {
		return nil
	}
	err := &closeError{}
	for _, key := range slices.Sorted(maps.Keys(nodes)) {
		err.Keys = append(err.Keys, unreleasedKey{key, nodes[key]})
	}
	return err
}

// joinTime is how long drivers get to return from calls whose context has ended: 20 times their
// contract's 50ms.
const joinTime = time.Second

// join waits for all goroutines.
func (l *Locker) join() error {
	joined := make(chan struct{})
	go func() {
		l.work.join()
		close(joined)
	}()
	timer := time.NewTimer(joinTime)
	defer timer.Stop()
	select {
	case <-joined:
		return nil
	case <-timer.C:
		return fmt.Errorf("redlock: close: a driver did not return within %v of the end of its context, so its client stays open: it breaks the contract of package driver", joinTime)
	}
}

// closeDrivers closes the drivers' own clients, all at once: with a silent node it may take 1s.
func (l *Locker) closeDrivers() []error {
	failures := make([]error, len(l.board.Nodes))
	var group errgroup.Group
	for i, n := range l.board.Nodes {
		n.StopTimers()
		if c := users.leave(n.Driver); c != nil {
			group.Go(func() error {
				if err := c.Close(); err != nil {
					failures[i] = fmt.Errorf("redlock: close node %s: %w", n.Name(), err)
				}
				return nil // the others are closed as well, and each failure is reported
			})
		}
	}
	_ = group.Wait()
	return failures
}

// users counts the open Lockers of each driver that has something to close: several may
// share nodes, and the last one closes them.
var users = driverUsers{of: make(map[driver.Driver]int)}

type driverUsers struct {
	mu sync.Mutex
	of map[driver.Driver]int
}

// enter notes that a Locker uses d.
func (u *driverUsers) enter(d driver.Driver) {
	if _, ok := d.(io.Closer); ok && reflect.ValueOf(d).Comparable() {
		u.mu.Lock()
		u.of[d]++
		u.mu.Unlock()
	}
}

// leave notes that a Locker uses d no more, and returns the driver to close, or nil.
func (u *driverUsers) leave(d driver.Driver) io.Closer {
	c, ok := d.(io.Closer)
	if !ok || !reflect.ValueOf(d).Comparable() {
		return c
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.of[d]--; u.of[d] > 0 {
		return nil
	}
	delete(u.of, d)
	return c
}
