package main

import (
	"fmt"
	"strings"
	"sync"
	"time"
)

// A journal is a table in a database: who has begun the report of a tick, and who has
// ended it. Only both together tell a tick that was missed from one that was run.
type journal struct {
	mu           sync.Mutex
	began, ended map[int64][]string // by tick
}

func (j *journal) begin(tick time.Time, who string) { j.write(&j.began, tick, who) }

func (j *journal) end(tick time.Time, who string) { j.write(&j.ended, tick, who) }

func (j *journal) write(column *map[int64][]string, tick time.Time, who string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if *column == nil {
		*column = make(map[int64][]string)
	}
	(*column)[tick.Unix()] = append((*column)[tick.Unix()], who)
}

// What may come of a tick.
const (
	once   = "run once"
	missed = "missed"
	double = "run more than once"
)

// fate tells what came of a tick, and by whom. A report that was begun counts: half
// of it may have gone out.
func (j *journal) fate(tick time.Time) (fate, who string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	began, ended := j.began[tick.Unix()], j.ended[tick.Unix()]
	switch {
	case len(began) > 1:
		return double, "by " + strings.Join(began, ", ")
	case len(ended) == 1:
		return once, "by " + ended[0]
	case len(began) == 1:
		return missed, fmt.Sprintf("%s began it and did not end it", began[0])
	}
	return missed, "nobody began it"
}
