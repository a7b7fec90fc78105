package lease

import (
	"cmp"
	"fmt"
	"slices"
	"testing"

	"github.com/quorumlock/quorumlock/clockdrift"
	"github.com/quorumlock/quorumlock/test/explore"
)

// The explorer searches every order in which the commands about one token may reach one node, run there, be answered,
// and be lost. It runs the production Trace, breadth first, so that a violation is told by a shortest schedule.

const (
	ttl = 2 // ticks
	// The node's clock may be a tick slow: its keys live for longest.
	longest = ttl + 1
	present = clockdrift.Instant(1000)
	room    = 5 // commands under way
)

// A command is one that sets the token, or deletes it.
type command struct {
	state state
	frees bool
	did   bool   // answering: it has set, or deleted
	lost  int8   // a zombie: by which loss; else: how many there were when it left
	due   bool   // a zombie that runs, if it does, before the next tick
	seen  uint32 // the news when it left
}

type state uint8

const (
	none      state = iota
	flying          // on its way, or in the server's buffers
	answering       // it has run, and its answer is on its way
	zombie          // its connection is gone; it may still run
)

// A world is a token's trace at one node, the node, and what is between. Its present is always the same: time moves the past.
type world struct {
	trace                  Trace
	key                    int8 // the ticks that the node still keeps the token for
	sets, losses, restarts int8 // so many may still come
	lost                   int8 // so many connections have
	over                   bool // a release has left: nothing sets the token any more
	commands               [room]command
}

// A step leads from one world to another.
type step struct {
	name string
	next world
}

func (w world) normal() world {
	clamp := func(at *clockdrift.Instant) {
		if *at != 0 {
			*at = max(*at, present.Add(-longest))
		}
	}
	clamp(&w.trace.since)
	clamp(&w.trace.replied)
	slices.SortFunc(w.commands[:], func(a, b command) int { return cmp.Compare(a.rank(), b.rank()) })
	return w
}

// rank orders commands, so that worlds which differ in their order alone are one.
func (c command) rank() (rank int) {
	for _, part := range []int{int(c.state), bit(c.frees), bit(c.did), bit(c.due), int(c.lost), int(c.seen)} {
		rank = rank<<8 | part
	}
	return rank
}

func bit(b bool) int {
	if b {
		return 1
	}
	return 0
}

// put adds a command, if there is room.
func (w *world) put(c command) bool {
	i := slices.IndexFunc(w.commands[:], func(c command) bool { return c.state == none })
	if i >= 0 {
		w.commands[i] = c
	}
	return i >= 0
}

// run lets the node run a command.
func (w *world) run(c *command, refused bool) {
	switch {
	case c.frees:
		c.did, w.key = w.key > 0, 0
	case !refused:
		c.did, w.key = true, longest
	}
	if c.state != zombie { // what was in the server's buffers when the command left runs by the next tick
		for i := range w.commands {
			z := &w.commands[i]
			z.due = z.due || z.state == zombie && z.lost <= c.lost
		}
	}
	if c.state == zombie {
		*c = command{}
	} else {
		c.state = answering
	}
}

// answer lets the client read an answer.
func (w *world) answer(c *command) {
	w.trace.heard(c.seen, present)
	if c.frees {
		w.trace.freed(c.did, c.seen)
	} else {
		w.trace.known(c.did, present)
	}
	*c = command{}
}

