package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/inspect"
	"github.com/quorumlock/quorumlock/redlock"
)

// The bounds of a measurement.
const (
	benchShortest = 100 * time.Millisecond
	benchLongest  = time.Minute // all samples are kept
	benchLeast    = 10          // cycles that --max-rate has to let into a part
	benchRate     = 1000        // cycles/s beside keys of others
	benchClients  = 4           // that contend for one key, each as a process of its own would
	benchMost     = 128         // goroutines
)

// A benching is one run of bench.
type benching struct {
	*tool
	long  time.Duration // of each part
	rate  int           // cycles/s; 0: not given
	check bool

	keys    string // the beginning of all its keys, without the prefix
	pacer   pacer
	answers benchAnswers
	report  benchReport
}

func benchVerb(t *tool) *cobra.Command {
	b := &benching{tool: t}
	verb := t.overNodes(&cobra.Command{
		Use:   "bench",
		Short: "Measure locks on your own nodes, and say which settings follow",
		Long: `bench acquires and releases keys of its own, PREFIXquorumlock:bench:<random>…, with 1, 16 and 128 goroutines that have a key
each, and with 4 clients that contend for one key. Times are of acquire and release together, waiting included. It
uses the settings of the clients, so it measures what they get; run it where they run.

Beside keys of others it begins no more than 1000 cycles/s, for the nodes have to serve others meanwhile; --max-rate sets
another bound. Users' keys are not touched, and nothing is left: at the end, and at an interrupt, it deletes its keys.
With --fences their counters go as well if the user may use zrem, or clients forget them in time. With --guard the nodes
get the records that any client makes.

--check adds PASS or FAIL, and exits with 0 or 1. The limits follow from the settings; there is nothing to tune:
all nodes have a vote; no cycle fails; 99.9 % of the answers of each node within half of the node time-out; 99.9 % of the
cycles within 1/20 of the lease, and all within 1/4 of it; with 128 goroutines 100 cycles/s, or 80 % of what
--max-rate allows if that is less. Waiting for the contended key is not judged.

Without a quorum it exits with 69.`,
		Example: `  quorumlock bench --profile prod
  quorumlock bench --profile prod --check --max-rate 200
  quorumlock bench --nodes redis://10.0.0.1,redis://10.0.0.2,redis://10.0.0.3 --for 10s -o json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if b.long < benchShortest || b.long > benchLongest {
				return exitf(t.settings.fault("for"), "--for: %v is not between %v and %v", b.long, benchShortest, benchLongest)
			}
			if least := benchLeast / b.long.Seconds(); b.rate < 0 || b.rate > 0 && float64(b.rate) < least {
				return exitf(t.settings.fault("max-rate"), "--max-rate: %d lets fewer than %d cycles into %v: want at least %.0f, or a longer --for", b.rate, benchLeast, b.long, least)
			}
			if err := b.bench(cmd.Context()); err != nil {
				return err
			}
			if err := b.write(); err != nil {
				return err
			}
			if b.report.Check != nil && !b.report.Check.Pass {
				return &verdict{1}
			}
			return nil
		},
	})
	flags := verb.Flags()
	flags.DurationVar(&b.long, "for", 2*time.Second, "how `long` each of the four parts takes")
	flags.IntVar(&b.rate, "max-rate", 0, fmt.Sprintf("begin no more than so many `cycles` a second (default: %d if the nodes hold keys of others or do not say, else no bound)", benchRate))
	flags.BoolVar(&b.check, "check", false, "say PASS or FAIL, and exit with 0 or 1")
	t.formats(verb)
	return verb
}

// bench measures, and leaves nothing on the nodes.
func (b *benching) bench(ctx context.Context) (err error) {
	nodes, err := b.settings.open()
	if err != nil {
		return err
	}
	defer closeNodes(nodes)
	b.keys = "quorumlock:bench:" + rand.Text() + ":"
	b.report = benchReport{Schema: "quorumlock.bench/v1", Time: time.Now().UTC(), For: b.long.Seconds(), TTL: b.settings.TTL.Seconds(), NodeTimeout: b.nodeTimeout().Seconds()}
	b.report.Nodes = make([]benchNode, len(nodes))
	var group errgroup.Group
	for i, n := range nodes {
		group.Go(func() error { b.report.Nodes[i] = b.roundTrips(ctx, n); return nil })
	}
	_ = group.Wait() // nothing fails
	if err := context.Cause(ctx); err != nil {
		return err
	}
	b.bound()
	lockers, err := b.lockers()
	if err != nil {
		return err
	}
	err = b.measure(ctx, lockers)
	var closing errgroup.Group
	for _, l := range lockers {
		closing.Go(l.Close)
	}
	if cerr := closing.Wait(); err == nil {
		err = cerr
	}
	b.sweep(context.WithoutCancel(ctx), nodes)
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	if err != nil {
		return err
	}
	b.answers.into(b.report.Nodes)
	b.report.advise()
	if b.check {
		b.report.judge()
	}
	return nil
}

// nodeTimeout is the one that Lockers have.
func (b *benching) nodeTimeout() time.Duration {
	return cmp.Or(b.settings.NodeTimeout, min(250*time.Millisecond, b.settings.TTL/4))
}

// bound decides how many cycles may begin in a second, and says why.
func (b *benching) bound() {
	r := &b.report
	switch i := slices.IndexFunc(r.Nodes, func(n benchNode) bool { return n.Error == "" && n.Keys != 0 }); {
	case b.rate > 0:
		r.MaxRate, r.MaxRateWhy = b.rate, "--max-rate"
	case i >= 0 && r.Nodes[i].Keys > 0:
		r.MaxRate, r.MaxRateWhy = benchRate, fmt.Sprintf("the default, for %s holds %d other keys and has to serve others meanwhile; --max-rate sets another bound", r.Nodes[i].Name, r.Nodes[i].Keys)
	case i >= 0:
		r.MaxRate, r.MaxRateWhy = benchRate, fmt.Sprintf("the default, for %s does not say whether it holds other keys; --max-rate sets another bound", r.Nodes[i].Name)
	}
	if r.MaxRate > 0 {
		b.pacer.gap = time.Second / time.Duration(r.MaxRate)
	}
}

// lockers makes one for each client that contends. All else is measured with the first.
func (b *benching) lockers() (all []*redlock.Locker, err error) {
	options := append(b.settings.locker(), redlock.WithMaxOutage(0), redlock.WithHooks(redlock.Hooks{Batch: b.answers.add}))
	for range benchClients {
		nodes, err := b.settings.open()
		if err != nil {
			return nil, errors.Join(err, closeAll(all))
		}
		locker, err := redlock.New(nodes, options...)
		if err != nil {
			closeNodes(nodes)
			return nil, errors.Join(err, closeAll(all))
		}
		all = append(all, locker)
	}
	return all, nil
}

func closeAll(lockers []*redlock.Locker) (err error) {
	for _, l := range lockers {
		err = errors.Join(err, l.Close())
	}
	return err
}

// sweep deletes its keys at the nodes that answered: a release waits for a quorum, not for all.
func (b *benching) sweep(ctx context.Context, nodes []driver.Node) {
	cmds, counters := make([]driver.Command, benchMost), make([]driver.Command, benchMost)
	for i := range cmds {
		key := b.settings.Prefix + b.key(i)
		cmds[i] = driver.Command{Args: []any{"DEL", key}, FirstKey: 1, Keys: 1}
		counters[i] = driver.Command{Args: []any{"ZREM", inspect.FenceSet(key), key}, FirstKey: 1, Keys: 1}
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	left := make([]string, len(nodes))
	var group errgroup.Group
	for i, n := range nodes {
		if b.report.Nodes[i].Trips == nil {
			continue
		}
		group.Go(func() error {
			// When this is answered, the node has read what the Lockers have sent to it.
			if _, err := n.Driver.Do(ctx, []driver.Command{{Args: []any{"TIME"}}}); err != nil {
				left[i] = n.Name
				return nil //nolint:nilerr // it is said below
			}
			if replies, err := n.Driver.Do(ctx, cmds); err != nil || slices.ContainsFunc(replies, func(r driver.Reply) bool { return r.Err() != nil }) {
				left[i] = n.Name
			}
			if b.settings.Fences {
				_, _ = n.Driver.Do(ctx, counters) // what is left is no lock, and forgotten in time
			}
			return nil
		})
	}
	_ = group.Wait() // what fails is in left
	if left = slices.DeleteFunc(left, func(name string) bool { return name == "" }); len(left) > 0 {
		_, _ = fmt.Fprintf(b.talk, "quorumlock: %s did not confirm that the keys of the measurement are deleted: they expire within %v\n", strings.Join(left, ", "), b.settings.TTL)
	}
}

// key is the name of a key, without the prefix.
func (b *benching) key(i int) string { return fmt.Sprint(b.keys, i) }
