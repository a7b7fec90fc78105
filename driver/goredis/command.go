package goredis

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/quorumlock/quorumlock/driver"
)

// keepRaw is the largest reply whose buffer is kept for the next one.
const keepRaw = 4096

// command is a [driver.Command] in the form that go-redis processes. It belongs to
// one connection, which uses it again for each batch: in the usual case neither
// the command nor its reply allocates.
//
// What it embeds is go-redis's command for a raw reply, for three reasons: its
// NoRetry is true, its reply is not boxed, and an error reply is a reply like any
// other, so that nothing in go-redis can act upon it.
type command struct {
	*redis.RawWriteToCmd
	args []any
	raw  []byte // the reply as far as it came, by whole lines
}

func newCommand() *command {
	c := new(command)
	c.RawWriteToCmd = redis.NewRawWriteToCmd(context.Background(), c) // go-redis asks it for no context
	return c
}

func (c *command) load(cmd driver.Command) {
	c.args = cmd.Args
	c.raw = c.raw[:0]
	c.SetErr(nil)
}

// unload lets go of what belongs to the caller.
func (c *command) unload() {
	c.args = nil
	if cap(c.raw) > keepRaw {
		c.raw = nil
	}
}

// Write takes a line of the reply.
func (c *command) Write(line []byte) (int, error) {
	c.raw = append(c.raw, line...)
	return len(line), nil
}

// ReadFrom takes a string of the reply, without the buffer that io.Copy makes for
// a plain Writer.
func (c *command) ReadFrom(r io.Reader) (int64, error) {
	start := len(c.raw)
	for {
		c.raw = slices.Grow(c.raw, 64)
		n, err := r.Read(c.raw[len(c.raw):cap(c.raw)])
		c.raw = c.raw[:len(c.raw)+n]
		if err == io.EOF {
			return int64(len(c.raw) - start), nil
		}
		if err != nil {
			return int64(len(c.raw) - start), err
		}
	}
}

// Args, Name, FullName and String are what go-redis and hooks ask a command for.
// The embedded command knows no arguments.

func (c *command) Args() []any { return c.args }

func (c *command) Name() string {
	if len(c.args) == 0 {
		return ""
	}
	return strings.ToLower(fmt.Sprint(c.args[0]))
}

func (c *command) FullName() string { return c.Name() }

func (c *command) String() string {
	return strings.TrimSuffix(fmt.Sprintln(c.args...), "\n")
}
