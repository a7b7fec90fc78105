package main

import (
	"errors"
	"fmt"
	"io"
	"sync"
)

// A journal is what an observer of all services has noted.
type journal struct {
	mu             sync.Mutex
	reads, torn    int
	changes        int
	reading, crowd int // services that read now, and at most
}

func (j *journal) begins() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.reading++
	j.crowd = max(j.crowd, j.reading)
}

func (j *journal) read(address, password int) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.reading--
	j.reads++
	if address != password {
		j.torn++
	}
}

func (j *journal) changed() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.changes++
}

// judge prints what was seen. It fails where the story of the program is not true.
func (j *journal) judge(out io.Writer, noLock bool) error {
	_, _ = fmt.Fprintf(out, "They read %d times, up to %d at once, and the operator changed it %d times: %d reads had the address of one version and the password of another.\n",
		j.reads, j.crowd, j.changes, j.torn)
	switch {
	case !noLock && j.torn > 0:
		return errors.New("the lock let somebody read while the operator wrote")
	case noLock && j.torn == 0:
		return errors.New("without the lock nothing was torn, by luck: try again, or longer")
	}
	return nil
}
