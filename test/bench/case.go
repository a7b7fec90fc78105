package main

import (
	"context"
	"fmt"
	"log"
	"slices"
	"time"
)

// Case is one question to the contenders. It fills a table of its own.
type Case struct {
	Name    string // as in -only
	About   string // what is done, in a line
	Columns []Column
	Apart   bool // it runs only where it is named
	Run     func(ctx context.Context, b *Bench, t *Table) error
}

// cases are all of them, in their order. A new one is a file and a line here.
var cases = []Case{throughput, hooks, openLoop, distance, far, faults, leftovers, closing, outage, handover, contended, readers, processes, fair, permits, sets, parked, renewed, cut, safety, trims, scale, fleet}

// Bench is what every case works with.
type Bench struct {
	Rounds     int
	Duration   time.Duration // of one window
	Far        time.Duration // of one turn of the case far
	Keys       int           // of the case trims
	Goroutines int           // no more than so many
	Quick      bool
	Long       bool        // ten minutes of locks that are renewed
	Contenders []Contender // those that take part
	Waiters    []Contender // those that do where locks are waited for
	Site       *Site       // the nodes: a case leaves them well and empty
	Log        *log.Logger // what is going on
}

// turns calls do for each contender in turn, in each round and for each number of
// goroutines, so that whatever else the machine does meets all of them alike. Each
// round begins with another contender.
func (b *Bench) turns(ctx context.Context, t *Table, rounds int, concurrency []int, do func(c Contender, goroutines int) error) error {
	for round := range rounds {
		for _, goroutines := range b.bounded(concurrency) {
			for i := range b.Contenders {
				c := b.Contenders[(i+round)%len(b.Contenders)]
				if ctx.Err() != nil {
					return context.Cause(ctx)
				}
				b.Log.Printf("%s: round %d of %d, %d goroutines: %s", t.Name, round+1, rounds, goroutines, c.Name())
				if err := do(c, goroutines); err != nil {
					return fmt.Errorf("%s: %w", c.Name(), err)
				}
			}
		}
	}
	return nil
}

// bounded are the numbers of goroutines that are not above the bound, or the bound
// where all are.
func (b *Bench) bounded(concurrency []int) []int {
	bounded := slices.DeleteFunc(slices.Clone(concurrency), func(n int) bool { return n > b.Goroutines })
	if len(bounded) == 0 {
		return []int{b.Goroutines}
	}
	return bounded
}

// fewerRounds is for cases that take long and whose figures vary little.
func (b *Bench) fewerRounds() int { return (b.Rounds + 1) / 2 }

// some are all the faults, or one of each kind where it must be quick.
func (b *Bench) some(all []Fault) []Fault {
	switch {
	case !b.Quick:
		return all
	case len(all) > 2:
		return []Fault{all[0], all[len(all)-1]}
	}
	return all[:1]
}

// waiting is the bench for cases in which locks are waited for.
func (b *Bench) waiting() *Bench {
	w := *b
	w.Contenders = b.Waiters
	return &w
}

// waitingAlone is the same without peers.
func (b *Bench) waitingAlone() *Bench {
	w := *b
	w.Contenders = slices.DeleteFunc(slices.Clone(b.Waiters), func(c Contender) bool { return !c.ours() })
	return &w
}

// tell logs why cycles failed.
func (b *Bench) tell(s *Sample) {
	if s.Err != nil {
		b.Log.Printf("\t%d failed, the first: %v", s.Failed, s.Err)
	}
}

// end closes a session. That nodes in trouble do not let go of their keys, or that
// peers say so of calls that they have left behind, is no error of the bench.
func (b *Bench) end(session Session) {
	if err := session.Close(); err != nil {
		b.Log.Printf("\tClose: %v", err)
	}
}

// span is one window: long enough for three cycles of each goroutine, where those
// are slow.
func (b *Bench) span(goroutines int) Span {
	return Span{Least: b.Duration, Most: 5 * b.Duration, Cycles: 3 * uint64(goroutines)} //nolint:gosec // not negative
}

// withLoad puts a load on the session, warms it up, calls measure and ends the load.
func withLoad(ctx context.Context, session Session, goroutines int, measure func(*Load) error) error {
	return measureLoad(ctx, startLoad(session, goroutines), measure)
}

func measureLoad(ctx context.Context, load *Load, measure func(*Load) error) error {
	defer load.Stop()
	if err := load.Warm(ctx); err != nil {
		return err
	}
	return measure(load)
}

// usual are the cases that run where none is named.
func usual() []Case {
	return slices.DeleteFunc(slices.Clone(cases), func(c Case) bool { return c.Apart })
}

// chosen are the cases of those names, or all of them where there is none.
func chosen(names []string) ([]Case, error) {
	if len(names) == 0 {
		return usual(), nil
	}
	var some []Case
	for _, name := range names {
		i := slices.IndexFunc(cases, func(c Case) bool { return c.Name == name })
		if i < 0 {
			return nil, fmt.Errorf("-only: there is no case %q", name)
		}
		some = append(some, cases[i])
	}
	return some, nil
}
