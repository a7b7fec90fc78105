// Command bench measures this library beside redsync, over the same clients and on
// the same five servers, which it starts itself. It needs redis-server or
// valkey-server in PATH.
//
//	go run . -quick                   # two minutes, to see whether all is well
//	go run . -only throughput         # one case
//	go run . -only trims -keys 10000000
//	                                  # ten million fences: it takes 200,000 if it is not told
//	go run .                          # all, and writes docs/bench.txt, .json and .svg
//	go run . -release v0.2.0          # the same, and keeps the figures in the history
//	go run . -scale                   # how cost grows, and writes docs/scale.txt, .json and .svg
//	go run . -draw                    # draws the pictures again from the JSON
//	go run . -only throughput -against main
//	                                  # by turns with the bench of another commit
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"runtime/pprof"
	"slices"
	"strings"
	"syscall"
	"time"

	goredis "github.com/redis/go-redis/v9"
)

func main() {
	serve()
	var o options
	flag.StringVar(&o.only, "only", "", "the `cases` to run, with commas between")
	flag.StringVar(&o.contenders, "contenders", "", "take only contenders whose name matches this `pattern`")
	flag.IntVar(&o.bench.Rounds, "rounds", 5, "how often the contenders take turns in throughput; other cases have about half as many")
	flag.DurationVar(&o.bench.Duration, "duration", 500*time.Millisecond, "how long one measurement takes")
	flag.DurationVar(&o.bench.Far, "far", time.Minute, "how long one turn of the case far takes")
	flag.IntVar(&o.bench.Keys, "keys", 200_000, "how many keys the case trims takes once each")
	flag.IntVar(&o.bench.Goroutines, "goroutines", mostGoroutines, "take at most so many goroutines")
	flag.BoolVar(&o.bench.Quick, "quick", false, "one short round with a part of it all, whose figures mean little")
	flag.BoolVar(&o.bench.Long, "long", false, "renew locks for ten minutes, and stop a node for one")
	flag.BoolVar(&o.draw, "draw", false, "only draw the picture from the JSON")
	flag.StringVar(&o.out, "out", "", "the `folder` to write to; a full run writes to docs, any other nowhere")
	flag.StringVar(&o.against.commit, "against", "", "compare with the bench of another `commit`, which takes turns with this one")
	flag.Float64Var(&o.against.least, "least", 0.97, "fail if a figure is below this `share` of the other commit's")
	flag.BoolVar(&o.scale, "scale", false, "measure how cost grows, and write docs/scale.txt, .json and .svg")
	flag.StringVar(&o.release, "release", "", "keep the figures of a full run in the history, as those of this `version`")
	flag.StringVar(&o.profile, "cpuprofile", "", "write a profile of this process to a `file`")
	flag.Parse()

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	exit(o.run(ctx))
}

// serve is the whole of a run of this program that is a part of another one.
func serve() {
	if len(os.Args) < 2 {
		return
	}
	for command, part := range map[string]func([]string, io.Reader, io.Writer) error{
		delayCommand: serveDelay, crowdCommand: serveCrowd, serviceCommand: serveService,
	} {
		if os.Args[1] == command {
			exit(part(os.Args[2:], os.Stdin, os.Stdout))
		}
	}
}

