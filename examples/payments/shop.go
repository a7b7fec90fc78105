package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"sync"

	"github.com/quorumlock/quorumlock/driver"
)

// A shop has its orders charged by two workers, who share nothing but the bank, the
// ledger and the nodes.
type shop struct {
	log              *log.Logger
	connect          func() ([]driver.Node, error) // anew for each Locker
	noLock, noRecord bool

	bank   bank
	ledger ledger
}

// open delivers the orders, and returns what went wrong with them.
func (s *shop) open(ctx context.Context) error {
	var wrong []error
	for _, order := range []struct {
		id, story string
		fatal     moment
	}{
		{"A", "Both workers get order A.", never},
		{"B", "Both workers get order B. The first of them dies before the charge.", beforeTheCharge},
		{"C", "Both workers get order C. The first of them dies after the charge, before noting it.", afterTheCharge},
	} {
		s.log.Println(order.story)
		err := s.deliver(ctx, order.id, order.fatal)
		charges := s.bank.statement(order.id)
		s.log.Printf("  %s: charged %s\n\n", order.id, times(charges))
		if charges != 1 {
			err = errors.Join(err, fmt.Errorf("order %s was charged %s", order.id, times(charges)))
		}
		wrong = append(wrong, err)
	}
	return errors.Join(wrong...)
}

// deliver gives an order to both workers at once, as a queue does that would rather
// deliver twice than never. The first who comes to the fatal moment dies in it.
func (s *shop) deliver(ctx context.Context, order string, fatal moment) error {
	d := &doom{at: fatal}
	var failures [2]error
	var workers sync.WaitGroup
	for i := range failures {
		w, err := s.hire(fmt.Sprintf("worker %d", i+1), d)
		if err != nil {
			return err
		}
		defer w.leave()
		workers.Go(func() { failures[i] = w.handle(ctx, order) })
	}
	workers.Wait()
	return errors.Join(failures[:]...)
}

func times(n int) string {
	switch n {
	case 1:
		return "once"
	case 2:
		return "twice"
	}
	return fmt.Sprintf("%d times", n)
}
