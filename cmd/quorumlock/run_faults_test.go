//go:build linux

package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/test/patient"
	"github.com/quorumlock/quorumlock/test/proxy"
)

// These are the faults of other wrappers, by the numbers of docs/run.md, in which the command has a part. How a program is
// stopped is for the tests of supervise.

func TestR1ATerminatedWrapperStopsItsProgram(t *testing.T) {
	t.Parallel()
	s := newMasters(t, 3)
	w := start(t, s.nodes, script("", `echo $$ > $D/pid; exec sleep 1000`))
	pid := w.pid("pid")
	w.signal(syscall.SIGTERM)
	if code := w.code(); code != 128+int(syscall.SIGTERM) || runs(pid) || len(s.left()) > 0 {
		t.Errorf("run ended with %d, the program runs: %v, keys %q; want 143, and neither", code, runs(pid), s.left())
	}
}

// Two wrappers, one of which is cut off: their programs never overlap.
func TestR2NobodyElseRunsBeforeTheProgramIsGone(t *testing.T) {
	t.Parallel()
	s := newMasters(t, 3)
	patient.Scaled(t, func(t testing.TB, scale time.Duration) {
		var links []*proxy.Proxy
		var cut []string
		for _, server := range s.servers {
			l, err := proxy.New(server.Addr)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = l.Close() })
			links, cut = append(links, l), append(cut, "redis://"+l.Addr())
		}
		folder := t.TempDir()
		args := func(file string) []string {
			return append(strings.Fields(fmt.Sprintf("run %s k%d --", leased(4*scale, scale), scale)), os.Args[0], tickerName, filepath.Join(folder, file))
		}
		first := start(t, strings.Join(cut, ","), args("first"))
		first.await("started")
		second := start(t, s.nodes, args("second"))
		second.await("waiting")
		for _, l := range links {
			if err := l.Refuse(); err != nil {
				t.Fatal(err)
			}
		}
		second.await("started")
		if code := first.code(); code != exitLost {
			t.Errorf("the wrapper that was cut off ended with %d, want %d", code, exitLost)
		}
		second.signal(syscall.SIGQUIT) // the ticker ignores TERM and INT
		second.code()
		_, last := ticks(t, filepath.Join(folder, "first"))
		begin, _ := ticks(t, filepath.Join(folder, "second"))
		if !last.Before(begin) || !last.Before(first.until()) {
			t.Errorf("the first program wrote until %v, its deadline was %v, and the second wrote from %v on", last, first.until(), begin)
		}
	})
}

// leased are the flags of a lease and a grace of so many seconds.
func leased(ttl, grace time.Duration) string {
	return fmt.Sprintf("--ttl %ds --grace %ds", ttl, grace)
}

// briefly are the flags of a lease so short that a test sees its end, and of a short grace.
func briefly(scale, ttl time.Duration) string {
	return fmt.Sprintf("--ttl %v --grace %v", scale*ttl, scale*200*time.Millisecond)
}

func TestPitfall24NothingOfAProgramOutlivesTheCommandThatHasLostItsLock(t *testing.T) {
	t.Parallel()
	s := newMasters(t, 3)
	patient.Scaled(t, func(t testing.TB, scale time.Duration) {
		w := start(t, s.nodes, script(leased(6*scale, 2*scale), // a busy shell runs its trap later
			`trap 'echo > $D/asked' TERM; (setsid sh -c 'echo $$ > $D/child; trap "" TERM; while :; do sleep 0.01; done' &); echo $$ > $D/pid; while :; do sleep 0.01; done`))
		pids := map[string]int{"the program": w.pid("pid"), "a child that it has left": w.pid("child")}
		defer s.freeze()()
		if code := w.code(); code != exitLost || !w.exists("asked") || !w.has("lost") || w.has("released") {
			t.Errorf("run ended with %d, and the program was asked to end: %t, %+v; want %d, that it was, and a lock that is lost", code, w.exists("asked"), w.all(), exitLost)
		}
		if err := gone(t, w.until(), pids); err != nil { // how long before the deadline, make deadlines measures
			t.Error(err)
		}
	})
}

func TestR6ASignalEndsTheWaiting(t *testing.T) {
	t.Parallel()
	s := newMasters(t, 3)
	holder := start(t, s.nodes, script("", `while [ ! -e $D/go ]; do sleep 0.01; done`))
	holder.await("started")
	held := len(s.left())
	for _, by := range []syscall.Signal{syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM} {
		w := start(t, s.nodes, script("", `echo > $D/ran`))
		w.await("waiting")
		w.signal(by)
		if code := w.code(); code != 128+int(by) || w.exists("ran") || len(s.left()) != held {
			t.Errorf("%v while it waited: run ended with %v, keys %q, ran: %v; want %d, the holder's keys alone, and nothing run", by, w.cmd.ProcessState, s.left(), w.exists("ran"), 128+int(by))
		}
	}
	holder.touch("go")
	if code := holder.code(); code != exitOK || len(s.left()) > 0 {
		t.Errorf("the holder ended with %d, and keys are left: %q", code, s.left())
	}
}

