package worker

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/quorumlock/quorumlock/test/integration/fault/note"
	"github.com/quorumlock/quorumlock/test/integration/fault/register"
)

// A Job is what a process has to do. It is its first order, as JSON.
type Job struct {
	Name     string   // of the process: a word
	Library  string   // "quorumlock" or "redsync"
	Client   string   // "goredis", "redigo" or "rueidis"
	Without  []string // "fences", "guard"; to see whether the judges find it, "releases", "renewals", "order"
	Nodes    []string // where they are
	Register string   // where it is
	Workers  int
	Keys     int
	Lease    time.Duration
	Mix      Mix
	Locks    []string // the kinds that are mixed, see Kinds; nil: exclusive ones, by the Mix
	Seed     uint64
}

// Pace is what the durations of faults, holders and bounds are in: the lease, or a part of one that
// is longer, so that a trial need not be.
func (j Job) Pace() time.Duration { return min(j.Lease, time.Second) }

func (j Job) lacks(what string) bool { return slices.Contains(j.Without, what) }

// Without releases, one in so many is not made.
const releases = 64

// Tidy reports whether nobody leaves a lock to its lease, which is longer than anybody waits for:
// so nothing is there when all locks are released.
func (j Job) Tidy() bool { return j.Lease > j.Pace() }

// A Farewell is a process's last word: what is left of it when it has closed all.
type Farewell struct {
	Error      string
	Goroutines string // the stacks of those that are left
	Sockets    int
}

// The orders that follow a job.
const (
	Rush  = "rush"  // try for one key, again and again
	Hold  = "hold"  // the same, and be who holds it most of the time
	Block = "block" // have callbacks that do not return
	Panic = "panic" // have callbacks that panic
	Calm  = "calm"  // the end of that
	Rest  = "rest"  // stop all work, and keep what is open
	Stop  = "stop"  // the same, and close all
)

// Serve does its job until it is told to stop, says its farewell, and returns when there are
// no more orders.
func Serve(ctx context.Context, orders io.Reader, notes io.Writer) error {
	lines := bufio.NewScanner(orders)
	if !lines.Scan() {
		return errors.New("there is no job")
	}
	var job Job
	if err := json.Unmarshal(lines.Bytes(), &job); err != nil {
		return err
	}
	before := remains()
	err := job.do(ctx, lines, notes)
	said := remains().since(before)
	if err != nil {
		said.Error = err.Error()
	}
	if err := json.NewEncoder(notes).Encode(said); err != nil {
		return err
	}
	for lines.Scan() { // the end of all orders
	}
	return lines.Err()
}

// do works until it is told to stop.
func (j Job) do(ctx context.Context, orders *bufio.Scanner, notes io.Writer) error {
	var told callbacks
	locks, err := open(j, &told)
	if err != nil {
		return err
	}
	store, err := register.Dial(j.Register)
	if err != nil {
		return errors.Join(err, locks.Close())
	}
	pen := note.NewPen(notes)
	ctx, stop := context.WithCancel(ctx)
	workers := map[int]*worker{} // one goes on where it was, when there is a second rush
	employ := func(id int) *worker {
		if workers[id] == nil {
			workers[id] = &worker{
				job: j, id: id, locks: locks, store: store, pen: pen,
				random: rand.New(rand.NewPCG(j.Seed, uint64(id))), //nolint:gosec // a seed to repeat it by
			}
		}
		return workers[id]
	}
	var beating sync.WaitGroup
	defer func() { stop(); beating.Wait() }()
	beating.Go(func() { note.Beat(ctx, pen.Starved) })
	var working sync.WaitGroup
	for id := range j.Workers {
		w := employ(id)
		working.Go(func() { w.work(ctx) })
	}
	calm := func() {}
	for order := Rest; order != Stop; {
		if orders.Scan() {
			order = orders.Text()
		} else {
			order = Stop
		}
		calm()
		calm = func() {}
		switch order {
		case Rush, Hold:
			calm = rush(ctx, employ, order == Hold)
		case Block:
			calm = told.block()
		case Panic:
			calm = told.panic()
		case Rest, Stop:
			stop()
			working.Wait()
		}
	}
	if !j.Tidy() { // Close gives back what was abandoned; until then others are not to have it
		time.Sleep(j.Lease)
	}
	return errors.Join(locks.Close(), store.Close(), pen.Close())
}

// left is what a process has open.
type left struct {
	stacks  []string // of its goroutines
	sockets int
}

func remains() left {
	buffer := make([]byte, 4<<20)
	buffer = buffer[:runtime.Stack(buffer, true)]
	return left{strings.Split(string(buffer), "\n\n"), sockets()}
}

// settle is how long what was closed may take to be gone.
const settle = 5 * time.Second

// since is what there is more than before, when what was closed has had time to go.
func (l left) since(before left) Farewell {
	for deadline := time.Now().Add(settle); l.more(before) && time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		l = remains()
	}
	if !l.more(before) {
		return Farewell{}
	}
	return Farewell{Goroutines: strings.Join(l.stacks, "\n\n"), Sockets: l.sockets - before.sockets}
}

func (l left) more(before left) bool {
	return len(l.stacks) > len(before.stacks) || l.sockets > before.sockets
}

// sockets counts the process's sockets.
func sockets() (n int) {
	files, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return 0
	}
	for _, file := range files {
		to, err := os.Readlink(fmt.Sprint("/proc/self/fd/", file.Name()))
		if err == nil && strings.HasPrefix(to, "socket:") {
			n++
		}
	}
	return n
}
