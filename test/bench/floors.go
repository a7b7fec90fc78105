package main

import (
	"fmt"
	"math"
)

// Floor is what a figure must reach.
type Floor struct {
	Text    string
	Want    float64
	AtMost  bool // a ceiling rather
	Form    func(float64) string
	Measure func(r *Report) (value float64, at string)
}

// Ruling is a floor, and what was measured.
type Ruling struct {
	Text     string `json:"text"`
	Floor    string `json:"floor"`
	Measured string `json:"measured"`
	At       string `json:"at,omitempty"` // where, if several were looked at and this is the worst
	Verdict  string `json:"verdict"`
}

// unmeasured is the verdict where there are no figures.
const unmeasured = "not measured"

// judge holds the figures against the floors.
func judge(r *Report) []Ruling {
	var rulings []Ruling
	for _, f := range floors() {
		value, at := f.Measure(r)
		ruling := Ruling{Text: f.Text, Floor: "≥ " + f.Form(f.Want), Measured: form(f.Form, value), At: at, Verdict: "met"}
		short := 1 - value/f.Want
		if f.AtMost {
			ruling.Floor = "≤ " + f.Form(f.Want)
			short = value/f.Want - 1
			if f.Want == 0 {
				short = value
			}
		}
		switch {
		case math.IsNaN(value):
			ruling.Verdict = unmeasured
		case f.Want == 0 && value == 0:
			ruling.At = "" // all of them
		case short > 0 && f.Want == 0:
			ruling.Verdict = "MISSED"
		case short > 0:
			ruling.Verdict = fmt.Sprintf("MISSED by %.1f %%", 100*short)
		}
		rulings = append(rulings, ruling)
	}
	return rulings
}
