package main

import (
	"fmt"
	"time"
)

// A benchReport is what bench prints.
type benchReport struct {
	Schema      string      `json:"schema"`
	Time        time.Time   `json:"time"`
	For         float64     `json:"for_s"`
	TTL         float64     `json:"ttl_s"`
	NodeTimeout float64     `json:"node_timeout_s"`
	MaxRate     int         `json:"max_rate"` // cycles/s; 0: no bound
	MaxRateWhy  string      `json:"max_rate_why,omitempty"`
	Nodes       []benchNode `json:"nodes"`
	Parts       []benchPart `json:"parts"`
	Advice      benchAdvice `json:"advice"`
	Check       *benchCheck `json:"check,omitempty"`
}

// A benchNode is what a node did.
type benchNode struct {
	Name       string      `json:"name"`
	Error      string      `json:"error,omitempty"` // why it has no vote
	Keys       int64       `json:"keys"`            // of others; -1: it does not say
	Trips      *benchTimes `json:"round_trip,omitempty"`
	Load       *benchTimes `json:"load,omitempty"` // batches of requests
	Unanswered int         `json:"unanswered"`     // of these
}

// A benchPart is one load.
type benchPart struct {
	Goroutines int         `json:"goroutines"`
	Keys       int         `json:"keys"`
	Clients    int         `json:"clients"`
	Rate       float64     `json:"cycles_per_s"`
	Failed     int         `json:"failed"`
	Error      string      `json:"error,omitempty"` // of the last that failed
	Times      *benchTimes `json:"cycle,omitempty"`
}

// benchTimes are times in seconds.
type benchTimes struct {
	Samples int     `json:"samples"`
	P50     float64 `json:"p50_s"`
	P90     float64 `json:"p90_s"`
	P99     float64 `json:"p99_s"`
	P999    float64 `json:"p999_s"`
	Max     float64 `json:"max_s"`
}

// A benchAdvice is the settings that follow.
type benchAdvice struct {
	TTL         float64  `json:"ttl_s"`
	NodeTimeout float64  `json:"node_timeout_s"`
	Goroutines  int      `json:"goroutines"` // 0: nobody can tell
	Why         []string `json:"why"`
	Flags       string   `json:"flags"`
	Options     string   `json:"options"`
}

// A benchCheck judges by limits.
type benchCheck struct {
	Pass   bool         `json:"pass"`
	Limits []benchLimit `json:"limits"`
}

// A benchLimit is one of them.
type benchLimit struct {
	ID    string  `json:"id"`
	Seen  float64 `json:"seen"`
	Limit float64 `json:"limit"`
	Least bool    `json:"least"` // the limit is the least that is good; otherwise the most
	Pass  bool    `json:"pass"`
}

// own are the parts in which each goroutine has a key of its own.
func (r *benchReport) own() []benchPart { return r.Parts[:len(r.Parts)-1] }

// worst is the greatest p99.9 and maximum of the parts without contention.
func (r *benchReport) worst() (w benchTimes) {
	for _, p := range r.own() {
		if p.Times != nil {
			w.P999, w.Max = max(w.P999, p.Times.P999), max(w.Max, p.Times.Max)
		}
	}
	return w
}

// slowest is the node with the greatest p99.9 under load, with the greatest maximum of all.
func (r *benchReport) slowest() (name string, w benchTimes) {
	for _, n := range r.Nodes {
		if n.Load == nil {
			continue
		}
		if name == "" || n.Load.P999 > w.P999 {
			name, w.P999 = n.Name, n.Load.P999
		}
		w.Max = max(w.Max, n.Load.Max)
	}
	return name, w
}

