// Command rest searches the line of those who wait for several keys: whether each of up to four
// clients is served in every run, and after how long.
//
//	go run ./test/model/rest TAN                     # the rule
//	go run ./test/model/rest -rule direct-alone TAN  # with a change
//	go run ./test/model/rest -h                      # all flags and changes
//
// It prints how many states there are, and for each client its longest wait in ticks and how many
// others are served meanwhile; or STARVES if it may wait for ever. Then the exit code is 1. The
// README says what the letters mean and what is searched for.
package main

import (
	"errors"
	"flag"
	"fmt"
	"hash/maphash"
	"maps"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"
)

func main() {
	var m model
	number(&m.hold, "hold", 2, "the longest hold, in `ticks`")
	number(&m.period, "period", 3, "the shortest period, in `ticks`: tickets rest in its last third; 0: they never rest")
	number(&m.share, "share", 1, "how many `times` as old as its period a ticket is at least")
	number(&m.doublings, "doublings", 3, "how many `times` the period doubles while a ticket grows old")
	number(&m.ahead, "ahead", 0, "by how many `ticks` the second node's clock is ahead")
	flag.BoolVar(&m.slow, "slow", false, "who waits may make no try in a tick, but not twice running")
	flag.Func("heedless", "the `places` of those who heed no tickets, such as 12", m.heed)
	usage := "`changes` of the rule, such as any-wait,own-age:"
	for _, name := range slices.Sorted(maps.Keys(changes)) {
		usage += "\n" + name + ": " + changes[name]
	}
	rule := flag.String("rule", "", usage)
	flag.Parse()
	began := time.Now()
	err := m.configure(strings.Join(flag.Args(), " "), *rule)
	g := new(graph)
	if err == nil {
		g, err = search(&m)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "rest:", err)
		os.Exit(2)
	}
	starved := false
	results := make([]string, len(m.clients))
	for me := range m.clients {
		ticks, others, ends := g.longest(me)
		result := fmt.Sprintf("%d ticks, %d others", ticks, others)
		if !ends {
			result = "STARVES"
		}
		starved = starved || !ends
		results[me] = fmt.Sprintf("%c %s", flag.Arg(0)[me], result)
	}
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	fmt.Printf("%d states, %d MB, %.2f seconds: %s\n", len(g.states), memory.Sys>>20, time.Since(began).Seconds(), strings.Join(results, "; "))
	if starved {
		os.Exit(1)
	}
}

// number is a flag for a small number.
func number(to *uint8, name string, value uint8, usage string) {
	*to = value
	flag.Func(name, fmt.Sprintf("%s (default %d)", usage, value), func(s string) error {
		n, err := strconv.ParseUint(s, 10, 8)
		*to = uint8(n)
		return err
	})
}

// heed reads the places of those who heed no tickets.
func (m *model) heed(places string) error {
	for _, digit := range places {
		place := strings.IndexRune("0123", digit)
		if place < 0 {
			return fmt.Errorf("%c is no place", digit)
		}
		m.heedless |= bit(place)
	}
	return nil
}

// A step leads to a state. It may serve a client, or be a tick.
type step struct {
	to     uint32
	served set
	tick   bool
}

// A graph has all states that can be reached, and the steps from states[i] in
// steps[first[i]:first[i+1]].
type graph struct {
	states []state
	first  []int
	steps  []step
}

// search visits all states of the model.
func search(m *model) (*graph, error) {
	g := new(graph)
	seed := maphash.MakeSeed()
	index := map[uint64]uint32{} // by a state's hash, or the next number that is free
	found := uint32(0)
	place := func(s state) uint32 {
		hash := maphash.Comparable(seed, s)
		for {
			at, ok := index[hash]
			if !ok {
				break
			}
			if g.states[at] == s {
				return at
			}
			hash++
		}
		index[hash] = found
		g.states = append(g.states, s)
		found++
		return found - 1
	}
	place(m.start())
	for len(g.first) < len(g.states) {
		if found > 10_000_000 {
			return nil, errors.New("more than 10 million states")
		}
		s := g.states[len(g.first)]
		g.first = append(g.first, len(g.steps))
		m.next(s, func(s state, served set, tick bool) {
			g.steps = append(g.steps, step{place(s), served, tick})
		})
	}
	g.first = append(g.first, len(g.steps))
	return g, nil
}

// longest returns how long the client waits at most, in ticks, and how many others are served
// meanwhile; or says that the wait may never end. A wait is a path of steps that do not serve him.
// They are followed from states that no other such step leads to; what is not reached so lies on a
// ring of them, or behind one.
func (g *graph) longest(client int) (ticks, others int32, ends bool) {
	type path struct {
		open          int // how many steps to the state were not followed yet
		ticks, others int32
	}
	paths := make([]path, len(g.states))
	for _, step := range g.steps {
		if !step.served.has(client) {
			paths[step.to].open++
		}
	}
	var next []int
	for i := range paths {
		if paths[i].open == 0 {
			next = append(next, i)
		}
	}
	followed := 0
	for ; len(next) > 0; followed++ {
		i := next[len(next)-1]
		next = next[:len(next)-1]
		ticks, others = max(ticks, paths[i].ticks), max(others, paths[i].others)
		for _, step := range g.steps[g.first[i]:g.first[i+1]] {
			if step.served.has(client) {
				continue
			}
			from, to := paths[i], &paths[step.to]
			if step.tick && g.states[i].clients[client].waits() {
				from.ticks++
			}
			if step.served != 0 {
				from.others++
			}
			to.ticks, to.others = max(to.ticks, from.ticks), max(to.others, from.others)
			if to.open--; to.open == 0 {
				next = append(next, int(step.to))
			}
		}
	}
	return ticks, others, followed == len(paths)
}
