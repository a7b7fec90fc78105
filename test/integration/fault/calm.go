package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/quorumlock/quorumlock/test/integration/server"
)

const (
	// calming is how long clients at rest may take until they ask for little, and for the lease besides: a
	// command that got no answer may run late, and is asked for now and then until its lease would be over.
	calming = 5 * time.Second
	// little is how many commands a second each client may send a node then: it looks at the
	// node's clock, and listens.
	little = 10
)

// calm waits until the clients, which rest, ask the nodes for little, and returns how long that
// took. What they still had to clean up is done then, or will never be.
func (r *running) calm() (took time.Duration, err error) {
	const step = 250 * time.Millisecond
	before, err := commands(r.cluster.Masters())
	if err != nil {
		return 0, err
	}
	for began := time.Now(); ; {
		from := time.Now()
		time.Sleep(step)
		after, err := commands(r.cluster.Masters())
		if err != nil {
			return 0, err
		}
		passed := time.Since(from)
		busiest, most := 0, 0.0
		for i := range after {
			if rate := float64(after[i]-before[i]) / passed.Seconds(); rate > most {
				busiest, most = i, rate
			}
		}
		if most <= float64(little*len(r.members)) {
			return time.Since(began), nil
		}
		if bound := calming + r.Job.Lease; time.Since(began) > bound {
			return time.Since(began), fmt.Errorf("%v after the last call clients send node %d %.0f commands a second", bound, busiest+1, most)
		}
		before = after
	}
}

// commands returns how many commands each server has run so far.
func commands(addrs []string) (counts []int64, err error) {
	for _, addr := range addrs {
		stats, err := server.Do(addr, "INFO", "stats")
		if err != nil {
			return nil, err
		}
		_, count, _ := strings.Cut(stats, "total_commands_processed:")
		count, _, _ = strings.Cut(count, "\r\n")
		n, err := strconv.ParseInt(count, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("INFO stats at %s: %w", addr, err)
		}
		counts = append(counts, n)
	}
	return counts, nil
}
