package main

import (
	"context"
	"errors"
	"fmt"
	"syscall"

	"github.com/quorumlock/quorumlock/redlock"
)

// fairCrowd is how many wait for the key.
const fairCrowd = 64

var fair = Case{
	Name: "fair",
	About: "64 goroutines that all want one key, and hold it for 1 ms each, in 1, 4, 16 and 64 processes; in windows of 3 s; " +
		"with today's order, which is that of chance between processes, and in turn (WithFairness)",
	Columns: crowdColumns,
	Run:     runFair,
}

func runFair(ctx context.Context, b *Bench, t *Table) error {
	some := *b
	some.Contenders = []Contender{find("redlock", "go-redis", ""), inTurn(), find("redsync", "go-redis", polling)}
	processes := []int{1, 4, 16, fairCrowd}
	if b.Quick {
		processes = processes[:2]
	}
	return some.turns(ctx, t, b.fewerRounds(), processes, func(c Contender, processes int) error {
		for _, trouble := range []struct {
			name string
			do   func(children) (undo func() error, err error)
		}{
			{"", func(children) (func() error, error) { return func() error { return nil }, nil }},
			{", one of them stopped", func(all children) (func() error, error) {
				p := all[0].command.Process
				return func() error { return p.Signal(syscall.SIGCONT) }, p.Signal(syscall.SIGSTOP)
			}},
			{", a node stopped", func(children) (func() error, error) {
				fault := hung(1)
				return func() error { return b.Site.mend(ctx, fault) }, fault.strike(b.Site)
			}},
		} {
			if trouble.name != "" && processes != troubled {
				continue
			}
			members, window, commands, err := rallyDuring(ctx, b, c, processes, fairCrowd/processes, shortWork, trouble.do)
			if err := errors.Join(err, b.Site.Flush()); err != nil {
				return err
			}
			t.Add(Key{c.Name(), fairCrowd, fmt.Sprintf("%d processes%s", processes, trouble.name)}, b.account(members, window, commands))
		}
		return nil
	})
}

// troubled is in how many processes they are when one of them, or a node, is stopped.
const troubled = 16

// inTurn is our library where waiters of all processes take turns.
func inTurn() Contender {
	c := find("redlock", "go-redis", "")
	open := c.Open
	c.Mode = "fair"
	c.Open = func(addrs []string, setup Setup) (Session, error) {
		setup.Options = append(setup.Options, redlock.WithFairness())
		return open(addrs, setup)
	}
	return c
}
