package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/quorumlock/quorumlock/test/integration/fault/history"
	"github.com/quorumlock/quorumlock/test/integration/fault/note"
	"github.com/quorumlock/quorumlock/test/integration/fault/worker"
)

// A member is one place among the clients: a process that works there, and the next one
// when that was killed.
type member struct {
	program string
	job     worker.Job
	had     func()

	mu      sync.Mutex // held while a fault lasts
	lives   uint64
	current *life
	all     []*life
	stops   map[string][]history.Span
}

// start starts the next process.
func (m *member) start() error {
	m.lives++
	job := m.job
	job.Name = fmt.Sprint(job.Name, ".", m.lives)
	job.Seed += m.lives << 32
	l, err := live(m.program, job, m.had)
	if err != nil {
		return err
	}
	m.current, m.all = l, append(m.all, l)
	return nil
}

// kill ends the process as a crash would. Its end starts another one.
func (m *member) kill() (end func() error, err error) {
	from := note.Now()
	if len(m.current.last) > 0 {
		return nil, fmt.Errorf("%s has ended by itself", m.current.name)
	}
	if err := m.current.command.Process.Kill(); err != nil {
		return nil, err
	}
	m.current.gone()
	m.stops[m.current.name] = append(m.stops[m.current.name], history.Span{From: from, To: history.Never})
	return m.start, m.current.err
}

// stop stops the process for a while.
func (m *member) stop() (end func() error, err error) {
	from := note.Now()
	process := m.current.command.Process
	return func() error {
		err := process.Signal(syscall.SIGCONT)
		m.stops[m.current.name] = append(m.stops[m.current.name], history.Span{From: from, To: note.Now()})
		return err
	}, process.Signal(syscall.SIGSTOP)
}

// at returns the process that was there.
func (m *member) at(when history.Moment) *life {
	there := m.all[0]
	for _, l := range m.all {
		if l.began <= when {
			there = l
		}
	}
	return there
}

// close ends the process, and says how it failed: behind a data race it ends with an error.
func (m *member) close() error {
	_ = m.current.orders.Close() // it ends with them
	if err := m.current.command.Wait(); err != nil {
		return fmt.Errorf("%s: %w", m.current.name, err)
	}
	return nil
}

// log puts the notes of all its processes into one.
func (m *member) log(into *history.Log) {
	for _, l := range m.all {
		noted := l.notes.Log()
		into.Tenures = append(into.Tenures, noted.Tenures...)
		into.Visits = append(into.Visits, noted.Visits...)
		into.Waits = append(into.Waits, noted.Waits...)
		into.Rounds = append(into.Rounds, noted.Rounds...)
		into.Tries += noted.Tries
		for name, spans := range noted.Stopped {
			into.Starved = append(into.Starved, spans...)
			into.Stopped[name] = append(into.Stopped[name], long(spans)...)
		}
	}
	for name, spans := range m.stops {
		into.Stopped[name] = append(into.Stopped[name], spans...)
	}
}

// long returns those stretches without time to run that are as good as a stop.
func long(starved []history.Span) []history.Span {
	const stop = history.Moment(100 * time.Millisecond)
	return slices.DeleteFunc(slices.Clone(starved), func(s history.Span) bool { return s.To-s.From < stop })
}

// ordered has the process do what the order says until the end.
func (m *member) ordered(order string) (func() error, error) {
	return m.harmed(func(m *member) (func() error, error) {
		return func() error { return m.current.order(worker.Calm) }, m.current.order(order)
	})
}

// harmed does something to the member that lasts until the end that it returns.
func (m *member) harmed(do func(*member) (func() error, error)) (func() error, error) {
	m.mu.Lock()
	end, err := do(m)
	return func() error {
		defer m.mu.Unlock()
		if end == nil {
			return nil
		}
		return end()
	}, err
}

// A life is one process.
type life struct {
	name    string
	began   history.Moment
	command *exec.Cmd
	orders  io.WriteCloser
	notes   *note.Reader
	last    chan string // its last word, or "" if it has none
	err     error       // of reading its notes; to be read behind last
}

// live starts a process for a job.
func live(program string, job worker.Job, had func()) (*life, error) {
	order, err := json.Marshal(job)
	if err != nil {
		return nil, err
	}
	l := &life{
		name:    job.Name,
		began:   note.Now(),
		command: exec.Command(program, workerCommand), //nolint:noctx // this program, or one that was built for it; it ends with its orders
		notes:   note.NewReader(job.Name, had),
		last:    make(chan string, 1),
	}
	l.command.Stderr = os.Stderr
	if l.orders, err = l.command.StdinPipe(); err != nil {
		return nil, err
	}
	// Not StdoutPipe, whose end Wait closes: what a process said before it was killed is
	// to be heard.
	heard, said, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	l.command.Stdout = said
	if err := l.command.Start(); err != nil {
		return nil, errors.Join(err, heard.Close(), said.Close())
	}
	_ = said.Close() // the process has its own
	go l.listen(heard)
	_, err = fmt.Fprintf(l.orders, "%s\n", order)
	return l, err
}

func (l *life) listen(heard *os.File) {
	from := bufio.NewReaderSize(heard, 1<<16)
	rest, err := l.notes.Read(from)
	l.err = errors.Join(err, heard.Close())
	l.last <- rest
}

// order tells the process what to do next. It does not wait.
func (l *life) order(what string) error {
	_, err := fmt.Fprintln(l.orders, what)
	return err
}

// farewell waits for the last word of a process that finishes.
func (l *life) farewell() (said worker.Farewell, err error) {
	last := <-l.last
	if l.err != nil {
		return said, l.err
	}
	if err := json.Unmarshal([]byte(last), &said); err != nil {
		return said, fmt.Errorf("%s: its last word is %q: %w", l.name, last, err)
	}
	return said, nil
}

// gone waits for a process that ends.
func (l *life) gone() {
	<-l.last
	_ = l.command.Wait() // it was killed
	_ = l.orders.Close()
}
