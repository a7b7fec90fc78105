package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/quorumlock/quorumlock/internal/memory"
	"github.com/quorumlock/quorumlock/test/integration/fault/worker"
	"github.com/quorumlock/quorumlock/test/integration/server"
)

// lingering is how long what was closed, or has run out, may take to be gone from the
// nodes: clocks that were set back make leases longer.
const lingering = 30 * time.Second

// reproach says what a process has left open.
func reproach(name string, said worker.Farewell) (remains []string) {
	if said.Error != "" {
		remains = append(remains, fmt.Sprintf("%s: %s", name, said.Error))
	}
	if said.Goroutines != "" {
		remains = append(remains, fmt.Sprintf("%s has %d sockets more than before, and these goroutines:\n%s", name, said.Sockets, said.Goroutines))
	}
	return remains
}

// leftovers says what the clients, which have released all, have left on the nodes that look finds.
// It gives it so much time to go.
func (r *running) leftovers(when string, patience time.Duration, look func(addr string) ([]string, error)) (remains []string) {
	deadline := time.Now().Add(patience)
	for i, addr := range r.cluster.Masters() {
		var found []string
		for ; ; time.Sleep(10 * time.Millisecond) {
			var err error
			if found, err = look(addr); err != nil {
				return append(remains, err.Error())
			}
			if found == nil || time.Now().After(deadline) {
				break
			}
		}
		for _, what := range found {
			remains = append(remains, fmt.Sprintf("node %d has %s left%s", i+1, what, when))
		}
	}
	return remains
}

// allKeys returns all keys, each behind its PTTL.
const allKeys = `local all = {}
for _, key in ipairs(redis.call('KEYS', '*')) do
  all[#all + 1] = redis.call('PTTL', key) .. ' ' .. key
end
return all`

// keysOn returns the keys on a node beside numbers of permits that will expire, the counters of
// fences and the records of the restart guard.
func keysOn(addr string) (found []string, err error) {
	keys, err := server.Do(addr, "EVAL", allKeys, "0")
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(keys) {
		text, key, _ := strings.Cut(strings.TrimSpace(line), " ")
		milliseconds, err := strconv.Atoi(text)
		if err != nil {
			return nil, err
		}
		left := time.Duration(milliseconds) * time.Millisecond
		permits := strings.HasPrefix(key, "ql:permits") && left > 0
		if key != memory.Key("") && !strings.HasPrefix(key, "ql:fences:") && !permits {
			found = append(found, fmt.Sprintf("the key %q for %v", key, left))
		}
	}
	return found, nil
}

// leftOn returns the keys on a node, and what listens or is connected there.
func leftOn(addr string) (found []string, err error) {
	if found, err = keysOn(addr); err != nil {
		return nil, err
	}
	for _, look := range []struct {
		what  string
		words []string
		ours  int // lines that this look itself adds
	}{
		{"connections", []string{"CLIENT", "LIST", "TYPE", "normal"}, 1},
		{"connections that listen", []string{"CLIENT", "LIST", "TYPE", "pubsub"}, 0},
		{"channels", []string{"PUBSUB", "CHANNELS"}, 0},
	} {
		text, err := server.Do(addr, look.words...)
		if err != nil {
			return nil, err
		}
		if lines := strings.Count(strings.TrimSpace(text), "\n") + 1; strings.TrimSpace(text) != "" && lines > look.ours {
			found = append(found, fmt.Sprintf("%d %s", lines-look.ours, look.what))
		}
	}
	return found, nil
}

const (
	// calming is how long clients at rest may take until they ask for little, and for the lease
	// besides: a command that got no answer may run late, and is asked for now and then until its
	// lease would be over.
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
