package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"
)

// A parent starts this program several times, each a process that adds.
type parent struct {
	out       io.Writer
	client    string
	urls      []string
	processes int
}

func (p parent) run(ctx context.Context, a adder) error {
	dir, err := os.MkdirTemp("", "counter")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }() // the system clears its temporary files, too
	a.number = number(filepath.Join(dir, "number"))
	if err := a.number.write(0, "first"); err != nil {
		return err
	}

	how := "under a lock"
	if a.noLock {
		how = "without a lock"
	}
	_, _ = fmt.Fprintf(p.out, "%d processes with %d goroutines each add 1 to a number in a file, %d times each, %s.\n",
		p.processes, a.goroutines, a.times, how)
	failures := make([]error, p.processes)
	var group sync.WaitGroup
	for i := range failures {
		group.Go(func() {
			if err := p.start(ctx, a); err != nil {
				failures[i] = fmt.Errorf("process %d: %w", i+1, err)
			}
		})
	}
	group.Wait()
	if err := errors.Join(failures...); err != nil {
		return err
	}
	return p.judge(a)
}

// start runs this program as one that adds, to its end.
func (p parent) start(ctx context.Context, a adder) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	child := exec.CommandContext(ctx, self, //nolint:gosec // it is this program
		"--file", string(a.number), "--client", p.client, "--nodes", strings.Join(p.urls, ","),
		"--goroutines", strconv.Itoa(a.goroutines), "--times", strconv.Itoa(a.times),
		"--no-lock="+strconv.FormatBool(a.noLock))
	// An interrupt rather than a kill, so that it gives its lock back.
	child.Cancel = func() error { return child.Process.Signal(os.Interrupt) }
	child.WaitDelay = 5 * time.Second
	if said, err := child.CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, bytes.TrimSpace(said))
	}
	return nil
}

// judge looks for every addition in the file.
func (p parent) judge(a adder) error {
	found, err := a.number.read()
	if err != nil {
		return err
	}
	added := p.processes * a.goroutines * a.times
	lost := added - found
	switch {
	case lost != 0 && !a.noLock:
		return fmt.Errorf("%d additions were made and the number is %d: the lock has let two in at once", added, found)
	case lost == 0 && a.noLock:
		return fmt.Errorf("%d additions were made and the number is %d: by luck, or for want of others at the same time, none was lost; try more --times", added, found)
	}
	_, _ = fmt.Fprintf(p.out, "%d additions were made, and the number is %d: %d were lost.\n", added, found, lost)
	return nil
}
