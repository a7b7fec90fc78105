package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// What the account has at first, and what the workers pay in.
const before, firstPays, secondPays = 100, 10, 50

// A parent starts two workers, and stops the first in the wrong moment.
type parent struct {
	out     io.Writer
	client  string
	urls    []string
	store   string
	ttl     time.Duration
	noFence bool
}

func (p parent) run(ctx context.Context) (err error) {
	dir, err := os.MkdirTemp("", "fencing")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }() // the system clears its temporary files, too
	place := filepath.Join(dir, "account")   // a name that nobody else has: in Redis it is a key
	account, err := open(p.store, place, p.urls)
	if err != nil {
		return err
	}
	defer func() {
		err = errors.Join(err, account.remove(context.WithoutCancel(ctx)), account.Close())
	}()
	if err := account.create(ctx, before); err != nil {
		return err
	}

	p.say("An account in %s has %d. Two workers pay in, the first %d and the second %d: each takes the lock (for %v),",
		p.store, before, firstPays, secondPays, p.ttl)
	p.say("reads, looks whether it still has the lock, and writes the sum.")
	if err := p.story(ctx, place); err != nil {
		return err
	}
	found, err := account.balance(ctx)
	if err != nil {
		return err
	}
	return p.judge(found)
}

// story is what Kleppmann tells: the first worker is stopped between its last look at the
// lock and its write, and goes on when the second has had the lock and has written. What
// the second waits for is the end of the first one's lease.
func (p parent) story(ctx context.Context, place string) error {
	first, err := p.start(ctx, "first", place, firstPays)
	if err != nil {
		return err
	}
	defer first.kill()
	if !first.until(ready) {
		return first.failed()
	}
	if err := first.pause(); err != nil {
		return err
	}
	p.say("The first is stopped (SIGSTOP).")

	second, err := p.start(ctx, "second", place, secondPays)
	if err != nil {
		return err
	}
	defer second.kill()
	if !second.until(ready) {
		return second.failed()
	}
	if err := errors.Join(second.goOn(), second.end()); err != nil {
		return err
	}

	p.say("The first goes on (SIGCONT), and has no idea that it ever stood still.")
	// The answer is there before it is awake.
	return errors.Join(first.goOn(), first.resume(), first.end())
}

func (p parent) start(ctx context.Context, name, place string, deposit int) (*process, error) {
	return start(ctx, p.out, name,
		"--account", place, "--deposit", strconv.Itoa(deposit), "--store", p.store, "--ttl", p.ttl.String(),
		"--client", p.client, "--nodes", strings.Join(p.urls, ","), "--no-fence="+strconv.FormatBool(p.noFence))
}

// judge says what has become of the payments.
func (p parent) judge(found int) error {
	switch {
	case !p.noFence && found == before+secondPays:
		p.say("The account has %d: what the second has written stands, and the first knows that it has to begin again.", found)
	case p.noFence && found == before+firstPays:
		p.say("The account has %d: the %d of the second are lost, and nobody was told.", found, secondPays)
	case p.noFence:
		return fmt.Errorf("the account has %d: without fences %d were expected, and the payment of the second lost", found, before+firstPays)
	default:
		return fmt.Errorf("the account has %d: the fences have not kept the %d that the second wrote", found, before+secondPays)
	}
	return nil
}

func (p parent) say(format string, args ...any) { _, _ = fmt.Fprintf(p.out, format+"\n", args...) }
