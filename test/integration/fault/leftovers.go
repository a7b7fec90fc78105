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

// idle is how long counters of fences may live on.
const idle = 24 * time.Hour

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

// leftovers says what the clients, which have closed all, have left on the nodes.
func (r *running) leftovers() (remains []string) {
	for i, addr := range r.cluster.Masters() {
		var found []string
		for deadline := time.Now().Add(lingering); ; time.Sleep(10 * time.Millisecond) {
			var err error
			if found, err = leftOn(addr); err != nil {
				return append(remains, err.Error())
			}
			if found == nil || time.Now().After(deadline) {
				break
			}
		}
		for _, what := range found {
			remains = append(remains, fmt.Sprintf("node %d has %s left", i+1, what))
		}
	}
	return remains
}

// guardKeys are the records of the restart guard.
var guardKeys = []string{"ql:epoch", "ql:admitted", "ql:set"}

// leftOn returns what there is on a node beside counters that will expire and the records
// of the restart guard.
func leftOn(addr string) (found []string, err error) {
	keys, err := server.Do(addr, "KEYS", "*")
	if err != nil {
		return nil, err
	}
	for key := range strings.Lines(keys) {
		key = strings.TrimSpace(key)
		text, err := server.Do(addr, "PTTL", key)
		if err != nil {
			return nil, err
		}
		milliseconds, err := strconv.Atoi(text)
		if err != nil {
			return nil, err
		}
		left := time.Duration(milliseconds) * time.Millisecond
		const gone = -2
		counter := strings.HasSuffix(key, ":fence") && left > 0 && left <= idle+lingering
		if milliseconds != gone && !slices.Contains(guardKeys, key) && !counter {
			found = append(found, fmt.Sprintf("the key %q for %v", key, left))
		}
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
