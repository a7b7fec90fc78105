package main

import (
	"encoding/json"
	"math"
	"os"
	"slices"
)

// Report is all that a run has found out: what the JSON file holds.
type Report struct {
	Machine Machine  `json:"machine"`
	Tables  []Table  `json:"cases"`
	Floors  []Ruling `json:"floors"`
	// History has a line for each release, the last one at the end.
	History []Release `json:"history,omitempty"`
	since   *Release  // with which the figures are compared; nil: with none
}

// Machine says where and how the figures came about.
type Machine struct {
	Date      string `json:"date"`
	Processor string `json:"processor"`
	Cores     int    `json:"cores"`
	System    string `json:"system"`
	Go        string `json:"go"`
	Server    string `json:"server"`
	Nodes     int    `json:"nodes"`
	Rounds    int    `json:"rounds"`
	Window    string `json:"window"` // how long one measurement takes
}

// Table is the figures of one case.
type Table struct {
	Name string `json:"name"`
	Rows []*Row `json:"rows"`
}

// Row is the figures of one contender in one situation.
type Row struct {
	Key
	// Rounds has a value of each metric for each round. Times are in seconds, and
	// cycles a second.
	Rounds map[string][]float64 `json:"rounds"`
}

// Key says whose figures a row holds.
type Key struct {
	Contender  string `json:"contender"`
	Goroutines int    `json:"goroutines,omitempty"`
	Situation  string `json:"situation,omitempty"`
}

// Add adds one round's values to the row of key, but for those that are no numbers,
// such as allocations of no cycle at all.
func (t *Table) Add(key Key, values map[string]float64) {
	row := t.Row(key)
	if row == nil {
		row = &Row{key, map[string][]float64{}}
		t.Rows = append(t.Rows, row)
	}
	for metric, value := range values {
		if math.IsNaN(value) || math.IsInf(value, 0) {
			continue
		}
		row.Rounds[metric] = append(row.Rounds[metric], value)
	}
}

// Row finds the row of key, and nil where there is none.
func (t *Table) Row(key Key) *Row {
	if t == nil {
		return nil
	}
	i := slices.IndexFunc(t.Rows, func(row *Row) bool { return row.Key == key })
	if i < 0 {
		return nil
	}
	return t.Rows[i]
}

// Median is the metric's median over the rounds. It is not a number where nothing
// was measured.
func (r *Row) Median(metric string) float64 {
	if r == nil {
		return math.NaN()
	}
	return median(r.Rounds[metric])
}

// ratio is the median over the rounds of how many times b's value a has.
func ratio(metric string, a, b *Row) float64 {
	if a == nil || b == nil {
		return math.NaN()
	}
	var ratios []float64
	for i := range min(len(a.Rounds[metric]), len(b.Rounds[metric])) {
		ratios = append(ratios, a.Rounds[metric][i]/b.Rounds[metric][i])
	}
	return median(ratios)
}

func median(values []float64) float64 {
	if len(values) == 0 {
		return math.NaN()
	}
	sorted := slices.Sorted(slices.Values(values))
	middle := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[middle]
	}
	return (sorted[middle-1] + sorted[middle]) / 2
}

// Table finds the table of a case, and nil where the case did not run.
func (r *Report) Table(name string) *Table {
	i := slices.IndexFunc(r.Tables, func(t Table) bool { return t.Name == name })
	if i < 0 {
		return nil
	}
	return &r.Tables[i]
}

func (r *Report) write(path string) error {
	text, err := json.MarshalIndent(r, "", "\t")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(text, '\n'), 0o644) //nolint:gosec // everybody may read it
}

func readReport(path string) (*Report, error) {
	text, err := os.ReadFile(path) //nolint:gosec // the file that the user names
	if err != nil {
		return nil, err
	}
	report := new(Report)
	return report, json.Unmarshal(text, report)
}
