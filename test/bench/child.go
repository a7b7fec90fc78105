package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
)

// failure is what check ends a part of the program with, and attempt returns.
type failure struct{ error }

// check ends what is being measured where err is not nil: a bench has no other answer to it. No
// goroutine but the first may call it.
func check(err error) {
	if err != nil {
		panic(failure{err})
	}
}

func must[T any](value T, err error) T {
	check(err)
	return value
}

// attempt returns the error that do ends with, if it is one of check.
func attempt(do func()) (err error) {
	defer func() {
		switch reason := recover().(type) {
		case nil:
		case failure:
			err = reason.error
		default:
			panic(reason)
		}
	}()
	do()
	return nil
}

// Child is another process that runs this program, for a part of it. It obeys orders, each a line,
// answers by JSON, and ends with its input.
type Child struct {
	command *exec.Cmd
	orders  io.WriteCloser
	out     io.Reader
	answers *json.Decoder
}

// startChild starts the part of that name, which is told the rest by JSON.
func startChild(part string, spec any) *Child {
	text := must(json.Marshal(spec))
	c := &Child{command: exec.Command(must(os.Executable()), part, string(text))} //nolint:gosec,noctx // this program; it ends with its input
	c.command.Stderr = os.Stderr
	c.orders = must(c.command.StdinPipe())
	c.out = must(c.command.StdoutPipe())
	c.answers = json.NewDecoder(c.out)
	check(c.command.Start())
	return c
}

// serve is the whole of a run of this program that is a part of another one.
func serve() {
	parts := map[string]func(spec []byte, orders *bufio.Scanner, answers *json.Encoder){
		"proxies": serveProxies, "crowd": serveCrowd, "overload": serveOverload, "service": serveService,
	}
	if len(os.Args) == 3 && parts[os.Args[1]] != nil {
		exit(attempt(func() { parts[os.Args[1]]([]byte(os.Args[2]), bufio.NewScanner(os.Stdin), json.NewEncoder(os.Stdout)) }))
	}
}

func exit(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

func (c *Child) order(words ...any) error {
	_, err := fmt.Fprintln(c.orders, words...)
	return err
}

func (c *Child) answer(into any) error { return c.answers.Decode(into) }

// Close ends the process. It hears the rest of what the process says, or that might
// wait for somebody to listen. What the process has to say about its end stands in stderr.
func (c *Child) Close() {
	_ = c.orders.Close()
	_, _ = io.Copy(io.Discard, c.out)
	_ = c.command.Wait()
}

// children are several processes.
type children []*Child

func (c *children) start(part string, spec any) { *c = append(*c, startChild(part, spec)) }

func (c children) order(word string) {
	for _, child := range c {
		check(child.order(word))
	}
}

// answers is one of each.
func answers[T any](c children) []T {
	all := make([]T, len(c))
	for i, child := range c {
		check(child.answer(&all[i]))
	}
	return all
}

// close ends all of them at once: one may wait for what another has.
func (c children) close() {
	for _, child := range c {
		_ = child.orders.Close()
	}
	for _, child := range c {
		child.Close()
	}
}
