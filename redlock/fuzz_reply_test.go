package redlock

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// A trial is one life of a Locker among liars.
type trial struct {
	t       *testing.T
	witness *witness
	nodes   []*liar
	options []Option
	locker  *Locker
}

const (
	trialTTL   = 2 * time.Second
	trialWait  = 3 * time.Second
	trialBound = 8 * time.Second // what one call may take at most, beyond its wait
)

// Bits of what a trial's Locker is asked for; the rest says how votes are proved.
const (
	trialFences = 1 << iota
	trialGuard
	trialClockGuard
	trialProofs // of three kinds
)

func newTrial(t *testing.T, size, settings, kind byte, lies []byte) *trial {
	w := &witness{}
	tr := &trial{t: t, witness: w, options: []Option{WithTTL(trialTTL)}}
	if settings&trialFences != 0 {
		w.fences = true
		tr.options = append(tr.options, WithFences())
	}
	if settings&trialGuard != 0 {
		w.guard = trialTTL
		tr.options = append(tr.options, WithRestartGuard(trialTTL))
	}
	if settings&trialClockGuard != 0 {
		w.clockGuard = true
		tr.options = append(tr.options, WithClockGuard(trialTTL))
	}
	switch settings / trialProofs % 3 {
	case 1:
		w.wait, w.replicas = "WAIT", 1
		tr.options = append(tr.options, WithReplicatedVotes(1))
	case 2:
		w.wait, w.replicas = "WAITAOF", 1
		tr.options = append(tr.options, WithDurableVotes(1))
	}
	w.nodes = 1 + int(size)%mostLiars
	tr.nodes = liars(w.nodes, fakeKind(kind%5), kind/5%2 == 1, w, lies)
	tr.locker = tr.another()
	return tr
}

// another returns one more Locker, as another process has.
func (tr *trial) another() *Locker {
	tr.t.Helper()
	locker, err := New(driversOf(tr.nodes), tr.options...)
	if err != nil {
		tr.t.Fatalf("New = %v", err)
	}
	if tr.witness.guard > 0 {
		tr.bounded("AdmitNewNodes", 0, func() { _ = locker.AdmitNewNodes(tr.t.Context()) }) // a node may not say what it is
	}
	return locker
}

// bounded fails the test if a call takes longer than its wait and a while.
func (tr *trial) bounded(what string, wait time.Duration, call func()) {
	tr.t.Helper()
	began := time.Now()
	call()
	if took := time.Since(began); took > wait+trialBound {
		tr.t.Errorf("%s took %v, want at most %v", what, took, wait+trialBound)
	}
}

// fails fails the test if an error is none that says what to do.
func (tr *trial) fails(what string, err error) {
	tr.t.Helper()
	for _, sentinel := range []error{ErrTaken, ErrContended, ErrNoQuorum, ErrExpired, ErrLost, ErrReleased, ErrFence, ErrNode, ErrClosed} {
		if errors.Is(err, sentinel) && err.Error() != "" {
			return
		}
	}
	tr.t.Errorf("%s = %v, want an error that says what to do", what, err)
}

// acquire takes the lock, or returns nil.
func (tr *trial) acquire(locker *Locker, options ...AcquireOption) (lock *Lock) {
	tr.t.Helper()
	tr.bounded("Acquire", trialWait, func() {
		began := time.Now()
		var err error
		lock, err = locker.Acquire(tr.t.Context(), "k", append(options, WithMaxWait(trialWait))...)
		if err != nil {
			tr.fails("Acquire", err)
			return
		}
		tr.witness.confirmsLock(tr.t, lock, began)
		if left := lock.left(); left > trialTTL-22*time.Millisecond {
			tr.t.Errorf("a lock of %v is valid for %v", trialTTL, left)
		}
	})
	return lock
}

func (tr *trial) release(lock *Lock) {
	tr.t.Helper()
	if lock == nil {
		return
	}
	tr.bounded("Release", 0, func() {
		if err := lock.Release(tr.t.Context()); err != nil {
			tr.fails("Release", err)
		}
	})
	if lock.Valid() {
		tr.t.Error("a lock is valid after its release")
	}
}

// end closes the Lockers. Nothing may go on after that.
func (tr *trial) end(lockers ...*Locker) {
	tr.t.Helper()
	for _, locker := range lockers {
		tr.bounded("Close", 0, func() { _ = locker.Close() }) // it says what could not be released
	}
	for _, n := range tr.nodes {
		n.forbid()
	}
	time.Sleep(10 * trialTTL)
	for _, n := range tr.nodes {
		n.check(tr.t)
	}
}

