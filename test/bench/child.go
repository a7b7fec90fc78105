package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
)

// Child is another process that runs this program, for a part of it that its first
// argument names. It obeys orders, each a line, answers each with a line, and ends with
// its input.
type Child struct {
	command *exec.Cmd
	orders  io.WriteCloser
	answers *bufio.Reader
}

func startChild(args ...string) (*Child, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	c := &Child{command: exec.Command(self, args...)} //nolint:gosec,noctx // this program; it ends with its input
	c.command.Stderr = os.Stderr
	if c.orders, err = c.command.StdinPipe(); err != nil {
		return nil, err
	}
	answers, err := c.command.StdoutPipe()
	if err != nil {
		return nil, err
	}
	c.answers = bufio.NewReader(answers)
	return c, c.command.Start()
}

func (c *Child) order(words ...any) error {
	_, err := fmt.Fprintln(c.orders, words...)
	return err
}

func (c *Child) answer() (string, error) {
	line, err := c.answers.ReadString('\n')
	if err != nil {
		return "", fmt.Errorf("its process has ended: %w", err)
	}
	return line, nil
}

// Close ends the process. It hears the rest of what the process says, or that might
// wait for somebody to listen.
func (c *Child) Close() error {
	err := c.orders.Close()
	_, unheard := io.Copy(io.Discard, c.answers)
	return errors.Join(err, unheard, c.command.Wait())
}
