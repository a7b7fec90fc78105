// Payments charges orders that a queue delivers to two workers at once, for it would rather deliver
// twice than never. Some workers die in the middle of it.
//
//	go run ./payments
//
// The lock lets one worker at a time look and charge. When its holder dies, nobody renews the lease,
// and once that has ended the other worker has the lock. A lock does not remember how far its last
// holder got: the record in the shop's database does, which is written before the charge. A worker
// who finds one that is not marked as paid asks the bank before it charges again.
//
// Neither stops a worker that was frozen in the wrong moment, for longer than its lease, from sending
// one late charge. Only the bank can refuse that: if it takes an idempotency key, send the order's id.
package main

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/quorumlock/quorumlock/examples/internal/program"
	"github.com/quorumlock/quorumlock/redlock"
)

func main() { program.Main(run) }

// charge charges an order under a lock, unless that is done already. The lease is renewed while the
// worker lives, however long the charge takes.
func (w *worker) charge(ctx context.Context, o *order) error {
	began := time.Now()
	return w.locker.Do(ctx, "payments:"+o.id, func(ctx context.Context) error {
		w.say("gets the lock after %v", time.Since(began).Round(10*time.Millisecond))
		return w.settle(ctx, o)
	})
}

// settle is for one worker at a time: another one would find the order unpaid until its end.
func (w *worker) settle(ctx context.Context, o *order) error {
	switch record := o.record.Load(); {
	case record == paid:
		w.say("finds it paid, and has nothing to do")
		return nil
	case record == begun && o.charges.Load() > 0: // somebody died, and how far he got is known at the bank
		w.say("finds its charge begun, and the bank has it")
		o.record.Store(paid)
		return nil
	case record == begun:
		w.say("finds its charge begun, but the bank has none: charges it")
	default:
		w.say("finds it unpaid: charges it")
		o.record.Store(begun)
	}
	w.reach(o, "before the charge")
	if err := program.Sleep(ctx, transfer); err != nil {
		return err
	}
	o.charges.Add(1)
	w.reach(o, "after the charge")
	o.record.Store(paid)
	w.say("has charged it")
	return nil
}

const (
	lease    = 2 * time.Second        // how long an order waits after its worker has died
	transfer = 300 * time.Millisecond // how long a charge is on its way
)

// What an order's record says. Without one nothing was begun.
const (
	begun = iota + 1 // the charge may have been made, or not
	paid
)

// An order has its record in the shop's database, and the charges that the bank has for it.
type order struct {
	id              string
	record, charges atomic.Int32

	fatal string // the moment that the first worker who comes to it does not survive
	died  atomic.Bool
}

// A worker has a Locker of its own, as on a machine of its own.
type worker struct {
	program.Stage
	name   string
	locker *redlock.Locker
	die    func()
}

// reach says that the worker has come to a moment, which may be its last: nothing of what follows in
// its code happens, and its lease is neither renewed nor given back.
func (w *worker) reach(o *order, moment string) {
	if o.fatal == moment && o.died.CompareAndSwap(false, true) {
		w.say("dies %s: its lease runs on for up to %v", moment, lease)
		w.die()
		runtime.Goexit()
	}
}

func (w *worker) say(format string, args ...any) { w.Printf("  "+w.name+" "+format, args...) }

func run(ctx context.Context, s program.Stage) error {
	unlocked, locked := (*worker).settle, (*worker).charge
	return errors.Join(
		deliver(ctx, s, "without a lock", unlocked, &order{id: "A"}),
		deliver(ctx, s, "under a lock", locked, &order{id: "B"}),
		deliver(ctx, s, "under a lock, and the first dies before the charge", locked, &order{id: "C", fatal: "before the charge"}),
		deliver(ctx, s, "under a lock, and the first dies after the charge", locked, &order{id: "D", fatal: "after the charge"}),
	)
}

// outcome is what it means that an order has so many charges at the end.
var outcome = []string{"not at all", "once", "twice: the customer has paid too much"}

// deliver gives an order to two workers at once.
func deliver(ctx context.Context, s program.Stage, how string, handle func(*worker, context.Context, *order) error, o *order) error {
	s.Printf("A queue delivers order %s to two workers, %s:", o.id, how)
	err := program.Together(2, func(i int) error {
		locker, die, err := s.OpenMortal(redlock.WithTTL(lease), redlock.WithNodeTimeout(lease/4))
		if err != nil {
			return err
		}
		defer func() { _ = locker.Close() }() // of a dead worker it fails
		return handle(&worker{s, fmt.Sprintf("worker %d", i+1), locker, die}, ctx, o)
	})
	s.Printf("  order %s was charged %s", o.id, outcome[o.charges.Load()])
	return err
}
