// Command rest searches the line of those who wait for several keys: whether each of up to four clients is served in every
// run, and after how long.
//
//	go run ./test/model/rest TAN                     # the rule
//	go run ./test/model/rest -rule direct-alone TAN  # with a change
//	go run ./test/model/rest -h                      # all flags and changes
//
// It prints how many states there are, and for each client its longest wait in ticks and how many others are served
// meanwhile; or STARVES if it may wait for ever, and HANGS if there is a state from which no run serves it. Then the exit
// code is 1. The README says what the letters mean and what is searched for.
package main

import (
	"flag"
	"fmt"
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
	number(&m.doublings, "doublings", 3, "how many `times` the period doubles while a ticket grows old")
	number(&m.ahead, "ahead", 0, "by how many `ticks` the second node's clock is ahead")
	flag.BoolVar(&m.slow, "slow", false, "who waits may make no try in a tick, but not twice running")
	places(&m.heedless, "heedless", "the `places` of those who heed no tickets, such as 12")
	places(&m.process, "process", "the `places` of those who are in one process")
	usage := "`changes` of the rule, such as no-direct,turns:"
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
		switch {
		case !ends && g.hangs(me):
			result = "HANGS"
		case !ends:
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

// places is a flag for a set of clients.
func places(to *set, name, usage string) {
	flag.Func(name, usage, func(s string) error {
		for _, digit := range s {
			place := strings.IndexRune("0123", digit)
			if place < 0 {
				return fmt.Errorf("%c is no place", digit)
			}
			*to |= bit(place)
		}
		return nil
	})
}