func exit(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// mostGoroutines is enough for every case.
const mostGoroutines = 10_000

type options struct {
	bench            Bench
	only, contenders string
	out, profile     string
	release          string
	scale            bool
	draw             bool
	against          comparison
}

// docs is where the results of a full run belong, seen from this folder.
var docs = filepath.Join("..", "..", "docs")

func (o *options) run(ctx context.Context) error {
	if o.draw {
		return errors.Join(drawPicture(o.folder(docs)), drawScale(o.folder(docs)))
	}
	if o.scale {
		o.only, o.contenders = strings.Join([]string{scale.Name, fleet.Name, parked.Name, renewed.Name}, ","), "^"+find("redlock", "go-redis", "").Name()+"$"
	}
	full := o.only == "" && o.contenders == "" && !o.bench.Quick && o.bench.Goroutines >= mostGoroutines
	if o.release != "" && !full {
		return errors.New("-release wants a full run: the history is of whole ones")
	}
	if o.bench.Quick {
		o.bench.Rounds, o.bench.Duration = 1, min(o.bench.Duration, 100*time.Millisecond)
	}
	if o.bench.Rounds < 1 || o.bench.Duration <= 0 || o.bench.Goroutines < 1 {
		return errors.New("-rounds, -duration and -goroutines must be above 0")
	}
	if o.against.commit != "" {
		o.against.rounds, o.against.args = o.bench.Rounds, o.passOn()
		return o.against.run(ctx, os.Stdout)
	}
	goredis.SetLogger(quiet{})
	o.bench.Log = log.New(os.Stderr, "", 0)
	todo, err := chosen(strings.FieldsFunc(o.only, func(r rune) bool { return r == ',' }))
	if err != nil {
		return err
	}
	taking, err := matching(o.contenders)
	if err != nil {
		return err
	}
	o.bench.Contenders = slices.DeleteFunc(slices.Clone(taking), Contender.polls)
	o.bench.Waiters = slices.DeleteFunc(taking, func(c Contender) bool { return !c.waits() })
	if o.bench.Quick {
		o.bench.Contenders = slices.DeleteFunc(o.bench.Contenders, func(c Contender) bool { return !c.failFast() })
	}
	if o.bench.Site, err = startSite(); err != nil { //nolint:contextcheck // Close ends it
		return err
	}
	report, err := o.profiled(func() (*Report, error) { return measure(ctx, &o.bench, todo) })
	if err = errors.Join(err, o.bench.Site.Close()); err != nil {
		return err
	}
	if !o.scale {
		if err := report.remember(docs, o.release); err != nil {
			return err
		}
	}
	folder := o.folder("")
	if full || o.scale {
		folder = o.folder(docs)
	}
	if folder == "" {
		_, err := fmt.Print(report.text())
		return err
	}
	if o.scale {
		return errors.Join(save(report, folder, "scale"), drawScale(folder))
	}
	return errors.Join(save(report, folder, "bench"), drawPicture(folder))
}

func (o *options) folder(fallback string) string {
	if o.out != "" {
		return o.out
	}
	return fallback
}

// measure runs the cases.
func measure(ctx context.Context, b *Bench, todo []Case) (*Report, error) {
	machine, err := thisMachine(b)
	if err != nil {
		return nil, err
	}
	report := &Report{Machine: machine}
	for _, c := range todo {
		table, start := Table{Name: c.Name}, time.Now()
		if err := c.Run(ctx, b, &table); err != nil {
			return nil, fmt.Errorf("%s: %w", c.Name, err)
		}
		report.Tables = append(report.Tables, table)
		b.Log.Printf("%s took %v", c.Name, time.Since(start).Round(time.Second))
	}
	report.Floors = judge(report)
	return report, nil
}

// save shows the report, and writes it as text and as JSON.
func save(report *Report, folder, name string) error {
	if err := os.MkdirAll(folder, 0o755); err != nil { //nolint:gosec // everybody may read it
		return err
	}
	text := report.text()
	fmt.Print(text)
	return errors.Join(
		os.WriteFile(filepath.Join(folder, name+".txt"), []byte(text), 0o644), //nolint:gosec // as above
		report.write(filepath.Join(folder, name+".json")))
}

// profiled writes a profile of what work does, if one is wanted.
func (o *options) profiled(work func() (*Report, error)) (*Report, error) {
	if o.profile == "" {
		return work()
	}
	file, err := os.Create(o.profile)
	if err != nil {
		return nil, err
	}
	if err := pprof.StartCPUProfile(file); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	report, err := work()
	pprof.StopCPUProfile()
	return report, errors.Join(err, file.Close())
}

func matching(pattern string) ([]Contender, error) {
	re, err := regexp.Compile(pattern)
	if err != nil {
		return nil, fmt.Errorf("-contenders: %w", err)
	}
	some := slices.DeleteFunc(contenders(), func(c Contender) bool { return !re.MatchString(c.Name()) })
	if len(some) == 0 {
		return nil, fmt.Errorf("-contenders: none of them matches %q", pattern)
	}
	return some, nil
}