// advise says which settings follow from the figures.
func (r *benchReport) advise() {
	name, node := r.slowest()
	cycle := r.worst()
	timeout := roundUp(max(4*node.P999, 2*node.Max, 0.05))
	ttl := roundUp(max(10*timeout.Seconds(), 20*cycle.P999, 4*cycle.Max, 1))
	a := &r.Advice
	a.NodeTimeout, a.TTL = timeout.Seconds(), ttl.Seconds()
	a.Why = []string{
		fmt.Sprintf("Node time-out %v: under load %s answered 99.9 %% within %s, and the longest answer of any node took %s. It is 4 times the one, twice the other, and at least 50ms.",
			timeout, name, seconds(node.P999), seconds(node.Max)),
		fmt.Sprintf("Lease %v or more: 99.9 %% of the cycles took %s at most, and the longest %s. It is 20 times the one, 4 times the other, 10 node time-outs, so that renewals can fail and be repeated, and at least 1s. Add the longest pause of your programs; a longer lease only keeps a key longer after a crash.",
			ttl, seconds(cycle.P999), seconds(cycle.Max)),
	}
	for _, n := range r.Nodes {
		if n.Unanswered > 0 {
			a.Why = append(a.Why, fmt.Sprintf("%s left %d batches without an answer. If they came too late for the node time-out of %s, these figures are too low: measure with a longer --node-timeout.", n.Name, n.Unanswered, seconds(r.NodeTimeout)))
		}
	}
	a.Flags = fmt.Sprintf("--ttl %v --node-timeout %v", ttl, timeout)
	a.Options = fmt.Sprintf("redlock.WithTTL(%s), redlock.WithNodeTimeout(%s)", inGo(ttl), inGo(timeout))
	r.adviseGoroutines()
}

// adviseGoroutines takes the fewest that reach nearly the greatest throughput.
func (r *benchReport) adviseGoroutines() {
	a, best := &r.Advice, r.own()[0]
	for _, p := range r.own() {
		if p.Rate > best.Rate {
			best = p
		}
	}
	if r.MaxRate > 0 && best.Rate > 0.8*float64(r.MaxRate) {
		a.Why = append(a.Why, fmt.Sprintf("Goroutines: nobody can tell, for %d cycles/s were allowed, and %.0f came.", r.MaxRate, best.Rate))
		return
	}
	for _, p := range r.own() {
		if p.Times == nil || p.Rate < 0.9*best.Rate {
			continue
		}
		a.Goroutines = p.Goroutines
		a.Why = append(a.Why, fmt.Sprintf("Goroutines %d: they reach %.0f cycles/s with a p99 of %s; the most was %.0f, with %d. These are the fewest with 90 %% of it; more of them wait longer for no more.",
			p.Goroutines, p.Rate, seconds(p.Times.P99), best.Rate, best.Goroutines))
		a.Options += fmt.Sprintf("; group.SetLimit(%d)", p.Goroutines)
		return
	}
}

// judge compares the figures with the limits that the help of bench states.
func (r *benchReport) judge() {
	c := &benchCheck{Pass: true}
	add := func(id string, seen, limit float64, least bool) {
		pass := seen <= limit
		if least {
			pass = seen >= limit
		}
		c.Limits, c.Pass = append(c.Limits, benchLimit{id, seen, limit, least, pass}), c.Pass && pass
	}
	up, failed, throughput := 0, 0, 0.0
	for _, n := range r.Nodes {
		if n.Error == "" {
			up++
		}
	}
	for _, p := range r.Parts {
		failed += p.Failed
		if p.Goroutines == benchMost {
			throughput = p.Rate
		}
	}
	least := 100.0
	if r.MaxRate > 0 {
		least = min(least, 0.8*float64(r.MaxRate))
	}
	_, node := r.slowest()
	cycle := r.worst()
	add("nodes", float64(up), float64(len(r.Nodes)), true)
	add("failed", float64(failed), 0, false)
	add("node_p999_s", node.P999, r.NodeTimeout/2, false)
	add("cycle_p999_s", cycle.P999, r.TTL/20, false)
	add("cycle_max_s", cycle.Max, r.TTL/4, false)
	add("cycles_per_s", throughput, least, true)
	r.Check = c
}

// roundUp returns the next round duration: 1, 2, 3 or 5 and zeros.
func roundUp(s float64) time.Duration {
	for unit := time.Millisecond; ; unit *= 10 {
		for _, n := range []time.Duration{1, 2, 3, 5} {
			if d := n * unit; d.Seconds() >= s {
				return d
			}
		}
	}
}

// inGo is a round duration as Go programs write it.
func inGo(d time.Duration) string {
	if d%time.Second == 0 {
		return fmt.Sprintf("%d*time.Second", d/time.Second)
	}
	return fmt.Sprintf("%d*time.Millisecond", d/time.Millisecond)
}
