package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quorumlock/quorumlock/driver"
)

const (
	period = time.Second
	ticks  = 3
	deadly = 1 // the tick, counted from 0, that is the death of a scheduler
)

// clocks are how far the schedulers' clocks are ahead of the right time. The report
// takes less than they differ by.
var clocks = []time.Duration{0, 100 * time.Millisecond, -100 * time.Millisecond, 40 * time.Millisecond, -60 * time.Millisecond}

// A cron is a scheduler for each clock. They share nothing but the journal and the
// nodes.
type cron struct {
	log     *log.Logger
	connect func() ([]driver.Node, error) // anew for each Locker
	noLock  bool
	clocks  []time.Duration

	journal journal
	fatal   time.Time   // the deadly tick
	died    atomic.Bool // one scheduler has, so that no more need to
}

// run lets the schedulers run for some ticks, and returns what went wrong with them.
func (c *cron) run(ctx context.Context) error {
	first := time.Now().Add(period / 2).Truncate(period).Add(period) // they all run by then
	c.fatal = first.Add(deadly * period)
	failures := make([]error, len(c.clocks))
	var schedulers sync.WaitGroup
	for i, ahead := range c.clocks {
		s := &scheduler{cron: c, name: fmt.Sprintf("scheduler %d", i+1), ahead: ahead}
		schedulers.Go(func() { failures[i] = s.run(ctx, first) })
	}
	schedulers.Wait()
	if err := errors.Join(failures...); err != nil {
		return err
	}
	return c.audit(first)
}

// audit prints what came of each tick, and returns what should not have.
func (c *cron) audit(first time.Time) error {
	var wrong []error
	c.log.Println()
	for i := range ticks {
		tick := first.Add(time.Duration(i) * period)
		fate, who := c.journal.fate(tick)
		c.log.Printf("%s: %s (%s)", clock(tick), fate, who)
		want := once
		if i == deadly {
			want = missed
		}
		if fate != want {
			wrong = append(wrong, fmt.Errorf("the report of %s was %s (%s)", clock(tick), fate, who))
		}
	}
	return errors.Join(wrong...)
}

func clock(t time.Time) string { return t.Format(time.TimeOnly) }
