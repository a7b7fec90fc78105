package main

import (
	"context"
	"sync"

	"github.com/quorumlock/quorumlock/redlock"
)

// A bank is a store that reads and writes one account at a time.
type bank struct {
	locker *redlock.Locker
	think  func(context.Context) // what a transfer does between reading and writing
	first  func()                // what it does between two locks that it takes one by one

	mu       sync.Mutex
	balances map[string]int
}

func newBank(locker *redlock.Locker) *bank {
	b := &bank{locker: locker, think: func(context.Context) {}, first: func() {}, balances: map[string]int{}}
	for i := range accounts {
		b.balances[name(i)] = deposit
	}
	return b
}

func (b *bank) read(account string) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.balances[account]
}

func (b *bank) write(account string, balance int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.balances[account] = balance
}

func (b *bank) sum() (sum int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, balance := range b.balances {
		sum += balance
	}
	return sum
}

// move moves money, and relies on nobody else using the accounts meanwhile.
func (b *bank) move(ctx context.Context, from, to string, amount int) error {
	source, target := b.read(from), b.read(to)
	b.think(ctx)
	if err := context.Cause(ctx); err != nil {
		return err // nothing is written once the lock is lost
	}
	b.write(from, source-amount)
	b.write(to, target+amount)
	return nil
}

// transfer moves money under the locks on both accounts, which it takes as one: in which order it
// names them does not matter.
func (b *bank) transfer(ctx context.Context, from, to string, amount int) error {
	lock, err := b.locker.AcquireAll(ctx, []string{from, to})
	if err != nil {
		return err
	}
	defer lock.Release(context.WithoutCancel(ctx))  //nolint:errcheck // a lost lock has ended its context
	return b.move(lock.Context(), from, to, amount) //nolint:contextcheck // it descends from ctx
}

// transferOneByOne takes the locks as they come. Another transfer may take them the other way round:
// then each has one, and waits for the other. The Locker sees that where the second lock is taken
// under the context of the first, and one of the two gives up. Over several processes nobody does.
func (b *bank) transferOneByOne(ctx context.Context, from, to string, amount int) error {
	source, err := b.locker.Acquire(ctx, from)
	if err != nil {
		return err
	}
	defer source.Release(context.WithoutCancel(ctx)) //nolint:errcheck // as above
	b.first()
	target, err := b.locker.Acquire(source.Context(), to) //nolint:contextcheck // likewise
	if err != nil {
		return err
	}
	defer target.Release(context.WithoutCancel(ctx))  //nolint:errcheck // as above
	return b.move(target.Context(), from, to, amount) //nolint:contextcheck // likewise
}
