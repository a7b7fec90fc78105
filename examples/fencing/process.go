package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
)

// A process is this program again, as a worker. The two talk over its standard input and
// output.
type process struct {
	name   string
	cmd    *exec.Cmd
	answer io.Writer
	lines  *bufio.Scanner
	out    io.Writer // gets what it says
	errors bytes.Buffer
}

// start starts the program with these flags. It is killed when ctx ends, because one that
// is stopped does not hear of an interrupt. What it held then ends by the TTL.
func start(ctx context.Context, out io.Writer, name string, args ...string) (*process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	p := &process{name: name, out: out, cmd: exec.CommandContext(ctx, self, args...)} //nolint:gosec // it is this program
	p.cmd.Stderr = &p.errors
	if p.answer, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	said, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	p.lines = bufio.NewScanner(said)
	return p, p.cmd.Start()
}

// until repeats what the process says, up to the line, or to its end if there is none.
// It reports whether the line came.
func (p *process) until(line string) bool {
	for p.lines.Scan() {
		_, _ = fmt.Fprintf(p.out, "  %s: %s\n", p.name, p.lines.Text())
		if p.lines.Text() == line {
			return true
		}
	}
	return false
}

// goOn answers the process.
func (p *process) goOn() error {
	_, err := fmt.Fprintln(p.answer)
	return err
}

// end repeats what the process says to its end.
func (p *process) end() error {
	p.until("")
	if err := p.cmd.Wait(); err != nil {
		return fmt.Errorf("the %s: %w: %s", p.name, err, bytes.TrimSpace(p.errors.Bytes()))
	}
	return nil
}

// failed is why a process has ended before it came to what was waited for.
func (p *process) failed() error {
	if err := p.end(); err != nil {
		return err
	}
	return fmt.Errorf("the %s has ended before it came to write", p.name)
}

// kill ends a process that has not ended by itself.
func (p *process) kill() {
	if p.cmd.ProcessState == nil {
		_ = p.cmd.Process.Kill()
		_ = p.cmd.Wait()
	}
}
