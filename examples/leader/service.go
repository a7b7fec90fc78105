package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"sync"
	"time"

	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/election"
	"github.com/quorumlock/quorumlock/redlock"
)

const (
	replicas = 3
	invoices = 4 // that a replica numbers before it is deployed anew
	effort   = 30 * time.Millisecond
)

// A service is three replicas. They share nothing but the nodes, and the ledger that they write to.
type service struct {
	log        *log.Logger
	connect    func() ([]driver.Node, error) // anew for each Locker
	noElection bool

	mu     sync.Mutex
	ledger []int // the numbers of the invoices, in the order in which they were written
	seen   []string
}

// run lets the replicas work and an observer watch, and returns what went wrong.
func (s *service) run(ctx context.Context) error {
	var working, watching sync.WaitGroup
	ready, over := make(chan struct{}), make(chan struct{})
	failures := make([]error, replicas+1)
	watching.Go(func() { failures[replicas] = s.observe(ctx, ready, over) })
	<-ready
	for i := range replicas {
		working.Go(func() { failures[i] = s.replica(ctx, fmt.Sprintf("http://10.0.0.%d:8080", i+1)) })
	}
	working.Wait()
	close(over)
	watching.Wait()
	return errors.Join(append(failures, s.audit())...)
}

// locker returns the Locker of one process.
func (s *service) locker() (*redlock.Locker, error) {
	nodes, err := s.connect()
	if err != nil {
		return nil, err
	}
	return redlock.New(nodes, redlock.WithTTL(2*time.Second), redlock.WithFences())
}

// replica is one replica's process: it campaigns, leads until it is deployed anew, and ends.
func (s *service) replica(ctx context.Context, address string) error {
	if s.noElection {
		return s.number(ctx, address)
	}
	locker, err := s.locker()
	if err != nil {
		return err
	}
	defer func() { _ = locker.Close() }()
	return election.New(locker, "invoices").Run(ctx, address, func(ctx context.Context, term *election.Term) error {
		s.log.Printf("%s is elected, for term %d", address, term.Fence())
		return s.number(ctx, address)
	})
}

// number writes invoices, each with the number behind the last one.
func (s *service) number(ctx context.Context, address string) error {
	for range invoices {
		last := s.last()
		select { // the work on an invoice, in which nobody else may take its number
		case <-time.After(effort):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		s.write(last + 1)
		s.log.Printf("%s writes invoice %d", address, last+1)
	}
	return nil
}

func (s *service) last() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.ledger) == 0 {
		return 0
	}
	return s.ledger[len(s.ledger)-1]
}

func (s *service) write(number int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ledger = append(s.ledger, number)
}

// observe is a proxy's process, which sends requests to whoever leads.
func (s *service) observe(ctx context.Context, ready, over chan struct{}) error {
	locker, err := s.locker()
	if err != nil {
		close(ready)
		return err
	}
	defer func() { _ = locker.Close() }()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		<-over
		cancel()
	}()
	first := true
	for leader, err := range election.New(locker, "invoices").Observe(ctx) {
		if first {
			close(ready)
			first = false
		}
		if err == nil && leader.Value != "" {
			s.log.Printf("the proxy sends requests to %s", leader.Value)
			s.mu.Lock()
			s.seen = append(s.seen, leader.Value)
			s.mu.Unlock()
		}
	}
	return nil
}

// audit says which numbers were given twice.
func (s *service) audit() error {
	count := make(map[int]int)
	var wrong []error
	for _, number := range s.ledger {
		if count[number]++; count[number] == 2 {
			wrong = append(wrong, fmt.Errorf("invoice %d was written more than once", number))
		}
	}
	if wrong == nil {
		s.log.Printf("%d invoices, each with a number of its own", len(s.ledger))
	}
	return errors.Join(wrong...)
}
