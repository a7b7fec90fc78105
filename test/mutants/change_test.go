package main

import (
	"strings"
	"testing"
)

const move = `func (c *cart) move(now int) (far bool) {
	if c.speed > now && c.loaded { // too fast
		c.brake(now,
			c.speed)
	}
	switch {
	case c.speed == 0:
		return false
	}
	return c.speed > 2
}`

func TestAChange(t *testing.T) {
	for name, tt := range map[string]struct {
		change     change
		old, other string // what is there then instead
		fails      string
	}{
		"never":                            {change: never("c.loaded"), old: "c.loaded", other: "((c.loaded) && false)"},
		"always":                           {change: always("c.speed > now && c.loaded"), old: "c.speed > now && c.loaded", other: "((c.speed > now && c.loaded) || true)"},
		"a case":                           {change: never("c.speed == 0"), old: "c.speed == 0", other: "((c.speed == 0) && false)"},
		"a result":                         {change: never("c.speed > 2"), old: "c.speed > 2", other: "((c.speed > 2) && false)"},
		"what is no whole condition":       {change: never("c.speed"), fails: "0 times"},
		"a statement":                      {change: drop("c.brake("), old: "c.brake(now,\n\t\t\tc.speed)", other: "if false { c.brake(now,\n\t\t\tc.speed) }"},
		"a clause":                         {change: drop("case c.speed == 0"), old: "case c.speed == 0:\n\t\treturn false", other: ""},
		"no statement":                     {change: drop("c.speed"), fails: "0 times"},
		"two statements":                   {change: drop("return"), fails: "2 times"},
		"the body":                         {change: returns("true"), old: move[max(0, strings.Index(move, "{")):], other: "{ return true }"},
		"another text":                     {change: replace("c.speed > now", "c.speed < now"), old: "speed > now", other: "speed < now"},
		"what gofmt has broken":            {change: replace("c.brake(now, c.speed)", "c.stop()"), old: "c.brake(now,\n\t\t\tc.speed)", other: "c.stop()"},
		"over a comment":                   {change: replace("{ c.brake", "{ c.stop"), old: "{ // too fast\n\t\tc.brake", other: "{ c.stop"},
		"nothing of the kind":              {change: replace("c.slow", "c.fast"), fails: "0 times"},
		"what is there more than once":     {change: replace("c.speed", "c.slowness"), fails: "4 times"},
		"a condition of an older receiver": {change: never("k.loaded"), old: "c.loaded", other: "((c.loaded) && false)"},
		"by the name that a receiver has":  {change: replace("k.speed > then && k.loaded", "k.loaded && k.speed < then"), old: "c.speed > now && c.loaded", other: "c.loaded && c.speed < now"},
		"by the name that a move exported": {change: replace("c.Loaded", "!c.Loaded"), old: "c.loaded", other: "!c.loaded"},
		"by a name that moved behind":      {change: replace("Speed == 0", "Speed == 1"), old: "c.speed == 0", other: "c.speed == 1"},
		"two names for one":                {change: replace("k.speed > k", "k.speed < k"), fails: "0 times"},
		"the names of others":              {change: replace("k.wheels", "4"), fails: "0 times"},
	} {
		want := strings.Replace(move, tt.old, tt.other, 1)
		got, err := tt.change(move)
		switch {
		case tt.fails != "" && (err == nil || !strings.Contains(err.Error(), tt.fails)):
			t.Errorf("%s: %v, want an error with %q", name, err, tt.fails)
		case tt.fails == "" && (got != want || err != nil):
			t.Errorf("%s = %v\n%s\nwant\n%s", name, err, got, want)
		}
	}
}

func TestADeclarationIsFoundWhereverItStands(t *testing.T) {
	l := &library{decls: []declaration{
		{name: "gate.node.look"}, {name: "gate.Look"}, {name: "quorum.Operation.tally"}, {name: "quorum.look"}, {name: "wait.Turn"}, {name: "gate.turn"}, {name: "hold.lua"},
	}}
	for name, want := range map[string]string{
		"node.look":       "gate.node.look",
		"look":            "quorum.look",
		"gate.look":       "gate.Look",
		"operation.tally": "quorum.Operation.tally",
		"turn":            "gate.turn",
		"hold.lua":        "hold.lua",
		"tally":           "has it another name",
		"TURN":            "wait.Turn or gate.turn",
	} {
		switch d, err := l.find(name); {
		case err != nil && !strings.Contains(err.Error(), want):
			t.Errorf("%s: %v, want %s", name, err, want)
		case err == nil && d.name != want:
			t.Errorf("%s is %s, want %s", name, d.name, want)
		}
	}
}

func TestAMutantIsFoundByItsPackagesTestsAndThoseOfAll(t *testing.T) {
	l := &library{decls: []declaration{{name: "gate.look", suite: &suite{pkg: "./gate"}}, {name: "wait.turn"}, {name: "redlock.begin", suite: &suite{pkg: "./redlock"}}}}
	for _, tt := range []struct {
		edits edits
		want  string
	}{
		{in("look"), "./gate ./redlock"},
		{in("turn"), "./redlock"},
		{in("begin"), "./redlock"},
		{in("begin").in("look").in("turn").in("gate.look"), "./gate ./redlock"},
	} {
		var got []string
		m := wrong("", tt.edits)
		for _, s := range m.tests(l) {
			got = append(got, s.pkg)
		}
		if strings.Join(got, " ") != tt.want {
			t.Errorf("%v: %v, want %s", tt.edits, got, tt.want)
		}
	}
}