// The lives that are tried.
var trials = []func(tr *trial){
	func(tr *trial) { // hold, extend, release
		lock := tr.acquire(tr.locker)
		if lock == nil {
			return
		}
		tr.bounded("Held", 0, func() {
			if _, err := lock.Held(tr.t.Context()); err != nil {
				tr.fails("Held", err)
			}
		})
		time.Sleep(time.Millisecond)
		tr.bounded("Extend", 0, func() {
			began := time.Now()
			until := lock.until
			if err := lock.Extend(tr.t.Context(), trialTTL); err != nil {
				tr.fails("Extend", err)
				if lock.until > until {
					tr.t.Errorf("an Extend that failed has prolonged the lock to %v", lock.until)
				}
				return
			}
			tr.witness.confirmsLease(tr.t, lock, began)
		})
		tr.release(lock)
	},
	func(tr *trial) { // renewal
		lock := tr.acquire(tr.locker, WithRenewal())
		if lock == nil {
			return
		}
		for range 4 {
			time.Sleep(trialTTL)
			if lock.Valid() {
				tr.witness.confirmsLease(tr.t, lock, time.Now().Add(-trialTTL))
			}
		}
		tr.release(lock)
	},
	func(tr *trial) { // waiting, and a hand-over in this process
		tr.crowd(tr.locker, tr.locker)
	},
	func(tr *trial) { // and in another one
		theirs := tr.another()
		tr.crowd(tr.locker, theirs)
		tr.bounded("Close", 0, func() { _ = theirs.Close() })
	},
	func(tr *trial) { // a token of the user's own, and its retry
		first := tr.acquire(tr.locker, WithToken("own"))
		second := tr.acquire(tr.locker, WithToken("own"))
		time.Sleep(time.Millisecond)
		held, now := first != nil && first.Valid(), time.Now()
		tr.release(first)
		tr.release(second)
		spent := held && time.Since(now) < trialTTL // a lock that was lost is not released
		if lock, err := tr.locker.TryAcquire(tr.t.Context(), "k", WithToken("own")); spent && !errors.Is(err, ErrReleased) {
			tr.t.Errorf("a token that was released just now: TryAcquire = %v, %v, want ErrReleased", lock, err)
		}
	},
	func(tr *trial) { // a function
		tr.bounded("Do", trialWait+3*trialTTL, func() {
			err := tr.locker.Do(tr.t.Context(), "k", func(ctx context.Context) error {
				tr.witness.confirmsLock(tr.t, FromContext(ctx), time.Now().Add(-trialWait-trialBound))
				select {
				case <-ctx.Done():
				case <-time.After(3 * trialTTL):
				}
				return nil
			}, WithMaxWait(trialWait))
			if err != nil {
				tr.fails("Do", err)
			}
		})
	},
	func(tr *trial) { // leases that share a command
		first := tr.acquire(tr.locker, WithRenewal())
		second, _ := tr.locker.TryAcquire(tr.t.Context(), "k2", WithRenewal())
		if first == nil || second == nil {
			tr.release(first)
			tr.release(second)
			return
		}
		for range 4 {
			now := tr.locker.clock.Now()
			tr.locker.renewals.set(first.renewal, now)
			tr.locker.renewals.set(second.renewal, now)
			time.Sleep(trialTTL / 2)
			for _, lock := range []*Lock{first, second} {
				if lock.Valid() {
					tr.witness.confirmsLease(tr.t, lock, time.Now().Add(-trialTTL))
				}
			}
		}
		tr.release(first)
		tr.release(second)
	},
}

// crowd lets some wait for a lock and pass it on.
func (tr *trial) crowd(ours, theirs *Locker) {
	first := tr.acquire(ours)
	done := make(chan struct{})
	const waiters = 4
	for i := range waiters {
		locker := ours
		if i%2 == 1 {
			locker = theirs
		}
		go func() {
			lock := tr.acquire(locker)
			time.Sleep(20 * time.Millisecond)
			tr.release(lock)
			done <- struct{}{}
		}()
	}
	time.Sleep(100 * time.Millisecond)
	tr.release(first)
	for range waiters {
		<-done
	}
}

// FuzzReplies lets nodes answer anything to anything. No lock counts as had that a quorum
// has not given, no call hangs, no error is without a meaning, and Close ends it all.
func FuzzReplies(f *testing.F) {
	for kind := range byte(10) { // the truth, to every life with every kind of server
		for life := range trials {
			f.Add(byte(2), kind, kind, byte(life), []byte{})
		}
	}
	for about := range told { // every lie, once and for ever, at one node of three and at two
		for detail := range byte(20) {
			about := byte(about * mostLiars)
			f.Add(byte(2), detail, about+detail, about/5+detail, []byte{
				about, detail, 7 * detail, about, detail | lieRuns, detail, about + 1, detail | lieRuns | lieForever, 5 * detail,
			})
		}
	}
	for get := range byte(6) { // the first replies to GET are true
		lies := []byte{}
		for range get {
			lies = append(lies, 2*mostLiars, 15|lieRuns, 0)
		}
		for settings := range byte(2) {
			f.Add(byte(2), settings, byte(5), byte(0), append(lies, 2*mostLiars, 1|lieForever, 1))
			f.Add(byte(2), settings, byte(6), byte(4), append(lies, 2*mostLiars, 1|lieForever, 3))
		}
	}
	f.Fuzz(func(t *testing.T, size, settings, kind, life byte, lies []byte) {
		synctest.Test(t, func(t *testing.T) {
			tr := newTrial(t, size, settings, kind, lies)
			trials[int(life)%len(trials)](tr)
			tr.end(tr.locker)
		})
	})
}
