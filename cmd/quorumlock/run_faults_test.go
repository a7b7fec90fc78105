//go:build linux

package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/test/patient"
	"github.com/quorumlock/quorumlock/test/proxy"
)

// These are the faults of other wrappers, by the numbers of docs/run.md.

func TestR1TheProgramIsStoppedWhenTheLeaseIsLost(t *testing.T) {
	t.Parallel()
	s := newMasters(t, 3)
	patient.AtScales(t, func(scale time.Duration) error {
		w := start(t, s.nodes, script(leased(4*scale, scale), `trap 'echo > $D/asked; exit 0' TERM; echo > $D/ready; while :; do sleep 0.01; done`))
		w.file("ready")
		defer s.freeze()()
		if code := w.code(); code != exitLost || !w.exists("asked") || !w.has("lost") {
			return fmt.Errorf("with all nodes stopped run ended with %d, the program was asked to end: %v, %s; want %d, and that it was", code, w.exists("asked"), w.talk.String(), exitLost)
		}
		return nil
	})
}

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
	patient.AtScales(t, func(scale time.Duration) error {
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
			return fmt.Errorf("the wrapper that was cut off ended with %d, want %d", code, exitLost)
		}
		second.signal(syscall.SIGQUIT) // the ticker ignores TERM and INT
		second.code()
		_, last := ticks(t, filepath.Join(folder, "first"))
		begin, _ := ticks(t, filepath.Join(folder, "second"))
		if !last.Before(begin) || !last.Before(first.until()) {
			return fmt.Errorf("the first program wrote until %v, its deadline was %v, and the second wrote from %v on", last, first.until(), begin)
		}
		return nil
	})
}

func TestR3TheGraceEndsBeforeTheDeadline(t *testing.T) {
	t.Parallel()
	s := newMasters(t, 3)
	patient.AtScales(t, func(scale time.Duration) error {
		w := start(t, s.nodes, script(leased(6*scale, 2*scale), `trap 'echo > $D/asked' TERM; echo > $D/ready; while :; do date +%s.%N > $D/last.new && mv $D/last.new $D/last; sleep 0.01; done`))
		w.file("ready")
		defer s.freeze()()
		code := w.code()
		at := func(name string) time.Time {
			seconds, err := strconv.ParseFloat(w.file(name), 64)
			if err != nil {
				t.Fatal(err)
			}
			return time.UnixMicro(int64(seconds * 1e6))
		}
		until := w.until()
		grace := until.Sub(w.await("stopping").Time) // a busy shell runs its trap later
		if code != exitLost || !w.exists("asked") || !at("last").Before(until) || grace < scale*time.Second || grace > scale*4*time.Second {
			return fmt.Errorf("run ended with %d; the signal came %v before the deadline, and the last write %v; want %d, some %v and more than 0", code, grace, until.Sub(at("last")), exitLost, scale*2*time.Second)
		}
		return nil
	})
}

// leased are the flags of a lease and a grace of so many seconds.
func leased(ttl, grace time.Duration) string {
	return fmt.Sprintf("--ttl %ds --grace %ds", ttl, grace)
}

func TestR4DescendantsAreStoppedAndNoShellIsBetween(t *testing.T) {
	t.Parallel()
	s := newMasters(t, 3)
	patient.AtScales(t, func(scale time.Duration) error {
		w := start(t, s.nodes, script(leased(4*scale, scale),
			`sh -c 'echo $$ > $D/child; trap "" TERM; while :; do sleep 0.01; done' & setsid sh -c 'echo $$ > $D/other; exec sleep 1000' & wait`))
		pids := map[string]int{"a child of the program's shell": w.pid("child"), "one of another session": w.pid("other")}
		defer s.freeze()()
		if code := w.code(); code != exitLost {
			return fmt.Errorf("run ended with %d, want %d", code, exitLost)
		}
		return gone(t, w.until(), pids)
	})

	free := newMasters(t, 1)
	var out strings.Builder
	w := start(t, free.nodes, []string{"run", "k", "--", "printf", "%s|", "$HOME", "a  b", "-n", "; echo c"}, func(c *exec.Cmd) { c.Stdout = &out })
	if code := w.code(); code != exitOK || out.String() != "$HOME|a  b|-n|; echo c|" {
		t.Errorf("run ended with %d, and the program has the arguments %q: want them as they were given", code, out.String())
	}
}

