// Command bench measures this library beside redsync, over the same clients and on
// the same five servers, which it starts itself. It needs redis-server or
// valkey-server in PATH.
//
//	go run . -quick                   # two minutes, to see whether all is well
//	go run . -only throughput         # one case
//	go run . -unlike -far 10s         # nodes that differ, in turns of 10 s, and writes docs/far.txt and .json, and the same
//	go run .                          # all, and writes docs/bench.txt and .json, and the pages' figures
//	go run . -scale                   # how cost grows, and writes docs/scale.txt and .json, and the same
//	go run . -update -only safety     # one case, and puts it into those files in place of what a run of that day had
//	go run . -pages                   # nothing, and writes the pages' figures anew
//	go run . -only throughput -against main   # by turns with the bench of another commit
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9/logging"
)

func main() {
	logging.Disable() // go-redis says nothing of nodes that are gone
	serve()
	var o options
	flag.StringVar(&o.only, "only", "", "the `cases` to run, with commas between")
	flag.StringVar(&o.contenders, "contenders", "", "take only contenders whose name matches this `pattern`")
	flag.IntVar(&o.bench.Rounds, "rounds", 5, "how often the contenders take turns in throughput; other cases have about half as many")
	flag.DurationVar(&o.bench.Duration, "duration", 500*time.Millisecond, "how long one measurement takes")
	flag.DurationVar(&o.bench.Far, "far", time.Minute, "how long one turn of the case far takes")
	flag.DurationVar(&o.bench.Crowd, "crowd", 3*time.Second, "how long one measurement of a crowd takes; the case beside takes twice that")
	flag.IntVar(&o.bench.Keys, "keys", 200_000, "how many keys the case trims takes once each")
	flag.IntVar(&o.bench.Goroutines, "goroutines", 10_000, "take at most so many goroutines")
	flag.BoolVar(&o.bench.Quick, "quick", false, "one short round with a part of it all, whose figures mean little")
	flag.StringVar(&o.out, "out", "", "the `folder` to write to; a full run writes to docs, any other nowhere")
	flag.StringVar(&o.against.commit, "against", "", "compare with the bench of another `commit`, which takes turns with this one")
	flag.Float64Var(&o.against.least, "least", 0.97, "fail if a figure is below this `share` of the other commit's")
	flag.BoolVar(&o.scale, "scale", false, "measure how cost grows, and write docs/scale.txt and .json")
	flag.BoolVar(&o.unlike, "unlike", false, "measure nodes that differ, and write docs/far.txt and .json")
	flag.BoolVar(&o.update, "update", false, "put the cases into docs/bench.txt and .json, in place of those that were measured there on the same day")
	flag.BoolVar(&o.pages, "pages", false, "measure nothing, and write the figures of docs/bench.json, scale.json and far.json into the pages")
	flag.Parse()

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	exit(attempt(func() { o.run(ctx) }))
}

type options struct {
	bench            Bench
	only, contenders string
	out              string
	scale, unlike    bool
	pages, update    bool
	against          comparison
}

func (o *options) run(ctx context.Context) {
	if o.pages {
		fillPages()
		return
	}
	b, name := &o.bench, "bench"
	if o.scale {
		name, o.only = "scale", strings.Join([]string{scale.Name, fleet.Name, parked.Name, renewed.Name}, ",")
		o.contenders = "^" + find("redlock", "go-redis", "").Name() + "$"
	}
	if o.unlike {
		name, o.only, o.contenders, b.Rounds, b.Duration = far.Name, far.Name, "^(redlock|redsync) go-redis$", 1, b.Far
	}
	full := o.only == "" && o.contenders == "" && !b.Quick && b.Goroutines >= 1024
	ours := o.out == "" && (full || o.scale || o.unlike || o.update)
	if ours {
		o.out = filepath.Join(repository, "docs")
	}
	if b.Quick {
		b.Rounds, b.Duration = 1, min(b.Duration, 100*time.Millisecond)
	}
	if o.update && (o.only == "" || o.contenders != "" || b.Quick) {
		check(errors.New("-update wants -only, and neither -contenders nor -quick: the rest of the figures would be missing"))
	}
	if b.Rounds < 1 || b.Duration <= 0 || b.Goroutines < 1 {
		check(errors.New("-rounds, -duration and -goroutines must be above 0"))
	}
	if o.against.commit != "" {
		o.against.rounds, o.against.args = b.Rounds, o.passOn()
		o.against.run(ctx)
		return
	}
	b.Log = log.New(os.Stderr, "", 0)
	todo := chosen(strings.FieldsFunc(o.only, func(r rune) bool { return r == ',' }))
	pattern := must(regexp.Compile(o.contenders))
	for _, c := range contenders() {
		if !pattern.MatchString(c.Name()) {
			continue
		}
		if !c.polls() && (c.failFast() || !b.Quick) {
			b.Contenders = append(b.Contenders, c)
		}
		if c.waits() {
			b.Waiters = append(b.Waiters, c)
		}
	}
	b.Site = startSite()
	defer b.Site.Close()
	report := b.measure(ctx, todo)
	if o.update {
		before := readReport(filepath.Join(o.out, name+".json"))
		check(before.replace(report))
		report = &before
	}
	text := report.text()
	fmt.Print(text)
	if o.out != "" {
		check(os.MkdirAll(o.out, 0o755))                                            //nolint:gosec // everybody may read it
		check(os.WriteFile(filepath.Join(o.out, name+".txt"), []byte(text), 0o644)) //nolint:gosec // as above
		report.write(filepath.Join(o.out, name+".json"))
	}
	if ours {
		fillPages()
	}
}

