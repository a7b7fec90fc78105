// Package note is how a client's process tells what it does: each step a line, written
// before the next step begins, so that nothing that was done is lost with a process
// that is killed.
package note

import (
	"fmt"
	"io"
	"strings"
	"sync"

	"github.com/quorumlock/quorumlock/test/integration/fault/history"
)

// The steps of a worker. Keys, contents and names of errors are single words.
const (
	asked    = 'a' // for a key
	holds    = 'k' // of several keys, or together with others
	had      = 'h' // the lock
	failed   = 'n' // to get it
	extended = 'u' // the lock
	visiting = 'v' // the register: about to write
	returned = 'r' // from there
	refused  = 'x' // there
	ended    = 'e' // with the lock: about to release it
	freed    = 'f' // that call has returned
	lost     = 'l' // the lock, which was to be renewed
	starved  = 's' // of time to run: the whole process
	tried    = 't' // for a hot key: the whole process
)

// A Pen writes down what the workers of one process do. It is safe for concurrent use.
type Pen struct {
	mu  sync.Mutex
	out io.Writer
	err error
}

// NewPen returns a pen that writes to out.
func NewPen(out io.Writer) *Pen { return &Pen{out: out} }

// Asked says that a worker asks for a key, and waits until it gets it if patient.
func (p *Pen) Asked(worker int, key string, mood Mood) { p.AskedAt(Now(), worker, key, mood) }

// AskedAt is Asked, where that was a while ago.
func (p *Pen) AskedAt(when history.Moment, worker int, key string, mood Mood) {
	p.line("%c %d %d %s %c\n", asked, worker, when, key, mood)
}

// A Mood is how a worker asks for a key.
type Mood rune

// The moods.
const (
	Patient Mood = 'p' // until it has the key
	Hasty   Mood = 'h' // not for long
	Once    Mood = 'o' // at one instant with others, a key that is new: what all are told is judged together
)

// Had says that the worker has what it asked for.
func (p *Pen) Had(worker int, until history.Moment, fence int64) {
	p.line("%c %d %d %d %d\n", had, worker, Now(), until, fence)
}

// Holds says what the worker has, where it is not what it asked for: these keys, each a tenure
// of its own, and together with others if shared. It comes before Had.
func (p *Pen) Holds(worker int, shared bool, keys ...string) {
	p.line("%c %d %d %t %s\n", holds, worker, Now(), shared, strings.Join(keys, " "))
}

// Failed says that the worker did not get what it asked for, by the name of an error.
func (p *Pen) Failed(worker int, name string) {
	p.line("%c %d %d %s\n", failed, worker, Now(), name)
}

// Extended says until when the lock holds now.
func (p *Pen) Extended(worker int, until history.Moment) {
	p.line("%c %d %d %d\n", extended, worker, Now(), until)
}

// Visiting says that the worker is about to write to the key's register, where it began
// to look at the moment called.
func (p *Pen) Visiting(worker int, called history.Moment, found, left string) {
	p.line("%c %d %d %q %q\n", visiting, worker, called, found, left)
}

// Returned says that the register has taken it.
func (p *Pen) Returned(worker int) { p.line("%c %d %d\n", returned, worker, Now()) }

// Refused says that the register has refused it.
func (p *Pen) Refused(worker int) { p.line("%c %d %d\n", refused, worker, Now()) }

// Ended says that the worker is about to release its lock, which holds until then.
func (p *Pen) Ended(worker int, until history.Moment) {
	now := Now()
	p.line("%c %d %d %d\n", ended, worker, min(now, until), now)
}

// Freed says that the call to release it has returned.
func (p *Pen) Freed(worker int) { p.line("%c %d %d\n", freed, worker, Now()) }

// Lost says when the worker's lock ended that was to be renewed, and why.
func (p *Pen) Lost(worker int, when history.Moment, why error) {
	p.line("%c %d %d %q\n", lost, worker, when, fmt.Sprint(why))
}

// Starved says that the process did not get to run.
func (p *Pen) Starved(when history.Span) { p.line("%c 0 %d %d\n", starved, when.From, when.To) }

// Tried says how often the process has tried for a hot key.
func (p *Pen) Tried(times int64) { p.line("%c 0 %d %d\n", tried, Now(), times) }

// Close returns the first error that there was.
func (p *Pen) Close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.err
}

func (p *Pen) line(format string, words ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, err := fmt.Fprintf(p.out, format, words...); err != nil && p.err == nil {
		p.err = err
	}
}
