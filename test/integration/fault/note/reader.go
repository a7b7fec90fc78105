package note

import (
	"bufio"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/quorumlock/quorumlock/test/integration/fault/history"
)

// A Reader makes a history of one process's notes.
type Reader struct {
	process string
	tell    func() // that one more lock was had
	log     history.Log
	workers map[int]*worker
	keys    map[string]string // one string for each
}

// A worker is what the notes so far say of one.
type worker struct {
	name   string
	key    string
	mood   Mood
	asked  history.Moment
	shared bool     // it holds together with others
	keys   []string // that it holds
	tenure int      // the last one's place in the log, and those of its other keys behind it
	visit  int      // the same for the visit under way, or -1
	open   bool
}

// NewReader returns a reader of a process's notes, which calls had whenever a lock was
// had.
func NewReader(process string, had func()) *Reader {
	return &Reader{process: process, tell: had, log: history.Log{Stopped: map[string][]history.Span{}}, workers: map[int]*worker{}, keys: map[string]string{}}
}

// Read reads until the notes end. It returns what comes behind them: the rest of a line
// that does not begin with a step's letter. A line that breaks off is one that the
// process did not finish.
func (r *Reader) Read(from *bufio.Reader) (rest string, err error) {
	for {
		line, err := from.ReadString('\n')
		if err == io.EOF {
			return "", nil
		}
		if err != nil {
			return "", err
		}
		if !strings.HasPrefix(line[1:], " ") {
			return line, nil
		}
		if err := r.step(line); err != nil {
			return "", fmt.Errorf("the note %q of %s: %w", line, r.process, err)
		}
	}
}

// struckOut is what a visit leaves that the register has refused.
const struckOut = ""

// Log returns what was read. A wait that has not ended has no answer.
func (r *Reader) Log() *history.Log {
	for _, w := range r.workers {
		if w.open {
			r.wait(w, history.Never, "")
		}
	}
	r.log.Visits = slices.DeleteFunc(r.log.Visits, func(v history.Visit) bool { return v.Left == struckOut })
	return &r.log
}

func (r *Reader) step(line string) error {
	var (
		kind rune
		id   int
		at   history.Moment
	)
	text := strings.NewReader(line)
	if _, err := fmt.Fscanf(text, "%c %d %d", &kind, &id, &at); err != nil {
		return err
	}
	if kind == tried {
		var times int64
		_, err := fmt.Fscan(text, &times)
		r.log.Tries += times
		return err
	}
	if kind == starved {
		span := history.Span{From: at}
		_, err := fmt.Fscan(text, &span.To)
		r.log.Stopped[r.process] = append(r.log.Stopped[r.process], span)
		return err
	}
	w := r.workers[id]
	if w == nil {
		w = &worker{name: fmt.Sprint(r.process, "/", id), visit: -1}
		r.workers[id] = w
	}
	return r.note(w, kind, at, text)
}

func (r *Reader) note(w *worker, kind rune, at history.Moment, rest io.Reader) (err error) {
	switch kind {
	case asked:
		var key string
		_, err = fmt.Fscanf(rest, " %s %c", &key, &w.mood)
		w.key, w.asked, w.open = r.intern(key), at, true
		w.shared, w.keys = false, append(w.keys[:0], w.key)
	case holds:
		var keys string
		_, err = fmt.Fscanf(rest, " %t", &w.shared)
		if text, failed := io.ReadAll(rest); failed == nil {
			keys = string(text)
		}
		w.keys = w.keys[:0]
		for _, key := range strings.Fields(keys) {
			w.keys = append(w.keys, r.intern(key))
		}
	case had:
		t := history.Tenure{Client: w.name, Asked: w.asked, Had: at, Shared: w.shared}
		_, err = fmt.Fscan(rest, &t.Ended, &t.Fence)
		w.tenure, w.open = len(r.log.Tenures), false
		for _, t.Key = range w.keys {
			r.log.Tenures = append(r.log.Tenures, t)
		}
		r.tell()
		r.wait(w, at, "")
	case failed:
		var name string
		_, err = fmt.Fscan(rest, &name)
		w.open = false
		r.wait(w, at, name)
	case extended:
		var until history.Moment
		_, err = fmt.Fscan(rest, &until)
		r.each(w, func(t *history.Tenure) { t.Ended = until })
	case visiting:
		now := r.log.Tenures[w.tenure]
		v := history.Visit{Client: w.name, Key: now.Key, Fence: now.Fence, Called: at, Returned: history.Never}
		_, err = fmt.Fscanf(rest, " %q %q", &v.Found, &v.Left)
		w.visit = len(r.log.Visits)
		r.log.Visits = append(r.log.Visits, v)
	case returned:
		r.log.Visits[w.visit].Returned = at
	case refused:
		r.log.Visits[w.visit].Left = struckOut
	case ended:
		release := history.Span{To: history.Never}
		_, err = fmt.Fscan(rest, &release.From)
		r.each(w, func(t *history.Tenure) { t.Ended, t.Release = at, release })
	case freed:
		r.each(w, func(t *history.Tenure) { t.Release.To = at })
	case lost:
		var why string
		_, err = fmt.Fscanf(rest, " %q", &why)
		r.each(w, func(t *history.Tenure) { t.Lost, t.Why = at, why })
	default:
		return fmt.Errorf("there is no step %q", kind)
	}
	return err
}

// each changes the tenures of the worker's keys.
func (r *Reader) each(w *worker, change func(*history.Tenure)) {
	for i := range w.keys {
		change(&r.log.Tenures[w.tenure+i])
	}
}

func (r *Reader) wait(w *worker, until history.Moment, name string) {
	into := map[Mood]*[]history.Wait{Patient: &r.log.Waits, Once: &r.log.Rounds}[w.mood]
	if into != nil {
		*into = append(*into, history.Wait{Client: w.name, Key: w.key, Asked: w.asked, Answered: until, Err: name})
	}
}

func (r *Reader) intern(key string) string {
	if known, ok := r.keys[key]; ok {
		return known
	}
	r.keys[key] = key
	return key
}
