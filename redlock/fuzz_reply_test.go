package redlock

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/internal/nodeclock"
	"github.com/quorumlock/quorumlock/internal/protocol"
	"github.com/quorumlock/quorumlock/test/fakenode"
)

// FuzzClockGuard sets a node's clock, and lets it tell anything instead of its time. Under
// the guard the node has no vote where it does not tell its time, nor after a step forward
// that shows, for as long as the longest lease. A step back does no harm.
func FuzzClockGuard(f *testing.F) {
	f.Add([]byte{0, 129, 0, 10, 228, 0, 10, 128, 0, 200, 0, 0, 1, 28, 0})
	f.Add([]byte("0\xff\x0000\x00001x\x9c\x00000000")) // set back and forward, with an idle reading in between
	f.Add([]byte{1, 255, 0, 1, 1, 0, 50, 128, 0, 250, 156, 0, 255, 130, 0})
	for kind := range byte(16) {
		for detail := range byte(8) {
			f.Add([]byte{1, 128, 0, 1, 128 + 8*detail, kind + 1, 1, 128, 0, 110, 128, 0, 1, 128 + detail, kind + 1, 110, 228, 0})
		}
	}
	f.Fuzz(func(t *testing.T, steps []byte) {
		synctest.Test(t, func(t *testing.T) {
			const longest = 10 * time.Second
			odd := liars(1, fakenode.Redis7, false, &witness{}, nil)[0]
			locker := another(t, []*liar{odd}, WithClockGuard(longest))
			mustRelease(t, mustAcquire(t, locker, "k"))
			seen := time.Now()     // when the clock was last told
			var until time.Time    // the node sits out
			var set time.Time      // when the clock was last set forward: an idle Locker may have seen it
			var lied time.Time     // when something else was told
			sure := true           // that nothing was hidden, or told wrongly
			var step time.Duration // since then
			for ; len(steps) >= 3; steps = steps[3:] {
				time.Sleep(time.Duration(steps[0]) * 100 * time.Millisecond)
				by := (time.Duration(steps[1]) - 128) * 20 * time.Millisecond
				step += by
				if by > 0 {
					set = time.Now()
				}
				odd.Change(func(f *fakeNode) { f.Skew += by })
				told, l := steps[2] == 0, lie{steps[2] - 1, steps[1]}
				if !told {
					odd.tells("TIME", lie{l.kind | lieForever, l.detail}) // an idle Locker may hear it, too
					lied = time.Now()
				}
				hides := time.Duration(2*nodeclock.DefaultRate*float64(time.Since(seen))) + time.Millisecond
				readable := func() (ok bool) { // what is made of the time depends on the time
					odd.Change(func(f *fakeNode) { _, ok = protocol.ReadTime(l.about([]any{"TIME"}, f.RunOne([]any{"TIME"}))) })
					return ok
				}
				before := readable()
				lock, err := locker.TryAcquire(t.Context(), "k")
				if after := readable(); !told && (before || after) {
					sure = false
				} else if !told && err == nil {
					t.Errorf("a node that tells %+v instead of its time has a vote", l)
				}
				if !told && by != 0 { // set back before it is read, a step is not seen
					sure = false
				}
				if told && step > hides && sure {
					until = set.Add(longest)
				}
				if told && step <= hides && step > 0 {
					sure = false
				}
				switch quarantined := time.Now().Before(until); {
				case err == nil && quarantined && sure:
					t.Errorf("%v after its clock was set forward a node has a vote", longest-time.Until(until))
				case err != nil && told && sure && time.Now().After(until.Add(longest)) && time.Since(set) > 3*longest:
					t.Errorf("a node whose clock was not set forward of late: TryAcquire = %v", err)
				case err != nil && !errors.Is(err, ErrNoQuorum):
					t.Errorf("TryAcquire = %v, want ErrNoQuorum", err)
				}
				if told {
					seen, step = time.Now(), 0
					sure = sure || time.Since(set) > 3*longest && time.Since(lied) > 3*longest
				}
				if lock != nil {
					mustRelease(t, lock)
				}
				synctest.Wait()
				odd.tells("TIME")
			}
		})
	})
}

// A register knows who holds what, as an onlooker sees it who knows all processes.
type register struct {
	t *testing.T

	mu   sync.Mutex
	held map[*Lock]bool
	last map[string]int64 // the greatest fence that was had, by key
}

func newRegister(t *testing.T) *register {
	return &register{t: t, held: map[*Lock]bool{}, last: map[string]int64{}}
}

// asks is told before a lock on the key is asked for, and returns what its fence must beat.
func (r *register) asks(key string) int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.last[key]
}

// has is told of a lock that was had.
func (r *register) has(lock *Lock, before int64) {
	r.t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	for other := range r.held {
		switch {
		case !other.Valid():
			delete(r.held, other)
		case slices.ContainsFunc(other.Keys(), lock.hold.Has) && lock.Valid() && (!other.Shared() || !lock.Shared()):
			r.t.Errorf("%q is held twice: %v and %v", lock.Key(), other.Votes(), lock.Votes())
		}
	}
	r.held[lock] = true
	if fence := lock.Fence(); fence != 0 && !lock.Shared() {
		if fence <= before {
			r.t.Errorf("%q was had with the fence %d, and before with %d", lock.Key(), fence, before)
		}
		r.last[lock.Key()] = max(r.last[lock.Key()], fence)
	}
}

// gives is told before a lock is released or left to its deadline.
func (r *register) gives(lock *Lock) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.held, lock)
}

// about makes lies those of the first few nodes.
func about(few byte, lies []byte) []byte {
	if few == 0 {
		return nil
	}
	lies = slices.Clone(lies)
	for i := 0; i+2 < len(lies); i += 3 {
		what, who := lies[i]/mostLiars, lies[i]%mostLiars
		lies[i] = what*mostLiars + who%few
	}
	return lies
}

