// Package note is how a client's process tells what it does: each step a line, written
// before the next step begins, so that nothing that was done is lost with a process
// that is killed.
package note

import (
	"fmt"
	"io"
	"sync"

	"github.com/quorumlock/quorumlock/test/integration/fault/history"
)

// The steps of a worker. Keys, contents and names of errors are single words.
const (
	asked    = 'a' // for a key
	had      = 'h' // the lock
	failed   = 'n' // to get it
	extended = 'u' // the lock
	visiting = 'v' // the register: about to write
	returned = 'r' // from there
	refused  = 'x' // there
	ended    = 'e' // with the lock: about to release it
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
func (p *Pen) Asked(worker int, key string, mood Mood) {
	p.line("%c %d %d %s %c\n", asked, worker, Now(), key, mood)
}

// A Mood is how a worker asks for a key.
type Mood rune

// The moods.
const (
	Patient Mood = 'p' // until it has the key
	Hasty   Mood = 'h' // not for long
)

// Had says that the worker has what it asked for.
func (p *Pen) Had(worker int, until history.Moment, fence int64) {
	p.line("%c %d %d %d %d\n", had, worker, Now(), until, fence)
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
	p.line("%c %d %d\n", ended, worker, min(Now(), until))
}

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
