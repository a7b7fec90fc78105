package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
)

// A number is in the file of that name.
type number string

func (n number) read() (int, error) {
	text, err := os.ReadFile(string(n))
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(strings.TrimSpace(string(text)))
}

// write puts a whole file in place of the old one: what is lost without the lock is
// additions, and not half a file. The draft's name is the writer's alone.
func (n number) write(value int, writer string) error {
	draft := fmt.Sprintf("%s.%s", n, writer)
	if err := os.WriteFile(draft, []byte(strconv.Itoa(value)+"\n"), 0o600); err != nil {
		return err
	}
	return os.Rename(draft, string(n))
}

// increment reads, computes and writes. Whoever writes in the meantime has done so in
// vain.
func (n number) increment(ctx context.Context, writer string, compute func(context.Context) error) error {
	value, err := n.read()
	if err != nil {
		return err
	}
	if err := compute(ctx); err != nil {
		return err
	}
	return n.write(value+1, writer)
}
