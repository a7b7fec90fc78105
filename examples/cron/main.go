// Cron has a report written once a day (a day takes a second here) by a service of three replicas,
// so that two may fail: the replica that is elected writes it.
//
//	go run ./cron
//
// The leader works under the context of its term, which ends before anybody else can be elected. When
// it dies, the next one is elected once its lease has ended (see redlock.WithTTL), and goes on. What
// the dead one had begun nobody repeats: half of it may have gone out. It is a note before the report
// and one behind it that tell; no lock remembers that. A leader that was stopped and goes on late is
// kept from writing by its term's fence, if the store compares it: see the example fencing.
//
// Jobs that cron starts on several hosts need no leader: see docs/run.md for a key that is kept.
package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/quorumlock/quorumlock/election"
	"github.com/quorumlock/quorumlock/examples/internal/program"
	"github.com/quorumlock/quorumlock/redlock"
)

func main() { program.Main(run) }

// lead campaigns, writes the reports while it leads, and ends when all are written, by whomever. What it
// campaigns with tells others who leads: in life, an address.
func (r *replica) lead(ctx context.Context) error {
	err := election.New(r.locker, "reports").Run(ctx, r.name, func(ctx context.Context, _ *election.Term) error {
		r.say("is elected")
		if err := r.reports(ctx); err != nil {
			return err
		}
		err := program.Sleep(ctx, day) // the last one
		r.end(errWritten)              // or somebody else would be elected, and have nothing to do
		return err
	})
	if errors.Is(err, errDead) || errors.Is(context.Cause(ctx), errWritten) {
		return nil
	}
	return err
}

// observe notes who leads, as a proxy does that sends requests to the leader.
func (r *replica) observe(ctx context.Context) (leaders []string) {
	for leader, err := range election.New(r.locker, "reports").Observe(ctx) {
		if err == nil && leader.Value != "" && !slices.Contains(leaders, leader.Value) {
			leaders = append(leaders, leader.Value)
		}
	}
	return leaders
}

// reports writes the report of each day that has none. There must be nobody else who does.
func (r *replica) reports(ctx context.Context) error {
	for i := range r.days {
		d := &r.days[i]
		if d.ended.Load() > 0 {
			continue
		}
		if err := program.Sleep(ctx, time.Until(r.first.Add(time.Duration(i)*day))); err != nil {
			return err
		}
		if d.begun.Load() > 0 {
			r.say("finds the report of day %d begun and not ended: somebody has to look at it", i+1)
			continue
		}
		if err := program.Sleep(ctx, effort); err != nil { // from the look at the journal to the note in it
			return err
		}
		d.begun.Add(1)
		r.say("writes the report of day %d", i+1)
		if i == r.fatal {
			r.say("dies over it: nobody else is elected until its lease of %v has ended", lease)
			r.die()
			return errDead
		}
		if err := program.Sleep(ctx, effort); err != nil {
			return err
		}
		d.ended.Add(1)
	}
	return nil
}

const (
	day    = time.Second
	effort = 50 * time.Millisecond
	lease  = 2 * time.Second
)

var times = []string{"never", "once", "twice", "three times"}

var (
	errWritten = errors.New("all reports are written")
	errDead    = errors.New("the replica is dead")
)

// A calendar is the journal of what was done on each day, in a database that all replicas have.
type calendar struct {
	program.Stage
	first time.Time
	fatal int // the day, counted from 0, that is the death of its leader, or -1
	days  [3]struct{ begun, ended atomic.Int32 }
	end   context.CancelCauseFunc
}

// A replica has a Locker of its own, as on a machine of its own.
type replica struct {
	*calendar
	name   string
	locker *redlock.Locker
	die    func()
}

func (r *replica) say(format string, args ...any) { r.Printf("  "+r.name+" "+format, args...) }

// on does something on a machine.
func (c *calendar) on(name string, do func(*replica) error) error {
	locker, die, err := c.OpenMortal(redlock.WithTTL(lease), redlock.WithNodeTimeout(lease/4))
	if err != nil {
		return err
	}
	defer func() { _ = locker.Close() }() // of a dead replica it fails
	return do(&replica{c, name, locker, die})
}

// three lets three replicas do their work while a proxy observes them, and tells what came of it.
func (c *calendar) three(ctx context.Context, work func(*replica, context.Context) error) error {
	ctx, c.end = context.WithCancelCause(ctx)
	var leaders []string
	observer := make(chan error, 1)
	go func() {
		observer <- c.on("proxy", func(r *replica) error { leaders = r.observe(ctx); return nil })
	}()
	err := program.Together(3, func(i int) error {
		return c.on(fmt.Sprintf("replica %d", i+1), func(r *replica) error { return work(r, ctx) })
	})
	c.end(nil)
	err = errors.Join(err, <-observer)
	if len(leaders) > 0 {
		c.Printf("Meanwhile a proxy saw who leads: %s.", strings.Join(leaders, ", and then "))
	}
	for i := range c.days {
		d := &c.days[i]
		c.Printf("The report of day %d: begun %s, ended %s.", i+1, times[d.begun.Load()], times[d.ended.Load()])
	}
	return err
}

func run(ctx context.Context, s program.Stage) error {
	s.Println("Three replicas of a service run, and a report is due each day. All of them write it:")
	all := &calendar{Stage: s, first: time.Now(), fatal: -1}
	if err := all.three(ctx, (*replica).reports); err != nil {
		return err
	}
	s.Println("\nOnly the one that is elected writes:")
	one := &calendar{Stage: s, first: time.Now().Add(day), fatal: 1}
	return one.three(ctx, (*replica).lead)
}