func (b *Bench) measure(ctx context.Context, todo []Case) *Report {
	report := &Report{Machine: thisMachine(b)}
	for _, c := range todo {
		table, start := Table{Name: c.Name}, time.Now()
		c.Run(ctx, b, &table)
		report.Tables = append(report.Tables, table)
		b.Log.Printf("%s took %v", c.Name, time.Since(start).Round(time.Second))
	}
	report.Floors = judge(report)
	return report
}

// Case is one question to the contenders. It fills a table of its own.
type Case struct {
	Name    string   // as in -only
	About   string   // what is done, in a line
	Columns []string // metrics
	Apart   bool     // it runs only where it is named
	Run     func(ctx context.Context, b *Bench, t *Table)
}

// cases are all of them, in their order. A new one is a line here.
var cases = []Case{throughput, openLoop, faults, starving, outage, far, handover, contended, fair, permits, sets, beside, parked, renewed, safety, trims, scale, fleet}

// Bench is what every case works with.
type Bench struct {
	Rounds     int
	Duration   time.Duration // of one window
	Far        time.Duration // of one turn of the case far
	Crowd      time.Duration // of one measurement of a crowd
	Keys       int           // of the case trims
	Goroutines int           // no more than so many
	Quick      bool
	Contenders []Contender // those that take part
	Waiters    []Contender // those that do where locks are waited for
	Site       *Site       // the nodes: a case leaves them well and empty
	Log        *log.Logger // what is going on
}

// with is the bench with other contenders.
func (b *Bench) with(contenders []Contender) *Bench {
	w := *b
	w.Contenders = contenders
	return &w
}

// turns calls do for each contender in turn, in each round and situation, so that whatever else
// the machine does meets all of them alike. Each round begins with another contender. All nodes are
// empty before and after.
func turns[S any](ctx context.Context, b *Bench, t *Table, rounds int, situations []S, do func(c Contender, s S)) {
	for round := range rounds {
		for n, situation := range situations {
			for i := range b.Contenders {
				c := b.Contenders[(i+round)%len(b.Contenders)]
				check(context.Cause(ctx))
				b.Log.Printf("%s: round %d of %d, situation %d of %d: %s", t.Name, round+1, rounds, n+1, len(situations), c.Name())
				do(c, situation)
				b.Site.Flush()
			}
		}
	}
}

// bounded are the numbers of goroutines that are not above the bound, or the bound
// where all are.
func (b *Bench) bounded(concurrency ...int) []int {
	bounded := slices.DeleteFunc(concurrency, func(n int) bool { return n > b.Goroutines })
	if len(bounded) == 0 {
		return []int{b.Goroutines}
	}
	return bounded
}

// fewerRounds is for cases that take long and whose figures vary little.
func (b *Bench) fewerRounds() int { return (b.Rounds + 1) / 2 }

// atMost is n, or little of it where it must be quick.
func (b *Bench) atMost(n int) int {
	if b.Quick {
		return n / 100
	}
	return n
}

// tell logs why cycles failed.
func (b *Bench) tell(s *Sample) {
	if s.Err != nil {
		b.Log.Printf("\t%d failed, the first: %v", s.Lost.count, s.Err)
	}
}

// open opens a contender at the site.
func (b *Bench) open(c Contender, setup Setup) Session { return c.Open(b.Site.Addrs(), setup) }

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

// chosen are the cases of those names, or those that run where none is named.
func chosen(names []string) (some []Case) {
	for _, c := range cases {
		if len(names) == 0 && !c.Apart || slices.Contains(names, c.Name) {
			some = append(some, c)
		}
	}
	if len(some) < len(names) {
		check(errors.New("-only: there are no cases of all these names"))
	}
	return some
}
