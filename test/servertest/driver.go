// Package servertest is what the drivers of this repository have to show over real servers, beside
// package drivertest, and what their own tests need for that.
package servertest

import (
	"context"
	"errors"
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/test/patient"
	"github.com/quorumlock/quorumlock/test/scripted"
)

const (
	// Patience is how long a test waits for what must come, however busy the machine is.
	Patience = patient.Guard
	// short is the deadline of a call that cannot be answered.
	short = 200 * time.Millisecond
	// most is how late a call may return by a patient.Watch: 50ms by the contract, the rest for what
	// computes on a busy machine.
	most = 2 * time.Second
)

// Command returns a command whose first argument, if it has one, is its key.
func Command(args ...string) driver.Command {
	var cmd driver.Command
	for _, arg := range args {
		cmd.Args = append(cmd.Args, arg)
	}
	if len(args) > 1 {
		cmd.FirstKey, cmd.Keys = 1, 1
	}
	return cmd
}

// Within returns a context like the core's, with a deadline.
func Within(t testing.TB, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

// Do is a call that has no reason to fail.
func Do(t testing.TB, d driver.Driver, cmds ...driver.Command) []driver.Reply {
	t.Helper()
	replies, err := d.Do(Within(t, Patience), cmds)
	if err != nil || len(replies) != len(cmds) {
		t.Fatalf("Do(%q…) = %+v, %v, want %d replies", cmds[0].Args, replies, err, len(cmds))
	}
	return replies
}

// Ask is one command that has no reason to fail.
func Ask(t testing.TB, d driver.Driver, args ...string) driver.Reply {
	t.Helper()
	return Do(t, d, Command(args...))[0]
}

// Expect compares the reply to one command with a text, which may be an error's.
func Expect(t testing.TB, d driver.Driver, want string, args ...string) {
	t.Helper()
	if got := Ask(t, d, args...); got.Str != want {
		t.Fatalf("%q = %+v, want %q", args, got, want)
	}
}

// Driver is what the drivers of this project are.
type Driver interface {
	driver.Driver
	driver.Subscriber
	driver.Renewer
	io.Closer
}

// Open opens the driver of a URL, and closes it at the end.
func Open(t testing.TB, open func(urls ...string) ([]driver.Node, error), url string) Driver {
	t.Helper()
	nodes, err := open(url)
	if err != nil {
		t.Fatal(err)
	}
	return Closing(t, nodes[0].Driver)
}

// Closing closes the driver at the end.
func Closing(t testing.TB, d driver.Driver) Driver {
	t.Cleanup(func() { Close(t, d) })
	return d.(Driver)
}

// Close closes the driver.
func Close(t testing.TB, d driver.Driver) {
	t.Helper()
	if err := d.(io.Closer).Close(); err != nil {
		t.Errorf("Close = %v, want nil", err)
	}
}

// Code returns the code word of the server's error in err.
func Code(err error) string {
	var refused *driver.ServerError
	if !errors.As(err, &refused) {
		return ""
	}
	return refused.Code
}

// Panics has the driver of a client that calls what is the application's, by which may is called: it
// panics at first. On a goroutine of the driver's own that would end the process, and elsewhere the
// place of the call must not be lost.
func Panics(t *testing.T, open func(addr string, may func()) driver.Driver) {
	t.Helper()
	var well atomic.Bool
	d := open(scripted.Start(t).Addr(), func() {
		if !well.Load() {
			panic("the application's own")
		}
	})
	for range 40 { // more than may be left behind
		_, err := d.Do(Within(t, Patience), []driver.Command{Command("ECHO", "words")})
		if err == nil || !strings.Contains(err.Error(), "panicked: the application's own") {
			t.Fatalf("Do = %v, want that the client panicked", err)
		}
	}
	well.Store(true)
	Expect(t, d, "words", "ECHO", "words")
}
