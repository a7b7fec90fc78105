package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"time"

	goredis "github.com/redis/go-redis/v9"
)

// crowdProcesses is how many processes the goroutines are in.
const (
	crowdProcesses = 4
	processTitle   = "4 processes"
)

var processes = Case{
	Name:    "processes",
	About:   "the same, where the goroutines are in four processes",
	Columns: crowdColumns,
	Run:     runProcesses,
}

func runProcesses(ctx context.Context, b *Bench, t *Table) error {
	return b.waiting().turns(ctx, t, b.fewerRounds(), []int{crowded}, func(c Contender, goroutines int) error {
		each := max(1, goroutines/crowdProcesses)
		members, window, commands, err := rally(ctx, b, c, crowdProcesses, each, shortWork)
		if err == nil {
			t.Add(Key{c.Name(), crowdProcesses * each, processTitle}, b.account(members, window, commands))
		}
		return errors.Join(err, b.Site.Flush())
	})
}

// rally measures so many crowds on one key, each in a process of its own.
func rally(ctx context.Context, b *Bench, c Contender, processes, goroutines int, work time.Duration) (members []Member, window Window, commands float64, err error) {
	return rallyDuring(ctx, b, c, processes, goroutines, work, func(children) (func() error, error) {
		return func() error { return nil }, nil
	})
}

// rallyDuring is rally during what trouble does, and undoes.
func rallyDuring(ctx context.Context, b *Bench, c Contender, processes, goroutines int, work time.Duration, trouble func(children) (undo func() error, err error)) (members []Member, window Window, commands float64, err error) {
	var children children
	key := crowdKey()
	err = children.start(processes, append([]string{crowdCommand, c.Name(), key, strconv.Itoa(goroutines), work.String()}, b.Site.Addrs()...))
	if err == nil {
		err = children.order("start")
	}
	if err == nil {
		window, commands, err = b.watchDuring(ctx, func() (func() error, error) { return trouble(children) })
	}
	if err == nil {
		members, err = children.stop()
	}
	return members, window, commands, errors.Join(err, children.close())
}

// children are processes, each with a crowd.
type children []*Child

// start starts them, and returns when all are ready.
func (c *children) start(n int, args []string) error {
	for range n {
		child, err := startChild(args...)
		if err != nil {
			return err
		}
		*c = append(*c, child)
	}
	for _, child := range *c {
		if _, err := child.answer(); err != nil {
			return err
		}
	}
	return nil
}

func (c children) order(word string) error {
	for _, child := range c {
		if err := child.order(word); err != nil {
			return err
		}
	}
	return nil
}

// stop stops the crowds and puts their reports together.
func (c children) stop() ([]Member, error) {
	if err := c.order("stop"); err != nil {
		return nil, err
	}
	var all []Member
	for _, child := range c {
		line, err := child.answer()
		if err != nil {
			return nil, err
		}
		var members []Member
		if err := json.Unmarshal([]byte(line), &members); err != nil {
			return nil, err
		}
		all = append(all, members...)
	}
	return all, nil
}

func (c children) close() error {
	var errs []error
	for _, child := range c {
		errs = append(errs, child.Close())
	}
	return errors.Join(errs...)
}

// crowdCommand is the first argument of a run of this program that is a crowd. The
// others are the contender's name, the key, the number of goroutines, how long a turn
// lasts, and where the nodes are.
const crowdCommand = "crowd"

// serveCrowd is the process: it says that it is ready, starts its crowd when it is
// told to, stops it when it is told to, or nobody is there any more, and reports.
func serveCrowd(args []string, orders io.Reader, answers io.Writer) error {
	goredis.SetLogger(quiet{})
	all := everybody()
	i := slices.IndexFunc(all, func(c Contender) bool { return c.Name() == args[0] })
	if i < 0 {
		return fmt.Errorf("crowd: there is no contender %q", args[0])
	}
	goroutines, err := strconv.Atoi(args[2])
	if err != nil {
		return err
	}
	work, err := time.ParseDuration(args[3])
	if err != nil {
		return err
	}
	session, err := all[i].Open(args[4:], Setup{Goroutines: goroutines, TTL: ttl})
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(answers, "ready")
	if order := bufio.NewScanner(orders); order.Scan() {
		crowd := startCrowd(context.Background(), session, args[1], goroutines, work)
		order.Scan()
		err = errors.Join(err, json.NewEncoder(answers).Encode(crowd.Stop()))
	}
	return errors.Join(err, session.Close())
}