func TestPitfall24NothingOfAProgramOutlivesTheCommandThatHasLostItsLock(t *testing.T) {
	t.Parallel()
	s := newMasters(t, 3)
	patient.AtScales(t, func(scale time.Duration) error {
		w := start(t, s.nodes, script(leased(6*scale, 2*scale), // a busy shell runs its trap later
			`trap 'echo > $D/asked' TERM; (setsid sh -c 'echo $$ > $D/child; trap "" TERM; while :; do sleep 0.01; done' &); echo $$ > $D/pid; while :; do sleep 0.01; done`))
		pids := map[string]int{"the program": w.pid("pid"), "a child that it has left": w.pid("child")}
		defer s.freeze()()
		if code := w.code(); code != exitLost || !w.exists("asked") {
			return fmt.Errorf("run ended with %d, and the program was asked to end: %t; want %d, and that it was", code, w.exists("asked"), exitLost)
		}
		return gone(t, w.until(), pids) // how long before the deadline, make deadlines measures
	})
}

func TestR5QuitIsPassedOn(t *testing.T) {
	t.Parallel()
	s := newMasters(t, 1)
	w := start(t, s.nodes, script("", `trap 'exit 9' QUIT; echo > $D/ready; while :; do sleep 0.01; done`))
	w.file("ready")
	w.signal(syscall.SIGQUIT)
	if code := w.code(); code != 9 || strings.Contains(w.talk.String(), "goroutine") {
		t.Errorf("run ended with %d and said %q, want the program's 9 and no stack", code, w.talk.String())
	}
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
			t.Errorf("%v while it waited: run ended with %d, keys %q, ran: %v; want %d, the holder's keys alone, and nothing run", by, code, s.left(), w.exists("ran"), 128+int(by))
		}
	}
	holder.touch("go")
	if code := holder.code(); code != exitOK || len(s.left()) > 0 {
		t.Errorf("the holder ended with %d, and keys are left: %q", code, s.left())
	}
}

// The signal comes as near to the start as a process can send it. The program is not started, or it
// has the signal as well.
func TestR7ASignalBeforeTheStartIsNotLost(t *testing.T) {
	t.Parallel()
	s := newMasters(t, 1)
	for i := range 8 {
		w := start(t, s.nodes, script("", `exec sleep 1000`))
		w.await("acquired")
		time.Sleep(time.Duration(i) * time.Millisecond / 2) //nolint:forbidigo // to meet another moment each time: any will do
		w.signal(syscall.SIGTERM)
		if code := w.code(); code != 128+int(syscall.SIGTERM) || len(s.left()) > 0 {
			t.Errorf("run ended with %d, keys %q; want 143 and none", code, s.left())
		}
	}
}

func TestR8TheLockIsHeldUntilDescendantsHaveEnded(t *testing.T) {
	t.Parallel()
	s := newMasters(t, 3)
	w := start(t, s.nodes, script("", `(setsid sh -c 'while [ ! -e $D/go ]; do sleep 0.01; done; echo > $D/done' &); exit 5`))
	w.await("remaining")
	if code := start(t, s.nodes, script("-n --node-timeout 10s", `exit 0`)).code(); code != exitTaken {
		t.Errorf("while a descendant runs another run ends with %d, want %d", code, exitTaken)
	}
	w.touch("go")
	if code := w.code(); code != 5 || !w.exists("done") || !w.has("released") {
		t.Errorf("run ended with %d, its descendant is done: %v, the lock was released: %v; want 5 and both", code, w.exists("done"), w.has("released"))
	}
}

func TestR9StdinIsThePrograms(t *testing.T) {
	t.Parallel()
	s := newMasters(t, 1)
	var out strings.Builder
	w := start(t, s.nodes, []string{"run", "k", "--", "cat"}, func(c *exec.Cmd) { c.Stdin, c.Stdout = strings.NewReader("hello\n"), &out })
	if code := w.code(); code != exitOK || out.String() != "hello\n" {
		t.Errorf("run ended with %d, and cat has copied %q, want hello", code, out.String())
	}
}

