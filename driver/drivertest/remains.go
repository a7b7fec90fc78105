package drivertest

import (
	"bytes"
	"context"
	"errors"
	"runtime/pprof"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quorumlock/quorumlock/test/scripted"
)

var remainsCases = []testCase{
	{"calls to a silent server leave a bounded number behind", func(tr *trial) {
		remains(tr, tr.server.Fault("stalled", scripted.StopReading))
	}},
	{"calls to a server that stopped leave a bounded number behind", func(tr *trial) {
		remains(tr, tr.server.Freeze())
	}},
}

const (
	// mayRemain is how many calls a driver may leave behind.
	mayRemain = 8
	// spare is how many goroutines more than theirs may be there: those of a
	// connection that a call has opened, for one.
	spare = 8
)

// remains gives up as many calls as may be left behind, after so long that all have got as
// far as they do also on a busy machine. It counts the goroutines that they left, and then
// gives up many more, which may not add to them.
func remains(tr *trial, release func()) {
	defer release()
	baseline := tr.goroutines()
	if !tr.giveUp(mayRemain, mayRemain, time.Second) {
		return
	}
	limit := max(mayRemain, tr.goroutines()-baseline) + spare
	if !tr.giveUp(100, 16, 60*time.Millisecond) {
		return
	}
	n, bounded := tr.falls(baseline+limit, prompt)
	if !bounded {
		tr.Errorf("108 calls that were given up left %d goroutines behind, want at most %d:\n%s", n-baseline, limit, profile())
	}
	tr.Logf("108 calls that were given up left %d goroutines behind, of %d allowed", max(0, n-baseline), limit)

	release()
	tr.recovers("many calls that were given up")
	tr.server.Close()
	if n, gone := tr.falls(baseline+spare, patience); !gone {
		tr.Errorf("%d goroutines of calls that were given up are still there after the server has gone:\n%s", n-baseline, profile())
	}
}

// giveUp makes calls that end by their deadlines, some at once. They have to return
// then, whether or not the driver is full of those left behind. It reports whether
// none hung.
func (tr *trial) giveUp(calls, atOnce int, deadline time.Duration) bool {
	work := make(chan int, calls)
	for i := range calls {
		work <- i
	}
	close(work)
	var callers sync.WaitGroup
	var hung atomic.Bool
	for range atOnce {
		callers.Go(func() {
			for i := range work {
				out := tr.doWithin(deadline, keyed("SET", "stalled", strconv.Itoa(i)))
				switch {
				case out.err == nil:
					tr.Errorf("call %d to a stalled server returned no error", i+1)
				case errors.Is(out.err, errHung):
					tr.Errorf("call %d to a stalled server, %d at once, %v", i+1, atOnce, out.err)
					hung.Store(true)
					return // the others would take as long
				case out.late > prompt:
					tr.Errorf("call %d to a stalled server, %d at once, returned %v after its deadline, want at most 50ms", i+1, atOnce, out.late)
				}
			}
		})
	}
	callers.Wait()
	return !hung.Load()
}

// settles waits until what the case's calls left behind has gone, as far as it does.
func (tr *trial) settles() { tr.falls(tr.idle, prompt) }

// falls waits until the case has at most limit goroutines, for so long as bounded sees it.
func (tr *trial) falls(limit int, most time.Duration) (n int, ok bool) {
	beats := time.NewTicker(beat)
	defer beats.Stop()
	for ; ; <-beats.C {
		if n = tr.goroutines(); n <= limit || most < 0 {
			return n, n <= limit
		}
		most -= beat
	}
}

// label marks the goroutines of a case in the goroutine profile: they pass it on to
// those that they start, so that other tests of the process are not counted.
const label = "drivertest"

func (tr *trial) mark() {
	labels := pprof.Labels(label, tr.server.Addr())
	pprof.SetGoroutineLabels(pprof.WithLabels(context.Background(), labels))
}

// goroutines counts those of the case: its own, the driver's and the client's.
func (tr *trial) goroutines() int {
	mine := strconv.Quote(label) + ":" + strconv.Quote(tr.server.Addr())
	total, group := 0, 0
	for line := range strings.Lines(profile()) {
		if count, _, found := strings.Cut(line, " @ "); found {
			group, _ = strconv.Atoi(count)
		}
		if strings.HasPrefix(line, "# labels: ") && strings.Contains(line, mine) {
			total += group
		}
	}
	return total
}

// profile lists the goroutines of the process, equal ones together.
func profile() string {
	var b bytes.Buffer
	_ = pprof.Lookup("goroutine").WriteTo(&b, 1) // a buffer does not fail
	return b.String()
}
