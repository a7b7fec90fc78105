package main

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/quorumlock/quorumlock/redlock"
)

const (
	// lease is how long an order waits after its worker has died. While a worker
	// lives its lease is renewed, however long a charge takes.
	lease = 2 * time.Second
	// patience is how long a worker waits for the other one: far longer than a lease.
	patience = 30 * time.Second
)

// A worker charges orders. Each has a Locker of its own, as on a machine of its own.
type worker struct {
	*shop
	name   string
	doom   *doom
	dead   atomic.Bool
	locker *redlock.Locker
}

func (s *shop) hire(name string, d *doom) (*worker, error) {
	list, err := s.connect()
	if err != nil {
		return nil, err
	}
	w := &worker{shop: s, name: name, doom: d}
	for i := range list {
		list[i].Driver = cable{list[i].Driver, &w.dead}
	}
	w.locker, err = redlock.New(list,
		redlock.WithTTL(lease),
		redlock.WithNodeTimeout(lease/4), // nodes and workers share a machine that may be busy
		redlock.WithCloseTimeout(100*time.Millisecond),
	)
	return w, err
}

// leave is called when both workers have ended. A dead one fails to give back what
// it had, as is the way of the dead.
func (w *worker) leave() { _ = w.locker.Close() }

// handle charges an order, unless that is done already.
func (w *worker) handle(ctx context.Context, order string) error {
	if w.noLock {
		return w.settle(ctx, order)
	}
	began := time.Now()
	return w.locker.Do(ctx, "payments:"+order, func(ctx context.Context) error {
		w.say(order, fmt.Sprintf("has the lock after %v", time.Since(began).Round(time.Millisecond)))
		return w.settle(ctx, order)
	}, redlock.WithMaxWait(patience))
}

// settle is for one worker at a time: another one would find the order unpaid until
// its end.
func (w *worker) settle(ctx context.Context, order string) error {
	switch w.ledger.look(order) {
	case paid:
		w.say(order, "finds it paid, and has nothing to do")
		return nil
	case begun:
		// Somebody died over it. How far he got is not known here, but at the bank.
		if w.bank.statement(order) > 0 {
			w.say(order, "finds its charge begun, and the bank has it: notes that it is paid")
			w.ledger.note(order, paid)
			return nil
		}
		w.say(order, "finds its charge begun, but the bank has none: charges it")
	case unknown:
		w.say(order, "finds it unpaid: charges it")
		if !w.noRecord {
			w.ledger.note(order, begun)
		}
	}
	w.reach(order, beforeTheCharge)
	if err := w.bank.charge(ctx, order); err != nil {
		return fmt.Errorf("%s, %s: %w", w.name, order, err)
	}
	w.reach(order, afterTheCharge)
	w.ledger.note(order, paid)
	w.say(order, "has charged it, and notes that it is paid")
	return nil
}

func (w *worker) say(order, what string) { w.log.Printf("  %s: %s %s", order, w.name, what) }