func TestR10TheCodeIsThePrograms(t *testing.T) {
	t.Parallel()
	s := newMasters(t, 1)
	for text, want := range map[string]int{"exit 0": 0, "exit 7": 7, "exit 255": 255, "kill -USR1 $$": 138, "kill -KILL $$": 137} {
		w := start(t, s.nodes, script("", text))
		if code := w.code(); code != want || w.talk.Len() > 0 {
			t.Errorf("%q: run ended with %d and said %q, want %d and silence", text, code, w.talk.String(), want)
		}
	}
}

func TestR11TheProgramDoesNotOutliveItsWrapper(t *testing.T) {
	t.Parallel()
	s := newMasters(t, 3)
	for name, how := range map[string]syscall.Signal{"killed": syscall.SIGKILL, "stopped": syscall.SIGSTOP} {
		patient.AtScales(t, func(scale time.Duration) error {
			w := start(t, s.nodes, script(leased(4*scale, scale), `trap '' TERM; echo $$ > $D/pid; setsid sh -c 'echo $$ > $D/child; exec sleep 1000' & while :; do sleep 0.01; done`))
			pids := map[string]int{"wrapper " + name + ": the program": w.pid("pid"), "wrapper " + name + ": its child": w.pid("child")}
			w.await("started")
			before := time.Now()
			w.signal(how)
			err := gone(t, before.Add(scale*4*time.Second), pids) // no lease of its time lasts longer
			_ = w.cmd.Process.Kill()
			w.code()
			return err
		})
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
	if code := next.code(); code != exitOK {
		t.Errorf("the next run ended with %d", code)
	}
}

// Whoever asks in vain sends SIGKILL to run next, and then the key stays until its lease ends.
func TestR14WhatDoesNotEndWhenAskedIsKilledAndTheKeyReleased(t *testing.T) {
	t.Parallel()
	s := newMasters(t, 3)
	deaf := `trap '' HUP INT TERM; echo > $D/ready; while :; do sleep 0.01; done`
	daemon := `setsid sh -c "$DAEMON" & exit 0`
	for _, tt := range []struct {
		name, text, daemon string
		signal             syscall.Signal
		again              bool // once is not enough
		want               int
	}{
		{"a program that ignores TERM", deaf, "", syscall.SIGTERM, false, 137},
		{"one that ignores INT", deaf, "", syscall.SIGINT, true, 137},
		{"one that ignores HUP", deaf, "", syscall.SIGHUP, true, 137},
		{"a daemon that ignores TERM", daemon, deaf, syscall.SIGTERM, false, 0},
		{"a daemon", daemon, `trap 'echo > $D/asked; exit' HUP; echo > $D/ready; while :; do sleep 0.01; done`, syscall.SIGHUP, false, 0},
		{"a daemon that is stopped", daemon, `trap 'echo > $D/asked; exit' HUP; echo > $D/ready; kill -STOP $$`, syscall.SIGHUP, false, 0},
	} {
		w := start(t, s.nodes, script("--grace 300ms", tt.text), func(c *exec.Cmd) { c.Env = append(c.Env, "DAEMON="+tt.daemon) })
		w.file("ready")
		if tt.daemon != "" {
			w.await("remaining")
		}
		for w.signal(tt.signal); tt.again && !w.has("stopping"); w.signal(tt.signal) {
			time.Sleep(20 * time.Millisecond) //nolint:forbidigo // two that come at once are one: it is sent until it was heard
		}
		code, deaf := w.code(), tt.text == deaf || tt.daemon == deaf
		if code != tt.want || w.has("killed") != deaf || w.exists("asked") == deaf || !w.has("released") || len(s.left()) > 0 {
			t.Errorf("%s: run ended with %d, killed it: %v, it heard the signal: %v, keys %q, %s; want %d, it killed only if it ignores the signal, and the key released",
				tt.name, code, w.has("killed"), w.exists("asked"), s.left(), w.talk.String(), tt.want)
		}
	}
}
