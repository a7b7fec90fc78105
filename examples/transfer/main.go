// Transfer moves money between accounts from many goroutines at once. A transfer reads both accounts,
// computes, and writes both.
//
//	go run ./transfer
//
// The locks on both accounts are taken as one: all or none. So the sum of the accounts stays what it
// was, in whichever order a transfer names its accounts. Without locks a transfer writes what it has
// computed from a balance that another one has changed meanwhile: money is lost or made, without any
// error. Where each takes one lock after the other, those who have one each wait for each other. The
// Locker sees that, because the second lock is taken under the context of the first, and one of them
// gives up. Between processes it takes redlock.WithDeadlockDetection.
package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/quorumlock/quorumlock/examples/internal/program"
	"github.com/quorumlock/quorumlock/redlock"
)

func main() { program.Main(run) }

// asOne moves money under the locks on both accounts.
func (b *bank) asOne(ctx context.Context, from, to int) error {
	return b.locker.DoAll(ctx, []string{name(from), name(to)}, func(ctx context.Context) error {
		return b.move(ctx, from, to)
	})
}

// oneByOne takes the locks one after the other, and slowly, so that others have one each.
func (b *bank) oneByOne(ctx context.Context, from, to int) error {
	return b.locker.Do(ctx, name(from), func(ctx context.Context) error {
		if err := program.Sleep(ctx, 100*time.Millisecond); err != nil {
			return err
		}
		return b.locker.Do(ctx, name(to), func(ctx context.Context) error { return b.move(ctx, from, to) })
	}, redlock.WithOwner("the transfer from "+name(from)))
}

// move moves money, and relies on nobody else using the accounts meanwhile.
func (b *bank) move(ctx context.Context, from, to int) error {
	source, target := b.accounts[from].Load(), b.accounts[to].Load()
	if err := program.Sleep(ctx, time.Millisecond); err != nil {
		return err // nothing is written once the lock is lost
	}
	b.accounts[from].Store(source - 10)
	b.accounts[to].Store(target + 10)
	return nil
}

// A bank is a store that reads and writes one account at a time.
type bank struct {
	locker   *redlock.Locker
	accounts [3]atomic.Int32
}

func name(account int) string { return fmt.Sprintf("account %d", account+1) }

// A way is from one account to another.
type way struct{ from, to int }

var (
	spread = []way{{0, 1}, {0, 2}}
	round  = []way{{0, 1}, {1, 2}, {2, 0}}
)

// play moves money so many times on each way, all ways at once. It returns the sum of the accounts.
func (b *bank) play(ctx context.Context, times int, ways []way, move func(ctx context.Context, from, to int) error) (sum int32, err error) {
	for i := range b.accounts {
		b.accounts[i].Store(1000)
	}
	err = program.Together(len(ways), func(i int) (err error) {
		for n := 0; n < times && err == nil; n++ {
			err = move(ctx, ways[i].from, ways[i].to)
		}
		return err
	})
	for i := range b.accounts {
		sum += b.accounts[i].Load()
	}
	return sum, err
}

func run(ctx context.Context, s program.Stage) (err error) {
	locker, err := s.Open()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, locker.Close()) }()
	b := &bank{locker: locker}
	s.Println("Three accounts have 3000 together. 20 times 10 are moved from the first to the second, and at the same time to the third.")
	sum, err := b.play(ctx, 20, spread, b.move)
	if err != nil {
		return err
	}
	s.Printf("  without locks: the accounts have %d, as each transfer writes over what another has written", sum)
	if sum, err = b.play(ctx, 20, spread, b.asOne); err != nil {
		return err
	}
	s.Printf("  with the locks on both accounts, taken as one: the accounts have %d", sum)

	s.Println("\n10 are moved from each account to the next, and from the last to the first, all at once.")
	sum, err = b.play(ctx, 1, round, b.oneByOne)
	if ring := (*redlock.DeadlockError)(nil); errors.As(err, &ring) {
		s.Println("  with one lock after the other: each transfer had one, and waited for that of the next, until one gave up:")
		s.Printf("    %s", strings.NewReplacer("; ", ";\n    ", "\": ", "\":\n    ").Replace(ring.Error()))
		s.Printf("  the accounts have %d", sum)
	} else {
		return err
	}
	if sum, err = b.play(ctx, 1, round, b.asOne); err == nil {
		s.Printf("  with the locks on both accounts, taken as one: the accounts have %d, and nobody gave up", sum)
	}
	return err
}
