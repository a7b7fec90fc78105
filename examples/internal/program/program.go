// Package program is what the examples have in common around what they show: their nodes, where
// they print, and their end by an interrupt.
package program

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"os/signal"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/driver/goredis"
	"github.com/quorumlock/quorumlock/driver/redigo"
	"github.com/quorumlock/quorumlock/driver/rueidis"
	"github.com/quorumlock/quorumlock/redlock"
	"github.com/quorumlock/quorumlock/redlocktest"
)

var (
	nodes  = flag.String("nodes", "", "the nodes' URLs, with commas between them (default five embedded nodes)")
	client = flag.String("client", "goredis", "the Redis client: goredis, redigo or rueidis")
)

// A Stage is where a program plays: what it prints to, from all its goroutines, and its nodes.
type Stage struct {
	*log.Logger

	// Connect makes the nodes for one Locker, which closes them. Each part of a program that stands
	// for a process of its own has a Locker and connections of its own.
	Connect func() ([]driver.Node, error)
}

// Main plays the story to its end, or until it is interrupted, and exits with 1 if it failed.
func Main(story func(ctx context.Context, s Stage) error) {
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := play(ctx, os.Stdout, *client, *nodes, story)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func play(ctx context.Context, out io.Writer, client, urls string, story func(context.Context, Stage) error) error {
	// One of these lines is all that another client takes. A service that has its clients already
	// calls goredis.Nodes(clients...), redigo.Nodes(pools...) or rueidis.Nodes(clients...).
	open := map[string]func(urls ...string) ([]driver.Node, error){
		"goredis": goredis.Open,
		"redigo":  redigo.Open,
		"rueidis": rueidis.Open,
	}[client]
	if open == nil {
		return fmt.Errorf("-client %q: want goredis, redigo or rueidis", client)
	}
	if urls == "" {
		embedded, err := redlocktest.New(5) //nolint:contextcheck // they end by Close
		if err != nil {
			return err
		}
		defer embedded.Close()
		urls = "redis://" + strings.Join(embedded.Addrs(), ",redis://")
	}
	connect := func() ([]driver.Node, error) { return open(strings.Split(urls, ",")...) }
	return story(ctx, Stage{log.New(out, "", 0), connect})
}

// Open returns a Locker on nodes of its own. They share a machine that may be busy, and have time.
func (s Stage) Open(options ...redlock.Option) (*redlock.Locker, error) {
	nodes, err := s.Connect()
	if err != nil {
		return nil, err
	}
	return redlock.New(nodes, append([]redlock.Option{redlock.WithNodeTimeout(2 * time.Second)}, options...)...)
}

// Together does something n times at once, and returns what failed.
func Together(n int, do func(i int) error) error {
	failures := make([]error, n)
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() { failures[i] = do(i) })
	}
	all.Wait()
	return errors.Join(failures...)
}

// Sleep takes some time, in place of work that ends with ctx.
func Sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// OpenMortal returns a Locker as well, and what cuts it off from its nodes, as a crash of its machine
// does: locks are neither renewed nor given back any more. Then its Close fails.
func (s Stage) OpenMortal(options ...redlock.Option) (locker *redlock.Locker, die func(), err error) {
	var dead atomic.Bool
	alive := s.Connect
	s.Connect = func() ([]driver.Node, error) {
		nodes, err := alive()
		for i := range nodes {
			nodes[i].Driver = cable{nodes[i].Driver, &dead}
		}
		return nodes, err
	}
	locker, err = s.Open(append(options, redlock.WithCloseTimeout(0))...)
	return locker, func() { dead.Store(true) }, err
}

// A cable leads to a node.
type cable struct {
	driver.Driver
	dead *atomic.Bool
}

var errDead = errors.New("the machine has crashed")

func (c cable) Do(ctx context.Context, cmds []driver.Command) ([]driver.Reply, error) {
	if c.dead.Load() {
		return nil, driver.NotSent(errDead)
	}
	return c.Driver.Do(ctx, cmds)
}

// Close is called by the Locker.
func (c cable) Close() error {
	if own, ok := c.Driver.(io.Closer); ok {
		return own.Close()
	}
	return nil
}
