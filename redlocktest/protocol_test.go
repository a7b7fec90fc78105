package redlocktest

import (
	"context"
	"errors"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/redlock"
	"github.com/quorumlock/quorumlock/test/patient"
)

// A foreign client knows docs/protocol.md and nothing else.
type foreign struct {
	*testing.T
	nodes Nodes
	lines map[string]string // of the page, by what they do
}

var (
	block = regexp.MustCompile("(?s)```redis ([a-z]+)\n(.*?)\n```")
	word  = regexp.MustCompile(`"[^"]*"|\S+`)
)

func newForeign(t *testing.T, nodes Nodes) *foreign {
	t.Helper()
	page, err := os.ReadFile("../docs/protocol.md")
	if err != nil {
		t.Fatal(err)
	}
	f := &foreign{t, nodes, map[string]string{}}
	for _, found := range block.FindAllStringSubmatch(string(page), -1) {
		f.lines[found[1]] = found[2]
	}
	return f
}

// sends sends a line of the page to all nodes, and returns how many say yes.
func (f *foreign) sends(line string) (yes int) {
	f.Helper()
	if f.lines[line] == "" {
		f.Fatalf("docs/protocol.md has no line to %s by", line)
	}
	cmd := driver.Command{FirstKey: 1, Keys: 1}
	for _, w := range word.FindAllString(strings.ReplaceAll(f.lines[line], "TOKEN", "5f2c9c4de8ab71e0b7a3c60f4d1e9a42"), -1) {
		cmd.Args = append(cmd.Args, strings.Trim(w, `"`))
	}
	for _, n := range f.nodes.Drivers() {
		ctx, cancel := context.WithTimeout(f.Context(), time.Minute)
		replies, err := n.Driver.Do(ctx, []driver.Command{cmd})
		cancel()
		if err != nil || replies[0].Err() != nil {
			f.Fatalf("%s: %v, %v", f.lines[line], err, replies)
		}
		if replies[0].Str == "OK" || replies[0].Int == 1 {
			yes++
		}
	}
	return yes
}

func TestAForeignClientSharesKeysByTheProtocol(t *testing.T) {
	nodes := Start(t, 3)
	f := newForeign(t, nodes)
	locker, err := redlock.New(nodes.Drivers(), redlock.WithTTL(time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = locker.Close() }()

	lock, err := locker.TryAcquire(t.Context(), "orders:42")
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{"take", "extend", "release"} {
		if yes := f.sends(line); yes > 1 { // a node that is behind may not have the Locker's token yet
			t.Errorf("while a Locker has the key, %d of 3 nodes say yes to %s", yes, line)
		}
	}
	if err := lock.Release(); err != nil {
		t.Errorf("Release after the foreign client's commands = %v", err)
	}

	if yes := f.sends("take"); yes < 2 {
		t.Errorf("%d of 3 nodes say yes to take, want a quorum", yes)
	}
	if _, err := locker.TryAcquire(t.Context(), "orders:42"); !errors.Is(err, redlock.ErrTaken) {
		t.Errorf("TryAcquire of a foreign client's key = %v, want ErrTaken", err)
	}
	if yes := f.sends("extend"); yes < 2 {
		t.Errorf("%d of 3 nodes say yes to extend, want a quorum", yes)
	}
	waited := make(chan error, 1)
	go func() {
		lock, err := locker.Acquire(t.Context(), "orders:42")
		if err == nil {
			err = lock.Release()
		}
		waited <- err
	}()
	patient.Until(t, "the Locker waits", func() bool { return locker.Stats().Waiting > 0 })
	if yes := f.sends("release"); yes < 2 {
		t.Errorf("%d of 3 nodes say yes to release, want a quorum", yes)
	}
	f.sends("announce")
	if err := <-waited; err != nil {
		t.Errorf("a waiter behind a foreign client: %v", err)
	}
}
