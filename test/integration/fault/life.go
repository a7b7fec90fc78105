package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"

	"github.com/quorumlock/quorumlock/test/integration/fault/history"
	"github.com/quorumlock/quorumlock/test/integration/fault/note"
	"github.com/quorumlock/quorumlock/test/integration/fault/worker"
)

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