// poisoned reports whether a lie about a clock or a counter has brought the fences of the key
// near their end, where they stay until they have been idle.
func (tr *trial) poisoned() bool {
	for _, n := range tr.nodes {
		if accepted(n.Node) > protocol.MaxFence/2 {
			return true
		}
	}
	return false
}

// FuzzExclusion lets a minority of the nodes answer anything, except that somebody got what
// he did not get: a node that gives one key to two is not to be outvoted. No key has two
// holders, and the fences of its holders grow. As soon as all nodes say the truth again,
// the locks are to be had.
func FuzzExclusion(f *testing.F) {
	for settings := range byte(4) {
		for about := range told[:some(len(told))] {
			f.Add(byte(1), settings, byte(about), []byte{
				byte(about * mostLiars), byte(about) | lieForever, 7, byte(about * mostLiars), byte(about) | lieRuns, 3, byte(about * mostLiars), byte(about+5) | lieRuns, 60,
			})
		}
	}
	f.Fuzz(func(t *testing.T, size, settings, kind byte, lies []byte) {
		synctest.Test(t, func(t *testing.T) {
			few := size % 3
			tr := newTrial(t, 2*few, settings|trialFences, kind, about(few, lies))
			for _, n := range tr.nodes {
				n.fair = true
			}
			theirs := tr.another()
			r := newRegister(t)
			var contenders sync.WaitGroup
			for i, locker := range []*Locker{tr.locker, theirs, tr.locker, theirs, tr.locker} {
				contenders.Go(func() {
					for round := range 4 {
						before := r.asks("k")
						lock := tr.acquire(locker)
						if lock == nil {
							continue
						}
						r.has(lock, before)
						switch (i + round) % 4 {
						case 0:
							time.Sleep(trialTTL / 2)
							_ = lock.Extend(t.Context(), trialTTL) // it may fail
							time.Sleep(trialTTL)
						case 1:
							time.Sleep(time.Second)
						case 2:
							time.Sleep(trialTTL) // it is lost
						}
						r.gives(lock)
						tr.release(lock)
					}
				})
			}
			contenders.Wait()
			for _, n := range tr.nodes {
				n.tellTruth()
			}
			if !tr.poisoned() {
				time.Sleep(2 * trialTTL) // for a quarantine, and leases of which nobody knows
				for _, locker := range []*Locker{tr.locker, theirs} {
					before := r.asks("k")
					if lock := tr.acquire(locker); lock == nil {
						t.Error("all nodes say the truth, and the lock is not to be had")
					} else {
						r.has(lock, before)
						r.gives(lock)
						tr.release(lock)
					}
				}
			}
			tr.end(tr.locker, theirs)
		})
	})
}

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
		tr.options = append(tr.options, WithDurability(Durability{Replicas: 1}))
	case 2:
		w.wait, w.replicas = "WAITAOF", 1
		tr.options = append(tr.options, WithDurability(Durability{Disk: true, Replicas: 1}))
	}
	w.nodes = 1 + int(size)%mostLiars
	server := fakenode.Kind(kind % 4)
	tr.nodes = liars(w.nodes, server, kind/4%2 == 1 && server != fakenode.Redis7, w, lies) // which would give no locks
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
		ripen(tr.t, locker)
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
		if left := lock.hold.Left(); left > trialTTL-22*time.Millisecond {
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
		if err := lock.Release(); err != nil {
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
		tr.bounded("Confirm", 0, func() {
			if _, err := lock.Confirm(tr.t.Context()); err != nil {
				tr.fails("Confirm", err)
			}
		})
		time.Sleep(time.Millisecond)
		tr.bounded("Extend", 0, func() {
			began := time.Now()
			until := lock.hold.Deadline()
			if err := lock.Extend(tr.t.Context(), trialTTL); err != nil {
				tr.fails("Extend", err)
				if lock.hold.Deadline() > until {
					tr.t.Errorf("an Extend that failed has prolonged the lock to %v", lock.hold.Deadline())
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
			tr.locker.board.Renewals.Set(first.hold.Renewal, now)
			tr.locker.board.Renewals.Set(second.hold.Renewal, now)
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
		for detail := range byte(some(20)) { //nolint:gosec // it is small
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

func TestRepliesThatNoServerGivesAreNoVotes(t *testing.T) {
	for command, odd := range map[string][]driver.Reply{
		"SET":     {{Kind: driver.Integer, Int: 1}},
		"EVALSHA": {{}, {Kind: driver.String, Str: "OK"}, {Kind: driver.Integer, Int: 3}},
	} {
		for _, reply := range append(odd, []driver.Reply{
			{Kind: driver.Integer, Int: -1},
			{Kind: driver.Array},
			{Kind: driver.Array, Elems: []driver.Reply{{}}},
			{Kind: driver.Failure},
			{Kind: driver.Failure, Str: "garbage"},
			{Kind: 200},
		}...) {
			bubble(t, fmt.Sprintf("%s, %+v", command, reply), func(t *testing.T) {
				locker, fakes := newLocker(t, 1, WithMaxOutage(0))
				lock := mustAcquire(t, locker, "k")
				fakes[0].Change(func(f *fakeNode) { f.Answer = answering(reply, func(args []any) bool { return args[0] == command }) })
				if command == "SET" {
					returns(t, ErrNoQuorum, "Acquire")(locker.Acquire(t.Context(), "another"))
				} else {
					returns(t, ErrNoQuorum, "Extend")(lock.Extend(t.Context(), time.Minute))
				}
				fakes[0].Change(func(f *fakeNode) { f.Answer = nil })
			})
		}
	}
}