func TestR9StdinAndArgumentsAreThePrograms(t *testing.T) {
	t.Parallel()
	s := newMasters(t, 1)
	var out strings.Builder
	w := start(t, s.nodes, []string{"run", "k", "--", "/bin/sh", "-c", `cat; printf '%s|' "$@"`, "sh", "$HOME", "a  b", "-n", "; echo c"},
		func(c *exec.Cmd) { c.Stdin, c.Stdout = strings.NewReader("hello\n"), &out })
	if code := w.code(); code != exitOK || out.String() != "hello\n$HOME|a  b|-n|; echo c|" || w.talk.Len() > 0 {
		t.Errorf("run ended with %d and said %q, and the program has read and was given %q: want what was typed, as it was typed", code, w.talk.String(), out.String())
	}
}

func TestR11AKilledGuardTakesTheProgramAlong(t *testing.T) {
	t.Parallel()
	s := newMasters(t, 3)
	w := start(t, s.nodes, script("", `echo $$ > $D/pid; echo $PPID > $D/guard; exec sleep 1000`))
	pid, guard := w.pid("pid"), w.pid("guard")
	if err := syscall.Kill(guard, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if code := w.code(); code != exitLost || w.has("released") || len(s.left()) == 0 {
		t.Errorf("run ended with %d, and has released the lock: %v; want %d, and the lock left to its lease", code, w.has("released"), exitLost)
	}
	if err := gone(t, time.Now(), map[string]int{"the program": pid}); err != nil {
		t.Error(err)
	}
}

// A terminal sends its signals to both.
func TestR12AtATerminalCtrlCIsThePrograms(t *testing.T) {
	t.Parallel()
	s := newMasters(t, 1)
	keyboard, screen := terminal(t)
	w := start(t, s.nodes, script("", `read line; echo $line > $D/line; trap 'sleep 0.1; exit 6' INT; echo > $D/ready; while :; do sleep 0.01; done`), func(c *exec.Cmd) {
		c.Stdin = screen
		c.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true, Ctty: 0}
	})
	w.await("started")
	_, _ = keyboard.WriteString("typed\n")
	if line := w.file("line"); line != "typed" {
		t.Errorf("the program has read %q from the terminal, want what was typed", line)
	}
	w.file("ready")
	_, _ = keyboard.WriteString("\x03")
	if code := w.code(); code != 6 || !w.has("released") {
		t.Errorf("after Ctrl-C run ended with %d, released: %v; want the program's 6, and that", code, w.has("released"))
	}
}

// ssh, sudo and gpg read a terminal that is not their stdin.
func TestR12AProgramMayReadTheTerminalWhateverItsStdin(t *testing.T) {
	t.Parallel()
	s := newMasters(t, 1)
	keyboard, screen := terminal(t)
	at := func(c *exec.Cmd) {
		c.Stdin = strings.NewReader("")
		c.ExtraFiles = append(c.ExtraFiles, screen)
		c.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true, Ctty: 4}
	}
	w := start(t, s.nodes, script("", `read line </dev/tty; echo $line > $D/line`), at)
	w.await("started")
	_, _ = keyboard.WriteString("typed\n")
	if line := w.file("line"); line != "typed" || w.code() != exitOK {
		t.Errorf("the program has read %q from the terminal, and run ended with %d, want what was typed, and 0", line, w.code())
	}

	// In a group of its own it is stopped when it reads.
	_, screen = terminal(t)
	w = start(t, s.nodes, script("--foreground no", `echo $$ > $D/pid; read line </dev/tty`), at)
	pid := w.pid("pid")
	patient.Until(t, "the program that reads the terminal is stopped", func() bool {
		if !runs(pid) {
			t.Fatalf("the program that reads the terminal was not stopped: %s", w.talk.String())
		}
		return state(pid) == 'T'
	})
	w.signal(syscall.SIGINT)
	if code := w.code(); code != 128+int(syscall.SIGINT) || !w.has("released") {
		t.Errorf("a signal that came while the program was stopped: run ended with %d, released: %v; want 130, and that", code, w.has("released"))
	}
}

func TestR13AKilledWrapperBlocksNobodyForLongerThanTheLease(t *testing.T) {
	t.Parallel()
	s := newMasters(t, 3)
	w := start(t, s.nodes, script("--ttl 3s --grace 300ms", `exec sleep 1000`))
	first := *w.await("acquired").Until
	w.await("extended", func(e runEvent) bool { return e.Until.Sub(first) > 3*time.Second }) // it is held for longer than a lease
	w.signal(syscall.SIGKILL)
	<-w.ended // what it has sent has arrived
	for _, server := range s.servers {
		for _, key := range server.Ask("KEYS", "*").Elems {
			if left := server.Ask("PTTL", key.Str).Int; left < 0 && left != -2 || left > 3000 {
				t.Errorf("the server keeps %s for %dms more, want the lease of 3s at most", key.Str, left)
			}
		}
	}
	next := start(t, s.nodes, script("", `exit 0`))
	next.await("acquired")
	next.ends(exitOK)
}
