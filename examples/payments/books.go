package main

import (
	"context"
	"sync"
	"time"
)

// A bank takes money as often as it is told to. It can be asked what it has taken.
type bank struct {
	mu      sync.Mutex
	charges map[string]int
}

// transfer is how long a charge is on its way.
const transfer = 300 * time.Millisecond

// charge takes the money for an order, unless ctx ends before.
func (b *bank) charge(ctx context.Context, order string) error {
	select {
	case <-time.After(transfer):
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.charges == nil {
		b.charges = make(map[string]int)
	}
	b.charges[order]++
	return nil
}

// statement is how often an order was charged.
func (b *bank) statement(order string) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.charges[order]
}

// A state of an order, as far as the shop knows.
type state int

const (
	unknown state = iota
	begun         // the charge may have been made, or not
	paid
)

// A ledger is the shop's own database.
type ledger struct {
	mu     sync.Mutex
	orders map[string]state
}

func (l *ledger) look(order string) state {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.orders[order]
}

func (l *ledger) note(order string, s state) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.orders == nil {
		l.orders = make(map[string]state)
	}
	l.orders[order] = s
}
