// Package explore searches all worlds that steps lead to.
package explore

import (
	"fmt"
	"hash/maphash"
	"slices"
	"strings"
)

// A Step is what happens in a world: to which node, and by which client.
type Step struct {
	What         string
	Node, Client int
}

func (s Step) String() string { return fmt.Sprintf("node %d, client %d: %s", s.Node, s.Client, s.What) }

// Search visits all worlds that steps lead to, breadth first, until one is wrong. It returns how many there were, and the
// steps to the wrong one.
func Search[W comparable](first W, steps func(w W, next func(Step, W)), wrong func(W) string) (worlds []W, why string) {
	seed := maphash.MakeSeed()
	seen, from := map[uint64]struct{}{maphash.Comparable(seed, first): {}}, []int32{-1}
	worlds = []W{first}
	for at := 0; at < len(worlds) && why == ""; at++ {
		steps(worlds[at], func(_ Step, w W) {
			h := maphash.Comparable(seed, w)
			if _, ok := seen[h]; ok || why != "" {
				return
			}
			seen[h] = struct{}{}
			worlds, from = append(worlds, w), append(from, int32(at)) //nolint:gosec // there is no room for so many
			why = wrong(w)
		})
	}
	if why == "" {
		return worlds, ""
	}
	var path []string
	for at := int32(len(worlds) - 1); from[at] >= 0; at = from[at] { //nolint:gosec // as above
		last := ""
		steps(worlds[from[at]], func(s Step, w W) {
			if w == worlds[at] && last == "" {
				last = s.String()
			}
		})
		path = append(path, last)
	}
	slices.Reverse(path)
	return worlds, why + ":\n  " + strings.Join(path, "\n  ")
}
