package election_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/election"
	"github.com/quorumlock/quorumlock/redlock"
	"github.com/quorumlock/quorumlock/test/fakenode"
)

// open stands for goredis.Open("redis://10.0.0.1", …): its nodes are in memory.
func open() (nodes []driver.Node) {
	for i := range 3 {
		node := fakenode.New(fmt.Sprint("node-", i+1))
		nodes = append(nodes, driver.Node{Name: node.Name(), Driver: node})
	}
	return nodes
}

func newLocker(nodes []driver.Node) *redlock.Locker {
	locker, err := redlock.New(nodes)
	if err != nil {
		panic(err)
	}
	return locker
}

// Run leads whenever this candidate is elected, until the work is done or ctx ends.
func ExampleElection_Run() {
	locker := newLocker(open())
	defer locker.Close()

	err := election.New(locker, "scheduler").Run(context.Background(), "10.0.0.7:80", func(_ context.Context, term *election.Term) error {
		fmt.Println(term.Value(), "leads:", term.Leads())
		return nil // it resigns; longer work runs under the context, which ends with the term
	})
	fmt.Println(err)
	// Output:
	// 10.0.0.7:80 leads: true
	// <nil>
}

// A term outlives the call that began it, until it is resigned or lost.
func ExampleElection_Campaign() {
	locker := newLocker(open())
	defer locker.Close()
	term, err := election.New(locker, "scheduler").Campaign(context.Background(), "10.0.0.7:80")
	if err != nil {
		fmt.Println(err)
		return
	}
	work := term.Context()
	fmt.Println("resigned:", term.Resign())
	fmt.Println(context.Cause(work), errors.Is(context.Cause(work), redlock.ErrReleased))
	// Output:
	// resigned: <nil>
	// lock released true
}

// Everybody may ask who leads, and is told of each change.
func ExampleElection_Observe() {
	nodes := open()
	leads, observes := newLocker(nodes), newLocker(nodes)
	defer leads.Close()
	defer observes.Close()
	term, err := election.New(leads, "scheduler").Campaign(context.Background(), "10.0.0.7:80")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer term.Resign()

	for leader, err := range election.New(observes, "scheduler").Observe(context.Background()) {
		fmt.Println(leader.Value, err)
		break
	}
	// Output: 10.0.0.7:80 <nil>
}
