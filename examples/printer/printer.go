package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"slices"
	"sync"
	"time"

	"github.com/quorumlock/quorumlock/redlock"
)

// How much there is to print.
const (
	offices = 3
	jobs    = 9
	apart   = 50 * time.Millisecond // one job comes so long after another
	prints  = 20 * time.Millisecond // a job
	urgent  = jobs - 2              // the job that cannot wait
)

// A printer prints one job at a time.
type printer struct {
	offices []*redlock.Locker
	log     *log.Logger

	mu      sync.Mutex
	printed []int
}

// errOrder says that a job was printed before one that came earlier.
var errOrder = errors.New("not in the order in which the jobs came, the urgent one first")

// work lets the offices print all jobs, which come while the printer is busy.
func (p *printer) work(ctx context.Context, turns bool) error {
	busy, err := p.offices[0].Acquire(ctx, "printer", redlock.WithRenewal())
	if err != nil {
		return err
	}
	var waiting sync.WaitGroup
	failures := make(chan error, jobs)
	for job := range jobs {
		waiting.Go(func() { failures <- p.print(ctx, job, turns) })
		select {
		case <-time.After(apart):
		case <-ctx.Done():
		}
	}
	err = busy.Release(ctx)
	waiting.Wait()
	close(failures)
	for failure := range failures {
		err = errors.Join(err, failure)
	}
	if err != nil {
		return err
	}
	want := []int{urgent}
	for job := range jobs {
		if job != urgent {
			want = append(want, job)
		}
	}
	if !slices.Equal(p.printed, want) {
		return fmt.Errorf("printed %v: %w", p.printed, errOrder)
	}
	return nil
}

// print prints a job from one of the offices.
func (p *printer) print(ctx context.Context, job int, turns bool) error {
	office, began := job%offices, time.Now()
	var options []redlock.AcquireOption
	if job == urgent && turns {
		options = append(options, redlock.WithPriority(60)) // as if it had waited for a minute
	}
	lock, err := p.offices[office].Acquire(ctx, "printer", options...)
	if err != nil {
		return fmt.Errorf("job %d: %w", job, err)
	}
	p.mu.Lock()
	p.printed = append(p.printed, job)
	p.mu.Unlock()
	p.log.Printf("job %d of office %d is printed after %v", job, office+1, time.Since(began).Round(time.Millisecond))
	time.Sleep(prints)
	return lock.Release(ctx)
}
