package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

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

// leftovers says what the clients, which have released all, have left on the nodes that look finds. It
// gives it so much time to go.
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

// guardKeys are the records of the restart guard.
var guardKeys = []string{"ql:epoch", "ql:admitted", "ql:set"}

// allKeys returns all keys, each behind its PTTL.
const allKeys = `local all = {}
for _, key in ipairs(redis.call('KEYS', '*')) do
  all[#all + 1] = redis.call('PTTL', key) .. ' ' .. key
end
return all`

// keysOn returns the keys on a node beside numbers of permits that will expire, the counters of fences
// and the records of the restart guard.
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
		if !slices.Contains(guardKeys, key) && !strings.HasPrefix(key, "ql:fences:") && !permits {
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
