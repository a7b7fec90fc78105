// Config keeps a configuration of two parts that belong together, an address and its password. Eight
// services, as on eight machines, read it all the time, and an operator changes it now and then.
//
//	go run ./config
//
// Each service reads under a shared lock, so all of them read at once. The operator writes under the
// same key alone: he waits until those who read have done so, and new readers wait for him meanwhile,
// so he does not wait for long. Without the lock a service that reads while the operator writes has
// the address of one version and the password of another, without any error.
//
// A configuration that can be one file, replaced by a rename, needs no lock.
package main

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quorumlock/quorumlock/examples/internal/program"
	"github.com/quorumlock/quorumlock/redlock"
)

func main() { program.Main(run) }

const key = "config"

// read reads the configuration together with other services, and with no operator.
func (m *machine) read(ctx context.Context) error { return m.locker.DoShared(ctx, key, m.look) }

// change writes the next version alone.
func (m *machine) change(ctx context.Context) error { return m.locker.Do(ctx, key, m.write) }

// look reads one part, and then the other.
func (m *machine) look(ctx context.Context) error {
	m.reads.begin()
	address := m.address.Load()
	if err := program.Sleep(ctx, step); err != nil {
		return err
	}
	m.reads.end(address == m.password.Load())
	return nil
}

// write writes one part, and then the other. It takes longer than a read, so that some read meanwhile.
func (m *machine) write(ctx context.Context) error {
	m.address.Add(1)
	if err := program.Sleep(ctx, 3*step); err != nil {
		return err
	}
	m.password.Add(1)
	return nil
}

const step = 10 * time.Millisecond // from one part to the other

// A config has in each part the number of its version.
type config struct {
	address, password atomic.Int32
	reads             count
}

// A count is of all reads, of those at this moment, of the most at any, and of those that were torn.
type count struct {
	mu                  sync.Mutex
	all, now, top, torn int
}

func (c *count) begin() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all++
	c.now++
	c.top = max(c.top, c.now)
}

func (c *count) end(whole bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now--
	if !whole {
		c.torn++
	}
}

// A machine has a Locker of its own.
type machine struct {
	*config
	locker *redlock.Locker
}

// on does something on a machine.
func (c *config) on(s program.Stage, do func(*machine) error) error {
	locker, err := s.Open()
	if err != nil {
		return err
	}
	return errors.Join(do(&machine{c, locker}), locker.Close())
}

// serve lets eight services read until the operator has made five changes.
func serve(ctx context.Context, s program.Stage, how string, read, change func(*machine, context.Context) error) error {
	var c config
	var done atomic.Bool
	operate := func(m *machine) (err error) {
		for n := 0; n < 5 && err == nil; n++ {
			err = errors.Join(program.Sleep(ctx, 6*step), change(m, ctx))
		}
		return err
	}
	service := func(m *machine) (err error) {
		for !done.Load() && err == nil {
			err = read(m, ctx)
		}
		return err
	}
	err := program.Together(9, func(i int) error {
		if i > 0 {
			return c.on(s, service)
		}
		defer done.Store(true)
		return c.on(s, operate)
	})
	s.Printf("%s they read %d times, up to %d at once: %d times they got a new address with an old password.",
		how, c.reads.all, c.reads.top, c.reads.torn)
	return err
}

func run(ctx context.Context, s program.Stage) error {
	s.Println("Eight services read an address and its password all the time.")
	s.Println("An operator changes both five times: first the address, and then the password.")
	return errors.Join(
		serve(ctx, s, "Without a lock", (*machine).look, (*machine).write),
		serve(ctx, s, "Under a lock that they share, and that the operator has alone,", (*machine).read, (*machine).change),
	)
}
