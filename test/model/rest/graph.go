package main

import (
	"errors"
	"hash/maphash"
)

// A step leads to a state. It may serve a client, or be a tick.
type step struct {
	to     uint32
	served set
	tick   bool
}

// A graph has all states that can be reached, and the steps from states[i] in steps[first[i]:first[i+1]].
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

// longest returns how long the client waits at most, in ticks, and how many others are served meanwhile; or says that the
// wait may never end. A wait is a path of steps that do not serve him. They are followed from states that no other such
// step leads to; what is not reached so lies on a ring of them, or behind one.
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

// hangs reports whether there is a state from which no run at all serves the client.
func (g *graph) hangs(client int) bool {
	served := make([]bool, len(g.states))
	count := 0
	for before := -1; before < count; {
		before = count
		for i := len(g.states) - 1; i >= 0; i-- {
			if served[i] {
				continue
			}
			for _, step := range g.steps[g.first[i]:g.first[i+1]] {
				if step.served.has(client) || served[step.to] {
					served[i] = true
					count++
					break
				}
			}
		}
	}
	return count < len(served)
}