// steps are all that can happen next.
func (w world) steps() (steps []step) {
	add := func(name string, act func(w *world) bool) {
		next := w
		if act(&next) {
			steps = append(steps, step{name, next.normal()})
		}
	}
	leave := func(frees bool) func(w *world) bool {
		return func(w *world) bool {
			if w.over = frees; !frees {
				w.sets--
				w.trace.left(present)
			}
			return w.put(command{state: flying, frees: frees, lost: w.lost, seen: w.trace.news})
		}
	}
	if w.sets > 0 && !w.over {
		add("a command that sets the token leaves", leave(false))
	}
	if !w.trace.Clean() && w.count(func(c command) bool { return c.frees && c.state != zombie }) < 2 {
		add("a release leaves", leave(true))
	}
	for i, c := range w.commands {
		what := map[bool]string{false: "a setting command", true: "a release"}[c.frees]
		switch c.state {
		case flying, zombie:
			add(what+" runs", func(w *world) bool { w.run(&w.commands[i], false); return true })
			if !c.frees {
				add(what+" is refused", func(w *world) bool { w.run(&w.commands[i], true); return true })
			}
			if c.due {
				add(what+" was not in the buffers", func(w *world) bool { w.commands[i] = command{}; return true })
			}
		case answering:
			add(fmt.Sprintf("the answer of %s is read: %v", what, c.did), func(w *world) bool { w.answer(&w.commands[i]); return true })
		}
		if w.losses > 0 && (c.state == flying || c.state == answering) {
			add(what+" loses its connection", func(w *world) bool { w.losses--; w.lose(i); return true })
		}
	}
	if w.restarts > 0 {
		add("the node restarts, and has forgotten all", func(w *world) bool {
			w.restarts--
			w.restart()
			return true
		})
	}
	if w.count(func(c command) bool { return c.due }) == 0 {
		add("a tick", func(w *world) bool { w.tick(); return true })
	}
	return steps
}

func (w *world) count(which func(c command) bool) (n int) {
	for _, c := range w.commands {
		if c.state != none && which(c) {
			n++
		}
	}
	return n
}

// lose lets a command's connection break. One that has not run may still run.
func (w *world) lose(i int) {
	c := &w.commands[i]
	if !c.frees {
		w.trace.missed(present)
	}
	w.lost++
	if c.state == answering {
		*c = command{}
	} else {
		c.state, c.lost = zombie, w.lost
	}
}

// restart ends the server. What was under way to it is lost, and will not run.
func (w *world) restart() {
	w.key = 0
	for i := range w.commands {
		if s := w.commands[i].state; s == flying || s == answering {
			w.lose(i)
		}
		w.commands[i] = command{}
	}
}

func (w *world) tick() {
	w.key = max(0, w.key-1)
	for _, at := range []*clockdrift.Instant{&w.trace.since, &w.trace.replied} {
		if *at != 0 {
			*at--
		}
	}
	w.trace.expire(present, longest)
}

// wrong says what must not be in a world; "": nothing is.
func (w world) wrong() string {
	switch t := w.trace; {
	case t.lost > t.open || t.open > t.sets+t.lost:
		return "more commands are lost than open, or open than have left"
	case t.Clean() && w.key > 0:
		return "the trace is clean, and the node has the token"
	case t.Clean() && w.count(func(c command) bool { return !c.frees && (c.state == flying || c.state == zombie) }) > 0:
		return "the trace is clean, and a command is under way that sets the token"
	case !w.settles():
		return "the trace never gets clean"
	}
	return ""
}

// settles reports whether the trace gets clean where nothing more goes wrong: each command runs and is answered, and a
// release is sent each tick.
func (w world) settles() bool {
	for range 2*longest + 2 {
		for i := range w.commands {
			if c := &w.commands[i]; c.state == flying || c.state == zombie {
				w.run(c, false)
			}
		}
		for i := range w.commands {
			if c := &w.commands[i]; c.state == answering {
				w.answer(c)
			}
		}
		if w.trace.Clean() {
			return true
		}
		w.put(command{state: flying, frees: true, lost: w.lost, seen: w.trace.news})
		w.tick()
	}
	return false
}

func TestACleanTraceIsTrueInEveryOrderOfCommandsLossesAndRestarts(t *testing.T) {
	for name, first := range map[string]world{
		"three settings, a loss":              {sets: 3, losses: 1},
		"two settings, two losses":            {sets: 2, losses: 2},
		"two settings, a loss, and a restart": {sets: 2, losses: 1, restarts: 1},
	} {
		if testing.Short() && first.restarts == 0 {
			continue // the one with a restart is small
		}
		t.Run(name, func(t *testing.T) {
			worlds, violation := explore.Search(first, func(w world, next func(explore.Step, world)) {
				for _, s := range w.steps() {
					next(explore.Step{What: s.name}, s.next)
				}
			}, world.wrong)
			t.Logf("%d states", len(worlds))
			if violation != "" {
				t.Error(violation)
			}
		})
	}
}
